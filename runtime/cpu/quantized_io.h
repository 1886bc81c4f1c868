// Defines the conversions that callers of a model with integer inputs and outputs may want.
#ifndef TENON_RUNTIME_CPU_QUANTIZED_IO_H
#define TENON_RUNTIME_CPU_QUANTIZED_IO_H

#include "common/scalar_cast.h"

namespace tenon {
namespace cpu {

/// to[i] = saturate(round(from[i] / scale) + zero), half to even.
template <class T>
void quantize_values(const float *from, T *to, size_t count, float scale, int zero) {
  for (size_t i = 0; i < count; ++i)
    to[i] = quantize<scalar_lanes, T>(from[i], scale, zero);
}

/// to[i] = (from[i] - zero) * scale
template <class T>
void dequantize_values(const T *from, float *to, size_t count, float scale, int zero) {
  for (size_t i = 0; i < count; ++i)
    to[i] = float(int(from[i]) - zero) * scale;
}

} // namespace cpu
} // namespace tenon

#endif
