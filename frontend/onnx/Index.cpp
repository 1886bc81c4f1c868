// Imports operators that read elements at positions computed at run time. All but Gather become a
// gather from the flattened operand at linear positions, which a map computes.
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {
namespace {

/// Row-major strides of the known extents of `t`; None after an error.
llvm::Optional<Ints> strides(Node &n, Type t) {
  if (!t.hasStaticShape()) {
    n.error("expected an operand of known extents, found " + toString(t) +
            "; give its symbols values with --bind");
    return llvm::None;
  }
  Ints s(t.rank(), 1);
  for (size_t d = t.rank(); d-- > 1;)
    s[d - 1] = s[d] * t.dim(unsigned(d)).constant();
  return s;
}

Value *scaled(Scalars &s, Value *index, int64_t stride) {
  return stride == 1 ? index : s(Op::Mul, index, s.b.scalarInt(Element::I64, stride));
}

bool checkIndices(Node &n, unsigned i) {
  if (isInteger(n.element(i)))
    return true;
  n.error("operand " + n.inputName(i) + ": expected integers, found " + toString(n.type(i)));
  return false;
}

} // namespace

void importGather(Node &n) {
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (axis && checkIndices(n, 1))
    n.set(0, n.b.value(Op::Gather, {n.input(0), n.input(1)}, {{"axis", *axis}}));
}

void importGatherElements(Node &n) {
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  auto stride = axis && checkIndices(n, 1) ? strides(n, n.type(0)) : llvm::None;
  if (!stride)
    return;
  if (n.rank(1) != n.rank(0)) {
    n.error("expected indices of rank " + std::to_string(n.rank(0)) + ", found " +
            toString(n.type(1)));
    return;
  }
  Dim extent = n.type(0).dim(unsigned(*axis));
  // y[i, j, k] = x[i, index[i, j, k], k] for axis 1.
  Value *linear = pointwise(n.b, {n.input(1)}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *at = scaled(s, wrapIndex(s, a[0], extent), (*stride)[size_t(*axis)]);
    for (unsigned d = 0; d < stride->size(); ++d)
      if (int64_t(d) != *axis)
        at = s(Op::Add, at, scaled(s, s.index(d), (*stride)[d]));
    return at;
  });
  n.set(0, gatherLinear(n.b, n.input(0), linear));
}

void importGatherND(Node &n) {
  if (!n.checkRank(0, 1) || !n.checkRank(1, 1) || !checkIndices(n, 1))
    return;
  Type t = n.type(0), indices = n.type(1);
  const int64_t batch = n.intAttr("batch_dims", 0);
  Dim tuple = indices.dim(indices.rank() - 1);
  if (!tuple.isConstant() || batch < 0 || batch >= int64_t(std::min(t.rank(), indices.rank())) ||
      tuple.constant() < 1 || tuple.constant() + batch > int64_t(t.rank())) {
    n.error("expected indices whose last extent is 1 to " + std::to_string(t.rank() - batch) +
            ", found " + toString(indices));
    return;
  }
  auto stride = strides(n, t);
  if (!stride)
    return;
  // The first batch + tuple dimensions of x are indexed, the rest are taken whole.
  const unsigned indexed = unsigned(batch + tuple.constant());
  const int64_t rest = indexed == 0 ? 1 : (*stride)[indexed - 1];
  Value *linear = nullptr;
  for (int64_t k = 0; k < tuple.constant(); ++k) {
    const unsigned d = unsigned(batch + k);
    Value *column = sliceAlong(n.b, n.input(1), indices.rank() - 1, n.dim(k), n.dim(1), 1);
    column = column ? n.b.reshape(column, indices.shape().drop_back()) : nullptr;
    llvm::SmallVector<Value *, 2> operands{column};
    if (linear)
      operands.push_back(linear);
    linear = pointwise(n.b, operands, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      Value *at = scaled(s, wrapIndex(s, a[0], t.dim(d)), (*stride)[d] / rest);
      for (unsigned i = 0; k == 0 && i < unsigned(batch); ++i)
        at = s(Op::Add, at, scaled(s, s.index(i), (*stride)[i] / rest));
      return a.size() > 1 ? s(Op::Add, at, a[1]) : at;
    });
  }
  Shape rows{product(n.context(), t.shape().take_front(indexed))};
  rows.append(t.shape().begin() + indexed, t.shape().end());
  n.set(0, n.b.value(Op::Gather, {n.b.reshape(n.input(0), rows), linear}, {{"axis", int64_t(0)}}));
}

void importReverseSequence(Node &n) {
  if (!n.checkRank(0, 2))
    return;
  auto time = n.axis(n.intAttr("time_axis", 0), n.rank(0));
  auto batch = n.axis(n.intAttr("batch_axis", 1), n.rank(0));
  auto stride = time && batch ? strides(n, n.type(0)) : llvm::None;
  if (!stride)
    return;
  if (*time == *batch || n.rank(1) != 1 || !checkIndices(n, 1) ||
      n.type(1).dim(0) != n.type(0).dim(unsigned(*batch))) {
    n.error("expected two axes and one length per batch entry, found " + toString(n.type(1)));
    return;
  }
  Value *linear =
      pointwise(n.b, {n.input(1)}, {along(*batch)}, n.type(0).shape(),
                [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                  Value *t = s.index(unsigned(*time)), *length = s.cast(a[0], Element::I64);
                  Value *mirrored = s(Op::Sub, s(Op::Sub, length, s.c(Element::I64, 1)), t);
                  Value *at = scaled(s, s(Op::Select, s(Op::Less, t, length), mirrored, t),
                                     (*stride)[size_t(*time)]);
                  for (unsigned d = 0; d < stride->size(); ++d)
                    if (int64_t(d) != *time)
                      at = s(Op::Add, at, scaled(s, s.index(d), (*stride)[d]));
                  return at;
                });
  n.set(0, gatherLinear(n.b, n.input(0), linear));
}

void importOneHot(Node &n) {
  auto known = n.constantOperand(1); // of any number type
  if (!known)
    return;
  if (known->size() != 1 || !(known->at(0) >= 0 && known->at(0) < double(INT32_MAX)) ||
      n.rank(2) != 1 || !n.type(2).dim(0).isConstant(2)) {
    n.error("expected one depth of at least 0 and two values, found " + toString(n.type(1)) +
            " and " + toString(n.type(2)));
    return;
  }
  Dim depth = n.dim(known->intAt(0));
  const int64_t rank = int64_t(n.rank(0)) + 1;
  auto axis = n.axis(n.intAttr("axis", -1), rank);
  if (!axis)
    return;
  Shape space(n.type(0).shape().begin(), n.type(0).shape().end());
  space.insert(space.begin() + *axis, depth);
  IndexMap map;
  for (int64_t d = 0; d < rank; ++d)
    if (d != *axis)
      map.push_back(d);
  auto pick = [&](int64_t i) {
    return n.b.reshape(sliceAlong(n.b, n.input(2), 0, n.dim(i), n.dim(1), 1), {});
  };
  n.set(0, pointwise(n.b, {n.input(0), pick(0), pick(1)}, {map, {}, {}}, space,
                     [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                       Value *here = s.index(unsigned(*axis));
                       Value *hit = s(Op::Equal, wrapIndex(s, a[0], depth), here);
                       return s(Op::Select, hit, a[2], a[1]);
                     }));
}

void importTopK(Node &n) {
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (!axis)
    return;
  Dim k = n.dim(n.intAttr("k", -1));
  if (n.opset >= 10) {
    if (!n.has(1)) {
      n.error("operand 1 (K) is missing");
      return;
    }
    auto given = n.shapeOperand(1);
    if (!given)
      return;
    if (given->size() != 1) {
      n.error("operand " + n.inputName(1) + ": expected one number");
      return;
    }
    k = (*given)[0];
  }
  n.setAll(n.b.create(Op::TopK, {n.input(0)},
                      {{"k", Dims{k}},
                       {"axis", *axis},
                       {"largest", n.boolAttr("largest", true)},
                       {"sorted", n.boolAttr("sorted", true)}}));
}

} // namespace tenon::frontend
