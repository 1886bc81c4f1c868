// Architectures: 900a
//
// Tests of conv_wgmma_sm90, conv_tf32x3_sm90 and their matrix products; of floats with weights as
// they are, rounded to tf32 and in two parts.
#include "cuda/contract_wgmma/kernel.cuh"
#include "shared/warpgroup_cases.h"

using namespace test;

namespace {

template <class Weights> struct wgmma : Weights {
  template <class... Args> static auto conv(Args... args) { return cuda::conv_wgmma_sm90(args...); }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_wgmma_sm90(args...);
  }
};
struct f16_wgmma : wgmma<warpgroup_weights<f16>> {
  static constexpr const char *name = "wgmma";
};
struct bf16_wgmma : wgmma<warpgroup_weights<bf16>> {
  static constexpr const char *name = "wgmma";
};
struct tf32 : wgmma<tf32_weights> {
  static constexpr const char *name = "tf32";
};
/// Its sums err as those of fp32 do (tests/cuda/contract_simt/test.cu).
template <class Weights> struct three_products : Weights {
  template <class... Args> static auto conv(Args... args) {
    return cuda::conv_tf32x3_sm90(args...);
  }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_tf32x3_sm90(args...);
  }
};
struct tf32x3 : three_products<warpgroup_weights<float>> {
  static constexpr const char *name = "tf32x3";
};
struct tf32x3_parts : three_products<warpgroup_weights<float, stored_as::parts>> {
  static constexpr const char *name = "tf32x3 of parts";
};

// Two blocks at most, so that each takes several tiles.
template <int M, int N, int K, int Consumers, bool PingPong, int Stages, int Splits = 1>
using tiles = cuda::contract_wgmma_schedule<M, N, K, Consumers, PingPong, Stages, Splits, 2>;
using small = tiles<64, 32, 64, 1, false, 3>;
using thin = tiles<64, 64, 32, 1, false, 4>;
using thinnest = tiles<64, 32, 16, 1, false, 2>;
using tall = tiles<128, 64, 64, 1, false, 2>;
using shared = tiles<128, 96, 64, 2, false, 3>;
using turns = tiles<64, 64, 64, 2, true, 4>;
using wide = tiles<128, 256, 64, 2, false, 2>;
using float_small = tiles<64, 32, 32, 1, false, 3>;
using float_thin = tiles<64, 64, 16, 1, false, 4>;
using float_thinnest = tiles<64, 32, 8, 1, false, 2>;
using float_shared = tiles<128, 96, 32, 2, false, 2>;
using float_large = tiles<128, 128, 32, 2, false, 3>;
using float_turns = tiles<64, 64, 32, 2, true, 3>;
using float_three = tiles<192, 64, 32, 3, false, 3>;
template <int S> using float_split = tiles<128, 64, 32, 2, false, 3, S>;
template <int S> using split = tiles<64, 64, 64, 1, false, 3, S>;
template <int S> using split_shared = tiles<128, 32, 32, 2, false, 3, S>;
template <int S> using split_turns = tiles<64, 32, 32, 2, true, 3, S>;
using three = tiles<192, 64, 64, 3, false, 3>;
using four = tiles<256, 64, 32, 4, false, 3>;
using tall_pair = tiles<256, 128, 64, 2, false, 2>;
using wide_turns = tiles<64, 192, 64, 2, true, 3>;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  conv<f16_wgmma, f16, small, 64, 32, 1>(1, 8, 9, 1, 1, 0);
  conv<f16_wgmma, f16, small, 8, 40, 3>(2, 9, 7, 1, 1, 1);
  conv<f16_wgmma, f16, known_runs<small>, 8, 40, 3>(2, 9, 7, 1, 1, 1);
  conv<f16_wgmma, f16, known_runs<thin>, 24, 70, 3>(1, 11, 13, 2, 1, 1);
  conv<f16_wgmma, f16, thin, 24, 70, 3>(1, 11, 13, 2, 1, 1);
  conv<f16_wgmma, f16, thinnest, 16, 33, 5>(3, 12, 6, 3, 2, 4);
  conv<f16_wgmma, f16, tall, 72, 64, 3>(1, 15, 14, 1, 1, 1);
  conv<f16_wgmma, f16, shared, 64, 130, 3>(2, 9, 10, 1, 1, 0);
  conv<f16_wgmma, f16, turns, 40, 72, 3>(2, 10, 12, 1, 1, 1);
  conv<f16_wgmma, f16, small, 64, 20, 3, 3>(1, 7, 6, 1, 1, 1);
  conv<f16_wgmma, f16, thinnest, 32, 8, 3, 2>(2, 6, 5, 1, 2, 2);
  conv<f16_wgmma, f16, split<3>, 64, 72, 3>(1, 10, 10, 1, 1, 1);
  conv<f16_wgmma, f16, split_shared<4>, 32, 40, 3>(3, 7, 7, 1, 1, 1);
  conv<f16_wgmma, f16, three, 72, 72, 3>(2, 15, 15, 1, 1, 1);
  conv<f16_wgmma, f16, four, 40, 72, 3>(2, 17, 15, 1, 1, 1);
  conv<f16_wgmma, f16, tall_pair, 72, 200, 3>(2, 14, 15, 1, 1, 1);
  conv<f16_wgmma, f16, wide_turns, 136, 200, 1>(1, 13, 13, 1, 1, 0);
  conv<f16_wgmma, f16, small, 64, 32, 1, 1, true>(1, 8, 9, 1, 1, 0);
  conv<f16_wgmma, f16, shared, 200, 70, 1, 1, true>(2, 9, 10, 1, 1, 0);
  conv<f16_wgmma, f16, thin, 72, 40, 1, 1, true>(1, 11, 13, 2, 1, 0);
  conv<f16_wgmma, f16, thinnest, 40, 33, 1, 1, true>(3, 5, 6, 1, 1, 0);
  conv<f16_wgmma, f16, small, 64, 20, 1, 3, true>(1, 7, 6, 1, 1, 0);
  conv<f16_wgmma, f16, turns, 136, 200, 1, 1, true>(1, 13, 13, 1, 1, 0);
  conv<f16_wgmma, f16, wide, 72, 264, 1, 1, true>(1, 13, 11, 1, 1, 0);
  conv<bf16_wgmma, bf16, tall, 96, 64, 1, 1, true>(1, 15, 14, 1, 1, 0);
  conv<f16_wgmma, f16, split_shared<4>, 328, 40, 1, 1, true>(3, 7, 7, 1, 1, 0);
  conv<f16_wgmma, f16, split_turns<2>, 136, 70, 1, 1, true>(2, 9, 9, 1, 1, 0);
  matmul<f16_wgmma, f16, small, 72, true>(2, 70, 40, false);
  matmul<f16_wgmma, f16, small, 72, false>(2, 33, 40, false);
  matmul<f16_wgmma, f16, turns, 200, false>(1, 150, 136, false);
  matmul<f16_wgmma, f16, thin, 24, true>(1, 65, 70, false);
  matmul<f16_wgmma, f16, shared, 64, false>(1, 130, 104, false);
  matmul<f16_wgmma, f16, wide, 136, false>(1, 140, 300, true);
  matmul<f16_wgmma, f16, turns, 328, false>(3, 70, 200, true);
  matmul<bf16_wgmma, bf16, small, 96, false>(2, 40, 48, true);
  floats<tf32, float_small, float_thin, float_thinnest, float_shared, float_large>();
  floats<tf32x3, float_small, float_thin, float_thinnest, float_shared, float_large>();
  floats<tf32x3_parts, float_small, float_thin, float_thinnest, float_shared, float_large>();
  conv<tf32x3, float, float_turns, 68, 200, 1>(1, 13, 13, 2, 1, 0);
  conv<tf32x3_parts, float, float_turns, 68, 200, 1>(1, 13, 13, 2, 1, 0);
  conv<tf32x3_parts, float, float_three, 72, 72, 3>(2, 15, 15, 1, 1, 1);
  matmul<tf32x3, float, float_thin, 36, true>(1, 65, 70, false);
  volumes<f16_wgmma, f16, thinnest, 16>();
  volumes<bf16_wgmma, bf16, shared, 40>();
  volume<f16_wgmma, f16, thin, 32, 24, 3, 3, 3, 2>(2, {5, 4, 6}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1});
#endif
  conv<f16_wgmma, f16, split_turns<2>, 32, 70, 3>(2, 9, 9, 1, 1, 1);
  conv<bf16_wgmma, bf16, thin, 32, 64, 3>(1, 9, 9, 1, 1, 1);
  conv<f16_wgmma, f16, turns, 136, 200, 1>(1, 13, 13, 2, 1, 0);
  conv<tf32x3, float, float_split<3>, 32, 72, 3>(1, 10, 10, 1, 1, 1);
  conv<tf32x3_parts, float, float_split<4>, 200, 40, 1, 1, true>(3, 7, 7, 1, 1, 0);
  volume<f16_wgmma, f16, split<2>, 72, 24, 3, 2, 3>(1, {5, 4, 9}, {1, 1, 1}, {1, 1, 2}, {2, 1, 1});
  conv<tf32, float, float_thin, 24, 70, 3>(1, 11, 13, 2, 1, 1);
  return finish();
}
