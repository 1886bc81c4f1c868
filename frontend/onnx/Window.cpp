// Implements the reading of window attributes.
#include "frontend/onnx/Window.h"

namespace tenon::frontend {

llvm::Optional<Ints> readSpatial(const Node &n, llvm::StringRef name, size_t count, int64_t least,
                                 int64_t otherwise) {
  if (!n.hasAttr(name))
    return Ints(count, otherwise);
  Ints values = n.intsAttr(name);
  if (values.size() != count) {
    n.error("attribute " + name.str() + ": expected " + std::to_string(count) +
            " integers, found " + std::to_string(values.size()));
    return llvm::None;
  }
  for (int64_t v : values)
    if (v < least || v > INT32_MAX) {
      n.error("attribute " + name.str() + ": expected integers from " + std::to_string(least) +
              ", found " + std::to_string(v));
      return llvm::None;
    }
  return values;
}

llvm::Optional<Ints> readKernel(const Node &n, unsigned weight) {
  Ints kernel;
  for (Dim d : n.type(weight).shape().drop_front(2)) {
    if (!d.isConstant()) {
      n.error("operand " + n.inputName(weight) + ": expected a kernel of known size, found " +
              toString(n.type(weight)));
      return llvm::None;
    }
    kernel.push_back(d.constant());
  }
  if (n.hasAttr("kernel_shape") && n.intsAttr("kernel_shape") != kernel) {
    n.error("attribute kernel_shape disagrees with the shape of the weights " +
            toString(n.type(weight)));
    return llvm::None;
  }
  return kernel;
}

llvm::Optional<Window> readWindow(const Node &n, unsigned input, Ints kernel) {
  const size_t spatial = kernel.size();
  Window w;
  w.kernel = std::move(kernel);
  auto strides = readSpatial(n, "strides", spatial, 1, 1);
  auto dilations = readSpatial(n, "dilations", spatial, 1, 1);
  auto pads = readSpatial(n, "pads", 2 * spatial, 0, 0);
  if (!strides || !dilations || !pads)
    return llvm::None;
  w.strides = *strides;
  w.dilations = *dilations;
  w.pads = *pads;
  const std::string rule = n.stringAttr("auto_pad", "NOTSET");
  if (rule == "NOTSET" || rule.empty())
    return w;
  if (rule == "VALID") {
    w.pads.assign(2 * spatial, 0);
    return w;
  }
  if (rule != "SAME_UPPER" && rule != "SAME_LOWER") {
    n.error("attribute auto_pad: expected NOTSET, SAME_UPPER, SAME_LOWER or VALID, found '" + rule +
            "'");
    return llvm::None;
  }
  for (size_t i = 0; i < spatial; ++i) {
    Dim extent = n.type(input).dim(unsigned(i) + 2);
    const int64_t span = (w.kernel[i] - 1) * w.dilations[i] + 1, stride = w.strides[i];
    int64_t total = span - 1; // for a stride of 1, whatever the extent
    if (stride != 1) {
      if (!extent.isConstant()) {
        n.error("auto_pad with stride " + std::to_string(stride) + " needs a known extent, found " +
                toString(n.type(input)) + "; give the symbol a value with --bind");
        return llvm::None;
      }
      const int64_t in = extent.constant(), out = (in + stride - 1) / stride;
      total = std::max<int64_t>(0, (out - 1) * stride + span - in);
    }
    const int64_t small = total / 2, large = total - small;
    w.pads[i] = rule == "SAME_UPPER" ? small : large;
    w.pads[i + spatial] = rule == "SAME_UPPER" ? large : small;
  }
  return w;
}

} // namespace tenon::frontend
