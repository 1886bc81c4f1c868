// Defines `tensor_cores_fp8_sm89`: multiplications of f8e4m3 on the Tensor Cores of sm_89 and up;
// see tensor_cores.cuh. And `is_promoted`: whether sums of an element are taken from the Tensor
// Cores again and again.
//
// Tensor Cores line the products of an instruction and the sum up by the largest of them and drop
// what lies more than 13 bits below it, though sums are stored as fp32: so much is published of
// sm_89 (SageAttention2, arXiv 2411.10958) and of sm_90 (DeepSeek-V3, arXiv 2412.19437), and sums
// of 4,096 products on an H100 are off by as much as that foretells. Over a long K that error grows
// with the sum. Therefore a sum begins at zero with each tile along K, of
// 128 elements at most for a warp or warpgroup, and is added to one in fp32 by CUDA cores, as
// DeepSeek's kernels do.
#ifndef TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_FP8_CUH
#define TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_FP8_CUH

#include "cuda/ptx/mma_fp8.cuh"
#include "cuda/tile/tensor_cores.cuh"

namespace tenon {
namespace cuda {

template <class Element>
inline constexpr bool is_promoted = tenon::detail::is_same<Element, f8e4m3>;

struct tensor_cores_fp8_sm89 : cores_of_bytes<float> {
  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 890; }
  template <class T>
  TENON_DEVICE static void multiply(float (&d)[4], const fragment<4> &a, const fragment<2> &b) {
    static_assert(tenon::detail::is_same<T, f8e4m3>, "both operands are f8e4m3");
    ptx::mma_m16n8k32_f8e4m3::multiply(d, a.r, b.r[0], b.r[1]);
  }
};

} // namespace cuda
} // namespace tenon

#endif
