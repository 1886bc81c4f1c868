// Imports normalisations: `normalize` where statistics come from the input, maps around it.
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Quantize.h"

namespace tenon::frontend {
namespace {

/// Operand i has one number for each of the channels of operand 0.
bool checkPerChannel(Node &n, unsigned i, Dim channels) {
  if (n.rank(i) == 1 && n.type(i).dim(0) == channels)
    return true;
  n.error("operand " + n.inputName(i) + ": expected one number per channel of " +
          toString(n.type(0)) + ", found " + toString(n.type(i)));
  return false;
}

/// Indices of the dimensions of a reduced value inside the original.
IndexMap remaining(unsigned rank, llvm::ArrayRef<int64_t> axes) {
  IndexMap map;
  for (int64_t d = 0; d < int64_t(rank); ++d)
    if (!llvm::is_contained(axes, d))
      map.push_back(d);
  return map;
}

struct Centered {
  Value *mean = nullptr, *deviation = nullptr, *variance = nullptr; // mean, variance: axes dropped
};
/// x − mean over `axes`, and the variance.
Centered center(Builder &b, Value *x, llvm::ArrayRef<int64_t> axes) {
  Centered c;
  c.mean = mean(b, x, axes);
  if (!c.mean)
    return c;
  const unsigned rank = x->type().rank();
  c.deviation =
      pointwise(b, {x, c.mean}, {identityMap(rank), remaining(rank, axes)}, x->type().shape(),
                [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Sub, a[0], a[1]); });
  c.variance = mean(b, b.pointwise(Op::Mul, {c.deviation, c.deviation}), axes);
  return c;
}

/// 1 / √(v + epsilon)
Value *inverseRoot(Builder &b, Value *v, double epsilon) {
  return pointwise(b, {v}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    return s(Op::Reciprocal, s(Op::Sqrt, s(Op::Add, a[0], s.c(epsilon))));
  });
}

/// x normalised over `axes`, in the type that statistics are computed in.
Value *normalized(Builder &b, Value *x, const Ints &axes, double epsilon, bool centered = true) {
  if (!x)
    return nullptr;
  return b.value(Op::Normalize, {x},
                 {{"axes", axes}, {"epsilon", epsilon}, {"centered", centered}});
}

/// Result i, where it is wanted: the mean of x over `axes`, which stay with extent 1.
void setMean(Node &n, unsigned i, Value *x, const Ints &axes, Element type) {
  if (n.wants(i) && x)
    n.set(i, keepDims(n.b, mean(n.b, n.b.cast(x, type), axes), x->type(), axes));
}

/// Likewise 1 / √(variance + epsilon), or of the mean square where not `centered`.
void setInverseDeviation(Node &n, unsigned i, Value *x, const Ints &axes, double epsilon,
                         Element type, bool centered) {
  if (!n.wants(i) || !x)
    return;
  Value *wide = n.b.cast(x, type);
  Value *square = centered ? center(n.b, wide, axes).variance
                           : mean(n.b, n.b.pointwise(Op::Mul, {wide, wide}), axes);
  if (square)
    n.set(i, keepDims(n.b, inverseRoot(n.b, square, epsilon), x->type(), axes));
}

/// x · scale + shift with [C] operands along `axis`; shift may be null.
Value *affine(Builder &b, Value *x, Value *scale, Value *shift, int64_t axis) {
  if (!x)
    return nullptr;
  llvm::SmallVector<Value *, 3> operands{x, scale};
  std::vector<IndexMap> maps{identityMap(x->type().rank()), along(axis)};
  if (shift) {
    operands.push_back(shift);
    maps.push_back(along(axis));
  }
  return pointwise(b, operands, maps, x->type().shape(), [](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *y = s(Op::Mul, a[0], a[1]);
    return a.size() > 2 ? s(Op::Add, y, a[2]) : y;
  });
}

} // namespace

void importBatchNormalization(Node &n) {
  if (!n.checkRank(0, 1) || !n.checkFloat(0))
    return;
  // [N] has one channel.
  const Type given = n.type(0);
  Value *x = given.rank() == 1 ? n.b.reshape(n.input(0), {given.dim(0), n.dim(1)}) : n.input(0);
  // Statistics of each element: every element of an example is a channel.
  const bool perElement = n.opset < 9 && !n.boolAttr("spatial", true) && given.rank() > 1;
  if (perElement) {
    Dim elements = n.dim(1);
    for (Dim d : given.shape().drop_front())
      elements = elements * d;
    x = n.b.reshape(x, {given.dim(0), elements});
  }
  if (!x)
    return;
  const bool training = n.boolAttr("training_mode", false);
  for (unsigned i = 1; i < 5; ++i) {
    if (!perElement && !checkPerChannel(n, i, x->type().dim(1)))
      return;
    if (perElement && n.type(i).shape() != given.shape().drop_front()) {
      n.error("operand " + n.inputName(i) + ": expected one number per element of an example of " +
              toString(given) + " (spatial is 0), found " + toString(n.type(i)) +
              "; set spatial to 1 where each channel has one");
      return;
    }
    if (n.wants(i) && (!training || i > 2)) {
      n.error("running statistics are not supported as results");
      return;
    }
  }
  // y = (x − mean) / √(variance + ε) · scale + bias = x · factor + shift, both per channel.
  const double epsilon = n.floatAttr("epsilon", 1e-5f);
  // Both in the compute type: a factor rounded to 16 bits would err the same way in every pixel.
  const Element e = n.element(0), compute = computeType(e);
  auto cast = [&](unsigned i) {
    Value *each = n.b.cast(n.input(i), compute);
    return perElement ? n.b.reshape(each, {x->type().dim(1)}) : each;
  };
  Value *average = cast(3), *variance = cast(4);
  if (training) { // the batch's own; what is kept moves towards it
    Ints axes = allAxes(0, x->type().rank());
    axes.erase(axes.begin() + 1);
    const Centered batch = center(n.b, n.b.cast(x, compute), axes);
    if (!batch.variance)
      return;
    const double momentum = n.floatAttr("momentum", 0.9f);
    auto moved = [&](unsigned kept, Value *towards) {
      return pointwise(n.b, {n.input(kept), towards}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
        Value *own = s(Op::Mul, s.cast(a[1], s.type), s.c(1 - momentum));
        return s(Op::Add, s(Op::Mul, a[0], s.c(momentum)), own);
      });
    };
    if (n.wants(1))
      n.set(1, moved(3, batch.mean));
    if (n.wants(2))
      n.set(2, moved(4, batch.variance));
    average = batch.mean;
    variance = batch.variance;
  }
  Value *factor = pointwise(n.b, {cast(1), variance}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    return s(Op::Div, a[0], s(Op::Sqrt, s(Op::Add, a[1], s.c(epsilon))));
  });
  Value *shift =
      pointwise(n.b, {cast(2), average, factor}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
        return s(Op::Sub, a[0], s(Op::Mul, a[1], a[2]));
      });
  if (!factor || !shift)
    return;
  Value *y = n.b.cast(affine(n.b, n.b.cast(x, compute), factor, shift, 1), e);
  n.set(0, y && y->type().shape() != given.shape() ? n.b.reshape(y, given.shape()) : y);
}

void importInstanceNormalization(Node &n) {
  if (!n.checkRank(0, 3) || !n.checkFloat(0) || !checkPerChannel(n, 1, n.type(0).dim(1)) ||
      !checkPerChannel(n, 2, n.type(0).dim(1)))
    return;
  Value *y = normalized(n.b, n.input(0), allAxes(2, n.rank(0)), n.floatAttr("epsilon", 1e-5f));
  if (!y)
    return;
  const Element compute = y->type().element();
  y = affine(n.b, y, n.b.cast(n.input(1), compute), n.b.cast(n.input(2), compute), 1);
  n.set(0, n.b.cast(y, n.element(0)));
}

void importLayerNormalization(Node &n) {
  if (!n.checkRank(0, 1) || !n.checkFloat(0))
    return;
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (!axis)
    return;
  for (unsigned i : {1u, 2u})
    if (n.has(i) && n.element(i) != n.element(0)) {
      n.error("operand " + n.inputName(i) + ": expected elements of " + name(n.element(0)).str() +
              " like operand " + n.inputName(0) + ", found " + toString(n.type(i)) +
              "; put a Cast before it");
      return;
    }
  const Ints axes = allAxes(*axis, n.rank(0));
  const Element e = n.element(0), stash = n.intAttr("stash_type", 1) == 1 ? computeType(e) : e;
  const double epsilon = n.floatAttr("epsilon", 1e-5f);
  Value *y = n.b.cast(normalized(n.b, n.input(0), axes, epsilon), e);
  y = n.b.pointwise(Op::Mul, {y, n.input(1)});
  n.set(0, n.has(2) ? n.b.pointwise(Op::Add, {y, n.input(2)}) : y);
  setMean(n, 1, n.input(0), axes, stash);
  setInverseDeviation(n, 2, n.input(0), axes, epsilon, stash, true);
}

void importSimplifiedLayerNormalization(Node &n) { // ONNX Runtime's: RMS, in the type of the scale
  if (!n.checkRank(0, 1) || !n.checkFloat(0) || !n.checkFloat(1))
    return;
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (!axis)
    return;
  const Ints axes = allAxes(*axis, n.rank(0));
  const double epsilon = n.floatAttr("epsilon", 1e-5f);
  Value *y = normalized(n.b, n.input(0), axes, epsilon, false);
  n.set(0, n.b.pointwise(Op::Mul, {n.b.cast(y, n.element(1)), n.input(1)}));
  setInverseDeviation(n, 1, n.input(0), axes, epsilon, computeType(n.element(0)), false);
}

namespace {

/// com.microsoft: operands 0 + 1 (+ `bias`) normalised, times operand 2 (+ `shift`; 0: none).
/// Results are that, the mean and the inverse of the deviation, and the sum.
void skipNormalization(Node &n, unsigned shift, unsigned bias) {
  const bool centered = shift != 0;
  Value *x = n.b.pointwise(Op::Add, {n.input(0), n.input(1)});
  if (n.has(bias))
    x = n.b.pointwise(Op::Add, {x, n.input(bias)});
  if (!x || x->type().rank() == 0 || !isFloat(x->type().element())) {
    n.error("expected floating-point operands of rank 1 or more");
    return;
  }
  const Element e = x->type().element();
  const Ints axes{int64_t(x->type().rank()) - 1};
  const double epsilon = n.floatAttr("epsilon", 1e-12f);
  Value *y = n.b.cast(normalized(n.b, x, axes, epsilon, centered), e);
  y = n.b.pointwise(Op::Mul, {y, n.input(2)});
  n.set(0, centered && n.has(shift) ? n.b.pointwise(Op::Add, {y, n.input(shift)}) : y);
  setMean(n, 1, x, axes, computeType(e));
  setInverseDeviation(n, 2, x, axes, epsilon, computeType(e), centered);
  if (n.wants(3))
    n.set(3, x);
}

} // namespace

void importSkipLayerNormalization(Node &n) { skipNormalization(n, 3, 4); }
void importSkipSimplifiedLayerNormalization(Node &n) { skipNormalization(n, 0, 3); }

namespace {

/// com.microsoft: the sum of embeddings, normalised. Where `quantised`, tables and what scales and
/// shifts are integers, whose scales and zero points stand in the order of kTables behind the mask.
void embedNormalized(Node &n, bool quantised) {
  enum { Ids, Segments, Words, Places, SegmentRows, Gamma, Beta, Mask, PlaceIds };
  static const unsigned kTables[] = {Words, Places, SegmentRows, Gamma, Beta};
  for (unsigned i : {Words, Places, Gamma, Beta})
    if (!n.has(i)) {
      n.error("operand " + std::to_string(i) +
              " is missing: expected it in this operator; write it");
      return;
    }
  if (!n.checkRank(Ids, 2, 2) || !n.checkRank(Words, 2, 2) || !n.checkRank(Places, 2, 2))
    return;
  auto number = [&](unsigned table, Value *v) -> Value * { // what `v`, a part of it, stands for
    if (!quantised || !v)
      return v;
    const unsigned scale = 8 + unsigned(llvm::find(kTables, table) - kTables), zero = scale + 5;
    if (!checkOne(n, {scale}) || !checkOne(n, {zero}))
      return nullptr;
    return n.b.pointwise(Op::Dequantize,
                         {v, asScalar(n.b, n.input(scale)), asScalar(n.b, n.input(zero))});
  };
  auto rowsOf = [&](unsigned table, unsigned ids) {
    return number(table,
                  n.b.value(Op::Gather, {n.input(table), n.input(ids)}, {{"axis", int64_t(0)}}));
  };
  const Dim length = n.type(Ids).dim(1);
  Value *x = rowsOf(Words, Ids);
  Value *places = !quantised && n.has(PlaceIds)
                      ? rowsOf(Places, PlaceIds)
                      : number(Places, sliceAlong(n.b, n.input(Places), 0, n.dim(0), length, 1));
  x = x && places ? n.b.pointwise(Op::Add, {x, places}) : nullptr;
  if (x && n.has(Segments) && n.has(SegmentRows)) {
    Value *segments = rowsOf(SegmentRows, Segments);
    x = segments ? n.b.pointwise(Op::Add, {x, segments}) : nullptr;
  }
  if (!x)
    return;
  Value *gamma = number(Gamma, n.input(Gamma)), *beta = number(Beta, n.input(Beta));
  if (!gamma || !beta)
    return;
  const Element e = x->type().element();
  Value *y = n.b.cast(normalized(n.b, x, {2}, n.floatAttr("epsilon", 1e-12f)), e);
  y = n.b.pointwise(Op::Mul, {y, gamma});
  n.set(0, n.b.pointwise(Op::Add, {y, beta}));
  // The second result counts what the mask shows.
  Value *count = n.has(Mask) && n.wants(1) ? n.b.reduce(Op::Add, n.input(Mask), {1}, 0) : nullptr;
  n.set(1, count ? n.b.cast(count, Element::I32)
                 : n.b.broadcastTo(n.b.scalarConstant(Element::I32, 0), {n.type(Ids).dim(0)}));
  n.set(2, x);
}

} // namespace

void importEmbedLayerNormalization(Node &n) { embedNormalized(n, false); }
void importQEmbedLayerNormalization(Node &n) { embedNormalized(n, true); }

void importRMSNormalization(Node &n) {
  if (!n.checkRank(0, 1) || !n.checkFloat(0))
    return;
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (!axis)
    return;
  const Ints axes = allAxes(*axis, n.rank(0));
  Value *y = normalized(n.b, n.input(0), axes, n.floatAttr("epsilon", 1e-5f), false);
  n.set(0, n.b.pointwise(Op::Mul, {n.b.cast(y, n.element(0)), n.input(1)}));
}

void importGroupNormalization(Node &n) {
  if (!n.checkRank(0, 2) || !n.checkFloat(0))
    return;
  const int64_t groups = n.intAttr("num_groups", 0);
  Dim channels = n.type(0).dim(1);
  if (groups < 1 || !channels.isConstant() || channels.constant() % groups) {
    n.error("attribute num_groups: expected a divisor of the channels of " + toString(n.type(0)) +
            ", found " + std::to_string(groups));
    return;
  }
  // [N, C, …] as [N, G, C/G, rest]; scale and bias are per group before opset 21, then per channel.
  const Element e = n.element(0);
  Type t = n.type(0);
  Dim rest = product(n.context(), t.shape().drop_front(2));
  const Ints axes{2, 3};
  Value *x = n.b.reshape(n.input(0), {t.dim(0), n.dim(groups), floorDiv(channels, groups), rest});
  Value *y = normalized(n.b, x, axes, n.floatAttr("epsilon", 1e-5f));
  const bool perGroup = n.opset < 21;
  for (unsigned i : {1u, 2u})
    if (n.rank(i) != 1 || n.type(i).dim(0) != (perGroup ? n.dim(groups) : channels)) {
      n.error("operand " + n.inputName(i) + ": expected one number per " +
              (perGroup ? "group" : "channel") + ", found " + toString(n.type(i)));
      return;
    }
  y = n.b.cast(y, e);
  if (perGroup)
    y = affine(n.b, y, n.input(1), n.input(2), 1);
  y = y ? n.b.reshape(y, t.shape()) : nullptr;
  n.set(0, perGroup ? y : affine(n.b, y, n.input(1), n.input(2), 1));
}

void importLpNormalization(Node &n) {
  if (!n.checkRank(0, 1) || !n.checkFloat(0))
    return;
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  const int64_t p = n.intAttr("p", 2);
  if (!axis)
    return;
  if (p != 1 && p != 2) {
    n.error("attribute p: expected 1 or 2, found " + std::to_string(p));
    return;
  }
  const Ints axes{*axis};
  Value *power = p == 1 ? n.b.pointwise(Op::Abs, {n.input(0)})
                        : n.b.pointwise(Op::Mul, {n.input(0), n.input(0)});
  Value *norm = sum(n.b, power, axes);
  if (p == 2)
    norm = n.b.pointwise(Op::Sqrt, {norm});
  norm = keepDims(n.b, norm, n.type(0), axes);
  // A zero vector stays zero.
  n.set(0, pointwise(n.b, {n.input(0), norm}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
          return s(Op::Select, s(Op::Equal, a[1], s.c(0)), s.c(0), s(Op::Div, a[0], a[1]));
        }));
}

void importMeanVarianceNormalization(Node &n) {
  if (!n.checkFloat(0))
    return;
  Ints given = n.intsAttr("axes");
  if (!n.hasAttr("axes"))
    given = {0, 2, 3};
  auto axes = n.axes(given, n.rank(0));
  if (!axes)
    return;
  Centered c = center(n.b, n.input(0), *axes);
  Value *deviation = pointwise(n.b, {c.variance}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
    return s(Op::Add, s(Op::Sqrt, a[0]), s.c(1e-9));
  });
  deviation = keepDims(n.b, deviation, n.type(0), *axes);
  n.set(0, n.b.pointwise(Op::Div, {c.deviation, deviation}));
}

} // namespace tenon::frontend
