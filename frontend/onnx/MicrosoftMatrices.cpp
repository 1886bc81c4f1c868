// Imports small operators on matrices of com.microsoft: Inverse, CDist, ExpandDims.
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {
namespace {

/// Beyond this, the unrolled steps of an elimination would be a program of their own.
constexpr int64_t kLargestInverse = 64;

/// `a` [batch, n, 2 n] with the column `at` cleared but for a 1 in row `at`, by the row of the
/// largest number from there on. Null after an error.
Value *eliminated(Node &n, Value *a, int64_t at, int64_t size) {
  Builder &b = n.b;
  const Type t = a->type();
  const Dim batch = t.dim(0), rest = n.dim(size - at);
  Value *column = sliceAlong(b, a, 2, n.dim(at), n.dim(1), 1);
  Value *below = column ? sliceAlong(b, column, 1, n.dim(at), rest, 1) : nullptr;
  below = below ? b.pointwise(Op::Abs, {b.reshape(below, {batch, rest})}) : nullptr;
  Operation *best =
      below ? b.create(Op::TopK, {below}, {{"k", Dims{n.dim(1)}}, {"axis", int64_t(1)}}) : nullptr;
  Value *place = best ? b.reshape(best->result(1), {batch}) : nullptr; // from `at` on
  Value *upper = sliceAlong(b, a, 1, n.dim(at), n.dim(1), 1);
  // The row that changes places with row `at`.
  auto isPlace = [&](Scalars &s, Value *place) {
    return s(Op::Equal, s.index(1), s(Op::Add, place, s.c(Element::I64, double(at))));
  };
  Value *only = place ? pointwise(b, {a, place}, {{0, 1, 2}, {0}}, t.shape(),
                                  [&](Scalars &s, llvm::ArrayRef<Value *> v) {
                                    return s(Op::Select, isPlace(s, v[1]), v[0], s.c(0));
                                  })
                      : nullptr;
  Value *row = only ? keepDims(b, sum(b, only, {1}), t, {1}) : nullptr;
  Value *pivot = row ? sliceAlong(b, row, 2, n.dim(at), n.dim(1), 1) : nullptr;
  if (!pivot || !upper || !column)
    return nullptr;
  Value *upperHead = sliceAlong(b, upper, 2, n.dim(at), n.dim(1), 1);
  return pointwise(b, {a, column, row, pivot, upper, upperHead, place},
                   {{0, 1, 2}, {0, 1, -1}, {0, -1, 2}, {0, -1, -1}, {0, -1, 2}, {0, -1, -1}, {0}},
                   t.shape(), [&](Scalars &s, llvm::ArrayRef<Value *> v) {
                     Value *isSwapped = isPlace(s, v[6]);
                     Value *mine = s(Op::Select, isSwapped, v[4], v[0]);
                     Value *head = s(Op::Select, isSwapped, v[5], v[1]);
                     Value *first = s(Op::Div, v[2], v[3]);
                     Value *isFirst = s(Op::Equal, s.index(1), s.c(Element::I64, double(at)));
                     return s(Op::Select, isFirst, first,
                              s(Op::Sub, mine, s(Op::Mul, head, first)));
                   });
}

} // namespace

void importInverse(Node &n) {
  const Type t = n.type(0);
  if (!n.checkRank(0, 2) || !n.checkFloat(0))
    return;
  const Dim size = t.dim(t.rank() - 1);
  if (!size.isConstant() || size != t.dim(t.rank() - 2) || size.constant() > kLargestInverse) {
    n.error("expected square matrices of up to " + std::to_string(kLargestInverse) +
            " rows that are known, found " + toString(t));
    return;
  }
  const Dim batch = product(n.context(), t.shape().drop_back(2));
  Value *x = n.b.reshape(n.b.cast(n.input(0), computeType(t.element())), {batch, size, size});
  Value *unit = generate(n.b, computeType(t.element()), {batch, size, size},
                         [](Scalars &s, llvm::ArrayRef<Value *>) {
                           return s.cast(s(Op::Equal, s.index(1), s.index(2)), s.type);
                         });
  Value *a = x && unit ? n.b.value(Op::Concat, {x, unit}, {{"axis", int64_t(2)}}) : nullptr;
  for (int64_t at = 0; at < size.constant() && a; ++at)
    a = eliminated(n, a, at, size.constant());
  Value *y = a ? sliceAlong(n.b, a, 2, size, size, 1) : nullptr;
  n.set(0, y ? n.b.cast(n.b.reshape(y, t.shape()), t.element()) : nullptr);
}

void importCDist(Node &n) { // distances of the rows of a from those of b
  if (!n.checkRank(0, 2, 2) || !n.checkRank(1, 2, 2) || !n.checkFloat(0))
    return;
  const std::string metric = n.stringAttr("metric", "sqeuclidean");
  if (metric != "euclidean" && metric != "sqeuclidean") {
    n.error("attribute metric: expected euclidean or sqeuclidean, found '" + metric + "'");
    return;
  }
  const Type a = n.type(0), b = n.type(1);
  if (a.dim(1) != b.dim(1)) {
    n.error("expected rows of the same length, found " + toString(a) + " and " + toString(b));
    return;
  }
  Value *squares =
      pointwise(n.b, {n.input(0), n.input(1)}, {{0, 2}, {1, 2}}, {a.dim(0), b.dim(0), a.dim(1)},
                [](Scalars &s, llvm::ArrayRef<Value *> v) {
                  Value *d = s(Op::Sub, v[0], v[1]);
                  return s(Op::Mul, d, d);
                });
  Value *y = squares ? sum(n.b, squares, {2}) : nullptr;
  n.set(0, y && metric == "euclidean" ? n.b.pointwise(Op::Sqrt, {y}) : y);
}

void importExpandDims(Node &n) { // an extent of 1 at the place that operand 1 names
  const Type t = n.type(0);
  auto given = n.intsOperand(1);
  auto axis = given && given->size() == 1 ? n.axis(given->front(), t.rank() + 1) : llvm::None;
  if (given && given->size() != 1)
    n.error("operand " + n.inputName(1) + ": expected one axis");
  if (!axis)
    return;
  Shape shape(t.shape().begin(), t.shape().end());
  shape.insert(shape.begin() + *axis, n.dim(1));
  n.set(0, n.b.reshape(n.input(0), shape));
}

} // namespace tenon::frontend
