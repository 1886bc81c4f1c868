// Implements the list of schedules of wgmma (sm_90a) that the compiler chooses among:
// codegen/cuda/ContractWgmmaSm90.cpp.
#include "schedule.h"

#include "cuda/contract_wgmma_sm90.cuh"

namespace bench {
namespace {

struct kernels {
  template <class... Args> static auto conv(Args... args) {
    if constexpr (kPrecision == 2)
      return cuda::conv_tf32x3_sm90(args...);
    else
      return cuda::conv_wgmma_sm90(args...);
  }
  template <class... Args> static auto matmul(Args... args) {
    if constexpr (kPrecision == 2)
      return cuda::matmul_tf32x3_sm90(args...);
    else
      return cuda::matmul_wgmma_sm90(args...);
  }
  static auto weights(const element *w) { return cuda::make_packed_weights(w); }
};
constexpr int kRun = 16 / int(sizeof(element)), kMostK = 128 / int(sizeof(element));

template <int M, int N, int K, int Consumers, int Stages, int Splits, bool Clustered = false>
void add(std::vector<schedule> &to) {
  using s =
      cuda::contract_wgmma_schedule<M, N, K, Consumers, false, Stages, Splits, 132, Clustered>;
  char name[120];
  snprintf(name, sizeof(name), "wgmma %dx%dx%d c%d st%d sk%d%s", M, N, K, Consumers, Stages, Splits,
           Clustered ? " cl" : "");
  to.push_back({name, M, N, K, Splits, packing::rounded_rows, kRun, true,
                K == kMostK ? launch_product<kernels, s, dyn> : nullptr,
                launch_conv<kernels, s, dyn>});
}
/// Narrow rows of K for few channels, which take few steps.
template <int M, int N, int Consumers, int Stages> void add_narrow(std::vector<schedule> &to) {
  add<M, N, kMostK / 2, Consumers, Stages, 1>(to);
  add<M, N, kMostK / 4, Consumers, Stages, 1>(to);
}
template <int M, int N, int Consumers, int Stages> void add_split(std::vector<schedule> &to) {
  add<M, N, kMostK, Consumers, Stages, 1>(to);
  add<M, N, kMostK, Consumers, Stages, 2>(to);
  add<M, N, kMostK, Consumers, Stages, 4>(to);
  add<M, N, kMostK, Consumers, Stages, 8>(to);
  add_narrow<M, N, Consumers, Stages>(to);
#if GEMM_PRECISION <= 1
  add<M, N, kMostK, Consumers, Stages, 2, true>(to);
  add<M, N, kMostK, Consumers, Stages, 4, true>(to);
  add<M, N, kMostK, Consumers, Stages, 8, true>(to);
#endif
}

} // namespace

std::vector<schedule> wgmma_schedules() {
  std::vector<schedule> all;
#if GEMM_PRECISION <= 1
  add_split<64, 64, 1, 6>(all);
  add_split<64, 32, 1, 8>(all);
  add_split<64, 128, 1, 4>(all);
  add_split<128, 64, 2, 8>(all);
  add_split<128, 128, 2, 6>(all);
  add<128, 192, kMostK, 2, 5, 1>(all);
  add<128, 256, kMostK, 2, 4, 1>(all);
  add<256, 64, kMostK, 4, 5, 1>(all);
  add<256, 128, kMostK, 2, 4, 1>(all);
  add<192, 128, kMostK, 3, 5, 1>(all);
#elif GEMM_PRECISION == 2
  add_split<128, 128, 2, 3>(all);
  add_split<128, 96, 2, 4>(all);
  add_split<128, 64, 2, 4>(all);
  add_split<64, 128, 1, 4>(all);
  add_split<64, 64, 1, 6>(all);
  add_split<64, 32, 1, 8>(all);
#endif
  return all;
}

} // namespace bench
