// Imports com.microsoft's operators on the distances of tokens: biases of attention that follow
// from how far a key is from a query, and windows that overlap along one dimension.
#include "frontend/onnx/Heads.h"
#include "frontend/onnx/Operators.h"

#include <cmath>

namespace tenon::frontend {
namespace {

/// The bucket of every distance key - query from -most to most: the first half of the buckets (of a
/// direction, where both count) are the distances from 0 on, the rest grow by logarithms up to
/// most.
Tensor bucketsOfDistances(int64_t buckets, int64_t most, bool bothWays) {
  const int64_t each = bothWays ? buckets / 2 : buckets, exact = each / 2;
  const float span = std::log(float(most) / float(exact));
  Tensor table(Element::I64, {2 * most + 1});
  for (int64_t distance = -most; distance <= most; ++distance) {
    const int64_t far = bothWays ? std::abs(distance) : std::max<int64_t>(-distance, 0);
    int64_t bucket = far;
    if (far >= exact) {
      const float steps = std::log(float(far) / float(exact)) / span * float(each - exact);
      bucket = std::min(exact + int64_t(steps), each - 1);
    }
    table.setInt(distance + most, bucket + (bothWays && distance > 0 ? each : 0));
  }
  return table;
}

/// Operand i as one extent; null after an error.
Dim lengthOperand(Node &n, unsigned i) {
  auto known = n.shapeOperand(i);
  if (known && known->size() == 1)
    return (*known)[0];
  if (known)
    n.error("operand " + n.inputName(i) + ": expected one number, found " + toString(n.type(i)));
  return {};
}

} // namespace

void importRelativePositionBias(Node &n) {
  // The table's elements lie by heads: [heads, buckets] in memory, though its type says the
  // reverse.
  enum { Table, Queries, Keys };
  constexpr int64_t kMost = 1 << 20;
  if (!n.checkRank(Table, 2, 2) || !n.checkFloat(Table))
    return;
  const int64_t most = n.intAttr("max_distance", 0);
  const bool bothWays = n.boolAttr("is_bidirectional", false);
  const Dim buckets = n.type(Table).dim(0), heads = n.type(Table).dim(1);
  const int64_t least = bothWays ? 4 : 2; // the exact half of a direction has one at least
  if (!buckets.isConstant() || buckets.constant() < least || buckets.constant() > kMost ||
      most <= buckets.constant() / least || most > kMost) {
    n.error("expected at least " + std::to_string(least) +
            " buckets and a max_distance beyond those of single distances, found " +
            toString(n.type(Table)) + " and " + std::to_string(most));
    return;
  }
  const Dim queries = lengthOperand(n, Queries), keys = queries ? lengthOperand(n, Keys) : Dim();
  if (!queries || !keys)
    return;
  Value *byHead = n.b.reshape(n.input(Table), {heads, buckets});
  Value *bucketOf = n.b.constant(bucketsOfDistances(buckets.constant(), most, bothWays));
  Value *byDistance =
      byHead ? n.b.value(Op::Gather, {byHead, bucketOf}, {{"axis", int64_t(1)}}) : nullptr;
  Value *distance =
      generate(n.b, Element::I64, {queries, keys}, [&](Scalars &s, llvm::ArrayRef<Value *>) {
        Value *far = s.b.scalarInt(Element::I64, most);
        Value *v = s(Op::Add, s(Op::Sub, s.index(1), s.index(0)), far);
        v = s(Op::Max, v, s.b.scalarInt(Element::I64, 0));
        return s(Op::Min, v, s.b.scalarInt(Element::I64, 2 * most));
      });
  Value *y = byDistance && distance
                 ? n.b.value(Op::Gather, {byDistance, distance}, {{"axis", int64_t(1)}})
                 : nullptr;
  n.set(0, y ? n.b.reshape(y, {n.dim(1), heads, queries, keys}) : nullptr);
}

void importGatedRelativePositionBias(Node &n) {
  // gates = sigmoid of what (x + bias) · weight + its bias sum to in each half;
  // y = (first · (second · a - 1) + 2) · distances, for every head, query and key.
  enum { X, XBias, Distances, Weight, Bias, A, Offsets };
  const int64_t heads = n.intAttr("num_heads", 0);
  const bool packed = n.has(Offsets);
  if (!n.checkFloat(X) || !n.checkRank(X, packed ? 2 : 3, packed ? 2 : 3) ||
      !n.checkRank(Distances, 4, 4) || !n.checkRank(Weight, 2, 2) || !n.checkRank(XBias, 1, 1) ||
      !n.checkRank(Bias, 1, 1) || (packed && !n.checkRank(Offsets, 2, 2)))
    return;
  Value *x = n.b.pointwise(Op::Add, {n.input(X), n.input(XBias)});
  if (packed) {
    x = x ? unpackedRows(n, x, n.input(Offsets)) : nullptr;
    const Type offsets = n.type(Offsets);
    x = x ? n.b.reshape(x, {offsets.dim(0), offsets.dim(1), x->type().dim(1)}) : nullptr;
  }
  x = x ? splitHeads(n, x, heads, "num_heads") : nullptr;
  if (!x)
    return;
  const Dim width = n.type(Weight).dim(1), half = floorDiv(width, 2);
  const Shape gated{x->type().dim(0), x->type().dim(1), x->type().dim(2)};
  if (half * 2 != width || n.type(Bias).dim(0) != width || n.type(A).elements() != n.dim(heads) ||
      n.type(Distances).dim(1) != n.dim(heads) || n.type(Distances).dim(2) != gated[2]) {
    n.error("expected weights and a bias of one even width, a factor for each of " +
            std::to_string(heads) + " heads and distances [1, heads, length, length], found " +
            toString(n.type(Weight)) + ", " + toString(n.type(Bias)) + ", " + toString(n.type(A)) +
            " and " + toString(n.type(Distances)));
    return;
  }
  Value *product = addAlong(n.b, matmul(n.b, x, n.input(Weight), {}, {}), n.input(Bias), 3);
  product =
      product ? n.b.reshape(product, {gated[0], gated[1], gated[2], n.dim(2), half}) : nullptr;
  Value *sums = product ? sum(n.b, product, {4}) : nullptr; // [batch, heads, length, 2]
  Value *parts[2];
  for (int64_t i : {0, 1}) {
    parts[i] = sums ? sliceAlong(n.b, sums, 3, n.dim(i), n.dim(1), 1) : nullptr;
    parts[i] = parts[i] ? n.b.reshape(parts[i], gated) : nullptr;
  }
  Value *a = n.b.reshape(n.input(A), {n.dim(heads)});
  if (!parts[0] || !parts[1] || !a)
    return;
  Value *gate = pointwise(n.b, {parts[0], parts[1], a}, {identityMap(3), identityMap(3), along(1)},
                          gated, [](Scalars &s, llvm::ArrayRef<Value *> v) {
                            Value *u = s(Op::Sigmoid, v[0]), *r = s(Op::Sigmoid, v[1]);
                            Value *f = s(Op::Sub, s(Op::Mul, r, v[2]), s.c(1));
                            return s(Op::Add, s(Op::Mul, u, f), s.c(2));
                          });
  const Type distances = n.type(Distances);
  const Shape result{gated[0], gated[1], gated[2], distances.dim(3)};
  n.set(0, gate ? pointwise(
                      n.b, {gate, n.input(Distances)}, {{0, 1, 2}, broadcastMap(distances, result)},
                      result,
                      [](Scalars &s, llvm::ArrayRef<Value *> v) { return s(Op::Mul, v[0], v[1]); })
                : nullptr);
}

void importUnfoldTensor(Node &n) {
  // Windows of `size` elements along one dimension, which stand in a new last dimension.
  const int64_t size = n.intAttr("size", 0), step = n.intAttr("step", 1);
  auto axis = n.checkRank(0, 1) ? n.axis(n.intAttr("dim", -1), n.rank(0)) : llvm::None;
  if (!axis)
    return;
  const Dim extent = n.type(0).dim(unsigned(*axis));
  if (size < 1 || step < 1 || size > INT32_MAX || step > INT32_MAX || extent.upper() < size) {
    n.error("attributes size and step: expected positive numbers, size up to " +
            text({extent}, "") + ", found " + std::to_string(size) + " and " +
            std::to_string(step));
    return;
  }
  const Dim windows = floorDiv(extent - size, step) + 1;
  Value *places =
      generate(n.b, Element::I64, {windows, n.dim(size)}, [&](Scalars &s, llvm::ArrayRef<Value *>) {
        Value *by = s.b.scalarInt(Element::I64, step);
        return s(Op::Add, s(Op::Mul, s.index(0), by), s.index(1));
      });
  Value *y = places ? n.b.value(Op::Gather, {n.input(0), places}, {{"axis", *axis}}) : nullptr;
  Ints order;
  for (int64_t d = 0; d <= int64_t(n.rank(0)); ++d)
    if (d != *axis + 1)
      order.push_back(d);
  order.push_back(*axis + 1);
  n.set(0, y ? n.b.transpose(y, order) : nullptr);
}

} // namespace tenon::frontend
