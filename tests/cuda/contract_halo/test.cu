// Architectures: 900a
//
// Tests of conv_halo_sm90.
#include "cuda/contract_halo/kernel.cuh"
#include "shared/warpgroup_cases.h"

using namespace test;

namespace {

/// Without scratch or a prologue.
template <class T> struct halo : warpgroup_weights<T> {
  static constexpr const char *name = "halo";
  template <class Cfg, class X, class W, class Outs, class Ins, class Body>
  static auto conv(Cfg cfg, X x, W w, Outs outs, Ins ins, Body body, cuda::split_scratch) {
    return cuda::conv_halo_sm90(cfg, x, w, outs, ins, body);
  }
};
using f16_halo = halo<f16>;
using bf16_halo = halo<bf16>;

template <int M, int N, int K, int Consumers, int Stages>
struct covered : cuda::contract_halo_schedule<M, N, K, Consumers, Stages, 2> {
  static constexpr int splits = 1;
};
using covered_small = covered<64, 32, 64, 3, 2>;
using covered_square = covered<64, 64, 64, 2, 3>;
using covered_tall = covered<128, 32, 32, 1, 2>;
using covered_wide = covered<64, 128, 16, 2, 2>;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  conv<f16_halo, f16, known_runs<covered_small>, 72, 40, 3>(3, 9, 13, 1, 1, 1);
  conv<f16_halo, f16, covered_small, 136, 72, 3>(1, 25, 17, 1, 2, 2);
  conv<f16_halo, f16, covered_small, 8, 20, 5>(2, 13, 9, 1, 1, 3);
  conv<f16_halo, f16, covered_square, 64, 64, 3>(2, 17, 15, 1, 1, 0);
  // More tiles of filters than blocks.
  conv<f16_halo, f16, covered_square, 128, 136, 3>(5, 7, 7, 1, 1, 1);
  conv<f16_halo, f16, covered_tall, 32, 32, 2>(1, 34, 18, 1, 1, 1);
  conv<bf16_halo, bf16, known_runs<covered_wide>, 16, 40, 3>(1, 8, 8, 1, 3, 3);
#endif
  conv<f16_halo, f16, covered_small, 64, 32, 3>(2, 16, 24, 1, 1, 1);
  conv<bf16_halo, bf16, covered_wide, 24, 128, 3>(2, 11, 10, 1, 1, 1);
  conv<f16_halo, f16, covered_tall, 40, 33, 3>(2, 20, 11, 1, 1, 1);
  return finish();
}
