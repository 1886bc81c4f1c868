// Implements the list of schedules of warp-wide mma instructions (sm_80 and up), in fp32 of CUDA
// cores, that the compiler chooses among: codegen/cuda/contract_mma/Tactic.cpp,
// codegen/cuda/contract_mma/Tf32.cpp and codegen/cuda/contract_simt/Tactic.cpp.
#include "schedule.h"

#if GEMM_PRECISION <= 1
#include "cuda/contract_mma/sm80.cuh"
#elif GEMM_PRECISION == 2 || GEMM_PRECISION == 4
#include "cuda/contract_mma/tf32.cuh"
#else
#include "cuda/contract_simt/kernel.cuh"
#endif

namespace bench {
namespace {

#if GEMM_PRECISION <= 1
struct kernels {
  static constexpr const char *name = "mma";
  static constexpr packing weights_as = packing::tiles;
  template <class... Args> static auto conv(Args... args) { return cuda::conv_mma_sm80(args...); }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_mma_sm80(args...);
  }
  static auto weights(const element *w) { return cuda::make_packed_weights(w); }
};
template <int... Is> using schedule_of = cuda::contract_mma_schedule<Is...>;
#elif GEMM_PRECISION == 2 || GEMM_PRECISION == 4
struct kernels {
  static constexpr const char *name = kPrecision == 2 ? "mma tf32x3" : "mma tf32";
  static constexpr packing weights_as = packing::rows;
  template <class... Args> static auto conv(Args... args) {
    if constexpr (kPrecision == 2)
      return cuda::conv_tf32x3_sm80(args...);
    else
      return cuda::conv_tf32_sm80(args...);
  }
  template <class... Args> static auto matmul(Args... args) {
    if constexpr (kPrecision == 2)
      return cuda::matmul_tf32x3_sm80(args...);
    else
      return cuda::matmul_tf32_sm80(args...);
  }
  static auto weights(const element *w) { return cuda::make_k_major_weights(w); }
};
template <int... Is> using schedule_of = cuda::contract_mma_schedule<Is...>;
#else
struct kernels {
  static constexpr const char *name = "simt";
  static constexpr packing weights_as = packing::tiles;
  template <class... Args> static auto conv(Args... args) { return cuda::conv_simt(args...); }
  template <class... Args> static auto matmul(Args... args) { return cuda::matmul_simt(args...); }
  static auto weights(const element *w) { return cuda::make_packed_weights(w); }
};
template <int... Is> using schedule_of = cuda::contract_simt_schedule<Is...>;
#endif

constexpr int kRun = 16 / int(sizeof(element));

#if GEMM_PRECISION == 3
/// The same with teams that share tiles.
template <int M, int N, int K, int PartM, int PartN, int Stages, int Teams, int... Splits>
void add_teams(std::vector<schedule> &to) {
  const auto one = [&](auto splits) {
    using s = schedule_of<M, N, K, PartM, PartN, Stages, decltype(splits)::value, Teams>;
    char name[120];
    snprintf(name, sizeof(name), "%s %dx%dx%d p%dx%d st%d t%d sk%d", kernels::name, M, N, K, PartM,
             PartN, Stages, Teams, int(splits));
    to.push_back({name, M, N, K, int(splits), kernels::weights_as, kRun, true,
                  launch_whole_product<kernels, s, kRun>,
                  launch_conv<kernels, s, cuda::multiple<kRun>>});
  };
  (one(std::integral_constant<int, Splits>()), ...);
}
#endif
#ifdef GEMM_LAYERS
template <class...> struct list {};
#define LAYER(...) , layer<__VA_ARGS__>
using layers = list<void
#include GEMM_LAYERS
                    >;
#undef LAYER

/// As schedule::suits(), and not for much smaller layers.
template <class Layer, class S> constexpr bool is_worth_building() {
  const long n = Layer::extents().filters / Layer::extents().groups;
  const long blocks = Layer::extents().groups * ((Layer::m + S::tile_m - 1) / S::tile_m) *
                      ((n + S::tile_n - 1) / S::tile_n) * S::splits;
  const long steps = (Layer::k + S::tile_k - 1) / S::tile_k;
  return S::tile_m < 2 * Layer::m && S::tile_n < 2 * n && blocks >= 20 &&
         (S::splits == 1 || (steps >= 4 * S::splits && blocks <= 264));
}
template <class S, class Layer> void add_layer(schedule s, std::vector<schedule> &to) {
  if constexpr (is_worth_building<Layer, S>()) {
    static constexpr shape extents = Layer::extents();
    s.product = s.conv = launch_layer<kernels, S, Layer>;
    s.only = &extents;
    to.push_back(s);
  }
}
template <class S, class... Layers>
void add_layers(const schedule &s, list<void, Layers...>, std::vector<schedule> &to) {
  (add_layer<S, Layers>(s, to), ...);
}
#endif

template <int M, int N, int K, int PartM, int PartN, int Stages, int Splits, int... Teams>
void add(std::vector<schedule> &to) {
  using s = schedule_of<M, N, K, PartM, PartN, Stages, Splits, Teams...>;
  std::string teams;
  ((teams = "t" + std::to_string(Teams) + " "), ...);
  char name[120];
  snprintf(name, sizeof(name), "%s %dx%dx%d p%dx%d st%d %ssk%d", kernels::name, M, N, K, PartM,
           PartN, Stages, teams.c_str(), Splits);
  schedule made = {name, M, N, K, Splits, kernels::weights_as, kRun, true, nullptr, nullptr};
#ifdef GEMM_LAYERS
  add_layers<s>(made, layers(), to);
#else
  made.product = launch_whole_product<kernels, s, kRun>;
  made.conv = launch_conv<kernels, s, cuda::multiple<kRun>>;
  to.push_back(made);
#endif
}
template <int M, int N, int K, int PartM, int PartN, int Stages, int... Teams>
void add_split(std::vector<schedule> &to) {
  add<M, N, K, PartM, PartN, Stages, 1, Teams...>(to);
  add<M, N, K, PartM, PartN, Stages, 2, Teams...>(to);
  add<M, N, K, PartM, PartN, Stages, 4, Teams...>(to);
  add<M, N, K, PartM, PartN, Stages, 8, Teams...>(to);
}

} // namespace

std::vector<schedule> mma_schedules() {
  std::vector<schedule> all;
#if GEMM_PRECISION <= 1
  add_split<128, 256, 32, 64, 64, 4>(all);
  add_split<256, 64, 32, 64, 64, 4>(all);
  add_split<128, 128, 32, 64, 32, 3>(all);
  add_split<128, 128, 64, 64, 64, 3, 2>(all);
  add_split<64, 128, 64, 64, 64, 3, 2>(all);
  add_split<128, 64, 32, 32, 32, 3>(all);
  add_split<64, 64, 64, 64, 64, 4, 4>(all);
  add_split<64, 64, 64, 32, 32, 4, 2>(all);
  add_split<64, 64, 32, 32, 32, 4>(all);
  add_split<64, 32, 64, 32, 16, 3>(all);
  add_split<32, 64, 128, 32, 32, 3, 2>(all);
  add_split<32, 64, 64, 16, 32, 3>(all);
  add_split<64, 16, 64, 16, 16, 3>(all);
#elif GEMM_PRECISION == 2 || GEMM_PRECISION == 4
  add_split<128, 64, 32, 64, 32, 3>(all);
  add_split<64, 64, 32, 32, 32, 4>(all);
  add_split<64, 64, 32, 16, 32, 4>(all);
  add_split<64, 32, 32, 16, 32, 4>(all);
  add_split<32, 64, 32, 16, 32, 4>(all);
  add_split<32, 32, 32, 16, 16, 4>(all);
  add_split<16, 64, 64, 16, 16, 3>(all);
#else
  add_teams<128, 192, 16, 8, 12, 3, 1, 1, 2>(all);
  add_teams<128, 128, 16, 8, 8, 3, 1, 1, 2, 4, 8>(all);
  add_teams<128, 96, 16, 8, 8, 3, 1, 1, 2, 4, 8>(all);
  add_teams<128, 96, 32, 8, 8, 3, 2, 1, 2, 4, 8>(all);
  add_teams<64, 128, 16, 8, 8, 3, 1, 1, 2, 4>(all);
  add_teams<128, 64, 16, 8, 8, 3, 1, 1, 2, 4>(all);
  add_teams<128, 64, 32, 8, 8, 3, 2, 1, 2, 4, 8>(all);
  add_teams<64, 96, 32, 8, 8, 3, 4, 1, 2, 4, 8>(all);
  add_teams<64, 64, 16, 8, 4, 4, 1, 1, 2, 4, 8>(all);
  add_teams<64, 64, 32, 8, 4, 3, 2, 1, 2, 4, 8>(all);
  add_teams<64, 64, 32, 8, 8, 3, 4, 1, 2, 4, 8>(all);
  add_teams<64, 48, 32, 8, 4, 4, 4, 1, 2, 4, 8>(all);
  add_teams<128, 32, 16, 8, 4, 3, 1, 1, 2, 4>(all);
  add_teams<64, 32, 16, 4, 4, 3, 1, 1, 2, 4>(all);
  add_teams<64, 32, 32, 8, 4, 3, 4, 1, 2, 4, 8>(all);
  add_teams<32, 64, 16, 4, 4, 3, 1, 1, 2, 4, 8>(all);
  add_teams<32, 48, 64, 4, 4, 3, 4, 1, 2, 4, 8>(all);
  add_teams<32, 32, 64, 4, 4, 3, 4, 1, 2, 4, 8>(all);
  add_teams<128, 16, 16, 4, 4, 3, 1, 1, 2>(all);
  add_teams<64, 16, 16, 2, 4, 3, 1, 1, 2>(all);
  add_teams<64, 16, 32, 4, 4, 3, 2, 1, 2, 4>(all);
  add_teams<16, 64, 32, 2, 4, 3, 1, 1, 2, 4>(all);
  add_teams<32, 32, 32, 2, 4, 3, 1, 1, 2, 4, 8>(all);
#endif
  return all;
}

} // namespace bench
