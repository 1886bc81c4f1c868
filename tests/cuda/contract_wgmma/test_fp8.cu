// Architectures: 900a
//
// Tests of f8e4m3 in conv_wgmma_sm90, matmul_wgmma_sm90, conv_cluster_sm90 and matmul_cluster_sm90.
#include "cuda/contract_cluster/kernel.cuh"
#include "cuda/contract_wgmma/kernel.cuh"
#include "shared/fp8_cases.h"

using namespace test;

namespace {

struct fp8 {
  static constexpr const char *name = "fp8 wgmma";
  using packing = rounded_rows<16>;
  template <class... Args> static auto conv(Args... args) { return cuda::conv_wgmma_sm90(args...); }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_wgmma_sm90(args...);
  }
};

struct cluster : fp8 {
  static constexpr const char *name = "fp8 cluster";
  template <class Cfg, class X, class W, class Outs, class Ins, class Body>
  static auto conv(Cfg cfg, X x, W w, Outs outs, Ins ins, Body body, cuda::split_scratch) {
    return cuda::conv_cluster_sm90(cfg, x, w, outs, ins, body);
  }
  template <class Cfg, class X, class W, class Outs, class Ins, class Body>
  static auto matmul(Cfg cfg, X x, W w, Outs outs, Ins ins, Body body, cuda::split_scratch) {
    return cuda::matmul_cluster_sm90(cfg, x, w, outs, ins, body);
  }
};

// Two blocks at most, so that each takes several tiles.
template <int M, int N, int K, int Consumers, bool PingPong, int Stages, int Splits = 1>
using tiles = cuda::contract_wgmma_schedule<M, N, K, Consumers, PingPong, Stages, Splits, 2>;
using small = tiles<64, 32, 128, 1, false, 3>;
using thin = tiles<64, 64, 64, 1, false, 4>;
using thinnest = tiles<64, 32, 32, 1, false, 2>;
using wide = tiles<64, 128, 128, 1, false, 2>;
using shared = tiles<128, 128, 128, 2, false, 3>;
using three = tiles<192, 64, 128, 3, false, 3>;
using four = tiles<256, 64, 64, 4, false, 3>;
using turns = tiles<64, 64, 128, 2, true, 4>;
template <int S> using split = tiles<64, 64, 128, 1, false, 3, S>;
template <int S> using split_shared = tiles<128, 32, 64, 2, false, 3, S>;
template <int S> using part = cuda::contract_cluster_schedule<64, 32, 128, 1, 3, S>;
template <int S> using part_pair = cuda::contract_cluster_schedule<64, 64, 64, 2, 3, S>;
template <int S> using part_tall = cuda::contract_cluster_schedule<128, 64, 128, 2, 2, S>;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  conv_fp8<fp8, small, 128, 32, 1>(1, 8, 9, 1, 1, 0);
  conv_fp8<fp8, small, 16, 40, 3>(2, 9, 7, 1, 1, 1);
  conv_fp8<fp8, thin, 48, 70, 3>(1, 11, 13, 2, 1, 1);
  conv_fp8<fp8, thinnest, 32, 33, 5>(3, 12, 6, 3, 2, 4);
  conv_fp8<fp8, wide, 144, 130, 1>(1, 13, 11, 1, 1, 0);
  conv_fp8<fp8, three, 128, 130, 1>(2, 15, 14, 1, 1, 0);
  conv_fp8<fp8, four, 64, 70, 3>(3, 12, 10, 1, 1, 1);
  conv_fp8<fp8, turns, 80, 72, 3>(2, 10, 12, 1, 1, 1);
  conv_fp8<fp8, small, 128, 20, 3, 3>(1, 7, 6, 1, 1, 1);
  conv_fp8<fp8, split_shared<4>, 64, 40, 3>(3, 7, 7, 1, 1, 1);
  conv_fp8<cluster, part<1>, 128, 32, 1>(1, 8, 9, 1, 1, 0);
  conv_fp8<cluster, part<4>, 144, 40, 3>(2, 9, 7, 1, 1, 1);
  conv_fp8<cluster, part_tall<2>, 128, 20, 3, 3>(1, 7, 6, 1, 1, 1);
  matmul_fp8<cluster, part<8>, 1040>(65, 70);
  matmul_fp8<cluster, part_pair<1>, 144>(70, 40);
  matmul_fp8<fp8, turns, 400>(150, 136);
  matmul_fp8<fp8, small, 4096>(33, 40, 0); // long sums that grow
  matmul_fp8<fp8, shared, 2048>(130, 104, 0);
  matmul_fp8<cluster, part_tall<1>, 2048>(65, 40, 0);
  matmul_fp8<cluster, part<4>, 4096>(33, 40, 0);
#endif
  conv_fp8<fp8, split<3>, 128, 72, 3>(1, 10, 10, 1, 1, 1);
  matmul_fp8<fp8, shared, 144>(130, 104);
  conv_fp8<cluster, part_pair<8>, 128, 72, 3>(1, 9, 10, 1, 1, 1);
  return finish();
}
