// Architectures: 750 800
//
// Tests of conv_patch_simt.
#include "shared/conv_patch_cases.h"
#include "cuda/conv_patch_simt/kernel.cuh"

using namespace test;

namespace {

template <class T> struct simt {
  static constexpr const char *name = "simt";
  using weight = T;
  using packing = tiled_weights;
  /// Operands are exact; sums are fp32; results of 16 bits are rounded.
  template <class U> static constexpr double tolerance() { return rounding<U>() + 1e-6; }
  template <class... Args> static auto conv(Args... args) { return cuda::conv_patch_simt(args...); }
};

} // namespace

int main() {
  using small = cuda::conv_patch_simt_schedule<4, 8, 2, 8, 1, 8, 1, 2>;
  using groups4 = cuda::conv_patch_simt_schedule<8, 8, 4, 8, 2, 4, 2, 4>;
  using halves = cuda::conv_patch_simt_schedule<7, 7, 3, 16, 2, 4, 2, 4>; // of a group's filters
  using fours = cuda::conv_patch_simt_schedule<5, 9, 2, 12, 2, 4, 1, 3>;
  using twos = cuda::conv_patch_simt_schedule<4, 16, 3, 6, 1, 2, 1, 4>;
  using ones = cuda::conv_patch_simt_schedule<8, 8, 2, 5, 4, 1, 1, 2>;
  using wide = cuda::conv_patch_simt_schedule<4, 32, 1, 32, 4, 8, 4, 4>;
  using line = cuda::conv_patch_simt_schedule<1, 64, 1, 16, 2, 8, 2, 2>;
  using f = float;
  using k32 = simt<float>;
#if !defined(TENON_INSTANCES)
  // Groups: RegNet's, whose number is odd; filters beside the tile; runs of four, two and one.
  conv_patch<k32, f, small, order::nhwc, 8, 8, 3, 3, 3>(2, 9, 11, 1);
  conv_patch<k32, f, small, order::nhwc, 8, 8, 2, 3, 3>(1, 6, 5, 1, 1); // skewed
  conv_patch<k32, f, halves, order::nhwc, 16, 16, 5, 3, 3>(1, 8, 9, 1);
  conv_patch<k32, f, fours, order::nhwc, 12, 12, 3, 3, 3, 3>(2, 17, 14, 1);
  conv_patch<k32, f, twos, order::nhwc, 6, 6, 4, 3, 3>(1, 7, 18, 1);
  conv_patch<k32, f, ones, order::nhwc, 5, 5, 3, 3, 3, 2>(1, 13, 11, 1);
  conv_patch<k32, f, wide, order::nhwc, 24, 36, 2, 3, 5, 3, 2>(1, 13, 19, 2);
  conv_patch<k32, f, wide, order::nhwc, 32, 64, 3, 3, 3>(1, 6, 35, 1);
  conv_patch<k32, f, line, order::nhwc, 16, 16, 3, 1, 5, 2>(2, 1, 70, 2);
  conv_patch<k32, f, groups4, order::nchw, 8, 8, 6, 3, 3>(1, 9, 10, 1);
  // First layers: planes of three channels, strides of one, two and four.
  conv_patch<k32, f, wide, order::nchw, 3, 40, 1, 3, 3, 2>(2, 19, 37, 1);
  conv_patch<k32, f, wide, order::nchw, 3, 64, 1, 7, 7, 2>(1, 22, 30, 3);
  conv_patch<k32, f, wide, order::nchw, 3, 32, 1, 4, 4, 4>(1, 17, 40, 0);
  conv_patch<k32, f, wide, order::nhwc, 3, 20, 1, 3, 3>(1, 9, 17, 1);
  conv_patch<k32, f, line, order::nchw, 2, 16, 1, 1, 7, 2>(2, 1, 45, 3);
  conv_patch<k32, f, wide, order::nchw, 3, 32, 1, 3, 3, 2>(1, 0, 21, 2); // no pixels
  // Where tensors lie is known by their types.
  conv_patch<k32, f, known_runs<groups4>, order::nhwc, 8, 8, 5, 3, 3>(1, 8, 9, 1);
  conv_patch<k32, f, known_runs<wide>, order::nchw, 3, 64, 1, 7, 7, 2>(1, 22, 30, 3);
  // A prologue leaves the padding zero.
  conv_patch<k32, f, small, order::nhwc, 8, 8, 3, 3, 3, 1, 1, true>(1, 9, 11, 1);
  // Operands of 16 bits are widened; weights may be stored otherwise than activations.
  conv_patch<simt<f16>, f16, groups4, order::nhwc, 8, 8, 5, 3, 3>(1, 8, 9, 1);
#endif
  conv_patch<k32, f, groups4, order::nhwc, 8, 8, 13, 3, 3, 2>(1, 12, 15, 1);
  conv_patch<k32, f, wide, order::nchw, 3, 32, 1, 3, 3, 2, 1, true>(1, 11, 21, 1);
  conv_patch<simt<bf16>, bf16, twos, order::nhwc, 6, 6, 4, 3, 3, 2, 1, true>(1, 9, 18, 1);
  conv_patch<simt<f16>, f, ones, order::nhwc, 5, 5, 3, 3, 3>(1, 8, 9, 1);
  return finish();
}
