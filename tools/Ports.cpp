// Implements the conversions at the border. Arithmetic is that of runtime/cpu/quantized_io.h.
#include "tools/Ports.h"

#include "passes/QuantizedIo.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

/// Each row of `t` becomes its softmax.
void applySoftmax(Tensor &t, int64_t row) {
  for (int64_t begin = 0; begin < t.size(); begin += row) {
    double most = t.at(begin), sum = 0;
    for (int64_t i = begin; i < begin + row; ++i)
      most = std::max(most, t.at(i));
    for (int64_t i = begin; i < begin + row; ++i)
      sum += std::exp(t.at(i) - most);
    for (int64_t i = begin; i < begin + row; ++i)
      t.set(i, std::exp(t.at(i) - most) / sum);
  }
}

} // namespace

Tensor toInterface(const Module &module, llvm::StringRef port, Element element,
                   const Tensor &value) {
  const auto q = portQuantization(module, port);
  if (!q || value.isNull() || value.element() == element || !isFloat(value.element()))
    return value;
  const int bits = int(bitWidth(element));
  const double low = isUnsignedInt(element) ? 0 : -std::ldexp(1.0, bits - 1);
  const double high = low + std::ldexp(1.0, bits) - 1;
  Tensor out(element, value.shape());
  for (int64_t i = 0; i < value.size(); ++i) {
    const double steps = std::nearbyint(float(value.at(i)) / float(q->scale)) + double(q->zero);
    out.set(i, steps > low ? std::min(steps, high) : low); // NaN: low
  }
  return out;
}

Tensor toModel(const Module &module, llvm::StringRef port, const Tensor &value) {
  const auto q = portQuantization(module, port);
  if (!q || value.isNull() || !isInteger(value.element()))
    return value;
  Tensor out(Element::F32, value.shape());
  for (int64_t i = 0; i < value.size(); ++i)
    out.set(i, double(float(value.intAt(i) - q->zero) * float(q->scale)));
  if (q->softmax)
    applySoftmax(out, q->softmax);
  return out;
}

} // namespace tenon
