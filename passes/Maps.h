// Defines what passes need to know of map and reduce: iteration spaces, index maps, bodies.
#pragma once

#include "ir/Builder.h"

namespace tenon {

using IterationSpace = llvm::SmallVector<Dim, 6>;

/// The iteration space of a map or reduce.
IterationSpace iterationSpace(const Operation &op);
/// Index map of operand i.
inline const IndexMap &indexMap(const Operation &op, unsigned i) {
  return op.intListsAttr("maps")[i];
}
bool isIdentityMap(const IndexMap &m, unsigned rank);
/// Whether `map` reads operand i where it writes.
bool readsInPlace(const Operation &map, unsigned i);

/// Gives a map or reduce new operands and index maps over the same space; the region's arguments
/// must be brought in line by the caller. The attribute `space` is kept only where needed.
void setMapOperands(Operation &op, llvm::ArrayRef<Value *> operands, const IntLists &maps,
                    llvm::ArrayRef<Dim> space);
/// Lets operand i read `x` through `map`, element by element the same. Returns true.
bool readInstead(Operation &op, unsigned i, Value *x, const IndexMap &map);
/// Removes operand i, whose argument has no uses any more.
void dropMapOperand(Operation &op, unsigned i);
/// One argument for operands that are read alike.
void shareOperands(Operation &map);

/// The number of accumulators, which come before the elements among the arguments (0 for map).
inline unsigned accumulators(const Operation &op) {
  return op.is(Op::Reduce) ? op.numResults() : 0;
}
/// The argument that stands for an element of operand i.
inline Value *elementArgument(const Operation &op, unsigned i) {
  return op.region().argument(accumulators(op) + i);
}

/// Copies the operations of `body` except its terminator to the builder's insertion point, with
/// `map` giving its arguments (and receiving its values). `index` follows `dims`: old iteration
/// dimension to new; an entry of −1 means that the dimension has extent 1, so the index is 0.
void inlineBody(Region &body, Builder &b, std::map<const Value *, Value *> &map,
                llvm::ArrayRef<int64_t> dims);

/// A map with the body and index maps of `map`, over other operands and the iteration space
/// `space`.
Operation *mapOver(Builder &b, Operation &map, llvm::ArrayRef<Value *> operands,
                   llvm::ArrayRef<Dim> space);
/// The same with other index maps; `dims`: as for inlineBody. Null where types do not fit.
Operation *mapOver(Builder &b, Operation &map, llvm::ArrayRef<Value *> operands,
                   const IntLists &maps, llvm::ArrayRef<Dim> space, llvm::ArrayRef<int64_t> dims);
/// One map of `second` and `first`, whose results it reads where it writes: the results of `first`
/// that something else reads, then those of `second`. Null where types do not fit.
Operation *mergedMap(Builder &b, Operation &first, Operation &second);
/// What a merged map has a result for.
bool isReadBesides(const Value *v, const Operation &second);
/// The results of `map` in the shapes, and by the names, of those of `like`.
llvm::SmallVector<Value *, 2> reshapedResults(Builder &b, Operation &map, const Operation &like);

/// A map of so many operands with one result.
inline bool isPlainMap(const Operation *op, unsigned operands) {
  return op && op->is(Op::Map) && op->numOperands() == operands && op->numResults() == 1;
}
/// The one scalar operation in the body of a map or reduce besides constants, when the body yields
/// it; else null.
Operation *soleScalar(const Operation &op);
/// The scalar constant in a body.
llvm::Optional<double> scalarValue(const Value *v);
/// Whether a body holds only operations that cost about as much as an addition.
bool isCheapBody(Region &body);
/// Whether a body yields arguments only (a broadcast, permutation or layout change).
bool isCopyBody(Region &body);
/// An element that scalar `const` can hold exactly.
bool hasScalarConst(Element e);
/// Builds a scalar constant equal to element `i` of a tensor.
Value *scalarFromTensor(Builder &b, const Tensor &t, int64_t i);

} // namespace tenon
