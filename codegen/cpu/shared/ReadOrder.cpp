// Implements the distances of results that lie over an operand: the order of a kernel's reads and
// writes, tile by tile.
#include "codegen/cpu/shared/ReadOrder.h"

#include <algorithm>
#include <numeric>

namespace tenon::cpu {
namespace {

constexpr int64_t kNever = INT64_MAX;
/// Larger problems are no microcontroller's; simulating them would take time.
constexpr int64_t kMostPixels = 1 << 20;

/// Sums of 8-bit integers: x is what is read, y what is written, in bytes from their beginnings.
struct Sums {
  ConvProblem conv;
  int64_t x[4], y[4]; // strides over (n, c, h, w) and (n, k, h, w)
  int64_t xFirst, yFirst;
  int64_t outHeight, outWidth, inHeight, inWidth, batch, filters,
      width; // width: bytes of y's element

  int64_t pixels() const { return outHeight * outWidth; }

  /// The least address that the window of output `pixel` of image n reads.
  int64_t firstRead(int64_t n, int64_t pixel) const {
    const ConvProblem &p = conv;
    const auto inside = [](int64_t start, int64_t dilation, int64_t taps, int64_t extent) {
      for (int64_t t = 0, at = start; t < taps; ++t, at += dilation)
        if (at >= 0 && at < extent)
          return at;
      return kNever;
    };
    const int64_t h = inside(pixel / outWidth * p.strideH - p.padTop, p.dilationH, p.kernelH,
                             inHeight),
                  w = inside(pixel % outWidth * p.strideW - p.padLeft, p.dilationW, p.kernelW,
                             inWidth);
    return h == kNever || w == kNever ? kNever : xFirst + n * x[0] + h * x[2] + w * x[3];
  }
  /// One past the last byte written for output `pixel` of image n.
  int64_t endOfWrite(int64_t n, int64_t pixel) const {
    return yFirst + width +
           (n * y[0] + (filters - 1) * y[1] + pixel / outWidth * y[2] + pixel % outWidth * y[3]) *
               width;
  }
};

llvm::Optional<Sums> sumsOf(const ByteProblem &problem) {
  const GroupForm &f = problem.in.form;
  if (f.outputs.size() != 1 || f.group->numResults() != 1)
    return llvm::None;
  Sums s;
  s.conv = problem.conv();
  const ConvProblem &p = s.conv;
  const Strides &x = problem.x;
  const Strides y = problem.q.plane(stridesOf(f.outputs[0], unsigned(f.body.space.size())));
  const auto constant = [](Dim d, int64_t &out) {
    out = d.isConstant() ? d.constant() : -1;
    return out >= 0;
  };
  bool ok = constant(x.offset, s.xFirst) && constant(y.offset, s.yFirst);
  for (unsigned i = 0; i < 4; ++i)
    ok = ok && constant(x.strides[i], s.x[i]) && constant(y.strides[i], s.y[i]);
  ok = ok && constant(p.outHeight, s.outHeight) && constant(p.outWidth, s.outWidth) &&
       constant(p.inHeight, s.inHeight) && constant(p.inWidth, s.inWidth) &&
       constant(p.batch, s.batch);
  s.filters = p.isDepthwise() ? p.groups : p.filters;
  s.width = bitWidth(f.group->result(0)->type().element()) / 8;
  s.yFirst *= s.width;
  if (!ok || s.width == 0 || s.batch * s.pixels() > kMostPixels)
    return llvm::None;
  return s;
}

Overlap byTiles(const Sums &s, int64_t size, bool copied) {
  const int64_t pixels = s.pixels(), perImage = (pixels + size - 1) / size,
                tiles = perImage * s.batch;
  int64_t later = kNever, distance = 0; // the least address read after the writes of tile t
  std::vector<int64_t> ends(size_t(tiles), 0);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = t % perImage * size;
    for (int64_t p = first; p < std::min(first + size, pixels); ++p)
      ends[size_t(t)] = std::max(ends[size_t(t)], s.endOfWrite(t / perImage, p));
    if (t > 0)
      ends[size_t(t)] = std::max(ends[size_t(t)], ends[size_t(t - 1)]);
  }
  for (int64_t t = tiles - 1; t >= 0; --t) {
    int64_t own = kNever;
    const int64_t first = t % perImage * size;
    for (int64_t p = first; p < std::min(first + size, pixels); ++p)
      own = std::min(own, s.firstRead(t / perImage, p));
    if (!copied)
      later = std::min(later, own);
    if (later != kNever)
      distance = std::max(distance, ends[size_t(t)] - later);
    later = std::min(later, own);
  }
  return {0, distance, 1};
}

/// Channels side by side in memory, at places of their own among those of each pixel, do not meet
/// if both tensors begin at such a place.
llvm::Optional<Overlap> byChannels(const Sums &s) {
  if (s.batch != 1 || s.width != 1 || s.x[1] != 1 || s.y[1] != 1 || s.xFirst != s.yFirst)
    return llvm::None;
  int64_t pixel = 0;
  for (int64_t stride : {s.x[2], s.x[3], s.y[2], s.y[3]})
    pixel = std::gcd(pixel, stride);
  if (pixel < s.filters)
    return llvm::None;
  return Overlap{0, 0, pixel};
}

/// The operand of the group that the anchor's first operand is, if nothing else reads it.
llvm::Optional<unsigned> onlyInput(const GroupForm &form) {
  const unsigned operand = form.anchorInputs[0].inputs[0].source->index();
  unsigned reads = 0;
  const auto count = [&](const ScalarProgram &p) {
    for (const Access &a : p.inputs)
      reads += a.source->index() == operand;
  };
  for (const ScalarProgram &p : form.anchorInputs)
    count(p);
  count(form.body);
  return reads == 1 ? llvm::Optional<unsigned>(operand) : llvm::None;
}

/// What `order` permits where nothing else reads the operand.
template <class Order> llvm::Optional<Overlap> overlapBy(const ByteProblem &p, const Order &order) {
  const auto operand = onlyInput(p.in.form);
  const auto sums = sumsOf(p);
  llvm::Optional<Overlap> overlap = operand && sums ? order(*sums) : llvm::None;
  if (overlap)
    overlap->operand = *operand;
  return overlap;
}

} // namespace

llvm::Optional<Overlap> overlapByTiles(const ByteProblem &p, int64_t pixels, bool copied) {
  return overlapBy(
      p, [&](const Sums &s) -> llvm::Optional<Overlap> { return byTiles(s, pixels, copied); });
}

llvm::Optional<Overlap> overlapByChannels(const ByteProblem &p) {
  return overlapBy(p, [](const Sums &s) { return byChannels(s); });
}

} // namespace tenon::cpu
