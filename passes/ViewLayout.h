// Defines what passes add to ir/Views.h: the layout that would make an operation a view.
#pragma once

#include "ir/Views.h"

namespace tenon {

/// The layout with which the result of a reshape, transpose or slice shows its operand's buffer
/// in place; None when layouts cannot say it (or the operand's layout has blocks).
llvm::Optional<Layout> viewLayout(const Operation &op);
/// The same where the operand has the type `from`, which may lie in memory in another way.
llvm::Optional<Layout> viewLayout(const Operation &op, Type from);

/// The layout with which a reshape of `from` to the shape of `to` shows it in place; None when
/// layouts cannot say it.
llvm::Optional<Layout> reshapeLayout(Type from, Type to);

/// The layout of the operand of a reshape or transpose with which a result in `layout` shows it in
/// place: viewLayout the other way round. None when layouts cannot say it.
llvm::Optional<Layout> operandLayout(const Operation &op, Layout layout);

/// Why a part of a concat's result is not written there directly, in runs of `run` bytes, the
/// first at byte `at`, the next `pitch` bytes on; empty when it may be.
std::string whyNotApart(int64_t run, int64_t at, int64_t pitch, int64_t alignment);

/// Both types place every element alike; extents of 1 do not matter. Shapes must be equal.
bool samePlacement(Type a, Type b);
/// Constants, views and control flow never become kernels, nor do terminators.
bool needsKernel(const Operation &op);

} // namespace tenon
