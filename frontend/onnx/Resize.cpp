// Imports Resize and Upsample: scales, sizes, coordinate rules and their changes between opsets.
#include "frontend/onnx/Operators.h"

#include <cmath>

namespace tenon::frontend {
namespace {

/// `extent` times `scale`, rounded down; null when that has no expression.
Dim scaled(Dim extent, double scale) {
  if (scale == 1)
    return extent;
  Context &c = *extent.node()->context;
  if (extent.isConstant()) {
    const double size = std::floor(double(extent.constant()) * scale);
    return size >= 0 && size < 1e12 ? c.dim(int64_t(size)) : Dim();
  }
  if (scale == std::floor(scale) && scale < 1e6)
    return extent * int64_t(scale);
  const double divisor = 1 / scale;
  return divisor == std::floor(divisor) && divisor < 1e6 ? floorDiv(extent, int64_t(divisor))
                                                         : Dim();
}

/// Numbers of a known float operand; None after an error.
llvm::Optional<Floats> numbers(Node &n, unsigned i) {
  auto t = n.constantOperand(i);
  if (!t)
    return llvm::None;
  Floats list;
  for (int64_t k = 0; k < t->size(); ++k)
    list.push_back(t->at(k));
  return list;
}

struct Geometry {
  Dims shape;
  Floats scales;
};

/// From scales for `axes`.
llvm::Optional<Geometry> fromScales(Node &n, const Floats &scales, const Ints &axes,
                                    const Floats &roi) {
  Type t = n.type(0);
  Geometry g{Dims(t.shape().begin(), t.shape().end()), Floats(t.rank(), 1)};
  if (scales.size() != axes.size()) {
    n.error("expected " + std::to_string(axes.size()) + " scales, found " +
            std::to_string(scales.size()));
    return llvm::None;
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t d = size_t(axes[i]);
    if (!(scales[i] > 0) || std::isinf(scales[i])) {
      n.error("expected positive scales, found " + std::to_string(scales[i]));
      return llvm::None;
    }
    g.scales[d] = scales[i];
    // A crop scales the region that it takes.
    const double part = roi.empty() ? 1 : roi[d + t.rank()] - roi[d];
    g.shape[d] = scaled(t.dim(unsigned(d)), scales[i] * part);
    if (!g.shape[d]) {
      n.error("extent " + text({t.dim(unsigned(d))}, "") + " times " + std::to_string(scales[i]) +
              " has no integral expression: give the symbol a value with --bind");
      return llvm::None;
    }
  }
  return g;
}

/// From sizes for `axes`.
llvm::Optional<Geometry> fromSizes(Node &n, Shape sizes, const Ints &axes,
                                   const std::string &policy) {
  Type t = n.type(0);
  Geometry g{Dims(t.shape().begin(), t.shape().end()), Floats(t.rank(), 1)};
  if (sizes.size() != axes.size()) {
    n.error("expected " + std::to_string(axes.size()) + " sizes, found " +
            std::to_string(sizes.size()));
    return llvm::None;
  }
  double common = policy == "not_larger" ? INFINITY : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t d = size_t(axes[i]);
    Dim in = t.dim(unsigned(d));
    if (sizes[i].upper() < 0) {
      n.error("sizes [" + text(sizes, ", ") + "] are negative");
      return llvm::None;
    }
    g.shape[d] = sizes[i];
    if (sizes[i] == in)
      g.scales[d] = 1;
    else if (sizes[i].isConstant() && in.isConstant() && in.constant() > 0)
      g.scales[d] = double(sizes[i].constant()) / double(in.constant());
    else {
      n.error("resizing extent " + text({in}, "") + " to " + text({sizes[i]}, "") +
              " needs known extents: give the symbols values with --bind");
      return llvm::None;
    }
    common = policy == "not_larger" ? std::min(common, g.scales[d]) : std::max(common, g.scales[d]);
  }
  if (policy == "stretch")
    return g;
  for (int64_t axis : axes) {
    const size_t d = size_t(axis);
    g.scales[d] = common;
    if (t.dim(unsigned(d)).isConstant())
      g.shape[d] = n.dim(int64_t(std::floor(double(t.dim(unsigned(d)).constant()) * common + 0.5)));
  }
  return g;
}

void emit(Node &n, const Geometry &g, const std::string &mode, const std::string &coordinates,
          const std::string &nearest, NamedAttributes more) {
  bool still = true; // nothing moves
  for (unsigned d = 0; d < n.rank(0); ++d)
    still &= g.scales[d] == 1 && g.shape[d] == n.type(0).dim(d);
  if (still && coordinates != "tf_crop_and_resize") {
    n.set(0, n.input(0));
    return;
  }
  more.insert({"mode", Word{mode}});
  more.insert({"coordinates", Word{coordinates}});
  more.insert({"nearest", Word{nearest}});
  more.insert({"scales", g.scales});
  more.insert({"shape", g.shape});
  n.set(0, n.b.value(Op::Resize, {n.input(0)}, std::move(more)));
}

/// Upsample, and Resize of opset 10: scales only, positions i / s.
void importByScales(Node &n) {
  std::string mode = n.stringAttr("mode", "nearest");
  if (mode == "bilinear" || mode == "trilinear")
    mode = "linear";
  if (mode != "nearest" && mode != "linear") {
    n.error("attribute mode: expected nearest or linear, found '" + mode + "'");
    return;
  }
  Floats scales = n.floatsAttr("scales");
  if (n.opset >= 9) {
    if (!n.has(1)) {
      n.error("operand 1 (scales) is missing");
      return;
    }
    auto given = numbers(n, 1);
    if (!given)
      return;
    scales = *given;
  }
  if (auto g = fromScales(n, scales, allAxes(0, n.rank(0)), {}))
    emit(n, *g, mode, "asymmetric", "floor", {});
}

} // namespace

void importUpsample(Node &n) { importByScales(n); }

void importResize(Node &n) {
  if (n.opset < 11) {
    importByScales(n);
    return;
  }
  const unsigned rank = n.rank(0);
  const std::string mode = n.stringAttr("mode", "nearest");
  const std::string coordinates = n.stringAttr("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = n.stringAttr("nearest_mode", "round_prefer_floor");
  const std::string policy = n.stringAttr("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller") {
    n.error("attribute keep_aspect_ratio_policy: expected stretch, not_larger or not_smaller, "
            "found '" +
            policy + "'");
    return;
  }
  Ints axes = allAxes(0, rank);
  if (n.hasAttr("axes")) {
    axes = n.intsAttr("axes");
    for (int64_t &a : axes) {
      auto normal = n.axis(a, rank);
      if (!normal)
        return;
      a = *normal;
    }
  }
  Floats roi; // starts, ends of all dimensions
  if (coordinates == "tf_crop_and_resize") {
    auto given = n.has(1) ? numbers(n, 1) : Floats();
    if (!given)
      return;
    if (given->size() != 2 * axes.size()) {
      n.error("operand roi: expected " + std::to_string(2 * axes.size()) + " numbers, found " +
              std::to_string(given->size()));
      return;
    }
    roi.assign(rank, 0);
    roi.resize(2 * size_t(rank), 1);
    for (size_t i = 0; i < axes.size(); ++i) {
      roi[size_t(axes[i])] = (*given)[i];
      roi[size_t(axes[i]) + rank] = (*given)[i + axes.size()];
    }
  }
  // An empty tensor counts as left out.
  auto present = [&](unsigned i) { return n.has(i) && !n.type(i).elements().isConstant(0); };
  llvm::Optional<Geometry> g;
  if (present(3)) {
    if (auto sizes = n.shapeOperand(3))
      g = fromSizes(n, *sizes, axes, policy);
  } else if (present(2)) {
    if (auto scales = numbers(n, 2))
      g = fromScales(n, *scales, axes, roi);
  } else {
    n.error("expected scales or sizes, found neither");
  }
  if (!g)
    return;
  NamedAttributes more{{"cubic_a", n.floatAttr("cubic_coeff_a", -0.75)}};
  if (n.boolAttr("exclude_outside", false))
    more.insert({"exclude_outside", true});
  if (n.boolAttr("antialias", false))
    more.insert({"antialias", true});
  if (!roi.empty()) {
    more.insert({"roi", roi});
    more.insert({"extrapolation", n.floatAttr("extrapolation_value", 0)});
  }
  emit(n, *g, mode, coordinates, nearest, std::move(more));
}

} // namespace tenon::frontend
