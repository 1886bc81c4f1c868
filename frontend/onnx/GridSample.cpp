// Imports GridSample, and AffineGrid, which makes the positions that GridSample reads at.
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Sample.h"

namespace tenon::frontend {
namespace {

/// What GridSample does along one dimension of the image.
struct GridAxis {
  enum Padding { Zeros, Border, Reflection } padding;
  Value *extent;
  bool alignCorners;

  Value *last(Scalars &s) const { return s(Op::Sub, extent, s.c(1)); }
  Value *low(Scalars &s) const { return s.c(alignCorners ? 0 : -0.5); }
  Value *high(Scalars &s) const { return alignCorners ? last(s) : s(Op::Add, last(s), s.c(0.5)); }

  /// x folded back into [low, high] as often as it takes; one pixel, whose corners are one, is
  /// everywhere.
  Value *reflected(Scalars &s, Value *x) const {
    Value *range = s(Op::Sub, high(s), low(s));
    Value *twice = s(Op::Mul, range, s.c(2));
    Value *t = s(Op::FMod, s(Op::Abs, s(Op::Sub, x, low(s))), twice);
    t = s(Op::Select, s(Op::Greater, t, range), s(Op::Sub, twice, t), t);
    t = s(Op::Add, t, low(s));
    return alignCorners ? s(Op::Select, s(Op::Greater, range, s.c(0)), t, low(s)) : t;
  }
  /// Position in pixels of a coordinate in [−1, 1], of which `taps` pixels are read. Four of them
  /// are moved into the image one by one, not the position between them.
  Value *position(Scalars &s, Value *g, unsigned taps) const {
    Value *x = s(Op::Add, g, s.c(1));
    x = alignCorners ? s(Op::Mul, x, s(Op::Mul, last(s), s.c(0.5)))
                     : s(Op::Div, s(Op::Sub, s(Op::Mul, x, extent), s.c(1)), s.c(2));
    if (taps == 1)
      x = s(Op::Round, x);
    if (padding == Zeros || taps == 4)
      return x;
    Value *outside = s(Op::LogicalOr, s(Op::Less, x, low(s)), s(Op::Greater, x, high(s)));
    Value *inside = padding == Border ? limited(s, x, s.c(0), last(s)) : reflected(s, x);
    return s(Op::Select, outside, inside, x);
  }
  /// The pixel at a whole position.
  Tap tap(Scalars &s, Value *at, Value *weight) const {
    if (padding == Zeros) {
      Value *outside = s(Op::LogicalOr, s(Op::Less, at, s.c(0)), s(Op::Greater, at, last(s)));
      weight = s(Op::Select, outside, s.c(0), weight);
    } else if (padding == Reflection) {
      at = reflected(s, at);
    }
    return {s.cast(limited(s, at, s.c(0), last(s)), Element::I64), weight};
  }
};

Taps cubicTaps(Scalars &s, const GridAxis &axis, Value *base, Value *t) {
  Taps taps;
  for (Value *weight : cubicWeights(s, t, -0.75))
    taps.push_back(axis.tap(s, s(Op::Add, base, s.c(double(taps.size()) - 1)), weight));
  return taps;
}

} // namespace

void importGridSample(Node &n) {
  enum { X, Grid };
  const std::string mode = n.stringAttr("mode", n.opset < 20 ? "bilinear" : "linear");
  const std::string padding = n.stringAttr("padding_mode", "zeros");
  const bool nearest = mode == "nearest", cubic = mode == "cubic" || mode == "bicubic";
  if (!nearest && !cubic && mode != "linear" && mode != "bilinear") {
    n.error("attribute mode: expected linear, nearest or cubic, found '" + mode + "'");
    return;
  }
  if (padding != "zeros" && padding != "border" && padding != "reflection") {
    n.error("attribute padding_mode: expected zeros, border or reflection, found '" + padding +
            "'");
    return;
  }
  if (!n.checkRank(X, 3) || !n.checkFloat(Grid) || !n.checkRank(Grid, n.rank(X), n.rank(X)))
    return;
  const Type grid = n.type(Grid);
  const unsigned dims = n.rank(X) - 2;
  if (!grid.dim(dims + 1).isConstant(dims) || grid.dim(0) != n.type(X).dim(0)) {
    n.error("operand " + n.inputName(Grid) + ": expected " + std::to_string(dims) +
            " coordinates in the last dimension and the batch of " + toString(n.type(X)) +
            ", found " + toString(grid));
    return;
  }
  auto pixels = pixelsOf(n, n.input(X));
  if (!pixels)
    return;
  Sampling how;
  how.space.assign(grid.shape().begin(), grid.shape().end() - 1);
  how.maps.assign(dims, identityMap(dims + 1));
  how.taps = nearest ? 1 : cubic ? 4 : 2;
  // Coordinates of the image's dimensions, the last one first.
  for (unsigned d = 0; d < dims; ++d) {
    Value *column = sliceAlong(n.b, n.input(Grid), dims + 1, n.dim(dims - 1 - d), n.dim(1), 1);
    how.operands.push_back(column ? n.b.reshape(column, how.space) : nullptr);
    if (!how.operands.back())
      return;
  }
  const bool align = n.boolAttr("align_corners", false);
  how.neighbours = [&](Scalars &s, llvm::ArrayRef<Value *> a, size_t d, Value *extent) -> Taps {
    const GridAxis axis{padding == "zeros"    ? GridAxis::Zeros
                        : padding == "border" ? GridAxis::Border
                                              : GridAxis::Reflection,
                        extent, align};
    Value *x = axis.position(s, s.cast(a[d], s.type), unsigned(how.taps));
    if (nearest)
      return {axis.tap(s, x, s.c(1))};
    Value *base = s(Op::Floor, x), *t = s(Op::Sub, x, base);
    if (cubic)
      return cubicTaps(s, axis, base, t);
    return {axis.tap(s, base, s(Op::Sub, s.c(1), t)), axis.tap(s, s(Op::Add, base, s.c(1)), t)};
  };
  how.image = [](Scalars &s, llvm::ArrayRef<Value *>) { return s.index(0); };
  n.set(0, channelsSecond(n.b, sample(n.b, *pixels, how)));
}

void importAffineGrid(Node &n) {
  // y[n, p…, k] = Σj theta[n, k, j] · xj(p) + theta[n, k, dims], where xj is the coordinate of
  // pixel p along the j-th dimension from the last.
  enum { Theta, Size };
  if (!n.checkRank(Theta, 3, 3) || !n.checkFloat(Theta))
    return;
  auto size = n.intsOperand(Size);
  if (!size)
    return;
  const Type theta = n.type(Theta);
  const unsigned dims = unsigned(std::max<size_t>(size->size(), 2)) - 2;
  if ((dims != 2 && dims != 3) || !theta.dim(1).isConstant(dims) ||
      !theta.dim(2).isConstant(dims + 1)) {
    n.error("expected [N, 2, 3] and four extents or [N, 3, 4] and five, found " + toString(theta) +
            " and " + std::to_string(size->size()) + " extents");
    return;
  }
  Shape space{theta.dim(0)};
  for (unsigned d = 0; d < dims; ++d) {
    const int64_t extent = (*size)[d + 2];
    if (extent < 1 || extent > INT32_MAX) {
      n.error("operand " + n.inputName(Size) + ": expected positive extents, found " +
              std::to_string(extent));
      return;
    }
    space.push_back(n.dim(extent));
  }
  space.push_back(n.dim(dims));
  llvm::SmallVector<Value *, 4> columns;
  for (unsigned j = 0; j <= dims; ++j) {
    Value *column = sliceAlong(n.b, n.input(Theta), 2, n.dim(j), n.dim(1), 1);
    columns.push_back(column ? n.b.reshape(column, {theta.dim(0), n.dim(dims)}) : nullptr);
    if (!columns.back())
      return;
  }
  const std::vector<IndexMap> maps(columns.size(), IndexMap{0, int64_t(dims) + 1});
  const bool align = n.boolAttr("align_corners", false);
  const Element compute = computeType(theta.element());
  n.set(0, pointwise(n.b, columns, maps, space, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          auto c = [&](double v) { return s.c(compute, v); };
          Value *y = s.cast(a[dims], compute);
          for (unsigned j = 0; j < dims; ++j) {
            const auto extent = double(space[dims - j].constant());
            // (2 i + 1) / extent − 1, or 2 i / (extent − 1) − 1 where the corners are pixels
            Value *x = s(Op::Mul, s.cast(s.index(dims - j), compute), c(2));
            x = align ? s(Op::Div, x, c(std::max(extent - 1, 1.0)))
                      : s(Op::Div, s(Op::Add, x, c(1)), c(extent));
            x = s(Op::Sub, x, c(1));
            y = s(Op::Add, y, s(Op::Mul, s.cast(a[j], compute), x));
          }
          return s.cast(y, s.type);
        }));
}

} // namespace tenon::frontend
