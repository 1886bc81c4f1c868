// Defines tensor maps: what the copy engine (sm_90 and up) knows of a tensor in global memory and
// of the boxes that it brings. Kernels hold them among their arguments; they are encoded on the
// host before each launch whose addresses are new, by two functions of the driver that are found at
// run time, so that nothing links against it.
#ifndef TENON_RUNTIME_CUDA_TENSOR_MAP_H
#define TENON_RUNTIME_CUDA_TENSOR_MAP_H

#include "cuda/device.cuh"
#include "cuda/status.h"
#include <cuda.h>

namespace tenon {
namespace cuda {

struct tensor_map {
  CUtensorMap bits;
};

enum class tensor_element { u8, f16, bf16, f32 };

/// A tensor and a box of it. Dimension 0 is the fastest and contiguous; strides of the others are
/// in bytes, multiples of 16. The base is a multiple of 16 bytes. A row of the box spans `span`
/// bytes (32, 64 or 128), the unit of the swizzle.
struct tensor_box {
  const void *base;
  tensor_element element;
  int rank;
  index_t extent[5], stride[5];
  int box[5];
  int span;
};

/// A tensor (channel, x[, y[, z]], image) read in columns of `pixels` pixels: those of the bounding
/// box from `lower` to the image's extent plus `upper`, in steps of `step`. The members of `tensor`
/// for boxes are not used, but box[0] says how many channels are read.
struct tensor_columns {
  tensor_box tensor;
  int lower[3], upper[3], step[3];
  int pixels;
};

namespace detail {

inline status driver_function(const char *name, void **function) {
  cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
  TENON_CHECK_CUDA(
      cudaGetDriverEntryPointByVersion(name, function, 12000, cudaEnableDefault, &found));
#else
  TENON_CHECK_CUDA(cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &found));
#endif
  return found == cudaDriverEntryPointSuccess && *function ? ok : no_driver_function;
}

using encode_tiled_function = CUresult(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                       const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                       const cuuint32_t *, CUtensorMapInterleave,
                                       CUtensorMapSwizzle, CUtensorMapL2promotion,
                                       CUtensorMapFloatOOBfill);
using encode_im2col_function = CUresult(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                        const cuuint64_t *, const cuuint64_t *, const int *,
                                        const int *, cuuint32_t, cuuint32_t, const cuuint32_t *,
                                        CUtensorMapInterleave, CUtensorMapSwizzle,
                                        CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// A tensor in the driver's terms.
struct encoded_tensor {
  CUtensorMapDataType element;
  cuuint32_t rank;
  void *base;
  cuuint64_t extent[5], stride[5];
  CUtensorMapSwizzle swizzle;

  explicit encoded_tensor(const tensor_box &t)
      : element(t.element == tensor_element::u8     ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                : t.element == tensor_element::f16  ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                : t.element == tensor_element::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                    : CU_TENSOR_MAP_DATA_TYPE_FLOAT32),
        rank(cuuint32_t(t.rank)), base(const_cast<void *>(t.base)),
        swizzle(t.span == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                : t.span == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                               : CU_TENSOR_MAP_SWIZZLE_32B) {
    for (int i = 0; i < t.rank; ++i)
      extent[i] = cuuint64_t(t.extent[i]);
    // The step of a dimension of one element is never taken; it need not be a legal one.
    for (int i = 1; i < t.rank; ++i)
      stride[i] = t.extent[i] == 1 ? 16 : cuuint64_t(t.stride[i]);
  }
};

inline status from_driver(CUresult r) { return r == CUDA_SUCCESS ? ok : unsuitable_tensor; }

} // namespace detail

inline status encode(tensor_map &to, const tensor_box &b) {
  static detail::encode_tiled_function *const function = [] {
    void *f = nullptr;
    return reinterpret_cast<detail::encode_tiled_function *>(
        detail::driver_function("cuTensorMapEncodeTiled", &f) == ok ? f : nullptr);
  }();
  if (!function)
    return no_driver_function;
  const detail::encoded_tensor t(b);
  cuuint32_t box[5], step[5];
  for (int i = 0; i < b.rank; ++i) {
    box[i] = cuuint32_t(b.box[i]);
    step[i] = 1;
  }
  return detail::from_driver(function(&to.bits, t.element, t.rank, t.base, t.extent, t.stride + 1,
                                      box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, t.swizzle,
                                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

inline status encode(tensor_map &to, const tensor_columns &c) {
  static detail::encode_im2col_function *const function = [] {
    void *f = nullptr;
    return reinterpret_cast<detail::encode_im2col_function *>(
        detail::driver_function("cuTensorMapEncodeIm2col", &f) == ok ? f : nullptr);
  }();
  if (!function)
    return no_driver_function;
  const detail::encoded_tensor t(c.tensor);
  cuuint32_t step[5] = {1, 1, 1, 1, 1};
  for (int i = 1; i + 1 < c.tensor.rank; ++i)
    step[i] = cuuint32_t(c.step[i - 1]);
  return detail::from_driver(function(
      &to.bits, t.element, t.rank, t.base, t.extent, t.stride + 1, c.lower, c.upper,
      cuuint32_t(c.tensor.box[0]), cuuint32_t(c.pixels), step, CU_TENSOR_MAP_INTERLEAVE_NONE,
      t.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

} // namespace cuda
} // namespace tenon

#endif
