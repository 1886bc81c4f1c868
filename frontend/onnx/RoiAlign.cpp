// Imports RoiAlign: the mean, or the largest, of samples in each cell of a region.
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Sample.h"

#include <cmath>

namespace tenon::frontend {

void importRoiAlign(Node &n) {
  enum { X, Rois, Batch };
  const std::string mode = n.stringAttr("mode", "avg");
  const std::string coordinates = n.stringAttr("coordinate_transformation_mode",
                                               n.opset < 16 ? "output_half_pixel" : "half_pixel");
  const int64_t height = n.intAttr("output_height", 1), width = n.intAttr("output_width", 1);
  const int64_t samples = n.intAttr("sampling_ratio", 0);
  const double scale = n.floatAttr("spatial_scale", 1);
  const bool aligned = coordinates == "half_pixel";
  if ((mode != "avg" && mode != "max") || (!aligned && coordinates != "output_half_pixel")) {
    n.error("expected mode avg or max and coordinates half_pixel or output_half_pixel, found '" +
            mode + "' and '" + coordinates + "'");
    return;
  }
  if (samples == 0) {
    n.error("a number of samples that depends on the region (sampling_ratio = 0) is not supported");
    return;
  }
  for (int64_t extent : {height, width, samples})
    if (extent < 1 || extent > INT16_MAX) {
      n.error("expected output_height, output_width and sampling_ratio from 1 to " +
              std::to_string(INT16_MAX) + ", found " + std::to_string(extent));
      return;
    }
  if (!n.checkRank(X, 4, 4) || !n.checkFloat(X) || !n.checkRank(Rois, 2, 2) ||
      !n.checkFloat(Rois) || !n.checkRank(Batch, 1, 1))
    return;
  const Dim regions = n.type(Rois).dim(0), channels = n.type(X).dim(1);
  if (!n.type(Rois).dim(1).isConstant(4) || n.type(Batch).dim(0) != regions ||
      !isInteger(n.element(Batch))) {
    n.error("expected four corners and an integer batch index per region, found " +
            toString(n.type(Rois)) + " and " + toString(n.type(Batch)));
    return;
  }
  auto pixels = pixelsOf(n, n.input(X));
  if (!pixels)
    return;
  Sampling how;
  how.space = {regions, n.dim(height * samples), n.dim(width * samples)};
  for (int64_t k = 0; k < 4; ++k) { // x1, y1, x2, y2
    Value *column = sliceAlong(n.b, n.input(Rois), 1, n.dim(k), n.dim(1), 1);
    how.operands.push_back(column ? n.b.reshape(column, {regions}) : nullptr);
    if (!how.operands.back())
      return;
  }
  how.operands.push_back(n.input(Batch));
  how.maps.assign(5, along(0));
  how.neighbours = [&](Scalars &s, llvm::ArrayRef<Value *> a, size_t d) -> Taps {
    const int64_t extent = pixels->extents[d], cells = d == 0 ? height : width;
    auto corner = [&](size_t i) {
      Value *v = s(Op::Mul, s.cast(a[i], s.type), s.c(scale));
      return aligned ? s(Op::Sub, v, s.c(0.5)) : v;
    };
    Value *low = corner(1 - d), *size = s(Op::Sub, corner(3 - d), low);
    if (!aligned)
      size = s(Op::Max, size, s.c(1));
    // Sample i of all: (i + 1/2) / number of samples of the way.
    Value *i = s(Op::Add, s.cast(s.index(unsigned(d) + 1), s.type), s.c(0.5));
    Value *x = s(Op::Add, low, s(Op::Div, s(Op::Mul, i, size), s.c(double(cells * samples))));
    // Up to a pixel outside the border counts, beyond that nothing does.
    Value *outside =
        s(Op::LogicalOr, s(Op::Less, x, s.c(-1)), s(Op::Greater, x, s.c(double(extent))));
    Taps taps = linearTaps(s, limited(s, x, 0, double(extent - 1)), extent);
    for (Tap &t : taps)
      t.weight = s(Op::Select, outside, s.c(0), t.weight);
    return taps;
  };
  how.image = [](Scalars &s, llvm::ArrayRef<Value *> a) { return s.cast(a[4], Element::I64); };
  // Of a sample the largest weighted neighbour, not the interpolated value, where mode is max.
  how.largest = mode == "max";
  Value *y = sample(n, *pixels, how);
  y = y ? n.b.reshape(
              y, {regions, n.dim(height), n.dim(samples), n.dim(width), n.dim(samples), channels})
        : nullptr;
  if (y)
    y = how.largest ? n.b.reduce(Op::Max, y, {2, 4}, -INFINITY) : mean(n.b, y, {2, 4});
  n.set(0, channelsSecond(n.b, y));
}

} // namespace tenon::frontend
