// Defines what the tests of operands of 8 bits share: schedules.
#pragma once

#include "cuda/contract_wgmma/kernel.cuh"
#include "shared/harness.h"

namespace test {

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

} // namespace test
