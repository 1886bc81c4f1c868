// Imports Det: elimination with the largest pivot of each column, unrolled over the columns.
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {
namespace {

/// Beyond this, the unrolled steps would be a program of their own.
constexpr int64_t kLargest = 64;

/// Elements [batch, 1, columns] of the row of `a` [batch, rows, columns] that `chosen` names.
Value *chosenRow(Builder &b, Value *a, Value *chosen) {
  Value *only = pointwise(b, {a, chosen}, {{0, 1, 2}, {0}}, a->type().shape(),
                          [](Scalars &s, llvm::ArrayRef<Value *> v) {
                            return s(Op::Select, s(Op::Equal, s.index(1), v[1]), v[0], s.c(0));
                          });
  return only ? keepDims(b, sum(b, only, {1}), a->type(), {1}) : nullptr;
}

} // namespace

void importDet(Node &n) {
  const Type t = n.type(0);
  if (!n.checkRank(0, 2) || !n.checkFloat(0))
    return;
  const Dim size = t.dim(t.rank() - 1);
  if (!size.isConstant() || size != t.dim(t.rank() - 2) || size.constant() > kLargest) {
    n.error("expected square matrices of up to " + std::to_string(kLargest) +
            " rows that are known, found " + toString(t));
    return;
  }
  Builder &b = n.b;
  const llvm::ArrayRef<Dim> outer = t.shape().drop_back(2);
  const Dim batch = product(n.context(), outer);
  Value *a = b.reshape(b.cast(n.input(0), computeType(t.element())), {batch, size, size});
  Value *det = nullptr;
  for (int64_t rows = size.constant(); rows > 0 && a; --rows) {
    // The row that starts with the largest number changes places with the first.
    Value *column = sliceAlong(b, a, 2, n.dim(0), n.dim(1), 1);
    column = column ? b.reshape(column, {batch, n.dim(rows)}) : nullptr;
    Value *magnitude = column ? b.pointwise(Op::Abs, {column}) : nullptr;
    Operation *best =
        magnitude ? b.create(Op::TopK, {magnitude}, {{"k", Dims{n.dim(1)}}, {"axis", int64_t(1)}})
                  : nullptr;
    Value *at = best ? b.reshape(best->result(1), {batch}) : nullptr;
    Value *row = at ? chosenRow(b, a, at) : nullptr;
    Value *pivot = row ? sliceAlong(b, row, 2, n.dim(0), n.dim(1), 1) : nullptr;
    pivot = pivot ? b.reshape(pivot, {batch}) : nullptr;
    if (!pivot)
      return;
    Value *factor = pointwise(b, {pivot, at}, [](Scalars &s, llvm::ArrayRef<Value *> v) {
      return s(Op::Select, s(Op::Equal, v[1], s.c(Element::I64, 0)), v[0], s(Op::Neg, v[0]));
    });
    det = det ? b.pointwise(Op::Mul, {det, factor}) : factor;
    if (rows == 1)
      break;
    Value *first = sliceAlong(b, a, 1, n.dim(0), n.dim(1), 1);
    Value *rest = sliceAlong(b, a, 1, n.dim(1), n.dim(rows - 1), 1);
    if (!first || !rest)
      return;
    const Shape space{batch, n.dim(rows - 1), n.dim(rows)};
    rest = pointwise(b, {rest, first, at}, {{0, 1, 2}, {0, -1, 2}, {0}}, space,
                     [](Scalars &s, llvm::ArrayRef<Value *> v) {
                       Value *next = s(Op::Add, s.index(1), s.c(Element::I64, 1));
                       return s(Op::Select, s(Op::Equal, next, v[2]), v[1], v[0]);
                     });
    Value *heads = rest ? sliceAlong(b, rest, 2, n.dim(0), n.dim(1), 1) : nullptr;
    Value *tails = rest ? sliceAlong(b, rest, 2, n.dim(1), n.dim(rows - 1), 1) : nullptr;
    Value *tail = sliceAlong(b, row, 2, n.dim(1), n.dim(rows - 1), 1);
    if (!heads || !tails || !tail)
      return;
    // A column of zeros leaves nothing to take away: the determinant is 0 already.
    a = pointwise(
        b, {tails, heads, tail, pivot}, {{0, 1, 2}, {0, 1, -1}, {0, -1, 2}, {0}},
        {batch, n.dim(rows - 1), n.dim(rows - 1)}, [](Scalars &s, llvm::ArrayRef<Value *> v) {
          Value *ratio = s(Op::Select, s(Op::Equal, v[3], s.c(0)), s.c(0), s(Op::Div, v[1], v[3]));
          return s(Op::Sub, v[0], s(Op::Mul, ratio, v[2]));
        });
  }
  if (size.isConstant(0))
    det = b.broadcastTo(b.scalarConstant(computeType(t.element()), 1), {batch});
  det = det ? b.reshape(det, outer) : nullptr;
  n.set(0, det ? b.cast(det, t.element()) : nullptr);
}

} // namespace tenon::frontend
