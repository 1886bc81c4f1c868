// Defines a matrix product as the tactics of C++ targets see it: its space, and the dimensions in
// the order and number that kernels take.
#pragma once

#include "codegen/forms/Operands.h"

namespace tenon::cpu {

/// A product over the space (leading…, m, n, k).
struct MatMulProblem {
  llvm::SmallVector<Dim, 6> space;
  unsigned m, n, k; // places in `space`
  bool transA, transB;

  explicit MatMulProblem(const Operation &op)
      : transA(op.boolAttr("trans_a")), transB(op.boolAttr("trans_b")) {
    const Type a = op.operand(0)->type(), y = op.result()->type();
    space.assign(y.shape().begin(), y.shape().end());
    space.push_back(a.dim(a.rank() - (transA ? 2 : 1)));
    k = y.rank(), n = k - 1, m = k - 2;
  }
  unsigned rank() const { return unsigned(space.size()); }

  /// Dimension of the space that dimension i of operand `which` (0: a, 1: b) with `rank` follows.
  unsigned dimOf(unsigned which, unsigned i, unsigned operandRank) const {
    const unsigned last = operandRank - 1;
    if (i + 1 < last)
      return m - (operandRank - 2) + i;
    const bool second = (i == last) != (which == 0 ? transA : transB);
    return which == 0 ? (second ? k : m) : (second ? n : k);
  }
  /// Strides over an operand's own dimensions as strides over the space.
  Strides spread(unsigned which, const Strides &own, llvm::ArrayRef<Dim> shape) const {
    Strides s;
    s.offset = own.offset;
    s.strides.assign(rank(), own.offset.node()->context->dim(0));
    for (unsigned i = 0; i < shape.size(); ++i)
      if (!shape[i].isConstant(1))
        s.strides[dimOf(which, i, unsigned(shape.size()))] = own.strides[i];
    return s;
  }
  /// Strides over the result's dimensions as strides over the space.
  Strides widen(const Strides &s) const {
    Strides w = s;
    w.strides.push_back(s.offset.node()->context->dim(0));
    return w;
  }
};

/// The dimensions of a product as the kernel takes them.
struct PackedNest {
  MergedDims leading; // b's batches, at most two
  MergedDims rows;    // m, and whatever joins it

  /// Strides over (b0, b1, m, n).
  Strides operator()(const Strides &wide, const MatMulProblem &p) const {
    Context &c = *wide.offset.node()->context;
    const Strides l = leading(wide), r = rows(wide);
    Strides s;
    s.offset = wide.offset;
    llvm::SmallVector<Dim, 6> outer(l.strides.begin(), l.strides.end());
    outer.append(r.strides.begin(), r.strides.end());
    s.strides.assign(3 - outer.size(), c.dim(0));
    s.strides.append(outer.begin(), outer.end());
    s.strides.push_back(wide.strides[p.n]);
    return s;
  }
  /// Places of the result's dimensions among (b0, b1, m, n).
  llvm::SmallVector<int, 6> placeOf(const MatMulProblem &p) const {
    llvm::SmallVector<int, 6> places;
    const int first = 3 - int(leading.extents.size() + rows.extents.size());
    for (unsigned d = 0; d + 1 < p.rank(); ++d) {
      const int l = leading.placeOf[d], r = rows.placeOf[d];
      places.push_back(d == p.n ? 3
                       : l >= 0 ? first + l
                       : r >= 0 ? first + int(leading.extents.size()) + r
                                : -1);
    }
    return places;
  }
  /// Extents of b0, b1, m.
  llvm::SmallVector<Dim, 3> extents(Context &c) const {
    llvm::SmallVector<Dim, 3> all(3 - leading.extents.size() - rows.extents.size(), c.dim(1));
    all.append(leading.extents.begin(), leading.extents.end());
    all.append(rows.extents.begin(), rows.extents.end());
    return all;
  }
};

/// Refused when more than two leading dimensions remain.
Result<PackedNest> packedNest(const GroupQuery &in, const MatMulProblem &p);
/// Strides of b over the space from one index of each leading dimension to the next, once packed by
/// `nr` columns and `kr` rows.
Strides packedStrides(const MatMulProblem &p, Type b, int64_t nr, int64_t kr = 1);

} // namespace tenon::cpu
