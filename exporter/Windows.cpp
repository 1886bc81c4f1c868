// Implements the export of pooling and resizing.
#include "exporter/Writer.h"

#include <cmath>

namespace tenon::exporter {
namespace {

/// With extents that are known, a number of windows that is rounded up comes from more padding,
/// which counts for nothing: what a window behind the end becomes is no question then, on which
/// opsets and runtimes differ. Empty where it has to stay.
Ints roundedPads(const Operation &op) {
  const Type x = op.operand(0)->type(), y = op.result()->type();
  const size_t spatial = x.rank() - 2;
  auto at = [&](const char *key, size_t i, int64_t otherwise) {
    const Ints &list = op.intsAttr(key);
    return list.empty() ? otherwise : list[i];
  };
  Ints pads;
  for (size_t i = 0; i < 2 * spatial; ++i)
    pads.push_back(at("pads", i, 0));
  for (size_t i = 0; i < spatial; ++i) {
    const Dim in = x.dim(unsigned(i + 2)), out = y.dim(unsigned(i + 2));
    if (!in.isConstant() || !out.isConstant())
      return {};
    const int64_t stride = at("strides", i, 1);
    const int64_t span = (op.intsAttr("kernel")[i] - 1) * at("dilations", i, 1) + 1;
    const int64_t least = (out.constant() - 1) * stride + span - in.constant() - pads[i];
    // Padding that counts may get less, where no window reaches it, but not more.
    if (least + stride <= 0 || (op.boolAttr("count_include_pad") && least > pads[spatial + i]))
      return {};
    pads[spatial + i] = std::max<int64_t>(least, 0);
  }
  return pads;
}

bool exportPool(Operation &op, Writer &w) {
  const bool average = op.wordAttr("kind") == "average";
  const Element e = op.result()->type().element();
  Attributes a{{"kernel_shape", op.intsAttr("kernel")}};
  // What is the default is left out: ONNX Runtime's quantised averages know no dilations.
  for (const char *key : {"strides", "dilations"})
    if (llvm::any_of(op.intsAttr(key), [](int64_t n) { return n != 1; }))
      a.push_back({key, op.intsAttr(key)});
  const Ints rounded = op.boolAttr("ceil") ? roundedPads(op) : Ints();
  const Ints &pads = rounded.empty() ? op.intsAttr("pads") : rounded;
  if (!pads.empty())
    a.push_back({"pads", pads});
  if (op.boolAttr("ceil") && rounded.empty())
    a.push_back({"ceil_mode", int64_t(1)});
  if (op.boolAttr("count_include_pad"))
    a.push_back({"count_include_pad", int64_t(1)});
  // Runtimes take floats and bytes; doubles hold other integers of up to 32 bits.
  const bool widened = isInteger(e) && bitWidth(e) != 8;
  if (widened && bitWidth(e) > 32)
    return w.refuse("the maximum of windows of " + name(e));
  std::string x = w.name(op.operand(0));
  if (widened)
    x = w.cast(x, Element::F64);
  x = w.node(average ? "AveragePool" : "MaxPool", {x}, a);
  w.bind(op.result(), widened ? w.cast(x, e) : x);
  return true;
}

bool exportResize(Operation &op, Writer &w) {
  const Type t = op.operand(0)->type();
  const Dims &shape = op.dimsAttr("shape");
  const Floats &scales = op.floatsAttr("scales"), &roi = op.floatsAttr("roi");
  // Scales stand there where the extents do not say them.
  bool byScales = scales.size() == t.rank();
  for (unsigned d = 0; d < t.rank() && byScales; ++d)
    byScales = !t.dim(d).isConstant() ||
               (shape[d].isConstant() &&
                shape[d].constant() ==
                    int64_t(std::floor(double(t.dim(d).constant()) * double(float(scales[d])))));
  auto floats = [&](const Floats &values) {
    Tensor f(Element::F32, {int64_t(values.size())});
    for (size_t i = 0; i < values.size(); ++i)
      f.set(int64_t(i), values[i]);
    return w.constant(f);
  };
  Attributes a{{"mode", op.wordAttr("mode").str()},
               {"coordinate_transformation_mode", op.wordAttr("coordinates", "half_pixel").str()}};
  if (op.wordAttr("mode") == "nearest")
    a.push_back({"nearest_mode", op.wordAttr("nearest", "round_prefer_floor").str()});
  if (op.wordAttr("mode") == "cubic")
    a.push_back({"cubic_coeff_a", op.floatAttr("cubic_a", -0.75)});
  if (op.has("extrapolation"))
    a.push_back({"extrapolation_value", op.floatAttr("extrapolation")});
  for (const char *key : {"exclude_outside", "antialias"})
    if (op.boolAttr(key))
      a.push_back({key, int64_t(1)});
  const bool crop = op.wordAttr("coordinates") == "tf_crop_and_resize";
  const std::string region = crop ? floats(roi) : "";
  w.bind(op.result(),
         byScales ? w.node("Resize", {w.name(op.operand(0)), region, floats(scales)}, a)
                  : w.node("Resize", {w.name(op.operand(0)), region, "", w.shape(shape)}, a));
  return true;
}

} // namespace

bool exportWindow(Operation &op, Writer &w) {
  return op.is(Op::Pool) ? exportPool(op, w) : exportResize(op, w);
}

} // namespace tenon::exporter
