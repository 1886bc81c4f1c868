// Imports pools over windows and over all spatial dimensions.
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Window.h"

#include <cmath>

namespace tenon::frontend {
namespace {

struct PoolForm {
  Window window;
  bool ceil = false;
};

llvm::Optional<PoolForm> readPool(Node &n) {
  if (!n.checkRank(0, 3, 10))
    return llvm::None;
  const size_t spatial = n.rank(0) - 2;
  if (!n.hasAttr("kernel_shape")) {
    n.error("attribute kernel_shape is missing: expected it in this operator; write it");
    return llvm::None;
  }
  auto kernel = readSpatial(n, "kernel_shape", spatial, 1, 1);
  if (!kernel)
    return llvm::None;
  auto window = readWindow(n, 0, *kernel);
  if (!window)
    return llvm::None;
  return PoolForm{*window, n.boolAttr("ceil_mode", false)};
}

Value *pool(Builder &b, Value *x, llvm::StringRef kind, const Window &w, bool ceil,
            bool countPadding) {
  if (!x)
    return nullptr;
  const Element e = x->type().element();
  if (w.isOpen() && kind == "average" && !countPadding) {
    // Σ / number of elements inside, both as means over all taps.
    Window closed = w;
    closed.low.clear();
    closed.high.clear();
    Shape ones(x->type().shape().begin(), x->type().shape().end());
    ones[0] = ones[1] = b.context().dim(1);
    Value *inside = b.broadcastTo(b.scalarConstant(e, 1), ones);
    Value *share = pool(b, withOpenPads(b, inside, w, 0), kind, closed, ceil, true);
    Value *mean = pool(b, withOpenPads(b, x, w, 0), kind, closed, ceil, true);
    return mean && share ? b.pointwise(Op::Div, {mean, share}) : nullptr;
  }
  const double least = isFloat(e) ? -INFINITY : double(minInt(e));
  x = withOpenPads(b, x, w, kind == "max" ? least : 0);
  NamedAttributes attributes{{"kind", Word{kind.str()}},
                             {"kernel", w.kernel},
                             {"strides", w.strides},
                             {"dilations", w.dilations},
                             {"pads", w.pads}};
  if (ceil)
    attributes.insert({"ceil", true});
  if (countPadding)
    attributes.insert({"count_include_pad", true});
  return b.value(Op::Pool, {x}, std::move(attributes));
}

Value *powered(Builder &b, Value *x, int64_t p) {
  return pointwise(b, {x}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *v = s(Op::Abs, a[0]);
    return p == 1 ? v : p == 2 ? s(Op::Mul, v, v) : s(Op::Pow, v, s.c(double(p)));
  });
}

Value *rooted(Builder &b, Value *x, int64_t p, double factor) {
  return pointwise(b, {x}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *v = factor == 1 ? a[0] : s(Op::Mul, a[0], s.c(factor));
    return p == 1 ? v : p == 2 ? s(Op::Sqrt, v) : s(Op::Pow, v, s.c(1.0 / double(p)));
  });
}

/// Reads p, an exponent of at least 1; 0 after an error.
int64_t readPower(Node &n) {
  const int64_t p = n.intAttr("p", 2);
  if (p >= 1)
    return p;
  n.error("attribute p: expected at least 1, found " + std::to_string(p));
  return 0;
}

} // namespace

void importMaxPool(Node &n) {
  auto form = readPool(n);
  if (!form)
    return;
  Value *y = pool(n.b, n.input(0), "max", form->window, form->ceil, false);
  n.set(0, y);
  if (y && n.wants(1))
    n.set(1, poolIndices(n, form->window, y->type()));
}

Value *averagePool(Node &n, Value *x) {
  auto form = readPool(n);
  return form && x ? pool(n.b, x, "average", form->window, form->ceil,
                          n.boolAttr("count_include_pad", false))
                   : nullptr;
}

void importAveragePool(Node &n) { n.set(0, averagePool(n, n.input(0))); }

void importLpPool(Node &n) {
  auto form = readPool(n);
  const int64_t p = form ? readPower(n) : 0;
  if (!p)
    return;
  // (Σ |x|^p)^(1/p): the sum is the average over all taps times their number. A last window that
  // reaches beyond the padding is made to fit by more padding, which adds nothing to a sum.
  Window w = form->window;
  const size_t spatial = w.kernel.size();
  double taps = 1;
  for (size_t i = 0; i < spatial; ++i) {
    taps *= double(w.kernel[i]);
    if (!form->ceil)
      continue;
    const Dim in = n.type(0).dim(unsigned(i) + 2) + (w.pads[i] + w.pads[i + spatial]) +
                   (w.isOpen() ? w.low[i] + w.high[i] : n.dim(0));
    const Dim rest = max(in - ((w.kernel[i] - 1) * w.dilations[i] + 1), n.dim(0));
    const Dim more = ceilDiv(rest, w.strides[i]) * w.strides[i] - rest;
    w.pad(i, w.isOpen() ? w.low[i] : n.dim(0), w.isOpen() ? w.high[i] + more : more);
  }
  n.set(0, rooted(n.b, pool(n.b, powered(n.b, n.input(0), p), "average", w, false, true), p, taps));
}

void importGlobalAveragePool(Node &n) {
  if (!n.checkRank(0, 2) || !n.checkFloat(0))
    return;
  const Ints axes = allAxes(2, n.rank(0));
  n.set(0, keepDims(n.b, mean(n.b, n.input(0), axes), n.type(0), axes));
}

void importGlobalMaxPool(Node &n) {
  if (!n.checkRank(0, 2) || !n.checkFloat(0))
    return;
  const Ints axes = allAxes(2, n.rank(0));
  n.set(0, keepDims(n.b, n.b.reduce(Op::Max, n.input(0), axes, -INFINITY), n.type(0), axes));
}

void importGlobalLpPool(Node &n) {
  const int64_t p = n.checkRank(0, 2) && n.checkFloat(0) ? readPower(n) : 0;
  if (!p)
    return;
  const Ints axes = allAxes(2, n.rank(0));
  Value *total = sum(n.b, powered(n.b, n.input(0), p), axes);
  n.set(0, keepDims(n.b, rooted(n.b, total, p, 1), n.type(0), axes));
}

void importLRN(Node &n) {
  // x / (bias + alpha/size · Σ x²)^beta over `size` channels: the inner mean, counting padding, is
  // a pool over the channels as a spatial dimension.
  if (!n.checkRank(0, 2) || !n.checkFloat(0))
    return;
  const int64_t size = n.intAttr("size", 0);
  if (size < 1 || size > INT32_MAX) {
    n.error("attribute size: expected a positive number, found " + std::to_string(size));
    return;
  }
  const double alpha = n.floatAttr("alpha", 1e-4f), beta = n.floatAttr("beta", 0.75f);
  const double bias = n.floatAttr("bias", 1);
  Type t = n.type(0);
  Value *square = n.b.pointwise(Op::Mul, {n.input(0), n.input(0)});
  Dim rest = product(n.context(), t.shape().drop_front(2));
  Value *flat = n.b.reshape(square, {t.dim(0), n.dim(1), t.dim(1), rest});
  Window w{{size, 1}, {1, 1}, {1, 1}, {(size - 1) / 2, 0, size / 2, 0}};
  Value *average = pool(n.b, flat, "average", w, false, true);
  if (!average)
    return;
  average = n.b.reshape(average, t.shape());
  n.set(0, pointwise(n.b, {n.input(0), average}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          Value *base = s(Op::Add, s.c(bias), s(Op::Mul, s.c(alpha), a[1]));
          return s(Op::Div, a[0], s(Op::Pow, base, s.c(beta)));
        }));
}

} // namespace tenon::frontend
