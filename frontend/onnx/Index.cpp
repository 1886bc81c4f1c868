// Imports operators that read elements at positions computed at run time. All but Gather become a
// gather from the flattened operand at linear positions, which a map computes.
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Operators.h"
#include "ir/Ramps.h"

namespace tenon::frontend {
namespace {

/// Products of a tensor's extents as scalars in the body of a map: numbers where they are known
/// when compiling, else operands of rank 0 behind the map's own.
class ExtentProducts {
public:
  ExtentProducts(Node &n, Value *x, llvm::ArrayRef<Value *> operands)
      : operands(operands.begin(), operands.end()), n_(n), x_(x) {}

  /// What `scalar` gives later.
  struct Product {
    int64_t known;
    int operand; // -1: known
  };
  /// Of dimensions `first` to before `last`; 1 of none.
  Product of(unsigned first, unsigned last) {
    const Dim d = product(n_.context(), x_->type().shape().slice(first, last - first));
    if (d.isConstant())
      return {d.constant(), -1};
    operands.push_back(extentProduct(n_.b, x_, allAxes(first, last), Element::I64));
    return {0, int(operands.size()) - 1};
  }
  Product extent(unsigned d) { return of(d, d + 1); }
  /// Row-major, of all dimensions.
  llvm::SmallVector<Product, 6> strides() {
    llvm::SmallVector<Product, 6> all;
    for (unsigned d = 0; d < x_->type().rank(); ++d)
      all.push_back(of(d + 1, x_->type().rank()));
    return all;
  }

  llvm::SmallVector<Value *, 4> operands; // of the map

private:
  Node &n_;
  Value *x_;
};

/// In a body with arguments `a`.
Value *scalar(Scalars &s, llvm::ArrayRef<Value *> a, ExtentProducts::Product p) {
  return p.operand < 0 ? s.b.scalarInt(Element::I64, p.known) : a[size_t(p.operand)];
}

Value *scaled(Scalars &s, llvm::ArrayRef<Value *> a, Value *index, ExtentProducts::Product stride) {
  const bool one = stride.operand < 0 && stride.known == 1;
  return one ? index : s(Op::Mul, index, scalar(s, a, stride));
}

/// The position that `index` stands for: negative ones count from the end.
Value *wrapped(Scalars &s, llvm::ArrayRef<Value *> a, Value *index,
               ExtentProducts::Product extent) {
  return wrapIndex(s, index, scalar(s, a, extent));
}

bool checkIndices(Node &n, unsigned i) {
  if (isInteger(n.element(i)))
    return true;
  n.error("operand " + n.inputName(i) + ": expected integers, found " + toString(n.type(i)));
  return false;
}

/// Linear positions in `x` of the elements that `indices` points at along `axis`, the other
/// coordinates being where the index stands; null after an error.
Value *elementPositions(Node &n, Value *x, Value *indices, int64_t axis) {
  ExtentProducts extents(n, x, {indices});
  const auto strides = extents.strides();
  const auto along = extents.extent(unsigned(axis));
  return pointwise(n.b, extents.operands, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *at = scaled(s, a, wrapped(s, a, a[0], along), strides[size_t(axis)]);
    for (unsigned d = 0; d < strides.size(); ++d)
      if (int64_t(d) != axis)
        at = s(Op::Add, at, scaled(s, a, s.index(d), strides[d]));
    return at;
  });
}

/// Of indices whose last dimension holds coordinates: how many those are, where they index a tensor
/// of extents `t` behind its first `batch` dimensions; None after an error.
llvm::Optional<unsigned> coordinates(Node &n, Type t, int64_t batch) {
  if (!n.checkRank(0, 1) || !n.checkRank(1, 1) || !checkIndices(n, 1))
    return llvm::None;
  Type indices = n.type(1);
  Dim tuple = indices.dim(indices.rank() - 1);
  if (tuple.isConstant() && batch >= 0 && batch < int64_t(std::min(t.rank(), indices.rank())) &&
      tuple.constant() >= 1 && tuple.constant() + batch <= int64_t(t.rank()))
    return unsigned(tuple.constant());
  if (batch < 0 || batch >= int64_t(t.rank()))
    n.error("attribute batch_dims: expected 0 to " + std::to_string(int64_t(t.rank()) - 1) +
            ", found " + std::to_string(batch));
  else
    n.error("expected indices whose last extent is 1 to " + std::to_string(t.rank() - batch) +
            ", found " + toString(indices));
  return llvm::None;
}

/// Linear positions among the first batch + tuple dimensions of `x` at the coordinates in operand
/// 1; null after an error.
Value *tuplePositions(Node &n, Value *x, unsigned tuple, int64_t batch) {
  Type indices = n.type(1);
  const unsigned indexed = unsigned(batch) + tuple;
  Value *linear = nullptr;
  for (unsigned k = 0; k < tuple; ++k) {
    const unsigned d = unsigned(batch) + k;
    Value *column = sliceAlong(n.b, n.input(1), indices.rank() - 1, n.dim(k), n.dim(1), 1);
    column = column ? n.b.reshape(column, indices.shape().drop_back()) : nullptr;
    llvm::SmallVector<Value *, 2> operands{column};
    if (linear)
      operands.push_back(linear);
    ExtentProducts extents(n, x, operands);
    llvm::SmallVector<ExtentProducts::Product, 4> strides;
    for (unsigned i = k == 0 ? 0 : d; i <= d; ++i)
      strides.push_back(extents.of(i + 1, indexed));
    const auto extent = extents.extent(d);
    linear = pointwise(n.b, extents.operands, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      Value *at = scaled(s, a, wrapped(s, a, a[0], extent), strides.back());
      for (unsigned i = 0; k == 0 && i < unsigned(batch); ++i)
        at = s(Op::Add, at, scaled(s, a, s.index(i), strides[i]));
      return k > 0 ? s(Op::Add, at, a[1]) : at;
    });
  }
  return linear;
}

/// The tensor with its first `count` dimensions as one.
Value *joinLeading(Node &n, Value *x, unsigned count) {
  llvm::ArrayRef<Dim> shape = x->type().shape();
  Shape rows{product(n.context(), shape.take_front(count))};
  rows.append(shape.begin() + count, shape.end());
  return n.b.reshape(x, rows);
}

/// ONNX demands as many updates as positions. Where data decide how many there are, as where a mask
/// selects what is replaced by rows of something else, both are cut to what both have.
void cutToFit(Node &n, Value *&linear, Value *&updates) {
  const unsigned rank = std::min(linear->type().rank(), updates->type().rank());
  for (unsigned d = 0; d < rank && linear && updates; ++d) {
    const Dim places = linear->type().dim(d), given = updates->type().dim(d);
    if (places == given || (!n.graph.state.isBorn(places) && !n.graph.state.isBorn(given)))
      continue;
    const Dim both = min(places, given);
    for (Value **v : {&linear, &updates})
      if ((*v)->type().dim(d) != both)
        *v = sliceAlong(n.b, *v, d, n.dim(0), both, 1);
  }
}

/// Whether the coordinates in operand 1 are each element's own, of all elements in order: what an
/// assignment to a whole slice is exported as, a grid for each dimension.
bool writesAllInOrder(Node &n, unsigned tuple) {
  const Type x = n.type(0), indices = n.type(1);
  const Operation *grids = n.input(1)->def();
  if (!grids || !grids->is(Op::Concat) || grids->numOperands() != tuple ||
      grids->intAttr("axis") != int64_t(tuple) ||
      indices.shape().drop_back() != x.shape().take_front(tuple))
    return false;
  Ramps ramps;
  for (unsigned k = 0; k < tuple; ++k) {
    const MaybeRamp ramp = ramps.of(grids->operand(k));
    const bool own = ramp && ramp->base.isConstant(0) &&
                     (ramp->dim == int(k) || (ramp->isSame() && x.dim(k).isConstant(1)));
    if (!own)
      return false;
  }
  return true;
}

/// Operand 0 with operand 2 scattered over its first `count` dimensions, joined, at `linear`.
void setScattered(Node &n, unsigned count, Value *linear) {
  const std::string reduction = n.stringAttr("reduction", "none");
  if (!linear)
    return;
  if (reduction != "none" && reduction != "add" && reduction != "mul" && reduction != "min" &&
      reduction != "max") {
    n.error("attribute reduction: expected none, add, mul, min or max, found '" + reduction + "'");
    return;
  }
  Value *updates = n.input(2);
  cutToFit(n, linear, updates);
  Value *x = joinLeading(n, n.input(0), count);
  Value *y = x && linear && updates
                 ? n.b.value(Op::Scatter, {x, linear, updates}, {{"combiner", Word{reduction}}})
                 : nullptr;
  n.set(0, y ? n.b.reshape(y, n.type(0).shape()) : nullptr);
}

} // namespace

void importGather(Node &n) {
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (axis && checkIndices(n, 1))
    n.set(0, n.b.value(Op::Gather, {n.input(0), n.input(1)}, {{"axis", *axis}}));
}

void importGatherElements(Node &n) {
  // y[i, j, k] = x[i, index[i, j, k], k] for axis 1.
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (!axis || !checkIndices(n, 1) || !n.checkRank(1, n.rank(0), n.rank(0)))
    return;
  n.set(0, gatherLinear(n.b, n.input(0), elementPositions(n, n.input(0), n.input(1), *axis)));
}

void importScatterElements(Node &n) {
  // y[i, index[i, j, k], k] = updates[i, j, k] for axis 1.
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (!axis || !checkIndices(n, 1) || !n.checkRank(1, n.rank(0), n.rank(0)))
    return;
  setScattered(n, n.rank(0), elementPositions(n, n.input(0), n.input(1), *axis));
}

void importGatherND(Node &n) {
  const int64_t batch = n.intAttr("batch_dims", 0);
  auto tuple = coordinates(n, n.type(0), batch);
  Value *linear = tuple ? tuplePositions(n, n.input(0), *tuple, batch) : nullptr;
  if (!linear)
    return;
  // The first batch + tuple dimensions of x are indexed, the rest are taken whole.
  Value *x = joinLeading(n, n.input(0), unsigned(batch) + *tuple);
  n.set(0, x ? n.b.value(Op::Gather, {x, linear}, {{"axis", int64_t(0)}}) : nullptr);
}

void importScatterND(Node &n) {
  const auto tuple = coordinates(n, n.type(0), 0);
  if (!tuple)
    return;
  if (n.stringAttr("reduction", "none") == "none" && n.element(2) == n.element(0) &&
      n.type(2).shape() == n.type(0).shape() && writesAllInOrder(n, *tuple))
    n.set(0, n.input(2));
  else
    setScattered(n, *tuple, tuplePositions(n, n.input(0), *tuple, 0));
}

void importTensorScatter(Node &n) {
  // The cache is read once more, not written: y[b, m] is update[b, m − at[b]] where there is such
  // an entry, and the past one elsewhere.
  enum { Past, Update, At };
  const std::string mode = n.stringAttr("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    n.error("attribute mode: expected linear or circular, found '" + mode + "'");
    return;
  }
  auto given = n.axis(n.intAttr("axis", -2), n.rank(Past));
  if (!given)
    return;
  const Type past = n.type(Past), update = n.type(Update);
  const auto axis = unsigned(*given);
  Shape expected(past.shape().begin(), past.shape().end());
  if (axis < update.rank())
    expected[axis] = update.dim(axis);
  const Dim room = past.dim(axis), entries = axis < update.rank() ? update.dim(axis) : room;
  if (axis == 0 || update.shape() != llvm::makeArrayRef(expected) || !room.isConstant() ||
      (entries.isConstant() && entries.constant() > room.constant())) {
    n.error("expected an update that differs from the cache in dimension " + std::to_string(axis) +
            " only, not the first, where it is no longer and the cache's extent is known; found " +
            toString(past) + " and " + toString(update));
    return;
  }
  if (n.has(At) && (n.rank(At) != 1 || n.type(At).dim(0) != past.dim(0) || !checkIndices(n, At))) {
    n.error("operand " + n.inputName(At) + ": expected one index per batch entry, found " +
            toString(n.type(At)));
    return;
  }
  if (entries.isConstant(0)) {
    n.set(0, n.input(Past));
    return;
  }
  if (entries.lower() < 1) { // there would be nothing to read
    n.error("an update " + toString(update) +
            " may have no entries; give bounds from 1 on with --range");
    return;
  }
  Value *at =
      n.has(At) ? n.input(At) : n.b.broadcastTo(n.b.scalarConstant(Element::I64, 0), {past.dim(0)});
  // Which entry of the update belongs here; none outside of [0, entries).
  auto entry = [&](Scalars &s, Value *first) {
    Value *distance = s(Op::Sub, s.index(axis), s.cast(first, Element::I64));
    return mode == "circular" ? s(Op::Mod, distance, s.b.scalarInt(Element::I64, room.constant()))
                              : distance;
  };
  ExtentProducts extents(n, n.input(Update), {at});
  const auto strides = extents.strides();
  const auto length = extents.extent(axis);
  llvm::SmallVector<IndexMap, 4> maps(extents.operands.size());
  maps[0] = IndexMap{0};
  Value *linear = pointwise(
      n.b, extents.operands, maps, past.shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
        Value *last = s(Op::Sub, scalar(s, a, length), s.c(Element::I64, 1));
        Value *position =
            scaled(s, a, s(Op::Clamp, entry(s, a[0]), s.c(Element::I64, 0), last), strides[axis]);
        for (unsigned d = 0; d < strides.size(); ++d)
          if (d != axis)
            position = s(Op::Add, position, scaled(s, a, s.index(d), strides[d]));
        return position;
      });
  Value *read = gatherLinear(n.b, n.input(Update), linear);
  ExtentProducts written(n, n.input(Update), {n.input(Past), read, at});
  const auto count = written.extent(axis);
  maps.assign(written.operands.size(), IndexMap{});
  maps[0] = maps[1] = identityMap(past.rank());
  maps[2] = IndexMap{0};
  n.set(0, pointwise(n.b, written.operands, maps, past.shape(),
                     [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                       Value *k = entry(s, a[2]);
                       Value *hit = s(Op::LogicalAnd, s(Op::GreaterEqual, k, s.c(Element::I64, 0)),
                                      s(Op::Less, k, scalar(s, a, count)));
                       return s(Op::Select, hit, a[1], a[0]);
                     }));
}

void importReverseSequence(Node &n) {
  if (!n.checkRank(0, 2))
    return;
  auto time = n.axis(n.intAttr("time_axis", 0), n.rank(0));
  auto batch = n.axis(n.intAttr("batch_axis", 1), n.rank(0));
  if (!time || !batch)
    return;
  if (*time == *batch || n.rank(1) != 1 || !checkIndices(n, 1) ||
      n.type(1).dim(0) != n.type(0).dim(unsigned(*batch))) {
    n.error("expected two axes and one length per batch entry, found " + toString(n.type(1)));
    return;
  }
  ExtentProducts extents(n, n.input(0), {n.input(1)});
  const auto strides = extents.strides();
  llvm::SmallVector<IndexMap, 4> maps(extents.operands.size());
  maps[0] = along(*batch);
  Value *linear = pointwise(
      n.b, extents.operands, maps, n.type(0).shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
        Value *t = s.index(unsigned(*time)), *length = s.cast(a[0], Element::I64);
        Value *mirrored = s(Op::Sub, s(Op::Sub, length, s.c(Element::I64, 1)), t);
        Value *at = scaled(s, a, s(Op::Select, s(Op::Less, t, length), mirrored, t),
                           strides[size_t(*time)]);
        for (unsigned d = 0; d < strides.size(); ++d)
          if (int64_t(d) != *time)
            at = s(Op::Add, at, scaled(s, a, s.index(d), strides[d]));
        return at;
      });
  n.set(0, gatherLinear(n.b, n.input(0), linear));
}

namespace {
/// The extent that OneHot adds: a number of any type that is known when compiling, or an integer
/// that data decide; None after an error.
llvm::Optional<Dim> oneHotDepth(Node &n) {
  llvm::Optional<Dim> depth;
  if (n.knownOperand(1) || !isInteger(n.element(1))) {
    auto known = n.constantOperand(1);
    if (!known)
      return llvm::None;
    if (known->size() == 1 && known->at(0) >= 0 && known->at(0) < double(INT32_MAX))
      depth = n.dim(known->intAt(0));
  } else {
    auto given = n.shapeOperand(1);
    if (!given)
      return llvm::None;
    if (given->size() == 1)
      depth = given->front();
  }
  if (!depth || n.rank(2) != 1 || !n.type(2).dim(0).isConstant(2)) {
    n.error("expected one depth of at least 0 and two values, found " + toString(n.type(1)) +
            " and " + toString(n.type(2)));
    return llvm::None;
  }
  return depth;
}
} // namespace

void importOneHot(Node &n) {
  auto depth = oneHotDepth(n);
  if (!depth)
    return;
  const int64_t rank = int64_t(n.rank(0)) + 1;
  auto axis = n.axis(n.intAttr("axis", -1), rank);
  if (!axis)
    return;
  Shape space(n.type(0).shape().begin(), n.type(0).shape().end());
  space.insert(space.begin() + *axis, *depth);
  IndexMap map;
  for (int64_t d = 0; d < rank; ++d)
    if (d != *axis)
      map.push_back(d);
  auto pick = [&](int64_t i) {
    return n.b.reshape(sliceAlong(n.b, n.input(2), 0, n.dim(i), n.dim(1), 1), {});
  };
  llvm::SmallVector<Value *, 4> operands{n.input(0), pick(0), pick(1)};
  llvm::SmallVector<IndexMap, 4> maps{map, {}, {}};
  if (!depth->isConstant()) {
    operands.push_back(n.b.reshape(n.graph.state.pinned(n.input(1)), {}));
    maps.push_back({});
  }
  n.set(0, pointwise(n.b, operands, maps, space, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          Value *extent = depth->isConstant() ? s.b.scalarInt(Element::I64, depth->constant())
                                              : s.cast(a[3], Element::I64);
          Value *hit = s(Op::Equal, wrapIndex(s, a[0], extent), s.index(unsigned(*axis)));
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
      n.error("operand 1 (K) is missing: expected it in this operator; write it");
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
  // An open dimension may have fewer elements than are asked for, which no kernel looks at.
  if (const Dim extent = n.type(0).dim(unsigned(*axis)); !extent.isConstant())
    k = min(k, extent);
  n.setAll(n.b.create(Op::TopK, {n.input(0)},
                      {{"k", Dims{k}},
                       {"axis", *axis},
                       {"largest", n.boolAttr("largest", true)},
                       {"sorted", n.boolAttr("sorted", true)}}));
}

} // namespace tenon::frontend
