// Imports DeformConv: an image sampled at the kernel's moved positions, times the weights.
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Sample.h"
#include "frontend/onnx/Window.h"

namespace tenon::frontend {
namespace {

enum { X, W, Offset, Bias, Mask };

/// Shapes of a deformable convolution, checked.
struct Deformed {
  Window window;
  int64_t groups, offsetGroups;
  int64_t positions = 1; // of the kernel
  Shape out;             // spatial extents of the result

  size_t dims() const { return window.kernel.size(); }
  /// [batch · offset groups, kernel…, parts?, out…] of an operand with all but the last few merged.
  Value *split(Node &n, unsigned i, int64_t parts) const {
    const Type t = n.type(i);
    Shape shape{t.dim(0) * offsetGroups};
    for (int64_t k : window.kernel)
      shape.push_back(n.dim(k));
    if (parts > 1)
      shape.push_back(n.dim(parts));
    shape.append(out.begin(), out.end());
    return n.b.reshape(n.input(i), shape);
  }
  /// How [batch · offset groups, kernel…, out…] is read in [batch · offset groups, out…, kernel…].
  IndexMap fromKernelFirst() const {
    IndexMap map{0};
    for (size_t d = 0; d < dims(); ++d)
      map.push_back(int64_t(1 + dims() + d));
    for (size_t d = 0; d < dims(); ++d)
      map.push_back(int64_t(1 + d));
    return map;
  }
};

llvm::Optional<Deformed> readDeformed(Node &n) {
  const unsigned rank = n.rank(X);
  if (!n.checkRank(X, 3, 10) || !n.checkFloat(X) || !n.checkRank(W, rank, rank) ||
      !n.checkRank(Offset, rank, rank) || (n.has(Mask) && !n.checkRank(Mask, rank, rank)))
    return llvm::None;
  auto kernel = readKernel(n, W);
  auto window = kernel ? readWindow(n, X, *kernel) : llvm::None;
  if (!window)
    return llvm::None;
  Deformed d{*window, n.intAttr("group", 1), n.intAttr("offset_group", 1), 1, {}};
  const Type x = n.type(X), w = n.type(W);
  const Dim channels = x.dim(1), outputs = w.dim(0);
  if (!channels.isConstant() || channels.constant() < 1 || !outputs.isConstant() || d.groups < 1 ||
      d.offsetGroups < 1 || channels.constant() % d.groups != 0 ||
      outputs.constant() % d.groups != 0 || channels.constant() % d.offsetGroups != 0 ||
      !w.dim(1).isConstant(channels.constant() / d.groups)) {
    n.error("expected channels that group and offset_group divide and weights to match, found " +
            toString(x) + " and " + toString(w) + " with group " + std::to_string(d.groups) +
            " and offset_group " + std::to_string(d.offsetGroups));
    return llvm::None;
  }
  for (size_t i = 0; i < d.dims(); ++i) {
    const int64_t reach = (d.window.kernel[i] - 1) * d.window.dilations[i] + 1;
    const int64_t pads = d.window.pads[i] + d.window.pads[d.dims() + i];
    d.out.push_back(floorDiv(x.dim(unsigned(i) + 2) + (pads - reach), d.window.strides[i]) + 1);
    d.positions *= d.window.kernel[i];
  }
  auto check = [&](unsigned i, int64_t parts) {
    Shape expected{x.dim(0), n.dim(d.offsetGroups * d.positions * parts)};
    expected.append(d.out.begin(), d.out.end());
    if (n.type(i).shape() == llvm::makeArrayRef(expected))
      return true;
    n.error("operand " + n.inputName(i) + ": expected extents [" + text(expected, ", ") +
            "], found " + toString(n.type(i)));
    return false;
  };
  if (!check(Offset, int64_t(d.dims())) || (n.has(Mask) && !check(Mask, 1)) ||
      !checkBias(n, Bias, outputs))
    return llvm::None;
  return d;
}

/// What the kernel sees: [batch · offset groups, out…, kernel…, channels of a group].
Value *patches(Node &n, const Deformed &d) {
  const Type x = n.type(X);
  Shape grouped{x.dim(0) * d.offsetGroups, n.dim(x.dim(1).constant() / d.offsetGroups)};
  grouped.append(x.shape().begin() + 2, x.shape().end());
  auto pixels = pixelsOf(n, n.b.reshape(n.input(X), grouped));
  Value *offsets = pixels ? d.split(n, Offset, int64_t(d.dims())) : nullptr;
  if (!offsets)
    return nullptr;
  Sampling how;
  how.space.push_back(grouped[0]);
  how.space.append(d.out.begin(), d.out.end());
  for (int64_t k : d.window.kernel)
    how.space.push_back(n.dim(k));
  const auto parts = int64_t(1 + d.dims());
  for (size_t i = 0; i < d.dims(); ++i) {
    Value *part = offsets;
    if (d.dims() > 1) { // one coordinate of each position
      part = sliceAlong(n.b, offsets, parts, n.dim(int64_t(i)), n.dim(1), 1);
      Shape shape(offsets->type().shape().begin(), offsets->type().shape().end());
      shape.erase(shape.begin() + parts);
      part = part ? n.b.reshape(part, shape) : nullptr;
    }
    if (!part)
      return nullptr;
    how.operands.push_back(part);
    how.maps.push_back(d.fromKernelFirst());
  }
  how.neighbours = [&](Scalars &s, llvm::ArrayRef<Value *> a, size_t i, Value *extent) {
    auto scaled = [&](unsigned dim, int64_t factor) {
      return s(Op::Mul, s.cast(s.index(dim), s.type), s.c(double(factor)));
    };
    Value *at = s(Op::Add, scaled(unsigned(1 + i), d.window.strides[i]),
                  scaled(unsigned(1 + d.dims() + i), d.window.dilations[i]));
    at = s(Op::Sub, at, s.c(double(d.window.pads[i])));
    return linearTaps(s, s(Op::Add, at, s.cast(a[i], s.type)), extent);
  };
  how.image = [](Scalars &s, llvm::ArrayRef<Value *>) { return s.index(0); };
  Value *y = sample(n.b, *pixels, how);
  if (!y || !n.has(Mask))
    return y;
  Value *mask = d.split(n, Mask, 1);
  return pointwise(n.b, {y, mask}, {identityMap(y->type().rank()), d.fromKernelFirst()},
                   y->type().shape(),
                   [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Mul, a[0], a[1]); });
}

} // namespace

void importDeformConv(Node &n) {
  auto d = readDeformed(n);
  Value *seen = d ? patches(n, *d) : nullptr;
  if (!seen)
    return;
  // Columns [batch, groups, channels of a group · positions, points] for the weights' rows.
  const Type x = n.type(X);
  const int64_t channels = x.dim(1).constant(), outputs = n.type(W).dim(0).constant();
  const Dim points = product(n.context(), d->out);
  const Dim inner = n.dim(channels / d->groups * d->positions);
  Value *columns = n.b.reshape(seen, {x.dim(0), n.dim(d->offsetGroups), points, n.dim(d->positions),
                                      n.dim(channels / d->offsetGroups)});
  columns = columns ? n.b.transpose(columns, {0, 1, 4, 3, 2}) : nullptr;
  columns = columns ? n.b.reshape(columns, {x.dim(0), n.dim(d->groups), inner, points}) : nullptr;
  Value *rows =
      n.b.reshape(n.input(W), {n.dim(1), n.dim(d->groups), n.dim(outputs / d->groups), inner});
  Value *y = columns && rows ? n.b.value(Op::MatMul, {rows, columns}) : nullptr;
  Shape shape{x.dim(0), n.dim(outputs)};
  shape.append(d->out.begin(), d->out.end());
  n.set(0, addAlong(n.b, y ? n.b.reshape(y, shape) : nullptr, n.input(Bias), 1));
}

} // namespace tenon::frontend
