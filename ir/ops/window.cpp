// Windows over spatial dimensions.
//
//   pool (x) {kind, kernel, strides, dilations, pads, ceil, count_include_pad}
//     x [N, C, spatial…]. `max` takes the largest element of each window (NaN wins; padding never
//     does), `average` the mean of the elements inside x, or with count_include_pad the sum over
//     the number of taps inside the padded tensor. With `ceil` the last window may reach beyond
//     the padding, but not start there.
//
//   resize (x) {mode, coordinates, nearest, scales, shape, …}
//     Resamples x to `shape`. Along each dimension, with scale s, output index i reads position
//       half_pixel            (i + 0.5) / s − 0.5
//       half_pixel_symmetric  the same, centred when out differs from in · s
//       pytorch_half_pixel    the same, 0 for an extent of 1
//       tf_half_pixel_for_nn  (i + 0.5) / s
//       align_corners         i · (in − 1) / (out − 1)
//       asymmetric            i / s
//       tf_crop_and_resize    start · (in − 1) + i · (end − start) · (in − 1) / (out − 1), from
//                             roi = [starts…, ends…]; positions outside give `extrapolation`
//     `nearest` rounds that position as its attribute says; `linear` weighs the two neighbours,
//     `cubic` four with coefficient cubic_a, indices clamped to the border. exclude_outside drops
//     taps outside x and renormalises; antialias stretches the filter when shrinking.
//
// Numeric rules. Averages and weighted sums accumulate in double in the interpreter and round
// once; positions are computed in f32 by targets and interpreter alike for `nearest`, where an ulp
// would choose another element. Integers are weighed in double by targets, too, the last dimension
// first and product by product, and round half to even: the same bits everywhere.
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"

namespace tenon {
namespace {

bool inferPool(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error) ||
      !checkWord(op, "kind", {"max", "average"}, error))
    return false;
  Type x = op.operand(0)->type();
  if (x.rank() < 3)
    return fail(error, "x: expected rank 3 or more, found " + llvm::Twine(x.rank()));
  const bool average = op.wordAttr("kind") == "average";
  if (average ? !isFloat(x.element()) : !isFloat(x.element()) && !isInteger(x.element()))
    return fail(error, llvm::Twine("x: expected ") + (average ? "a floating-point" : "a numeric") +
                           " tensor, found " + toString(x));
  const unsigned spatial = x.rank() - 2;
  if (!checkInts(op, "kernel", spatial, 1, false, error) ||
      !checkInts(op, "strides", spatial, 1, true, error) ||
      !checkInts(op, "dilations", spatial, 1, true, error) ||
      !checkInts(op, "pads", 2 * spatial, 0, true, error))
    return false;
  Context &c = x.context();
  llvm::SmallVector<Dim, 6> shape{x.dim(0), x.dim(1)};
  for (unsigned i = 0; i < spatial; ++i) {
    const int64_t stride = intAt(op, "strides", i, 1), begin = intAt(op, "pads", i, 0);
    Dim begun = x.dim(i + 2) + begin;
    Dim padded = begun + intAt(op, "pads", spatial + i, 0);
    Dim span = (c.dim(intAt(op, "kernel", i, 1)) - 1) * intAt(op, "dilations", i, 1) + 1;
    Dim room = padded - span;
    if (room.upper() < 0)
      return fail(error, "window of " + text(span) + " exceeds the padded extent " + text(padded) +
                             " of dimension " + llvm::Twine(i + 2));
    if (op.boolAttr("ceil")) // the last window must start before the end of x
      shape.push_back(min(ceilDiv(room, stride) + 1, ceilDiv(begun, stride)));
    else
      shape.push_back(floorDiv(room, stride) + 1);
  }
  results.push_back(Type::tensor(c, x.element(), shape));
  return true;
}

bool inferResize(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error) ||
      !checkWord(op, "mode", {"nearest", "linear", "cubic"}, error) ||
      !checkWord(op, "coordinates",
                 {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
                  "half_pixel_symmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"},
                 error) ||
      !checkWord(op, "nearest", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"},
                 error))
    return false;
  Type x = op.operand(0)->type();
  if (!isFloat(x.element()) && !isInteger(x.element()))
    return fail(error, "x: expected a numeric tensor, found " + toString(x));
  const Dims &shape = op.dimsAttr("shape");
  const Floats &scales = op.floatsAttr("scales"), &roi = op.floatsAttr("roi");
  if (shape.size() != x.rank())
    return fail(error, "attribute shape: expected " + llvm::Twine(x.rank()) + " extents, found " +
                           llvm::Twine(shape.size()));
  if (op.has("scales") && scales.size() != x.rank())
    return fail(error, "attribute scales: expected " + llvm::Twine(x.rank()) + " numbers, found " +
                           llvm::Twine(scales.size()));
  for (double s : scales)
    if (!(s > 0))
      return fail(error, "attribute scales: expected positive numbers");
  const bool crop = op.wordAttr("coordinates") == "tf_crop_and_resize";
  if ((crop || op.has("roi")) && roi.size() != 2 * x.rank())
    return fail(error, "attribute roi: expected " + llvm::Twine(2 * x.rank()) + " numbers, found " +
                           llvm::Twine(roi.size()));
  for (unsigned i = 0; i < x.rank(); ++i)
    if (x.dim(i).isConstant(0) && !shape[i].isConstant(0))
      return fail(error, "dimension " + llvm::Twine(i) + " has no elements to resample");
  results.push_back(Type::tensor(x.context(), x.element(), shape));
  return true;
}

const llvm::StringRef kX[] = {"x"};
const AttrInfo kPool[] = {
    {"kind", AttrKind::Word, true, "max or average"},
    {"kernel", AttrKind::Ints, true, "extents of the window, per spatial dimension"},
    {"strides", AttrKind::Ints, false, "per spatial dimension (default 1)"},
    {"dilations", AttrKind::Ints, false, "per spatial dimension (default 1)"},
    {"pads", AttrKind::Ints, false, "all begins, then all ends (default 0)"},
    {"ceil", AttrKind::Bool, false, "round the number of windows up (default false)"},
    {"count_include_pad", AttrKind::Bool, false,
     "divide by taps in the padding, too (default false)"},
};
const AttrInfo kResize[] = {
    {"mode", AttrKind::Word, true, "nearest, linear or cubic"},
    {"coordinates", AttrKind::Word, false,
     "which position an output index reads (default half_pixel)"},
    {"nearest", AttrKind::Word, false,
     "round_prefer_floor (default), round_prefer_ceil, floor or ceil"},
    {"scales", AttrKind::Floats, false, "out / in per dimension (default: from the extents)"},
    {"shape", AttrKind::Dims, true, "extents of the result"},
    {"cubic_a", AttrKind::Float, false, "coefficient of the cubic filter (default -0.75)"},
    {"exclude_outside", AttrKind::Bool, false, "drop taps outside x (default false)"},
    {"extrapolation", AttrKind::Float, false, "value outside the region (default 0)"},
    {"roi", AttrKind::Floats, false,
     "region for tf_crop_and_resize: starts, then ends, normalised"},
    {"antialias", AttrKind::Bool, false, "stretch the filter when shrinking (default false)"},
};

} // namespace

llvm::ArrayRef<OpRow> windowOps() {
  static const OpRow kRows[] = {
      {Op::Pool,
       {"pool", "Maximum or mean of windows.", kX, kPool, 1, 0, OpTrait::None, inferPool, nullptr,
        evaluatePool}},
      {Op::Resize,
       {"resize", "Resamples to other extents.", kX, kResize, 1, 0, OpTrait::None, inferResize,
        nullptr, evaluateResize}},
  };
  return kRows;
}

} // namespace tenon
