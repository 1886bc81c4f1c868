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

void Window::pad(size_t i, Dim before, Dim after) {
  const size_t spatial = kernel.size();
  if (before.isConstant() && after.isConstant()) {
    pads[i] += before.constant();
    pads[i + spatial] += after.constant();
    return;
  }
  const Dim zero = before.node()->context->dim(0);
  low.resize(spatial, zero);
  high.resize(spatial, zero);
  low[i] = before;
  high[i] = after;
}

Value *withOpenPads(Builder &b, Value *x, const Window &w, double fill) {
  if (!x || !w.isOpen())
    return x;
  Dims low(2, b.context().dim(0)), high = low;
  low.insert(low.end(), w.low.begin(), w.low.end());
  high.insert(high.end(), w.high.begin(), w.high.end());
  llvm::SmallVector<Value *, 2> operands{x};
  if (fill != 0)
    operands.push_back(b.scalarConstant(x->type().element(), fill));
  return b.value(Op::Pad, operands, {{"low", low}, {"high", high}, {"mode", Word{"constant"}}});
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
    const Dim in = n.type(input).dim(unsigned(i) + 2);
    const int64_t span = (w.kernel[i] - 1) * w.dilations[i] + 1, stride = w.strides[i];
    const Dim fits = (ceilDiv(in, stride) - 1) * stride + span;
    const Dim total = max(fits - in, n.dim(0)), small = floorDiv(total, 2), large = total - small;
    w.pads[i] = w.pads[i + spatial] = 0;
    w.pad(i, rule == "SAME_UPPER" ? small : large, rule == "SAME_UPPER" ? large : small);
  }
  return w;
}

} // namespace tenon::frontend
