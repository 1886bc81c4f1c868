// Defines the cases that the tests of kernels for bytes share.
#pragma once

#include "cuda/contract_mma/int8.cuh"
#include "shared/int8_cases.h"

namespace test {

/// What the kernels of all generations must do, with stages as the machine allows.
template <class Kernels, int Stages> void contractions_of_bytes() {
  using small = cuda::contract_mma_schedule<32, 32, 64, 16, 16, Stages>;
  using square = cuda::contract_mma_schedule<64, 64, 64, 32, 32, Stages>;
  using large = cuda::contract_mma_schedule<128, 128, 64, 64, 32, Stages>;
  using deep = cuda::contract_mma_schedule<32, 64, 128, 16, 32, Stages>;
  using narrow = cuda::contract_mma_schedule<64, 16, 32, 16, 16, Stages>;
  using paired = cuda::contract_mma_schedule<64, 64, 128, 32, 32, Stages, 1, 2>;
  using quartered = cuda::contract_mma_schedule<64, 64, 128, 64, 64, Stages, 1, 4>;
  using split = cuda::contract_mma_schedule<32, 64, 64, 16, 32, Stages, 3>;
  conv_int8<Kernels, int8_t, 0, small, 16, 32, 3>(1, 9, 7, 1, 1, 1);
  conv_int8<Kernels, int8_t, -128, small, 16, 32, 3>(1, 9, 7, 1, 1, 1);
  conv_int8<Kernels, uint8_t, 0, small, 16, 40, 3>(2, 9, 7, 2, 1, 1);
  conv_int8<Kernels, uint8_t, 131, square, 32, 70, 3>(3, 6, 6, 1, 1, 1);
  conv_int8<Kernels, int8_t, 5, square, 12, 24, 3>(1, 11, 9, 1, 2, 2); // words
  conv_int8<Kernels, uint8_t, 77, square, 20, 24, 1>(1, 11, 9, 1, 1, 0);
  conv_int8<Kernels, int8_t, -3, small, 3, 20, 3>(2, 11, 13, 2, 1, 1); // single bytes
  conv_int8<Kernels, uint8_t, 9, narrow, 7, 9, 5>(1, 8, 9, 1, 1, 2);
  conv_int8<Kernels, int8_t, -9, small, 16, 32, 1>(1, 5, 5, 1, 1, 0, 1); // unaligned
  conv_int8<Kernels, int8_t, 17, large, 64, 136, 3>(1, 14, 14, 1, 1, 1);
  conv_int8<Kernels, uint8_t, 0, deep, 128, 72, 1>(1, 9, 9, 1, 1, 0);
  conv_int8<Kernels, int8_t, 4, deep, 48, 72, 3>(1, 5, 9, 1, 1, 1);
  conv_int8<Kernels, int8_t, 100, split, 64, 72, 3>(1, 7, 7, 1, 1, 1);
  conv_int8<Kernels, uint8_t, 0, split, 64, 12, 3, 2>(1, 5, 5, 1, 1, 1);
  conv_int8<Kernels, int8_t, -77, small, 24, 20, 3, 3>(1, 6, 5, 1, 1, 1);
  conv_int8<Kernels, int8_t, -1, narrow, 2, 2, 3, 4>(1, 6, 5, 2, 1, 1);
  matmul_int8<Kernels, int8_t, 0, small, 64>(33, 40);
  matmul_int8<Kernels, uint8_t, 128, square, 200>(65, 70);
  matmul_int8<Kernels, uint8_t, 128, paired, 200>(65, 70); // teams along K
  matmul_int8<Kernels, uint8_t, 77, quartered, 300>(65, 70);
  conv_int8<Kernels, int8_t, 5, paired, 32, 70, 3>(1, 7, 9, 1, 1, 1);
  matmul_int8<Kernels, int8_t, -128, deep, 333>(5, 45);
  matmul_int8<Kernels, uint8_t, 3, large, 80>(130, 200);
}

} // namespace test
