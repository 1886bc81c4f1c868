// Declares the op tables, one per family, and what their inference functions share.
#pragma once

#include "ir/IR.h"

#include "llvm/ADT/Twine.h"

#include <utility>
#include <vector>

namespace tenon {

using OpRow = std::pair<Op, OpInfo>;
inline constexpr llvm::ArrayRef<llvm::StringRef> kNoOperands;
inline constexpr llvm::ArrayRef<AttrInfo> kNoAttributes;

// Each family's rows in the order of ir/Ops.def.
llvm::ArrayRef<OpRow> constantOps();
llvm::ArrayRef<OpRow> pointwiseOps();
llvm::ArrayRef<OpRow> reductionOps();
llvm::ArrayRef<OpRow> movementOps();
llvm::ArrayRef<OpRow> contractOps();
llvm::ArrayRef<OpRow> attentionOps();
llvm::ArrayRef<OpRow> recurrentOps();
llvm::ArrayRef<OpRow> windowOps();
llvm::ArrayRef<OpRow> shapeOps();
llvm::ArrayRef<OpRow> textOps();
llvm::ArrayRef<OpRow> controlOps();

struct OpFamily {
  llvm::StringRef title;
  llvm::StringRef file; // where meaning and numeric rules are written
  llvm::ArrayRef<OpRow> rows;
};
/// All families, in the order of ir/Ops.def.
std::vector<OpFamily> opFamilies();

/// Sets `error` and returns false: `return fail(error, "expected …, found …")`.
bool fail(std::string &error, const llvm::Twine &message);
std::string text(Dim d);
std::string text(llvm::ArrayRef<Dim> shape); // [1, N, 4]

/// Only attributes that OpInfo knows, and all that it requires.
bool checkAttributeNames(const Operation &op, std::string &error);
/// Checks what OpInfo states: number of operands, regions, names and kinds of attributes. Every
/// infer function starts with it, so that it may then read operands and attributes freely.
bool checkForm(const Operation &op, std::string &error);
/// Operand i is a tensor of the given rank (or of any rank when it is negative).
bool checkTensor(const Operation &op, unsigned i, int rank, std::string &error);
bool checkAxis(int64_t axis, unsigned rank, llvm::StringRef what, std::string &error);
/// Attribute `name` holds `count` integers from `lowest` to INT32_MAX; absent passes when
/// `optional`.
bool checkInts(const Operation &op, llvm::StringRef name, size_t count, int64_t lowest,
               bool optional, std::string &error);
/// `name`[i], or `otherwise` when the attribute is absent.
int64_t intAt(const Operation &op, llvm::StringRef name, size_t i, int64_t otherwise);
bool checkWord(const Operation &op, llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> allowed,
               std::string &error);

/// The context an operation lives in, from its operands, attributes or place; null while it has
/// none of these.
Context *contextOf(const Operation &op);

/// The expression has at most `nodes` nodes, shared ones counted each time they occur.
bool isSmall(Dim d, unsigned nodes);
/// True when two extents are the same, or agree for every assignment of symbols that was tried:
/// different spellings of one polynomial are common, and equality of expressions is undecidable.
/// What this lets through wrongly is found when symbols have values.
bool sameExtent(Dim a, Dim b);
bool sameShape(llvm::ArrayRef<Dim> a, llvm::ArrayRef<Dim> b);

/// A tensor type without layout and on the device.
Type logical(Type t);
bool sameLogical(Type a, Type b);

/// The iteration space of a map or reduce, from its maps, operands and `space` attribute.
bool iterationSpace(const Operation &op, llvm::SmallVectorImpl<Dim> &space, std::string &error);
/// The body of a map or reduce holds scalar functions of its own values, and its index ops stay
/// within an iteration space of this rank.
bool checkBody(const Operation &op, size_t rank, std::string &error);
/// Operands of the region's terminator, or null with a message when it has none.
Operation *regionEnd(const Operation &op, unsigned region, std::string &error);

} // namespace tenon
