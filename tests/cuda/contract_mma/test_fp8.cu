// Architectures: 890
//
// Tests of conv_fp8_sm89 and matmul_fp8_sm89.
#include "cuda/contract_mma/fp8.cuh"
#include "shared/fp8_cases.h"

using namespace test;

namespace {

struct fp8 {
  static constexpr const char *name = "fp8";
  using packing = row_weights;
  template <class... Args> static auto conv(Args... args) { return cuda::conv_fp8_sm89(args...); }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_fp8_sm89(args...);
  }
};

using small = cuda::contract_mma_schedule<32, 32, 64, 16, 16, 3>;
using square = cuda::contract_mma_schedule<64, 64, 64, 32, 32, 3>;
using large = cuda::contract_mma_schedule<128, 128, 64, 64, 32, 3>;
using deep = cuda::contract_mma_schedule<32, 64, 128, 16, 32, 3>;
using narrow = cuda::contract_mma_schedule<64, 16, 32, 16, 16, 4>;
using paired = cuda::contract_mma_schedule<64, 64, 256, 32, 32, 2, 1, 2>;
using quartered = cuda::contract_mma_schedule<64, 64, 128, 64, 64, 3, 1, 4>;
using split = cuda::contract_mma_schedule<32, 64, 64, 16, 32, 3, 3>;
using tall = cuda::contract_mma_schedule<256, 64, 64, 64, 64, 3>; // a thread brings 128 elements

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  conv_fp8<fp8, small, 16, 32, 3>(1, 9, 7, 1, 1, 1);
  conv_fp8<fp8, small, 16, 40, 3>(2, 9, 7, 2, 1, 1);
  conv_fp8<fp8, square, 12, 24, 3>(1, 11, 9, 1, 2, 2); // words
  conv_fp8<fp8, small, 3, 20, 3>(2, 11, 13, 2, 1, 1);  // single bytes
  conv_fp8<fp8, narrow, 7, 9, 5>(1, 8, 9, 1, 1, 2);
  conv_fp8<fp8, small, 16, 32, 1>(1, 5, 5, 1, 1, 0, 1); // unaligned
  conv_fp8<fp8, large, 64, 136, 3>(1, 14, 14, 1, 1, 1);
  conv_fp8<fp8, deep, 48, 72, 3>(1, 5, 9, 1, 1, 1);
  conv_fp8<fp8, split, 64, 12, 3, 2>(1, 5, 5, 1, 1, 1);
  conv_fp8<fp8, paired, 32, 70, 3>(1, 7, 9, 1, 1, 1);
  matmul_fp8<fp8, small, 64>(33, 40);
  matmul_fp8<fp8, square, 200>(65, 70);
  matmul_fp8<fp8, quartered, 300>(65, 70);
  matmul_fp8<fp8, deep, 333>(5, 45);
  matmul_fp8<fp8, deep, 4096>(33, 40, true); // long sums that grow
  matmul_fp8<fp8, paired, 4096>(33, 40, true);
  matmul_fp8<fp8, split, 2048>(33, 70, true);
#endif
  conv_fp8<fp8, split, 64, 72, 3>(1, 7, 7, 1, 1, 1);
  matmul_fp8<fp8, large, 80>(130, 200);
  matmul_fp8<fp8, tall, 80>(300, 72);
  return finish();
}
