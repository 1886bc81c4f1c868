// Defines the kernels under test, and their schedules.
#pragma once

#include "cuda/contract_cluster/kernel.cuh"
#include "cuda/tile/split_k.cuh"
#include "shared/harness.h"

namespace test {

/// Without scratch, which other kernels need to split K.
struct cluster_kernels {
  template <class Cfg, class X, class W, class Outs, class Ins, class Body, class... Prologue>
  static auto conv(Cfg cfg, X x, W w, Outs outs, Ins ins, Body body, cuda::split_scratch,
                   Prologue... prologue) {
    return cuda::conv_cluster_sm90(cfg, x, w, outs, ins, body, prologue...);
  }
  template <class Cfg, class X, class W, class Outs, class Ins, class Body>
  static auto matmul(Cfg cfg, X x, W w, Outs outs, Ins ins, Body body, cuda::split_scratch = {}) {
    return cuda::matmul_cluster_sm90(cfg, x, w, outs, ins, body);
  }
};

template <int M, int N, int K, int Consumers, int Stages, int S>
using part = cuda::contract_cluster_schedule<M, N, K, Consumers, Stages, S>;

} // namespace test
