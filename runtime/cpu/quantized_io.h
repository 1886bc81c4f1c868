// Defines the conversions that callers of a model with integer inputs and outputs may want.
#ifndef TENON_RUNTIME_CPU_QUANTIZED_IO_H
#define TENON_RUNTIME_CPU_QUANTIZED_IO_H

#include "common/scalar_cast.h"
#include "common/scalar_math.h"

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

/// The softmax of such values over each `row` of them; count is a multiple of it.
template <class T>
void dequantize_softmax(const T *from, float *to, size_t count, float scale, int zero, size_t row) {
  dequantize_values(from, to, count, scale, zero);
  for (float *end = to + count; to < end; to += row) {
    float most = to[0], sum = 0;
    for (size_t i = 1; i < row; ++i)
      most = to[i] > most ? to[i] : most;
    for (size_t i = 0; i < row; ++i)
      sum += to[i] = exp<scalar_lanes>(to[i] - most);
    for (size_t i = 0; i < row; ++i)
      to[i] /= sum;
  }
}

} // namespace cpu
} // namespace tenon

#endif
