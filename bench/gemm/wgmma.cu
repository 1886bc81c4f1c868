// Implements the list of schedules of wgmma (sm_90a) that the compiler chooses among:
// codegen/cuda/contract_wgmma/Tactic.cpp.
#include "schedule.h"

#include "cuda/contract_cluster/kernel.cuh"
#include "cuda/contract_halo/kernel.cuh"
#include "cuda/contract_wgmma/kernel.cuh"

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
  static constexpr packing stored = packing::rounded_rows;
  static auto weights(const element *w) { return cuda::make_packed_weights(w); }
};
#if GEMM_PRECISION == 2
struct whole_kernels : kernels {
  static constexpr packing stored = packing::parts;
  static auto weights(const element *w) { return cuda::make_packed_parts(w); }
};
#else
using whole_kernels = kernels;
#endif
constexpr int kRun = 16 / int(sizeof(element)), kMostK = 128 / int(sizeof(element));

struct cluster_kernels : whole_kernels {
  template <class Cfg, class X, class W, class Outs, class Ins, class Body>
  static auto conv(Cfg cfg, X x, W w, Outs outs, Ins ins, Body body, cuda::split_scratch) {
    return cuda::conv_cluster_sm90(cfg, x, w, outs, ins, body);
  }
  template <class Cfg, class X, class W, class Outs, class Ins, class Body>
  static auto matmul(Cfg cfg, X x, W w, Outs outs, Ins ins, Body body, cuda::split_scratch) {
    return cuda::matmul_cluster_sm90(cfg, x, w, outs, ins, body);
  }
};
#if GEMM_PRECISION <= 1
struct halo_kernels : kernels {
  template <class Cfg, class X, class W, class Outs, class Ins, class Body>
  static auto conv(Cfg cfg, X x, W w, Outs outs, Ins ins, Body body, cuda::split_scratch) {
    return cuda::conv_halo_sm90(cfg, x, w, outs, ins, body);
  }
};
#endif

template <class Kernels, class Schedule>
void add_schedule(std::vector<schedule> &to, const char *end) {
  using s = Schedule;
  char name[120];
  snprintf(name, sizeof(name), "wgmma %dx%dx%d c%d st%d sk%d%s", s::tile_m, s::tile_n, s::tile_k,
           s::consumers, s::stages, s::splits, end);
  to.push_back({name, s::tile_m, s::tile_n, s::tile_k, s::splits, Kernels::stored, kRun, true,
                s::tile_k == kMostK ? launch_product<Kernels, s, dyn> : nullptr,
                launch_conv<Kernels, s, dyn>});
}
template <int M, int N, int K, int Consumers, int Stages, int Splits>
void add(std::vector<schedule> &to) {
  add_schedule<whole_kernels,
               cuda::contract_wgmma_schedule<M, N, K, Consumers, false, Stages, Splits>>(to, "");
}
/// Narrow rows of K for few channels, which take few steps.
template <int M, int N, int Consumers, int Stages> void add_narrow(std::vector<schedule> &to) {
  add<M, N, kMostK / 2, Consumers, Stages, 1>(to);
  add<M, N, kMostK / 4, Consumers, Stages, 1>(to);
}
template <int M, int N, int Consumers, int Stages> void add_whole(std::vector<schedule> &to) {
  add<M, N, kMostK, Consumers, Stages, 1>(to);
  add_narrow<M, N, Consumers, Stages>(to);
}
template <int M, int N, int Consumers, int Stages> void add_split(std::vector<schedule> &to) {
  add_whole<M, N, Consumers, Stages>(to);
  add<M, N, kMostK, Consumers, Stages, 2>(to);
  add<M, N, kMostK, Consumers, Stages, 4>(to);
  add<M, N, kMostK, Consumers, Stages, 8>(to);
}
template <int M, int N, int K, int Consumers, int Stages, int Splits>
void add_cluster(std::vector<schedule> &to) {
  add_schedule<cluster_kernels,
               cuda::contract_cluster_schedule<M, N, K, Consumers, Stages, Splits>>(to, " cl");
}
/// SplitStages: where K is split, for what blocks send each other takes room, too.
template <int M, int N, int Consumers, int Stages, int SplitStages>
void add_clusters(std::vector<schedule> &to) {
  add_cluster<M, N, kMostK, Consumers, Stages, 1>(to);
  add_cluster<M, N, kMostK, Consumers, SplitStages, 2>(to);
  add_cluster<M, N, kMostK, Consumers, SplitStages, 4>(to);
  add_cluster<M, N, kMostK, Consumers, SplitStages, 8>(to);
  add_cluster<M, N, kMostK / 2, Consumers, Stages, 1>(to);
  add_cluster<M, N, kMostK / 4, Consumers, Stages, 1>(to);
}
#if GEMM_PRECISION <= 1
template <int M, int N, int K, int Consumers, int Stages> void add_halo(std::vector<schedule> &to) {
  using s = cuda::contract_halo_schedule<M, N, K, Consumers, Stages>;
  char name[120];
  snprintf(name, sizeof(name), "wgmma %dx%dx%d c%d st%d halo", M, N, K, Consumers, Stages);
  schedule halo = {name,    M,
                   N,       K,
                   1,       packing::rounded_rows,
                   kRun,    false,
                   nullptr, launch_conv<halo_kernels, s, dyn>};
  halo.halo_consumers = Consumers, halo.halo_stages = Stages;
  to.push_back(halo);
}
template <int M, int N, int Consumers, int Stages> void add_halos(std::vector<schedule> &to) {
  add_halo<M, N, kMostK, Consumers, Stages>(to);
  add_halo<M, N, kMostK / 2, Consumers, Stages>(to);
}
#endif

} // namespace

std::vector<schedule> wgmma_schedules() {
  std::vector<schedule> all;
#if GEMM_PRECISION <= 1
  add_whole<64, 64, 1, 6>(all);
  add_whole<64, 32, 1, 8>(all);
  add_whole<64, 128, 1, 4>(all);
  add_split<128, 64, 2, 8>(all);
  add_split<128, 128, 2, 6>(all);
  add<128, 192, kMostK, 2, 5, 1>(all);
  add<128, 256, kMostK, 2, 4, 1>(all);
  add<256, 64, kMostK, 4, 5, 1>(all);
  add<256, 128, kMostK, 2, 4, 1>(all);
  add<192, 128, kMostK, 3, 5, 1>(all);
  add_clusters<64, 32, 1, 8, 8>(all);
  add_clusters<64, 64, 2, 6, 6>(all);
  add_clusters<64, 128, 2, 4, 3>(all);
  add_clusters<128, 64, 2, 4, 3>(all);
  add_halos<64, 32, 3, 3>(all);
  add_halos<64, 32, 2, 4>(all);
  add_halos<64, 32, 1, 4>(all);
  add_halos<64, 64, 3, 2>(all);
  add_halos<64, 64, 3, 3>(all);
  add_halos<64, 64, 2, 3>(all);
  add_halos<64, 64, 1, 4>(all);
  add_halos<64, 128, 2, 2>(all);
  add_halos<128, 32, 3, 2>(all);
  add_halos<128, 64, 2, 2>(all);
#elif GEMM_PRECISION == 2
  add_split<128, 128, 2, 4>(all);
  add_split<64, 128, 1, 4>(all);
  add_split<64, 64, 1, 8>(all);
  add_split<64, 32, 1, 8>(all);
  add_whole<192, 64, 3, 5>(all);
  add_clusters<64, 32, 1, 6, 6>(all);
  add_clusters<64, 64, 2, 4, 3>(all);
  add_clusters<64, 128, 2, 4, 4>(all);
  // Split in their buffers, as operands that are no weights.
  add_schedule<kernels, cuda::contract_wgmma_schedule<128, 128, kMostK, 2, false, 4>>(all, " own");
  add_schedule<kernels, cuda::contract_wgmma_schedule<128, 64, kMostK, 2, false, 6>>(all, " own");
  add_schedule<kernels, cuda::contract_wgmma_schedule<64, 64, kMostK, 1, false, 8>>(all, " own");
  add_schedule<kernels, cuda::contract_wgmma_schedule<64, 32, kMostK, 1, false, 8>>(all, " own");
#elif GEMM_PRECISION == 4
  add_split<128, 128, 2, 6>(all);
  add_split<128, 64, 2, 8>(all);
  add_split<64, 64, 1, 8>(all);
  add_split<64, 32, 1, 8>(all);
  add_whole<192, 64, 3, 6>(all);
  add<128, 256, kMostK, 2, 4, 1>(all);
  add_clusters<64, 32, 1, 8, 8>(all);
  add_clusters<64, 64, 2, 6, 5>(all);
  add_clusters<64, 128, 2, 4, 3>(all);
#endif
  return all;
}

} // namespace bench
