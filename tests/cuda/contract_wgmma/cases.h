// Defines what the tests of operands of 8 bits share: the kernels of clusters, and schedules.
#pragma once

#include "cuda/contract_cluster/kernel.cuh"
#include "cuda/contract_wgmma/kernel.cuh"
#include "shared/harness.h"

namespace test {

/// Kernels that split K over the blocks of a cluster need no scratch for it.
struct cluster_kernels {
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
using three = tiles<192, 64, 128, 3, false, 3>;
using four = tiles<256, 64, 64, 4, false, 3>;
using turns = tiles<64, 64, 128, 2, true, 4>;
template <int S> using split = tiles<64, 64, 128, 1, false, 3, S>;
template <int S> using split_shared = tiles<128, 32, 64, 2, false, 3, S>;
template <int S> using part = cuda::contract_cluster_schedule<64, 32, 128, 1, 3, S>;
template <int S> using part_pair = cuda::contract_cluster_schedule<64, 64, 64, 2, 3, S>;
template <int S> using part_tall = cuda::contract_cluster_schedule<128, 64, 128, 2, 2, S>;

} // namespace test
