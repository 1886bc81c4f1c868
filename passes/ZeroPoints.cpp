// Implements what zero points add to sums.
#include "passes/ZeroPoints.h"

#include "passes/QuantizedForm.h"

namespace tenon {
namespace {

constexpr int64_t kFewChannels = 16;

/// Along one spatial dimension: where the windows lie.
struct Windows {
  int64_t in, out, kernel, stride, dilation, pad;

  bool holds(int64_t at, int64_t tap) const {
    const int64_t x = at * stride - pad + tap * dilation;
    return x >= 0 && x < in;
  }
  bool areWithin() const {
    return holds(0, 0) && holds(out - 1, 0) && holds(0, kernel - 1) && holds(out - 1, kernel - 1);
  }
};

llvm::Optional<Windows> windowsOf(const Operation &op, unsigned d) {
  const Dim in = op.operand(0)->type().dim(d + 2), out = op.result()->type().dim(d + 2),
            kernel = op.operand(1)->type().dim(d + 2);
  if (!in.isConstant() || !out.isConstant() || !kernel.isConstant())
    return llvm::None;
  // Texts may leave attributes out.
  const auto entry = [&](llvm::StringRef name, int64_t otherwise) {
    const Ints &all = op.intsAttr(name);
    return all.empty() ? otherwise : all[d];
  };
  return Windows{in.constant(),       out.constant(),        kernel.constant(),
                 entry("strides", 1), entry("dilations", 1), entry("pads", 0)};
}

/// Of weights [filters][channels][kernel_h][kernel_w].
llvm::Optional<Tensor> offsetsOfConv(const Operation &op, const Tensor &w, int64_t zero) {
  if (w.rank() != 4 || w.shape()[1] < kFewChannels)
    return llvm::None;
  const auto rows = windowsOf(op, 0), columns = windowsOf(op, 1);
  if (!rows || !columns)
    return llvm::None;
  const bool within = rows->areWithin() && columns->areWithin();
  const int64_t filters = w.shape()[0], channels = w.shape()[1], height = within ? 1 : rows->out,
                width = within ? 1 : columns->out, taps = rows->kernel * columns->kernel;
  if (filters * height * width > kMostOffsets)
    return llvm::None;
  llvm::SmallVector<int64_t, 3> shape{filters};
  if (!within)
    shape = {height, width, filters};
  Tensor offsets(Element::I32, shape);
  std::vector<int64_t> sums(static_cast<size_t>(taps)); // of a filter, tap by tap
  for (int64_t f = 0; f < filters; ++f) {
    std::fill(sums.begin(), sums.end(), 0);
    withInts(w, [&](const auto &weights) {
      for (int64_t i = 0; i < channels * taps; ++i)
        sums[size_t(i % taps)] += weights[f * channels * taps + i];
    });
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        int64_t sum = 0;
        for (int64_t t = 0; t < taps; ++t)
          if (within ||
              (rows->holds(y, t / columns->kernel) && columns->holds(x, t % columns->kernel)))
            sum += sums[size_t(t)];
        offsets.setInt((y * width + x) * filters + f, int32_t(zero * sum));
      }
  }
  return offsets;
}

/// Of weights [k][n], or [n][k]: [n].
llvm::Optional<Tensor> offsetsOfMatMul(const Operation &op, const Tensor &w, int64_t zero) {
  const Type y = op.result()->type();
  if (w.rank() != 2 || y.rank() < 2 || y.dim(y.rank() - 2).isConstant(1))
    return llvm::None;
  const bool rows = op.boolAttr("trans_b");
  const int64_t n = w.shape()[rows ? 0 : 1], k = w.shape()[rows ? 1 : 0];
  if (k < kFewChannels || n > kMostOffsets)
    return llvm::None;
  std::vector<int64_t> sums(static_cast<size_t>(n));
  withInts(w, [&](const auto &weights) {
    forEachOfChannels(w.shape(), rows ? 0 : 1,
                      [&](int64_t i, size_t column) { sums[column] += weights[i]; });
  });
  Tensor offsets(Element::I32, {n});
  for (int64_t i = 0; i < n; ++i)
    offsets.setInt(i, int32_t(zero * sums[size_t(i)]));
  return offsets;
}

} // namespace

llvm::Optional<Tensor> zeroPointOffsets(const Operation &op, const Tensor &weights, int64_t zero) {
  return op.is(Op::Conv) ? offsetsOfConv(op, weights, zero) : offsetsOfMatMul(op, weights, zero);
}

} // namespace tenon
