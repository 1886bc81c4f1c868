// Stands in for runtime/cuda/tensor_map.h: a tensor map is what it was encoded from, checked
// against the driver's rules.
#ifndef TENON_RUNTIME_CUDA_TENSOR_MAP_H
#define TENON_RUNTIME_CUDA_TENSOR_MAP_H

#include "cuda/device.cuh"
#include "cuda/status.h"

namespace tenon {
namespace cuda {

enum class tensor_element { u8, f16, bf16, f32 };

struct tensor_box {
  const void *base;
  tensor_element element;
  int rank;
  index_t extent[5], stride[5];
  int box[5];
  int span;

  int size() const {
    return element == tensor_element::f32 ? 4 : element == tensor_element::u8 ? 1 : 2;
  }
};
struct tensor_columns {
  tensor_box tensor;
  int lower[3], upper[3], step[3];
  int pixels;
};
struct tensor_map {
  tensor_columns columns;
  bool is_columns;
};

namespace detail {
inline bool suits_copy_engine(const tensor_box &t) {
  bool good = uintptr_t(t.base) % 16 == 0 && t.box[0] * t.size() == t.span;
  for (int i = 0; i < t.rank; ++i)
    good = good && t.extent[i] > 0 && t.extent[i] <= (index_t(1) << 32) && t.box[i] <= 256 &&
           (i == 0 || t.extent[i] == 1 || (t.stride[i] % 16 == 0 && t.stride[i] > 0));
  return good;
}
} // namespace detail

inline status encode(tensor_map &to, const tensor_box &t) {
  to = {{t, {}, {}, {}, 0}, false};
  return detail::suits_copy_engine(t) ? ok : unsuitable_tensor;
}
inline status encode(tensor_map &to, const tensor_columns &c) {
  to = {c, true};
  bool good = detail::suits_copy_engine(c.tensor) && c.pixels <= 1024 && c.tensor.rank >= 3;
  const int bound = c.tensor.rank == 3 ? 1 << 15 : c.tensor.rank == 4 ? 1 << 7 : 1 << 4;
  for (int i = 0; i < c.tensor.rank - 2; ++i)
    good = good && c.lower[i] >= -bound && c.lower[i] < bound && c.upper[i] >= -bound &&
           c.upper[i] < bound && c.step[i] >= 1 && c.step[i] <= 8;
  return good ? ok : unsuitable_tensor;
}

} // namespace cuda
} // namespace tenon

#endif
