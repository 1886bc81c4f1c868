// Implements the positions and weights of resize.
#include "ir/ResizeTaps.h"

#include <cmath>

namespace tenon {

template <class T> T ResizeAxis::position(int64_t i) const {
  const T x = T(i), s = T(scale), half = T(0.5);
  if (coordinates == "asymmetric")
    return x / s;
  if (coordinates == "align_corners")
    return out == 1 ? T(0) : x * T(in - 1) / T(out - 1);
  if (coordinates == "tf_half_pixel_for_nn")
    return (x + half) / s;
  if (coordinates == "pytorch_half_pixel")
    return out > 1 ? (x + half) / s - half : T(0);
  if (coordinates == "half_pixel_symmetric") {
    const T adjustment = T(out) / (s * T(in)), center = T(in) / T(2);
    return center * (T(1) - adjustment) + (x + half) / s - half;
  }
  if (coordinates == "tf_crop_and_resize") {
    const T start = T(roiStart), end = T(roiEnd);
    return out > 1 ? start * T(in - 1) + x * (end - start) * T(in - 1) / T(out - 1)
                   : half * (start + end) * T(in - 1);
  }
  return (x + half) / s - half; // half_pixel
}
template float ResizeAxis::position<float>(int64_t) const;
template double ResizeAxis::position<double>(int64_t) const;

bool ResizeAxis::isOutside(int64_t i) const {
  if (coordinates != "tf_crop_and_resize")
    return false;
  const float p = position<float>(i);
  return p < 0 || p > float(in - 1);
}

ResizeAxis resizeAxis(const Operation &op, unsigned d, int64_t in, int64_t out) {
  const Floats &scales = op.floatsAttr("scales"), &roi = op.floatsAttr("roi");
  ResizeAxis a;
  a.in = in, a.out = out;
  a.scale = !scales.empty() ? scales[d] : in ? double(out) / double(in) : 1;
  a.coordinates = op.wordAttr("coordinates", "half_pixel");
  if (!roi.empty())
    a.roiStart = roi[d], a.roiEnd = roi[roi.size() / 2 + d];
  return a;
}

namespace {

int64_t nearestIndex(const ResizeAxis &axis, int64_t i, llvm::StringRef rounding) {
  const double p = axis.position<float>(i);
  if (rounding == "floor")
    return axis.clamp(std::floor(p));
  if (rounding == "ceil")
    return axis.clamp(std::ceil(p));
  if (rounding == "round_prefer_ceil")
    return axis.clamp(std::floor(p + 0.5));
  return axis.clamp(std::ceil(p - 0.5));
}

struct Filter {
  bool cubic;
  double a; // coefficient of the cubic

  double radius() const { return cubic ? 2 : 1; }
  double weight(double distance) const {
    const double d = std::fabs(distance);
    if (!cubic)
      return std::max(1 - d, 0.0);
    if (d <= 1)
      return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
  }
};

} // namespace

ResizeTaps resizeTaps(const Operation &op, const ResizeAxis &axis, int64_t i) {
  ResizeTaps taps;
  if (op.wordAttr("mode") == "nearest" || axis.isIdentity()) {
    taps.index.push_back(axis.isIdentity()
                             ? i
                             : nearestIndex(axis, i, op.wordAttr("nearest", "round_prefer_floor")));
    taps.weight.push_back(1);
    return taps;
  }
  const Filter filter{op.wordAttr("mode") == "cubic", op.floatAttr("cubic_a", -0.75)};
  const bool excludeOutside = op.boolAttr("exclude_outside"), antialias = op.boolAttr("antialias");
  const double p = axis.position<double>(i), base = std::floor(p);
  // Shrinking with antialias stretches the filter over the elements it leaves out.
  const double stretch = antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double reach =
      std::max(std::floor(-filter.radius() / stretch) + 1, -2.0 * double(axis.in) - 4);
  double sum = 0;
  for (double k = reach; k <= 1 - reach; ++k) {
    double w = filter.weight((base + k - p) * stretch);
    if (excludeOutside && (base + k < 0 || base + k > double(axis.in - 1)))
      w = 0;
    taps.index.push_back(axis.clamp(base + k));
    taps.weight.push_back(w);
    sum += w;
  }
  if ((excludeOutside || antialias) && sum != 0)
    for (double &w : taps.weight)
      w /= sum;
  return taps;
}

} // namespace tenon
