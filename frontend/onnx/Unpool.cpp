// Imports the indices of MaxPool, and MaxUnpool, which puts elements back where they say.
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Window.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace tenon::frontend {
namespace {

/// Every point of a box, row-major: `visit(point)`.
template <class F> void forEachPoint(llvm::ArrayRef<int64_t> extents, F visit) {
  Ints point(extents.size(), 0);
  int64_t count = 1;
  for (int64_t e : extents)
    count *= e;
  for (int64_t i = 0; i < count; ++i) {
    visit(point);
    for (size_t d = extents.size(); d-- > 0 && ++point[d] == extents[d];)
      point[d] = 0;
  }
}

} // namespace

Value *poolIndices(Node &n, const Window &w, Type pooled) {
  const Type t = n.type(0);
  const size_t spatial = w.kernel.size();
  Ints in, out;
  int64_t pixels = 1, windows = 1, taps = 1, all = 0;
  bool fits = true;
  for (size_t i = 0; i < spatial; ++i) {
    const Dim from = t.dim(unsigned(i) + 2), to = pooled.dim(unsigned(i) + 2);
    if (!from.isConstant() || !to.isConstant())
      return n.error("result Indices needs known extents, found " + toString(t));
    in.push_back(from.constant());
    out.push_back(to.constant());
    fits &= !llvm::MulOverflow(pixels, in.back(), pixels) &&
            !llvm::MulOverflow(windows, out.back(), windows) &&
            !llvm::MulOverflow(taps, w.kernel[i], taps);
  }
  // A table of them becomes part of the program.
  constexpr int64_t kMostTaps = 1 << 24;
  if (!fits || llvm::MulOverflow(windows, taps, all) || all > kMostTaps)
    return n.error("result Indices needs at most " + std::to_string(kMostTaps) +
                   " windows times elements of a window, found " + toString(pooled));
  const bool byColumns = n.intAttr("storage_order", 0) == 1;
  // For each window and tap: the pixel (0 where there is none), whether there is one, and how the
  // model counts it.
  Tensor pixel(Element::I64, {windows, taps}), inside(Element::Bool, {windows, taps});
  Tensor counted(Element::I64, {windows * taps});
  int64_t next = 0;
  forEachPoint(out, [&](llvm::ArrayRef<int64_t> window) {
    forEachPoint(w.kernel, [&](llvm::ArrayRef<int64_t> tap) {
      bool exists = true;
      int64_t at = 0, name = 0, stride = 1;
      Ints place;
      for (size_t i = 0; i < spatial; ++i) {
        place.push_back(window[i] * w.strides[i] + tap[i] * w.dilations[i] - w.pads[i]);
        exists &= place[i] >= 0 && place[i] < in[i];
        at = at * in[i] + place[i];
      }
      for (size_t i = 0; i < spatial; ++i) {
        name += place[i] * stride;
        stride *= in[i];
      }
      pixel.setInt(next, exists ? at : 0);
      inside.setInt(next, exists);
      counted.setInt(next, byColumns ? name : at);
      ++next;
    });
  });
  const Dim planes = t.dim(0) * t.dim(1);
  Value *x = n.b.reshape(n.input(0), {planes, n.dim(pixels)});
  Value *seen =
      x ? n.b.value(Op::Gather, {x, n.b.constant(pixel)}, {{"axis", int64_t(1)}}) : nullptr;
  if (!seen)
    return nullptr;
  const Element e = t.element();
  seen = pointwise(n.b, {seen, n.b.constant(inside)}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *least = isFloat(e) ? s.c(-INFINITY) : s.b.scalarInt(e, minInt(e));
    return s(Op::Select, a[1], a[0], least);
  });
  Operation *best =
      seen ? n.b.create(Op::TopK, {seen}, {{"k", Dims{n.dim(1)}}, {"axis", int64_t(2)}}) : nullptr;
  Value *tap = best ? n.b.reshape(best->result(1), {planes, n.dim(windows)}) : nullptr;
  Value *entry =
      tap ? pointwise(n.b, {tap},
                      [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                        return s(Op::Add, a[0],
                                 s(Op::Mul, s.index(1), s.b.scalarInt(Element::I64, taps)));
                      })
          : nullptr;
  Value *name = entry ? gatherLinear(n.b, n.b.constant(counted), entry) : nullptr;
  name = name ? pointwise(n.b, {name},
                          [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                            return s(Op::Add, a[0],
                                     s(Op::Mul, s.index(0), s.b.scalarInt(Element::I64, pixels)));
                          })
              : nullptr;
  return name ? n.b.reshape(name, pooled.shape()) : nullptr;
}

void importMaxUnpool(Node &n) {
  enum { X, Indices, OutputShape };
  if (!n.checkRank(X, 3, 10) || !n.checkRank(Indices, n.rank(X), n.rank(X)))
    return;
  const size_t spatial = n.rank(X) - 2;
  auto kernel = readSpatial(n, "kernel_shape", spatial, 1, 1);
  auto strides = readSpatial(n, "strides", spatial, 1, 1);
  Ints pads = n.intsAttr("pads");
  if (!kernel || !strides)
    return;
  pads.resize(2 * spatial, 0);
  // The extents that the pool had, where nothing else is said; the indices count in these.
  const Type t = n.type(X);
  Shape shape{t.dim(0), t.dim(1)};
  for (size_t i = 0; i < spatial; ++i)
    shape.push_back((t.dim(unsigned(i) + 2) - 1) * (*strides)[i] + (*kernel)[i] - pads[i] -
                    pads[i + spatial]);
  Value *empty = n.b.broadcastTo(n.b.scalarConstant(t.element(), 0), {product(n.context(), shape)});
  Value *y = n.b.value(Op::Scatter, {empty, n.b.reshape(n.input(Indices), {t.elements()}),
                                     n.b.reshape(n.input(X), {t.elements()})});
  y = y ? n.b.reshape(y, shape) : nullptr;
  if (y && n.has(OutputShape)) {
    auto wanted = n.shapeOperand(OutputShape);
    if (!wanted)
      return;
    Dims low(n.rank(X), n.dim(0)), high = low;
    for (unsigned d = 0; d < wanted->size() && d < high.size(); ++d)
      high[d] = (*wanted)[d] - shape[d];
    y = n.b.value(Op::Pad, {y}, {{"low", low}, {"high", high}});
  }
  n.set(0, y);
}

} // namespace tenon::frontend
