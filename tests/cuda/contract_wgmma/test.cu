// Architectures: 900a
//
// Tests of conv_wgmma_sm90, conv_cluster_sm90, conv_halo_sm90, conv_tf32x3_sm90 and their matrix
// products; of floats with weights as they are, rounded to tf32 and in two parts.
#include "cuda/contract_cluster/kernel.cuh"
#include "cuda/contract_halo/kernel.cuh"
#include "cuda/contract_wgmma/kernel.cuh"
#include "shared/volume_cases.h"

using namespace test;

namespace {

template <class T> struct wgmma {
  using weight = T;
  using packing = rounded_rows<16 / sizeof(T)>;
  /// Operands are exact; sums are fp32; results of 16 bits are rounded.
  template <class U> static constexpr double tolerance() { return rounding<U>() + 1e-6; }
  template <class... Args> static auto conv(Args... args) { return cuda::conv_wgmma_sm90(args...); }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_wgmma_sm90(args...);
  }
};
struct f16_wgmma : wgmma<f16> {
  static constexpr const char *name = "wgmma";
};
struct bf16_wgmma : wgmma<bf16> {
  static constexpr const char *name = "wgmma";
};
/// Without scratch.
template <class T> struct cluster : wgmma<T> {
  template <class Cfg, class X, class W, class Outs, class Ins, class Body, class... Prologue>
  static auto conv(Cfg cfg, X x, W w, Outs outs, Ins ins, Body body, cuda::split_scratch,
                   Prologue... prologue) {
    return cuda::conv_cluster_sm90(cfg, x, w, outs, ins, body, prologue...);
  }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_cluster_sm90(args...);
  }
};
struct f16_cluster : cluster<f16> {
  static constexpr const char *name = "cluster";
};
struct bf16_cluster : cluster<bf16> {
  static constexpr const char *name = "cluster";
};
/// Without scratch or a prologue.
template <class T> struct halo : wgmma<T> {
  static constexpr const char *name = "halo";
  template <class Cfg, class X, class W, class Outs, class Ins, class Body>
  static auto conv(Cfg cfg, X x, W w, Outs outs, Ins ins, Body body, cuda::split_scratch) {
    return cuda::conv_halo_sm90(cfg, x, w, outs, ins, body);
  }
};
using f16_halo = halo<f16>;
using bf16_halo = halo<bf16>;
struct tf32x3 {
  static constexpr const char *name = "tf32x3";
  using weight = float;
  using packing = rounded_rows<4>;
  /// That of fp32 (tests/cuda/contract_simt/test.cu).
  template <class U> static constexpr double tolerance() { return rounding<U>() + 1e-6; }
  template <class... Args> static auto conv(Args... args) {
    return cuda::conv_tf32x3_sm90(args...);
  }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_tf32x3_sm90(args...);
  }
};
struct tf32x3_parts : tf32x3 {
  static constexpr const char *name = "tf32x3 of parts";
  using packing = rounded_rows<4, stored_as::parts>;
};
struct tf32x3_cluster : cluster<float> {
  static constexpr const char *name = "tf32x3 cluster";
  using packing = rounded_rows<4, stored_as::parts>;
};
/// As of 10 bits that are rounded: cut off, they would err by more.
struct tf32 : wgmma<float> {
  static constexpr const char *name = "tf32";
  using packing = rounded_rows<4, stored_as::rounded>;
  template <class U> static constexpr double tolerance() { return 4e-4; }
};
struct tf32_cluster : cluster<float> {
  static constexpr const char *name = "tf32 cluster";
  using packing = tf32::packing;
  template <class U> static constexpr double tolerance() { return tf32::tolerance<U>(); }
};

/// Floats, by kernels whose weights are stored in one way.
template <class Kernels, class Small, class Thin, class Thinnest, class Shared, class Large>
void floats() {
  conv<Kernels, float, Small, 32, 32, 1>(1, 8, 9, 1, 1, 0);
  conv<Kernels, float, Small, 12, 40, 3>(2, 9, 7, 1, 1, 1);
  conv<Kernels, float, known_runs<Thin>, 24, 70, 3>(1, 11, 13, 2, 1, 1);
  conv<Kernels, float, Thinnest, 8, 33, 5>(3, 12, 6, 3, 2, 4);
  conv<Kernels, float, Shared, 32, 130, 3>(2, 9, 10, 1, 1, 0);
  conv<Kernels, float, Large, 64, 200, 3>(2, 9, 10, 1, 1, 1);
  conv<Kernels, float, Small, 32, 20, 3, 3>(1, 7, 6, 1, 1, 1);
  conv<Kernels, float, Small, 68, 40, 1, 1, true>(1, 11, 13, 2, 1, 0);
  conv<Kernels, float, Shared, 200, 130, 1, 1, true>(2, 9, 10, 1, 1, 0);
  matmul<Kernels, float, Small, 72, true>(2, 70, 40, true);
  matmul<Kernels, float, Large, 200, true>(1, 150, 136, true);
  volumes<Kernels, float, Thin, 16>();
}

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
template <int M, int N, int K, int Consumers, int Stages, int S>
using part = cuda::contract_cluster_schedule<M, N, K, Consumers, Stages, S>;
template <int S> using float_part_small = part<64, 32, 32, 1, 3, S>;
template <int S> using float_part_thin = part<64, 32, 8, 1, 4, S>;
template <int S> using float_part_pair = part<64, 128, 32, 2, 3, S>;
template <int S> using float_part_tall = part<128, 64, 32, 2, 2, S>;
template <int S> using part_small = part<64, 32, 64, 1, 3, S>;
template <int S> using part_thin = part<64, 32, 32, 1, 4, S>;
template <int S> using part_square = part<64, 64, 64, 1, 2, S>;
template <int S> using part_pair = part<64, 64, 64, 2, 3, S>; // columns are shared
template <int S> using part_wide = part<64, 128, 32, 2, 3, S>;
template <int S> using part_tall = part<128, 64, 64, 2, 3, S>;
template <int S> using part_large = part<128, 128, 64, 2, 3, S>;
template <int M, int N, int K, int Consumers, int Stages>
struct covered : cuda::contract_halo_schedule<M, N, K, Consumers, Stages, 2> {
  static constexpr int splits = 1;
};
using covered_small = covered<64, 32, 64, 3, 2>;
using covered_square = covered<64, 64, 64, 2, 3>;
using covered_tall = covered<128, 32, 32, 1, 2>;
using covered_wide = covered<64, 128, 16, 2, 2>;
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
  conv<f16_cluster, f16, part_small<1>, 64, 32, 1>(1, 8, 9, 1, 1, 0);
  conv<f16_cluster, f16, known_runs<part_small<1>>, 8, 40, 3>(2, 9, 7, 1, 1, 1);
  conv<f16_cluster, f16, part_square<1>, 136, 70, 3>(2, 9, 9, 2, 1, 1);
  conv<f16_cluster, f16, part_tall<1>, 72, 136, 3>(2, 11, 9, 1, 2, 2);
  conv<f16_cluster, f16, part_small<1>, 64, 20, 3, 3>(1, 7, 6, 1, 1, 1);
  conv<f16_cluster, f16, part_pair<1>, 72, 136, 3>(2, 9, 9, 1, 1, 1);
  conv<f16_cluster, f16, part_wide<1>, 40, 136, 1>(2, 9, 9, 1, 1, 0);
  conv<f16_cluster, f16, part_pair<2>, 72, 70, 3>(2, 9, 9, 1, 1, 1);
  conv<f16_cluster, f16, part_pair<4>, 72, 136, 3>(1, 9, 9, 1, 1, 1);
  conv<f16_cluster, f16, part_pair<8>, 72, 72, 3>(1, 9, 9, 1, 1, 1);
  conv<f16_cluster, f16, part_wide<3>, 136, 136, 1, 1, true>(2, 9, 9, 1, 1, 0);
  conv<f16_cluster, f16, part_square<2>, 64, 72, 3>(1, 10, 10, 1, 1, 1);
  conv<f16_cluster, f16, part_thin<8>, 32, 40, 3>(3, 7, 7, 1, 1, 1);
  conv<f16_cluster, f16, part_small<8>, 136, 70, 1>(1, 9, 9, 1, 1, 0); // parts without a step
  conv<f16_cluster, f16, part_large<4>, 40, 136, 3>(2, 9, 9, 2, 1, 1);
  conv<f16_cluster, f16, part_thin<4>, 136, 70, 1, 1, true>(2, 9, 9, 1, 1, 0);
  conv<f16_cluster, f16, part_large<1>, 200, 70, 1, 1, true>(2, 9, 10, 1, 1, 0);
  conv<f16_halo, f16, known_runs<covered_small>, 72, 40, 3>(3, 9, 13, 1, 1, 1);
  conv<f16_halo, f16, covered_small, 136, 72, 3>(1, 25, 17, 1, 2, 2);
  conv<f16_halo, f16, covered_small, 8, 20, 5>(2, 13, 9, 1, 1, 3);
  conv<f16_halo, f16, covered_square, 64, 64, 3>(2, 17, 15, 1, 1, 0);
  // More tiles of filters than blocks.
  conv<f16_halo, f16, covered_square, 128, 136, 3>(5, 7, 7, 1, 1, 1);
  conv<f16_halo, f16, covered_tall, 32, 32, 2>(1, 34, 18, 1, 1, 1);
  conv<bf16_halo, bf16, known_runs<covered_wide>, 16, 40, 3>(1, 8, 8, 1, 3, 3);
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
  matmul<f16_cluster, f16, part_square<4>, 328, false>(3, 70, 100, true);
  matmul<f16_cluster, f16, part_small<1>, 72, false>(2, 33, 40, false);
  matmul<f16_cluster, f16, part_wide<2>, 72, false>(2, 70, 72, true);
  matmul<bf16_cluster, bf16, part_tall<1>, 328, true>(2, 150, 72, true);
  floats<tf32, float_small, float_thin, float_thinnest, float_shared, float_large>();
  floats<tf32x3, float_small, float_thin, float_thinnest, float_shared, float_large>();
  floats<tf32x3_parts, float_small, float_thin, float_thinnest, float_shared, float_large>();
  conv<tf32x3, float, float_turns, 68, 200, 1>(1, 13, 13, 2, 1, 0);
  conv<tf32x3_parts, float, float_turns, 68, 200, 1>(1, 13, 13, 2, 1, 0);
  conv<tf32x3_parts, float, float_three, 72, 72, 3>(2, 15, 15, 1, 1, 1);
  matmul<tf32x3, float, float_thin, 36, true>(1, 65, 70, false);
  floats<tf32x3_cluster, float_part_small<1>, float_part_thin<1>, float_part_thin<2>,
         float_part_pair<2>, float_part_tall<4>>();
  volumes<f16_wgmma, f16, thinnest, 16>();
  volumes<bf16_wgmma, bf16, shared, 40>();
  volume<f16_wgmma, f16, thin, 32, 24, 3, 3, 3, 2>(2, {5, 4, 6}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1});
  volumes<f16_cluster, f16, part_square<2>, 40>();
#endif
  conv<f16_wgmma, f16, split_turns<2>, 32, 70, 3>(2, 9, 9, 1, 1, 1);
  conv<bf16_wgmma, bf16, thin, 32, 64, 3>(1, 9, 9, 1, 1, 1);
  conv<f16_wgmma, f16, turns, 136, 200, 1>(1, 13, 13, 2, 1, 0);
  conv<f16_cluster, f16, part_thin<3>, 136, 70, 3>(2, 9, 9, 1, 1, 1);
  matmul<bf16_cluster, bf16, part_large<2>, 200, false>(1, 150, 136, true);
  conv<f16_halo, f16, covered_small, 64, 32, 3>(2, 16, 24, 1, 1, 1);
  conv<bf16_halo, bf16, covered_wide, 24, 128, 3>(2, 11, 10, 1, 1, 1);
  conv<f16_halo, f16, covered_tall, 40, 33, 3>(2, 20, 11, 1, 1, 1);
  conv<tf32x3, float, float_split<3>, 32, 72, 3>(1, 10, 10, 1, 1, 1);
  conv<tf32x3_parts, float, float_split<4>, 200, 40, 1, 1, true>(3, 7, 7, 1, 1, 0);
  conv<tf32_cluster, float, float_part_small<8>, 72, 72, 3>(1, 9, 9, 1, 1, 1);
  volume<f16_wgmma, f16, split<2>, 72, 24, 3, 2, 3>(1, {5, 4, 9}, {1, 1, 1}, {1, 1, 2}, {2, 1, 1});
  conv<tf32, float, float_thin, 24, 70, 3>(1, 11, 13, 2, 1, 1);
  return finish();
}
