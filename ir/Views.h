// Defines views: operations outside groups that only rename memory.
//
// A type's layout says where its elements are in a buffer (Addressing). A reshape, transpose or
// slice is a view when its result's layout addresses the very elements of the operand's buffer up
// to a constant offset; a concat is one when every operand's layout is a window of the result's.
#pragma once

#include "ir/IR.h"

#include "llvm/ADT/Optional.h"

namespace tenon {

/// For reshape, transpose and slice (operand 0): the element offset e such that result element i
/// is at e + address(result type, i) in the operand's buffer. For concat, operand k: the offset e
/// such that operand element i is at e + address(operand type, i) in the result's buffer; along an
/// extent known at run time, e is an expression. None when the layouts do not agree.
llvm::Optional<Dim> viewOffset(const Operation &op, unsigned operand = 0);
/// The same for operand k of a concat, which begins at `start` along its axis: for who goes through
/// all operands, since the extents before each of many are long sums.
llvm::Optional<Dim> windowOffset(const Operation &concat, unsigned operand, Dim start);

/// True for a reshape, transpose, slice or concat all of whose operands have a viewOffset.
bool isView(const Operation &op);

/// The same for a reshape of `from`, as it lies, to `to`.
llvm::Optional<Dim> reshapeOffset(Type from, Type to);

/// For a reshape or transpose that only renames memory, so that what writes the result's elements
/// where its type says writes the operand's: that operand. Null otherwise.
Value *renamedValue(const Operation &op);
/// What `v` renames through any number of such operations; `v` itself where there are none.
Value *writtenValue(Value *v);

/// Layout of the window [start, start + extent) of `whole` along `axis`: what operand types of an
/// in-place concat and result types of an in-place slice have. Null (row-major) never results.
Layout windowLayout(Type whole, unsigned axis, int64_t start);

/// Why a reader needs its operand's memory as it is and takes no other strided layout of it; null
/// when the reader takes any.
const char *needsItsLayout(const Use &reader);

/// The concat that makes the output of an appended state of the state's input and what is new, in
/// this order along the state's axis; null where the output is made otherwise.
Operation *appendOf(Graph &graph, const State &state);
/// Layout in which `whole` has room along `axis` for its largest extent, and only its last
/// elements move when it grows.
Layout roomyLayout(Type whole, unsigned axis);

} // namespace tenon
