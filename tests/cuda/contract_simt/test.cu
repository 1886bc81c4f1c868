// Architectures: 750 800
//
// Tests of conv_simt and matmul_simt.
#include "cuda/contract_simt/kernel.cuh"
#include "shared/volume_cases.h"

using namespace test;

namespace {

struct simt {
  static constexpr const char *name = "simt";
  using weight = float;
  using packing = tiled_weights;
  template <class T> static constexpr double tolerance() { return rounding<T>() + 1e-6; }
  template <class... Args> static auto conv(Args... args) { return cuda::conv_simt(args...); }
  template <class... Args> static auto matmul(Args... args) { return cuda::matmul_simt(args...); }
};
using small = cuda::contract_simt_schedule<32, 32, 8, 4, 4, 2>;
using deep = cuda::contract_simt_schedule<64, 64, 16, 4, 4, 3>;
using wide = cuda::contract_simt_schedule<128, 64, 16, 8, 8, 2>;
using widest = cuda::contract_simt_schedule<128, 96, 16, 8, 12, 3>;
template <int S> using split = cuda::contract_simt_schedule<32, 32, 8, 4, 4, 2, S>;
/// Teams that share tiles.
using two_teams = cuda::contract_simt_schedule<32, 48, 16, 4, 4, 3, 1, 2>;
template <int S> using four_teams = cuda::contract_simt_schedule<64, 96, 32, 8, 8, 3, S, 4>;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  conv<simt, float, small, 8, 32, 3>(1, 9, 7, 1, 1, 1);
  conv<simt, float, small, 3, 20, 3>(2, 11, 13, 2, 1, 1);
  conv<simt, float, small, 3, 33, 5>(1, 12, 6, 3, 2, 4);
  conv<simt, float, small, 8, 32, 1>(1, 5, 5, 1, 1, 0, 1);
  conv<simt, float, deep, 16, 70, 3>(3, 6, 6, 1, 1, 1);
  conv<simt, float, deep, 20, 5, 1>(1, 17, 9, 1, 1, 0);
  conv<simt, float, wide, 12, 64, 3>(1, 14, 14, 1, 1, 1);
  conv<simt, float, widest, 12, 100, 3>(1, 13, 11, 1, 1, 1);
  conv<simt, float, widest, 4, 96, 1>(1, 3, 5, 1, 1, 0);
  conv<simt, float, small, 4, 6, 3, 3>(2, 6, 5, 1, 1, 1);
  conv<simt, float, small, 2, 2, 3, 4>(1, 6, 5, 2, 1, 1, 3);
  conv<simt, f16, small, 5, 16, 3>(1, 8, 8, 1, 1, 1, 1);
  conv<simt, float, split<4>, 4, 8, 1>(2, 9, 9, 1, 1, 0);
  conv<simt, float, split<2>, 9, 12, 3, 2>(1, 5, 5, 1, 1, 1);
  conv<simt, float, two_teams, 12, 50, 3>(1, 7, 9, 1, 1, 1);
  conv<simt, float, two_teams, 5, 16, 3>(2, 6, 5, 2, 1, 1);
  conv<simt, float, four_teams<1>, 16, 100, 3>(1, 9, 8, 1, 1, 1);
  conv_prologue<simt, float, small, 6>();
  conv_prologue<simt, float, deep, 16>();
  matmul<simt, float, small, 24, false>(3, 10, 37, false);
  matmul<simt, float, small, 24, false>(1, 33, 40, false);
  matmul<simt, float, small, 7, true>(2, 40, 9, false);
  matmul<simt, float, deep, 50, true>(1, 65, 70, false);
  matmul<simt, float, small, 12, false>(2, 5, 45, true);
  matmul<simt, float, two_teams, 37, true>(2, 40, 50, false);
  matmul<simt, float, four_teams<1>, 100, false>(1, 70, 97, true);
  matmul<simt, float, wide, 33, false>(1, 130, 64, true);
  matmul<simt, float, widest, 70, true>(1, 130, 192, false);
  volumes<simt, float, small, 4>();
  volume<simt, f16, split<3>, 16, 40, 3, 2, 3>(1, {4, 5, 5}, {1, 1, 1}, {1, 1, 1}, {1, 0, 1});
#endif
  conv<simt, f16, small, 8, 16, 3>(1, 8, 8, 1, 1, 1);
  conv<simt, float, split<3>, 16, 40, 3>(1, 7, 7, 1, 1, 1);
  conv<simt, float, four_teams<3>, 40, 96, 3>(1, 5, 5, 1, 1, 1);
  conv_prologue<simt, float, two_teams, 6>();
  volume<simt, float, deep, 3, 20, 3, 3, 3>(1, {4, 5, 6}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, 1);
  return finish();
}
