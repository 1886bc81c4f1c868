// Defines the cases that the tests of its generations share.
#pragma once

#include "cuda/conv_patch/kernel.cuh"
#include "shared/conv_patch_cases.h"

namespace test {

/// Every shape that the kernel distinguishes, ragged in all directions.
template <class Kernels> void conv_patch_cases() {
  using small = cuda::conv_patch_schedule<4, 8, 2, 8, 2, 1>;
  using groups4 = cuda::conv_patch_schedule<8, 8, 4, 8, 2, 2>;
  using odd = cuda::conv_patch_schedule<7, 7, 1, 24, 4, 1>;
  using wide = cuda::conv_patch_schedule<4, 16, 1, 32, 2, 2>;
  using line = cuda::conv_patch_schedule<1, 32, 1, 16, 2, 2>;
  using h = f16;
  // Groups: RegNet's, whose number is odd; filters beside the tile; several parts of a group.
  conv_patch<Kernels, h, small, order::nhwc, 8, 8, 3, 3, 3>(2, 9, 11, 1);
  conv_patch<Kernels, h, groups4, order::nhwc, 8, 8, 13, 3, 3, 2>(1, 12, 15, 1);
  conv_patch<Kernels, h, small, order::nhwc, 8, 8, 2, 3, 3>(1, 6, 5, 1, 1);
  conv_patch<Kernels, h, groups4, order::nhwc, 16, 16, 5, 3, 3>(1, 8, 9, 1);
  conv_patch<Kernels, h, odd, order::nhwc, 24, 24, 3, 3, 3>(1, 7, 7, 1);
  conv_patch<Kernels, h, wide, order::nhwc, 48, 40, 2, 3, 3, 2>(1, 9, 18, 1);
  conv_patch<Kernels, h, small, order::nhwc, 12, 10, 3, 3, 3>(1, 5, 9, 1);
  conv_patch<Kernels, h, wide, order::nhwc, 24, 36, 2, 3, 5, 3, 2>(1, 13, 19, 2);
  conv_patch<Kernels, h, small, order::nhwc, 4, 4, 6, 3, 3, 2>(1, 8, 10, 1);
  conv_patch<Kernels, h, line, order::nhwc, 16, 16, 3, 1, 5, 2>(2, 1, 70, 2);
  // First layers: planes of three channels, strides of one, two and four.
  conv_patch<Kernels, h, wide, order::nchw, 3, 40, 1, 3, 3, 2>(2, 19, 37, 1);
  conv_patch<Kernels, h, wide, order::nchw, 3, 64, 1, 7, 7, 2>(1, 22, 30, 3);
  conv_patch<Kernels, h, wide, order::nchw, 3, 32, 1, 4, 4, 4>(1, 17, 40, 0);
  conv_patch<Kernels, h, wide, order::nchw, 3, 20, 1, 3, 3, 1>(1, 9, 17, 1);
  conv_patch<Kernels, h, wide, order::nhwc, 3, 32, 1, 3, 3, 2>(1, 10, 21, 1);
  conv_patch<Kernels, h, wide, order::nchw, 1, 32, 1, 5, 5, 2, 1>(1, 10, 21, 2);
  conv_patch<Kernels, h, line, order::nchw, 2, 16, 1, 1, 7, 2>(2, 1, 45, 3);
  conv_patch<Kernels, float, wide, order::nchw, 3, 32, 1, 7, 7, 2>(1, 13, 20, 3);
  conv_patch<Kernels, h, wide, order::nchw, 5, 32, 1, 3, 3, 1>(1, 9, 17, 1);
  conv_patch<Kernels, h, wide, order::nchw, 3, 32, 1, 3, 3, 2>(1, 0, 21, 2); // no pixels
  // Where tensors lie is known by their types.
  conv_patch<Kernels, h, known_runs<wide>, order::nchw, 3, 64, 1, 7, 7, 2>(1, 22, 30, 3);
  conv_patch<Kernels, h, known_runs<groups4>, order::nhwc, 16, 16, 5, 3, 3>(1, 8, 9, 1);
  // A prologue leaves the padding zero; the image may be stored in fp32 then.
  conv_patch<Kernels, h, small, order::nhwc, 8, 8, 3, 3, 3, 1, 1, true>(1, 9, 11, 1);
  conv_patch<Kernels, float, wide, order::nchw, 3, 32, 1, 3, 3, 2, 1, true>(1, 11, 21, 1);
  conv_patch<Kernels, float, small, order::nhwc, 8, 8, 2, 3, 3, 1, 1, true>(1, 9, 7, 1);
  conv_patch_infinity<Kernels, wide, 3, 3, 2>(9, 17, 1);
  conv_patch_infinity<Kernels, wide, 3, 7, 2>(12, 20, 3);
  conv_patch_infinity<Kernels, wide, 8, 3, 1>(9, 17, 1);
}

} // namespace test
