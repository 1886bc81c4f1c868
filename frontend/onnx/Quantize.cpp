// Imports quantisation: Quantize- and DequantizeLinear as maps with one scalar function, the
// integer and QLinear operators as exact contractions between such maps.
#include "frontend/onnx/Quantize.h"
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Window.h"

#include <cmath>

namespace tenon::frontend {

bool isOne(Type t) { return t.elements().isConstant(1); }
Value *asScalar(Builder &b, Value *v) { return !v || v->type().rank() == 0 ? v : b.reshape(v, {}); }

bool checkOne(Node &n, std::initializer_list<unsigned> operands) {
  for (unsigned i : operands)
    if (!n.has(i) || !isOne(n.type(i))) {
      n.error("operand " + std::to_string(i) + " " + n.inputName(i) + ": expected one number" +
              (n.has(i) ? ", found " + toString(n.type(i)) : ""));
      return false;
    }
  return true;
}

llvm::SmallVector<Value *, 2> zeroPoints(Node &n, Value *x, Value *xZero, Value *wZero) {
  llvm::SmallVector<Value *, 2> zeros;
  if (!xZero && !wZero)
    return zeros;
  if (!xZero)
    xZero = n.b.scalarConstant(x->type().element(), 0);
  for (Value *z : {xZero, wZero})
    if (z)
      zeros.push_back(isOne(z->type()) ? asScalar(n.b, z) : z);
  return zeros;
}

Value *productOfScales(Node &n, unsigned x, unsigned w) {
  if (!isOne(n.type(x)) || n.rank(w) > 1)
    return n.error("expected one scale " + n.inputName(x) + " and one or a list " + n.inputName(w) +
                   ", found " + toString(n.type(x)) + " and " + toString(n.type(w)));
  Value *weights = n.input(w);
  return n.b.pointwise(Op::Mul, {isOne(weights->type()) ? asScalar(n.b, weights) : weights,
                                 asScalar(n.b, n.input(x))});
}

Value *requantize(Node &n, Value *acc, Value *accScale, Value *yScale, Value *yZero, int64_t axis) {
  if (!acc || !accScale)
    return nullptr;
  const IndexMap scaleMap = accScale->type().rank() == 0 ? IndexMap() : along(axis);
  return pointwise(n.b, {acc, accScale, asScalar(n.b, yScale), asScalar(n.b, yZero)},
                   {identityMap(acc->type().rank()), scaleMap, {}, {}}, acc->type().shape(),
                   [](Scalars &s, llvm::ArrayRef<Value *> a) {
                     Value *real = s(Op::Dequantize, a[0], a[1], s.c(0));
                     return s(Op::Quantize, real, a[2], a[3]);
                   });
}

Value *scaledSum(Builder &b, Value *acc, Value *accScale, Value *bias) {
  if (!acc || !accScale)
    return nullptr;
  llvm::SmallVector<Value *, 3> operands{acc, accScale};
  if (bias)
    operands.push_back(bias);
  return pointwise(b, operands, [](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *y = s(Op::Dequantize, a[0], a[1], s.c(0));
    return a.size() > 2 ? s(Op::Add, y, a[2]) : y;
  });
}

namespace {

/// How scale and zero point follow the tensor that they belong to.
struct Granularity {
  /// The tensor's shape while it is (de)quantised: blocks split the axis in two.
  Shape space;
  IndexMap map; // of scale and zero point
  bool perTensor = false;
  /// Where the last block of the axis is not known to be full, the axis stays whole, and scale and
  /// zero point are spread over its entries.
  llvm::Optional<unsigned> spreadAxis;
  int64_t block = 0;
};

/// Parameters in operand `scale` for operand `x` and its zero point.
llvm::Optional<Granularity> granularity(Node &n, unsigned x, unsigned scale, unsigned zero) {
  Type t = n.type(x), s = n.type(scale);
  Granularity g;
  g.space.append(t.shape().begin(), t.shape().end());
  auto fail = [&] {
    n.error("scale " + toString(s) + " does not fit " + toString(t) +
            ": expected one number, one per entry of the axis, or one per block");
    return llvm::None;
  };
  for (unsigned i : {scale, zero})
    if (n.has(i) && isBool(n.element(i))) {
      n.error("operand " + n.inputName(i) + " of type " + toString(n.type(i)) +
              " is not supported: expected a tensor of numbers");
      return llvm::None;
    }
  if (n.has(zero) && !isOne(s) && n.type(zero).shape() != s.shape()) {
    n.error("zero point " + toString(n.type(zero)) + " and scale " + toString(s) +
            " differ in shape");
    return llvm::None;
  }
  if (isOne(s) && s.rank() <= 1) {
    if (n.has(zero) && !isOne(n.type(zero)))
      return fail();
    g.perTensor = true;
    return g;
  }
  auto axis = n.axis(n.intAttr("axis", 1), t.rank());
  if (!axis)
    return llvm::None;
  const size_t a = size_t(*axis);
  if (s.rank() == 1) {
    if (s.dim(0) != t.dim(unsigned(a)))
      return fail();
    g.map = along(*axis);
    return g;
  }
  const int64_t block = n.intAttr("block_size", 0);
  if (s.rank() != t.rank() || block < 1)
    return fail();
  for (unsigned d = 0; d < t.rank(); ++d) {
    Dim expected = d == a ? ceilDiv(t.dim(d), block) : t.dim(d);
    if (s.dim(d) != expected)
      return fail();
    g.map.push_back(d > a ? d + 1 : d);
  }
  if (!mod(t.dim(unsigned(a)), n.dim(block)).isConstant(0)) {
    g.map = identityMap(t.rank());
    g.spreadAxis = unsigned(a);
    g.block = block;
    return g;
  }
  g.space[a] = s.dim(unsigned(a));
  g.space.insert(g.space.begin() + a + 1, n.dim(block));
  return g;
}

/// What is moved has whole bytes; the body narrows it again.
Element wholeByte(Element e) {
  if (bitWidth(e) >= 8)
    return e;
  return isFloat(e) ? Element::F32 : isSignedInt(e) ? Element::I8 : Element::U8;
}

/// `v` with its entry i / block for each entry i of the axis of `g`.
Value *spread(Node &n, Value *v, const Granularity &g) {
  if (!v)
    return nullptr;
  const Dim extent = g.space[*g.spreadAxis];
  Value *block = generate(n.b, Element::I64, {extent}, [&](Scalars &s, llvm::ArrayRef<Value *>) {
    return s(Op::Div, s.index(0), s.b.scalarInt(Element::I64, g.block));
  });
  v = n.b.cast(v, wholeByte(v->type().element()));
  return block && v ? n.b.value(Op::Gather, {v, block}, {{"axis", int64_t(*g.spreadAxis)}})
                    : nullptr;
}

/// A map over x with scale and zero point (null: none) read as `g` says.
Value *apply(Node &n, Value *x, Value *scale, Value *zero, const Granularity &g, ScalarBody body) {
  if (!x)
    return nullptr;
  if (g.spreadAxis) {
    Granularity whole = g;
    whole.spreadAxis = llvm::None;
    const Element narrow = zero ? zero->type().element() : Element::U8;
    Value *scales = spread(n, scale, g), *zeros = spread(n, zero, g);
    if (!scales || !zeros != !zero)
      return nullptr;
    return apply(n, x, scales, zeros, whole, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      llvm::SmallVector<Value *, 3> values(a.begin(), a.end());
      if (zero)
        values[2] = s.cast(values[2], narrow);
      return body(s, values);
    });
  }
  const Shape original(x->type().shape().begin(), x->type().shape().end());
  const bool blocked = g.space.size() != original.size();
  if (blocked)
    x = n.b.reshape(x, g.space);
  llvm::SmallVector<Value *, 3> operands{x};
  std::vector<IndexMap> maps{identityMap(unsigned(g.space.size()))};
  for (Value *v : {scale, zero})
    if (v) {
      operands.push_back(g.perTensor ? asScalar(n.b, v) : v);
      maps.push_back(g.perTensor ? IndexMap() : g.map);
    }
  Value *y = pointwise(n.b, operands, maps, g.space, body);
  return blocked && y ? n.b.reshape(y, original) : y;
}

/// The scalar function for the target type. Narrow floats are a division and a conversion, which
/// saturates or not.
Value *quantizeScalar(Scalars &s, Value *x, Value *scale, Value *zero, Element to, bool saturate) {
  x = s.cast(x, scale->type().element());
  if (isFloat(to)) {
    Value *ratio = s(Op::Div, x, scale);
    return bitWidth(to) == 8 && to != Element::F8E8M0 ? castNarrow(s, ratio, to, saturate)
                                                      : s.cast(ratio, to);
  }
  return s(Op::Quantize, x, scale, zero ? zero : s.b.scalarInt(to, 0));
}

Value *dequantizeWith(Scalars &s, Value *q, Value *scale, Value *zero) {
  return s(Op::Dequantize, q, scale, zero ? zero : s.b.scalarConst(q->type().element(), 0));
}

} // namespace

void importQuantizeLinear(Node &n) {
  Element to = n.has(2) ? n.element(2) : Element::U8;
  if (auto named = n.elementAttr("output_dtype", to); !named)
    return;
  else if (n.intAttr("output_dtype", 0) != 0) {
    if (n.has(2) && *named != to) {
      n.error("output_dtype " + name(*named).str() + " and zero point " + toString(n.type(2)) +
              " disagree");
      return;
    }
    to = *named;
  }
  const bool saturate = n.boolAttr("saturate", true);
  auto g = granularity(n, 0, 1, 2);
  if (!g)
    return;
  Value *zero = isFloat(to) ? nullptr : n.input(2);
  n.set(0, apply(n, n.input(0), n.input(1), zero, *g, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          return quantizeScalar(s, a[0], a[1], a.size() > 2 ? a[2] : nullptr, to, saturate);
        }));
}

void importDequantizeLinear(Node &n) {
  auto g = granularity(n, 0, 1, 2);
  if (!g)
    return;
  Element to = n.element(1);
  if (n.intAttr("output_dtype", 0) != 0) {
    auto named = n.elementAttr("output_dtype", to);
    if (!named)
      return;
    to = *named;
  }
  n.set(0, apply(n, n.input(0), n.input(1), n.input(2), *g,
                 [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                   return s.cast(dequantizeWith(s, a[0], a[1], a.size() > 2 ? a[2] : nullptr), to);
                 }));
}

Dynamic quantizedByRange(Builder &b, Value *x) {
  // Range of x including 0 on 256 steps; the scale of zeros alone is 1.
  Dynamic result;
  const Ints axes = allAxes(0, x->type().rank());
  Value *low = axes.empty() ? x : b.reduce(Op::Min, x, axes, INFINITY);
  Value *high = axes.empty() ? x : b.reduce(Op::Max, x, axes, -INFINITY);
  Operation *parameters = b.map({low, high}, [&](Builder &b, llvm::ArrayRef<Value *> a) {
    Scalars s{b, x->type().element()};
    Value *least = s(Op::Min, a[0], s.c(0)), *most = s(Op::Max, a[1], s.c(0));
    Value *step = s(Op::Div, s(Op::Sub, most, least), s.c(255));
    Value *scale = s(Op::Select, s(Op::Equal, most, least), s.c(1), step);
    Value *zero = s(Op::Quantize, s(Op::Neg, least), scale, b.scalarInt(Element::U8, 0));
    return llvm::SmallVector<Value *, 2>{scale, zero};
  });
  if (!parameters)
    return result;
  result.scale = parameters->result(0);
  result.zero = parameters->result(1);
  result.bytes = b.pointwise(Op::Quantize, {x, result.scale, result.zero});
  return result;
}

void importDynamicQuantizeLinear(Node &n) {
  if (!n.checkFloat(0))
    return;
  const Dynamic d = quantizedByRange(n.b, n.input(0));
  n.set(0, d.bytes);
  n.set(1, d.scale);
  n.set(2, d.zero);
}

namespace {

/// Operand `i` of a matrix product, a number of quantisation for all of its result, for each row
/// ([M] or […, M, 1]) or for each column ([N] or […, 1, N]).
struct Granule {
  Value *value = nullptr; // rank 0, or broadcasts to the product
  bool isColumn = false;  // [N]: what the product's own operand takes

  bool isOne() const { return !value || value->type().rank() == 0; }
};

/// `operand` is a (rows) or b (columns) of the product; None after an error. Nothing where operand
/// `i` is left out.
llvm::Optional<Granule> granule(Node &n, unsigned i, unsigned operand, bool rows) {
  if (!n.has(i))
    return Granule();
  Value *v = n.input(i);
  if (isOne(v->type()))
    return Granule{asScalar(n.b, v)};
  const Type t = v->type(), of = n.type(operand);
  const unsigned rank = of.rank();
  if (rank >= 2) {
    const Dim extent = of.dim(rank - (rows ? 2 : 1)), one = n.dim(1);
    if (t.rank() == 1 && t.dim(0) == extent)
      return rows ? Granule{n.b.reshape(v, {extent, one})} : Granule{v, true};
    if (t.rank() == rank && t.shape().drop_back(2) == of.shape().drop_back(2) &&
        t.dim(rank - 2) == (rows ? extent : one) && t.dim(rank - 1) == (rows ? one : extent))
      return Granule{v};
  }
  n.error("operand " + n.inputName(i) + ": expected one number" +
          (rank < 2 ? std::string()
                    : std::string(rows ? " or one per row" : " or one per column") + " of " +
                          toString(of)) +
          ", found " + toString(t));
  return llvm::None;
}

/// The exact Σ (a − za) (b − zb) in i32, where zero points may follow rows of a and columns of b.
Value *integerProduct(Node &n, unsigned a, unsigned b, unsigned za, unsigned zb) {
  auto rows = granule(n, za, a, true), columns = granule(n, zb, b, false);
  if (!rows || !columns)
    return nullptr;
  const bool direct = columns->isOne() || columns->isColumn;
  Value *y = matmul(n.b, n.input(a), n.input(b),
                    zeroPoints(n, n.input(a), rows->isOne() ? rows->value : nullptr,
                               direct ? columns->value : nullptr),
                    {});
  // Σ (a − za) (b − zb) = Σ a (b − zb) − za Σ (b − zb), and likewise for zb where that is no
  // operand of the product.
  auto wide = [&](Value *v) { return n.b.cast(v, Element::I32); };
  auto less = [&](Value *zero, Value *v, Value *ownZero, bool overRows) {
    const int64_t axis = int64_t(v->type().rank()) - (overRows ? 2 : 1);
    v = wide(v);
    if (ownZero)
      v = n.b.pointwise(Op::Sub, {v, wide(ownZero)});
    Value *sums = v ? keepDims(n.b, sum(n.b, v, {axis}), v->type(), {axis}) : nullptr;
    Value *part = sums ? n.b.pointwise(Op::Mul, {wide(zero), sums}) : nullptr;
    y = y && part ? n.b.pointwise(Op::Sub, {y, part}) : nullptr;
  };
  if (y && !rows->isOne())
    less(rows->value, n.input(b), columns->value, true);
  if (y && !direct)
    less(columns->value, n.input(a), rows->isOne() ? rows->value : nullptr, false);
  return y;
}

} // namespace

void importConvInteger(Node &n) {
  llvm::SmallVector<Value *, 4> operands{n.input(0), n.input(1)};
  for (Value *z : zeroPoints(n, n.input(0), n.input(2), n.input(3)))
    operands.push_back(z);
  n.set(0, convolve(n, operands, 1));
}

void importMatMulInteger(Node &n) { n.set(0, integerProduct(n, 0, 1, 2, 3)); }

void importQLinearConv(Node &n) {
  // x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (i32 in units of x · w)
  if (!checkOne(n, {1, 2, 6, 7}))
    return;
  llvm::SmallVector<Value *, 4> operands{n.input(0), n.input(3)};
  for (Value *z : zeroPoints(n, n.input(0), n.input(2), n.input(5)))
    operands.push_back(z);
  Value *acc = convolve(n, operands, 3);
  if (!acc || !checkBias(n, 8, acc->type().dim(1)))
    return;
  acc = addAlong(n.b, acc, n.input(8), 1);
  n.set(0, requantize(n, acc, productOfScales(n, 1, 4), n.input(6), n.input(7), 1));
}

void importQLinearMatMul(Node &n) {
  enum { A, AScale, AZero, B, BScale, BZero, YScale, YZero };
  Value *acc = integerProduct(n, A, B, AZero, BZero);
  if (!acc)
    return;
  // Those of y follow its rows, which are those of a.
  auto a = granule(n, AScale, A, true), b = granule(n, BScale, B, false);
  auto y = granule(n, YScale, A, true), zero = granule(n, YZero, A, true);
  if (!a || !b || !y || !zero)
    return;
  if (a->isOne() && y->isOne() && zero->isOne() && (b->isOne() || b->isColumn)) {
    n.set(0, requantize(n, acc, productOfScales(n, AScale, BScale), y->value, zero->value,
                        int64_t(acc->type().rank()) - 1));
    return;
  }
  Value *scale = n.b.pointwise(Op::Mul, {a->value, b->value});
  n.set(0, pointwise(n.b, {acc, scale, y->value, zero->value},
                     [](Scalars &s, llvm::ArrayRef<Value *> v) {
                       Value *real = s(Op::Dequantize, v[0], v[1], s.c(0));
                       return s(Op::Quantize, real, v[2], v[3]);
                     }));
}

namespace {
/// com.microsoft QLinearAdd and QLinearMul: a, a_scale, a_zero, b, b_scale, b_zero, y_scale,
/// y_zero.
void qlinearBinary(Node &n, Op op) {
  for (unsigned i : {1u, 4u, 6u})
    if (!checkOne(n, {i}))
      return;
  const Element e = n.element(0);
  auto zero = [&](unsigned i) {
    return n.has(i) ? asScalar(n.b, n.input(i)) : n.b.scalarConstant(e, 0);
  };
  auto scale = [&](unsigned i) { return asScalar(n.b, n.input(i)); };
  n.set(0,
        pointwise(n.b,
                  {n.input(0), scale(1), zero(2), n.input(3), scale(4), zero(5), scale(6), zero(7)},
                  [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                    Value *real = s(op, s(Op::Dequantize, a[0], a[1], a[2]),
                                    s(Op::Dequantize, a[3], a[4], a[5]));
                    return s(Op::Quantize, real, a[6], a[7]);
                  }));
}
} // namespace

void importQLinearAdd(Node &n) { qlinearBinary(n, Op::Add); }
void importQLinearMul(Node &n) { qlinearBinary(n, Op::Mul); }

} // namespace tenon::frontend
