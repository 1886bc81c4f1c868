// Implements the reading of resizes.
#include "codegen/forms/ResizeForm.h"

#include "codegen/emit/CppText.h"
#include "codegen/forms/Operands.h"
#include "ir/ResizeTaps.h"

namespace tenon {
namespace {

/// Elements that each output index adds up along an open dimension.
size_t tapsOfOpen(const Operation &resize, unsigned d) {
  const Type x = resize.operand(0)->type(), y = resize.result()->type();
  const ResizeAxis axis = resizeAxis(resize, d, x.dim(d).upper(), y.dim(d).upper());
  if (resize.wordAttr("mode") == "nearest")
    return 1;
  const double radius = resize.wordAttr("mode") == "cubic" ? 2 : 1;
  const double stretch = resize.boolAttr("antialias") ? std::min(axis.scale, 1.0) : 1.0;
  return size_t(2 - 2 * (std::floor(-radius / stretch) + 1));
}

/// Bytes of the indices of an open dimension, rounded up so that weights behind them lie well.
int64_t bytesOfIndices(const Operation &resize, unsigned d) {
  const int64_t count = int64_t(tapsOfOpen(resize, d)) * resize.result()->type().dim(d).upper();
  return (count * 4 + 7) / 8 * 8;
}
/// The same with the weights.
int64_t bytesOfTable(const Operation &resize, unsigned d) {
  return bytesOfIndices(resize, d) * (weightsOfResize(resize) == Element::F64 ? 3 : 2);
}

bool isOpen(const Operation &resize, unsigned d) {
  return isResampled(resize, d) && !hasKnownTable(resize, d);
}

} // namespace

bool isResampled(const Operation &resize, unsigned d) {
  const Dim from = resize.operand(0)->type().dim(d), to = resize.result()->type().dim(d);
  return from != to || !resizeAxis(resize, d, from.upper(), to.upper()).isIdentity();
}

bool hasKnownTable(const Operation &resize, unsigned d) {
  return resize.operand(0)->type().dim(d).isConstant() &&
         resize.result()->type().dim(d).isConstant();
}

Result<> matchResize(const GroupQuery &in) {
  if (auto anchor = matchAnchor(in, Op::Resize); !anchor)
    return anchor;
  const Operation &op = *in.form.anchor;
  if (op.boolAttr("antialias") && !op.has("scales"))
    for (unsigned d = 0; d < op.result()->type().rank(); ++d)
      if (isOpen(op, d))
        return Refusal{"antialias along dimension " + std::to_string(d) +
                           " reads as many elements as its extents say, which are known only at "
                           "run time; bind them with --bind",
                       ""};
  return isUnbounded(in.form.anchorInputs[0]);
}

Result<> resamplesInside(const Operation &resize) {
  if (resize.wordAttr("coordinates") == "tf_crop_and_resize")
    return Refusal{"a region that may reach outside", ""};
  if (resize.wordAttr("mode") != "nearest" && !isFloat(resize.operand(0)->type().element()))
    return Refusal{"integers are weighed", ""};
  return Accepted{};
}

Element weightsOfResize(const Operation &resize) {
  return isFloat(resize.result()->type().element()) ? Element::F32 : Element::F64;
}

std::string tableType(const Operation &resize, size_t taps) {
  const Element e = weightsOfResize(resize);
  return std::to_string(taps) + (e == Element::F32 ? "" : ", " + cppElement(e).str());
}

ResizeTable resizeTable(const Operation &resize, unsigned d) {
  const ResizeAxis axis = resizeAxis(resize, d, resize.operand(0)->type().dim(d).constant(),
                                     resize.result()->type().dim(d).constant());
  ResizeTable table;
  std::vector<ResizeTaps> rows;
  for (int64_t i = 0; i < axis.out; ++i) {
    rows.push_back(resizeTaps(resize, axis, i));
    if (axis.isOutside(i))
      rows.back().index[0] = -1;
    table.taps = std::max(table.taps, rows.back().index.size());
  }
  for (const ResizeTaps &row : rows)
    for (size_t t = 0; t < table.taps; ++t) {
      table.indices.push_back(t < row.index.size() ? row.index[t] : 0);
      table.weights.push_back(t < row.index.size() ? row.weight[t] : 0);
    }
  return table;
}

int64_t resizeScratch(const Operation &resize) {
  int64_t bytes = 0;
  for (unsigned d = 0; d < resize.result()->type().rank(); ++d)
    if (isOpen(resize, d))
      bytes += bytesOfTable(resize, d);
  return bytes;
}

OpenTable openTable(const Operation &resize, unsigned d, const StepWriter &out) {
  int64_t at = 0;
  for (unsigned i = 0; i < d; ++i)
    if (isOpen(resize, i))
      at += bytesOfTable(resize, i);
  auto pointer = [&](llvm::StringRef type, int64_t offset, int64_t size) {
    return out.scratchPointer(type) + " + " + std::to_string(offset / size);
  };
  const Element weights = weightsOfResize(resize);
  OpenTable t{
      tapsOfOpen(resize, d), "", pointer("int32_t", at, 4),
      pointer(cppElement(weights), at + bytesOfIndices(resize, d), int64_t(bitWidth(weights)) / 8)};
  const Floats &scales = resize.floatsAttr("scales"), &roi = resize.floatsAttr("roi");
  auto number = [](double v) { return cppScalar(Element::F64, v); };
  auto flag = [&](llvm::StringRef name) { return resize.boolAttr(name) ? "true" : "false"; };
  const size_t rank = roi.size() / 2;
  t.axis = "resize_axis<resize_mode::" + resize.wordAttr("mode").str() +
           ", resize_position::" + resize.wordAttr("coordinates", "half_pixel").str() +
           ", resize_rounding::" + resize.wordAttr("nearest", "round_prefer_floor").str() + ", " +
           std::to_string(t.taps) + ">{" + out.dims().value(resize.operand(0)->type().dim(d)) +
           ", " + out.dims().value(resize.result()->type().dim(d)) + ", " +
           number(scales.empty() ? 0 : scales[d]) + ", " +
           number(resize.floatAttr("cubic_a", -0.75)) + ", " + flag("exclude_outside") + ", " +
           flag("antialias") + ", " + number(roi.empty() ? 0 : roi[d]) + ", " +
           number(roi.empty() ? 1 : roi[rank + d]) + "}";
  return t;
}

} // namespace tenon
