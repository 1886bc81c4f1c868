// Imports RoiAlign: the mean, or the largest, of samples in each cell of a region.
//
// With a given number of samples a cell all are taken at once. Where the number depends on the size
// of the region (sampling_ratio = 0), a loop takes one sample of each cell at a time, as often as
// the largest region needs it, and regions that have enough of them keep what they have.
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Sample.h"

#include <cmath>

namespace tenon::frontend {
namespace {

class RoiAlign {
public:
  explicit RoiAlign(Node &n) : n_(n), b_(n.b) {}
  void run();

private:
  enum Operand { X, Rois, Batch };
  bool readAttributes();
  bool readOperands();
  Value *givenSamples();
  Value *samplesBySize();
  Value *counts(size_t d);
  Value *corner(Scalars &s, Value *v) const;
  Value *size(Scalars &s, llvm::ArrayRef<Value *> corners, size_t d) const;
  static Taps tapsAt(Scalars &s, Value *x, Value *extent);

  Node &n_;
  Builder &b_;
  int64_t cells_[2] = {1, 1}, samples_ = 0; // height and width; 0: as many as the size asks for
  double scale_ = 1;
  bool aligned_ = true, largest_ = false;
  Dim regions_;
  Pixels pixels_;
  llvm::SmallVector<Value *, 8> columns_; // x1, y1, x2, y2, the image: [regions] each
};

bool RoiAlign::readAttributes() {
  const std::string mode = n_.stringAttr("mode", "avg");
  const std::string coordinates = n_.stringAttr("coordinate_transformation_mode",
                                                n_.opset < 16 ? "output_half_pixel" : "half_pixel");
  cells_[0] = n_.intAttr("output_height", 1);
  cells_[1] = n_.intAttr("output_width", 1);
  samples_ = n_.intAttr("sampling_ratio", 0);
  scale_ = n_.floatAttr("spatial_scale", 1);
  aligned_ = coordinates == "half_pixel";
  largest_ = mode == "max";
  if ((mode != "avg" && mode != "max") || (!aligned_ && coordinates != "output_half_pixel")) {
    n_.error("expected mode avg or max and coordinates half_pixel or output_half_pixel, found '" +
             mode + "' and '" + coordinates + "'");
    return false;
  }
  for (int64_t extent : {cells_[0], cells_[1], samples_ + (samples_ == 0)})
    if (extent < 1 || extent > INT16_MAX) {
      n_.error("expected output_height and output_width from 1 to " + std::to_string(INT16_MAX) +
               " and sampling_ratio from 0 on, found " + std::to_string(extent));
      return false;
    }
  return true;
}

bool RoiAlign::readOperands() {
  if (!n_.checkRank(X, 4, 4) || !n_.checkFloat(X) || !n_.checkRank(Rois, 2, 2) ||
      !n_.checkFloat(Rois) || !n_.checkRank(Batch, 1, 1))
    return false;
  regions_ = n_.type(Rois).dim(0);
  if (!n_.type(Rois).dim(1).isConstant(4) || n_.type(Batch).dim(0) != regions_ ||
      !isInteger(n_.element(Batch))) {
    n_.error("expected four corners and an integer batch index per region, found " +
             toString(n_.type(Rois)) + " and " + toString(n_.type(Batch)));
    return false;
  }
  auto pixels = pixelsOf(n_, n_.input(X));
  if (!pixels)
    return false;
  pixels_ = *pixels;
  for (int64_t k = 0; k < 4; ++k) {
    Value *column = sliceAlong(b_, n_.input(Rois), 1, n_.dim(k), n_.dim(1), 1);
    columns_.push_back(column ? b_.reshape(column, {regions_}) : nullptr);
  }
  columns_.push_back(n_.input(Batch));
  return !llvm::is_contained(columns_, nullptr);
}

Value *RoiAlign::corner(Scalars &s, Value *v) const {
  v = s(Op::Mul, s.cast(v, s.type), s.c(scale_));
  return aligned_ ? s(Op::Sub, v, s.c(0.5)) : v;
}

/// Of the region along dimension d of the image.
Value *RoiAlign::size(Scalars &s, llvm::ArrayRef<Value *> corners, size_t d) const {
  Value *size = s(Op::Sub, corner(s, corners[3 - d]), corner(s, corners[1 - d]));
  return aligned_ ? size : s(Op::Max, size, s.c(1));
}

/// Up to a pixel outside the border counts, beyond that nothing does.
Taps RoiAlign::tapsAt(Scalars &s, Value *x, Value *extent) {
  Value *outside = s(Op::LogicalOr, s(Op::Less, x, s.c(-1)), s(Op::Greater, x, extent));
  Taps taps = linearTaps(s, limited(s, x, s.c(0), s(Op::Sub, extent, s.c(1))), extent);
  for (Tap &t : taps)
    t.weight = s(Op::Select, outside, s.c(0), t.weight);
  return taps;
}

/// [regions, height, width, channels]
Value *RoiAlign::givenSamples() {
  Sampling how;
  how.space = {regions_, n_.dim(cells_[0] * samples_), n_.dim(cells_[1] * samples_)};
  how.operands.assign(columns_.begin(), columns_.end());
  how.maps.assign(columns_.size(), along(0));
  how.neighbours = [&](Scalars &s, llvm::ArrayRef<Value *> a, size_t d, Value *extent) -> Taps {
    // Sample i of all: (i + 1/2) / number of samples of the way.
    Value *i = s(Op::Add, s.cast(s.index(unsigned(d) + 1), s.type), s.c(0.5));
    Value *way = s(Op::Div, s(Op::Mul, i, size(s, a, d)), s.c(double(cells_[d] * samples_)));
    return tapsAt(s, s(Op::Add, corner(s, a[1 - d]), way), extent);
  };
  how.image = [](Scalars &s, llvm::ArrayRef<Value *> a) { return s.cast(a[4], Element::I64); };
  // Of a sample the largest weighted neighbour, not the interpolated value, where mode is max.
  how.largest = largest_;
  Value *y = sample(b_, pixels_, how);
  const Dim samples = n_.dim(samples_);
  y = y ? b_.reshape(y, {regions_, n_.dim(cells_[0]), samples, n_.dim(cells_[1]), samples,
                         n_.type(X).dim(1)})
        : nullptr;
  if (!y)
    return nullptr;
  return largest_ ? b_.reduce(Op::Max, y, {2, 4}, -INFINITY) : mean(b_, y, {2, 4});
}

/// Samples of a cell along dimension d, by region: one for each pixel that it is long, i64.
Value *RoiAlign::counts(size_t d) {
  return pointwise(b_, llvm::ArrayRef<Value *>(columns_).take_front(4),
                   [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                     s.type = computeType(s.type);
                     Value *count = s(Op::Ceil, s(Op::Div, size(s, a, d), s.c(double(cells_[d]))));
                     return s.cast(limited(s, count, 0, INT32_MAX), Element::I64);
                   });
}

Value *RoiAlign::samplesBySize() {
  Value *count[2] = {counts(0), counts(1)};
  if (!count[0] || !count[1])
    return nullptr;
  Value *most[2] = {b_.reduce(Op::Max, count[0], {0}, 0), b_.reduce(Op::Max, count[1], {0}, 0)};
  Value *trip = most[0] && most[1] ? b_.pointwise(Op::Mul, {most[0], most[1]}) : nullptr;
  const Element e = computeType(n_.element(X));
  const Shape shape{regions_, n_.dim(cells_[0]), n_.dim(cells_[1]), n_.type(X).dim(1)};
  Value *start = generate(b_, e, shape, [&](Scalars &s, llvm::ArrayRef<Value *>) {
    return s.c(largest_ ? -INFINITY : 0);
  });
  if (!trip || !start)
    return nullptr;
  // Behind the state: what is read of each region, its counts, the samples of a row, and extents of
  // the image that are open.
  llvm::SmallVector<Value *, 12> operands{trip, b_.scalarConstant(Element::Bool, 1), start,
                                          pixels_.rows};
  operands.append(columns_.begin(), columns_.end());
  operands.append({count[0], count[1], most[1]});
  const size_t lengths = operands.size();
  llvm::copy_if(pixels_.lengths, std::back_inserter(operands), [](Value *v) { return v; });
  const NamedAttributes attributes{{"carried", int64_t(1)}, {"scans", int64_t(0)}};
  Operation *loop = b_.create(Op::Loop, operands, attributes, 1, [&](unsigned, Region &region) {
    llvm::SmallVector<Value *, 12> arguments;
    for (Value *v : operands)
      arguments.push_back(region.addArgument(v->type()));
    Builder inner(region, b_.diagnostics());
    inner.location = b_.location;
    Pixels pixels = pixels_;
    pixels.rows = arguments[3];
    for (size_t next = lengths; Value * &length : pixels.lengths)
      if (length)
        length = arguments[next++];
    enum { Count = 5, Turn = 7, Row = 8 }; // behind the columns
    Sampling how;
    how.space = {regions_, n_.dim(cells_[0]), n_.dim(cells_[1])};
    how.operands.assign(arguments.begin() + 4, arguments.begin() + int64_t(lengths));
    how.operands.insert(how.operands.begin() + Turn, arguments[0]);
    how.maps.assign(Turn, along(0));
    how.maps.insert(how.maps.end(), 2, {});
    // Turn t takes sample t / row of each cell downwards, t % row to the right.
    auto turn = [](Scalars &s, Value *t, Value *row, size_t d) {
      return s(d == 0 ? Op::Div : Op::Mod, t, row);
    };
    how.neighbours = [&](Scalars &s, llvm::ArrayRef<Value *> a, size_t d, Value *extent) -> Taps {
      Value *i = s(Op::Add, s.cast(turn(s, a[Turn], a[Row], d), s.type), s.c(0.5));
      Value *inCell = s(Op::Div, i, s.cast(a[Count + d], s.type));
      Value *cell = s(Op::Add, s.cast(s.index(unsigned(d) + 1), s.type), inCell);
      Value *way = s(Op::Mul, cell, s(Op::Div, size(s, a, d), s.c(double(cells_[d]))));
      return tapsAt(s, s(Op::Add, corner(s, a[1 - d]), way), extent);
    };
    how.image = [](Scalars &s, llvm::ArrayRef<Value *> a) { return s.cast(a[4], Element::I64); };
    how.largest = largest_;
    Value *taken = sample(inner, pixels, how);
    if (!taken)
      return;
    Value *after = pointwise(inner,
                             {arguments[2], taken, how.operands[Count], how.operands[Count + 1],
                              how.operands[Turn], how.operands[Row]},
                             {identityMap(4), identityMap(4), along(0), along(0), {}, {}}, shape,
                             [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                               Value *more = s(largest_ ? Op::Max : Op::Add, a[0], s.cast(a[1], e));
                               Value *counts =
                                   s(Op::LogicalAnd, s(Op::Less, turn(s, a[4], a[5], 0), a[2]),
                                     s(Op::Less, turn(s, a[4], a[5], 1), a[3]));
                               return s(Op::Select, counts, more, a[0]);
                             });
    if (after)
      inner.yield({arguments[1], after});
  });
  if (!loop)
    return nullptr;
  // Regions without a size have no samples, and give 0.
  return pointwise(b_, {loop->result(0), count[0], count[1]}, {identityMap(4), along(0), along(0)},
                   shape, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                     Value *all = s(Op::Mul, a[1], a[2]);
                     Value *some = s(Op::Greater, all, s.c(Element::I64, 0));
                     Value *y = largest_ ? a[0] : s(Op::Div, a[0], s.cast(all, e));
                     return s.cast(s(Op::Select, some, y, s.c(0)), n_.element(X));
                   });
}

void RoiAlign::run() {
  if (readAttributes() && readOperands())
    n_.set(0, channelsSecond(b_, samples_ > 0 ? givenSamples() : samplesBySize()));
}

} // namespace

void importRoiAlign(Node &n) { RoiAlign(n).run(); }

} // namespace tenon::frontend
