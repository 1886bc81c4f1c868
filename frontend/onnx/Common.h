// Defines what the importers of several families share: pointwise bodies, reductions that keep
// dimensions, extents as values.
#pragma once

#include "frontend/onnx/Node.h"

namespace tenon::frontend {

/// Writes scalar expressions: s(Op::Mul, x, s.c(0.5)). Constants have the element type `type`.
struct Scalars {
  Builder &b;
  Element type;
  Value *c(double v) const { return b.scalarConst(type, v); }
  Value *c(Element e, double v) const { return b.scalarConst(e, v); }
  Value *index(unsigned dim) const;
  Value *cast(Value *v, Element to) const;
  template <class... V> Value *operator()(Op op, V *...operands) const {
    return b.scalar(op, {operands...});
  }
};
using ScalarBody = llvm::function_ref<Value *(Scalars &, llvm::ArrayRef<Value *>)>;

/// The number x as a float of eight bits other than f8e8m0: what is too large for it becomes its
/// largest number, or no number (in f8e5m2 an infinity) where it does not saturate.
Value *castNarrow(Scalars &s, Value *x, Element to, bool saturate);

/// One result of a map over the broadcast of `operands`; constants take the type of the first.
Value *pointwise(Builder &b, llvm::ArrayRef<Value *> operands, ScalarBody body);
Value *pointwise(Builder &b, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<IndexMap> maps,
                 llvm::ArrayRef<Dim> space, ScalarBody body);
/// A map without operands: elements computed from their position.
Value *generate(Builder &b, Element type, llvm::ArrayRef<Dim> space, ScalarBody body);

/// `v` indexed by dimension `axis` of a value of rank `rank`: reads [C] along C.
inline IndexMap along(int64_t axis) { return {axis}; }

/// `reduced` with extents of 1 put back at `axes` of `original`.
Value *keepDims(Builder &b, Value *reduced, Type original, llvm::ArrayRef<int64_t> axes);
/// Mean over `axes`, which are dropped.
Value *mean(Builder &b, Value *v, llvm::ArrayRef<int64_t> axes);
Value *sum(Builder &b, Value *v, llvm::ArrayRef<int64_t> axes);

/// Product of the extents at `axes` of `v` as a rank-0 tensor.
Value *extentProduct(Builder &b, Value *v, llvm::ArrayRef<int64_t> axes, Element e);

/// Product of `numerator` over product of `denominator`, common factors cancelled first.
Dim quotient(Context &c, llvm::ArrayRef<Dim> numerator, llvm::ArrayRef<Dim> denominator);
Dim product(Context &c, llvm::ArrayRef<Dim> dims);
std::string text(llvm::ArrayRef<Dim> shape, llvm::StringRef separator);

/// i64 indices from `base` in [−extent, extent): negative ones count from the end.
Value *wrapIndex(Scalars &s, Value *index, Value *extent);

/// Reads `x` at linear row-major positions `linear` (i64): the result has its shape.
Value *gatherLinear(Builder &b, Value *x, Value *linear);

/// All axes of a rank.
Ints allAxes(int64_t first, int64_t last);

/// bf16 and f16 compute in f32 where ONNX says so.
Element computeType(Element e);

} // namespace tenon::frontend
