// Architectures: 750
//
// Tests of conv_mma_sm75 and matmul_mma_sm75.
#include "cuda/contract_mma/sm75.cuh"
#include "shared/volume_cases.h"

using namespace test;

namespace {

struct mma {
  static constexpr const char *name = "mma_sm75";
  using weight = f16;
  using packing = tiled_weights;
  /// fp16 operands are exact here; sums are fp32; fp32 operands lose what fp16 cannot hold.
  template <class T> static constexpr double tolerance() { return 2e-3; }
  template <class... Args> static auto conv(Args... args) { return cuda::conv_mma_sm75(args...); }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_mma_sm75(args...);
  }
};
/// Groups whose filters fill no tiles.
struct mma_rows : mma {
  static constexpr const char *name = "mma of rows";
  using packing = row_weights;
};
using small = cuda::contract_mma_schedule<32, 32, 32, 16, 16, 2>;
using square = cuda::contract_mma_schedule<64, 64, 32, 32, 32, 3>;
using large = cuda::contract_mma_schedule<128, 128, 64, 64, 32, 3>;
using narrow = cuda::contract_mma_schedule<64, 16, 16, 16, 16, 4>;
using paired = cuda::contract_mma_schedule<64, 64, 64, 32, 32, 2, 1, 2>;
template <int S> using split = cuda::contract_mma_schedule<32, 64, 32, 16, 32, 3, S>;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  conv<mma, f16, small, 8, 32, 3>(1, 9, 7, 1, 1, 1);
  conv<mma, f16, small, 3, 20, 3>(2, 11, 13, 2, 1, 1);
  conv<mma, f16, small, 16, 33, 5>(1, 12, 6, 3, 2, 4);
  conv<mma, f16, small, 8, 32, 1>(1, 5, 5, 1, 1, 0, 1);
  conv<mma, f16, square, 32, 70, 3>(3, 6, 6, 1, 1, 1);
  conv<mma, f16, square, 24, 5, 1>(1, 17, 9, 1, 1, 0);
  conv<mma, f16, large, 64, 136, 3>(1, 14, 14, 1, 1, 1);
  conv<mma, f16, narrow, 40, 12, 3>(1, 9, 9, 1, 1, 1);
  conv<mma, f16, small, 8, 8, 3, 3>(2, 6, 5, 1, 1, 1);
  conv<mma, f16, small, 2, 2, 3, 4>(1, 6, 5, 2, 1, 1, 3);
  conv<mma, f16, split<3>, 32, 72, 3>(1, 7, 7, 1, 1, 1);
  conv<mma_rows, f16, small, 24, 24, 3, 3>(1, 6, 5, 1, 1, 1);
  conv<mma_rows, f16, square, 72, 104, 3, 2>(1, 7, 9, 2, 1, 1);
  conv<mma_rows, f16, narrow, 20, 10, 3, 3>(1, 6, 5, 1, 1, 1, 1);
  conv<mma_rows, f16, split<2>, 40, 72, 1, 2>(1, 5, 9, 1, 1, 0);
  conv_known_runs<mma, mma_rows, small, square>();
  conv<mma, f16, small, 64, 32, 1, 1, true>(1, 8, 9, 1, 1, 0);
  conv<mma, f16, square, 200, 70, 1, 1, true>(2, 9, 10, 1, 1, 0);
  conv<mma, f16, small, 72, 40, 1, 3, true>(1, 11, 13, 2, 1, 0);
  conv<mma, f16, square, 6, 40, 1, 1, true>(1, 5, 6, 1, 1, 0);
  conv_prologue<mma, float, square, 16>();
  matmul<mma, f16, small, 24, false>(3, 10, 37, false);
  matmul<mma, f16, small, 24, false>(1, 33, 40, false);
  matmul<mma, f16, small, 7, true>(2, 40, 9, false);
  matmul<mma, f16, square, 50, true>(1, 65, 70, false);
  matmul<mma, f16, small, 40, false>(2, 5, 45, true);
  matmul<mma, f16, large, 33, false>(1, 130, 64, true);
  conv<mma, f16, paired, 40, 72, 3>(1, 9, 7, 1, 1, 1); // teams along K
  volumes<mma, f16, small, 8>();
#endif
  conv<mma, float, small, 8, 16, 3>(1, 8, 8, 1, 1, 1);
  conv<mma, f16, split<2>, 8, 12, 3, 2>(1, 5, 5, 1, 1, 1);
  conv_prologue<mma, f16, small, 6>();
  volume<mma, f16, split<3>, 32, 72, 3, 2, 3>(1, {4, 5, 5}, {1, 1, 1}, {1, 1, 1}, {1, 0, 1});
  return finish();
}
