// Times schedules of the tactics decode_attention and attention_sm80, as a table for
// scripts/fit-costs: `schedules > FILE`, behind the table's head. Each time is that of a captured
// graph of launches that may start early, over caches that lie in memory, divided by their number;
// the median of 7 replays. -DPART=<i> builds the i-th part of the schedules and no main
// (schedules.sh).
#include "schedules.h"

#include "cuda/attention/kernel.cuh"
#include "cuda/decode_attention/kernel.cuh"
#include "cuda/host/function.cuh"
#include "cuda/host/launch.h"

namespace study {
namespace {

using namespace tenon;

template <class Schedule, int Group, int D> struct decode_config : Schedule {
  dims<dyn> batch;
  static constexpr fixed<Group> group{};
  dyn m, n;
  static constexpr fixed<D> d{}, e{};
  static constexpr int causal = 0;
  static constexpr bool zero_undefined = false;
};
template <class Schedule, int D> struct tile_config : Schedule {
  dims<dyn, dyn> batch;
  dyn m, n;
  static constexpr fixed<D> d{}, e{};
  static constexpr int causal = 0;
  static constexpr bool zero_undefined = false;
};

template <class K> bool launch(const K &kernel, cudaStream_t stream) {
  if (kernel.shared_bytes() > 227 * 1024)
    return false;
  const void *const function = cuda::function_of<cuda::variant<900, 900, true>, K>();
  static const int prepared =
      int(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               kernel.shared_bytes())) +
      int(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared));
  if (prepared)
    return false;
  constexpr int cluster = cuda::detail::cluster_of<K>;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = unsigned(cluster);
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(kernel.blocks().x));
  config.blockDim = dim3(K::threads);
  config.dynamicSmemBytes = size_t(kernel.shared_bytes());
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = cluster > 1 ? 2 : 1;
  K argument = kernel;
  cuda::launch_tag tag{};
  void *arguments[] = {&argument, &tag};
  return cudaLaunchKernelExC(&config, function, arguments) == cudaSuccess;
}

/// Operands of one launch: q and y [batch * heads][group][m][D], keys [batch * heads][n][D].
template <class T, int D> auto rows_of(T *base, index_t group, index_t rows) {
  return make_view(base, dims<dyn, dyn, dyn, fixed<1>>(group * rows * D, rows * D, D, fixed<1>{}));
}
template <class T, int D> auto shared_rows_of(T *base, index_t rows) {
  return make_view(base, dims<dyn, fixed<0>, dyn, fixed<1>>(rows * D, fixed<0>{}, D, fixed<1>{}));
}
template <int Rank> auto origin(const int *first) {
  if constexpr (Rank == 4) {
    using none = dims<fixed<0>, fixed<0>, fixed<0>, fixed<0>>;
    return make_attention_order<0, false>(pack(make_view(first, none{})), 0.0f);
  }
}

template <bool Cluster, class Schedule, int Group, int D>
bool run_decode(const decode_problem &p, cudaStream_t stream) {
  decode_config<Schedule, Group, D> cfg;
  cfg.batch = dims<dyn>(p.batch * p.heads);
  cfg.m = p.queries;
  cfg.n = p.keys;
  const auto with = [&](auto make, auto... more) {
    return launch(make(cfg, 0.125f, rows_of<const f16, D>(p.q, Group, p.queries),
                       shared_rows_of<const f16, D>(p.k, p.keys),
                       shared_rows_of<const f16, D>(p.v, p.keys), pack(),
                       rows_of<f16, D>(p.y, Group, p.queries), origin<4>(p.first), more...),
                  stream);
  };
  if constexpr (Cluster)
    return with([](const auto &...of) { return cuda::decode_attention_sm90(of...); });
  else
    return with([](const auto &...of) { return cuda::decode_attention_sm80(of...); },
                cuda::no_appended_rows{}, cuda::split_scratch{p.partials, p.counters});
}

template <class Schedule, int Group, int D>
bool run_tiles(const decode_problem &p, cudaStream_t stream) {
  tile_config<Schedule, D> cfg;
  cfg.batch = dims<dyn, dyn>(p.batch * p.heads, Group);
  cfg.m = p.queries;
  cfg.n = p.keys;
  return launch(cuda::attention_sm80(cfg, 0.125f, rows_of<const f16, D>(p.q, Group, p.queries),
                                     shared_rows_of<const f16, D>(p.k, p.keys),
                                     shared_rows_of<const f16, D>(p.v, p.keys), pack(),
                                     rows_of<f16, D>(p.y, Group, p.queries), origin<4>(p.first)),
                stream);
}

template <int Group, int D, int Warps, int Keys, int Stages, int Splits, bool Cluster>
void add_decode() {
  char name[96];
  snprintf(name, sizeof(name),
           "decode_attention<warps=%d, keys=%d, stages=%d, splits=%d, cluster=%d>", Warps, Keys,
           Stages, Splits, int(Cluster));
  entries().push_back(
      {name, Group, D,
       &run_decode<Cluster, cuda::decode_attention_schedule<Warps, Keys, Stages, Splits>, Group,
                   D>});
}
template <int Group, int D, int Splits, bool Cluster> void add_all() {
  add_decode<Group, D, 4, 16, 2, Splits, Cluster>();
  add_decode<Group, D, 4, 16, 3, Splits, Cluster>();
  add_decode<Group, D, 4, 32, 2, Splits, Cluster>();
  add_decode<Group, D, 8, 16, 2, Splits, Cluster>();
  add_decode<Group, D, 8, 16, 3, Splits, Cluster>();
  add_decode<Group, D, 8, 32, 2, Splits, Cluster>();
}
template <int Group, int D, int Splits, bool Cluster> void add_few() {
  add_decode<Group, D, 4, 16, 3, Splits, Cluster>();
  add_decode<Group, D, 8, 16, 2, Splits, Cluster>();
  add_decode<Group, D, 8, 16, 3, Splits, Cluster>();
}
template <int Group, int D, int Warps, int Teams, int Keys> void add_tiles() {
  char name[96];
  snprintf(name, sizeof(name), "attention_sm80<warps=%d, teams=%d, keys=%d, stages=2>", Warps,
           Teams, Keys);
  entries().push_back(
      {name, Group, D, &run_tiles<cuda::attention_schedule<Warps, Teams, Keys, 2>, Group, D>});
}
template <int Group, int D> void add_some_tiles() {
  add_tiles<Group, D, 1, 8, 32>();
  add_tiles<Group, D, 1, 4, 32>();
  add_tiles<Group, D, 1, 4, 64>();
  add_tiles<Group, D, 2, 2, 32>();
}

struct adder {
  adder() {
#if PART == 0
    add_all<4, 64, 8, true>();
    add_few<4, 64, 8, false>();
    add_some_tiles<4, 64>();
#elif PART == 1
    add_all<4, 64, 4, true>();
    add_few<4, 64, 2, true>();
    add_few<4, 64, 1, false>();
#elif PART == 2
    add_all<4, 64, 16, false>();
    add_few<4, 64, 32, false>();
    add_few<4, 64, 4, false>();
#elif PART == 3
    add_all<4, 128, 8, true>();
    add_few<4, 128, 4, true>();
    add_some_tiles<4, 128>();
#elif PART == 4
    add_few<4, 128, 8, false>();
    add_few<4, 128, 16, false>();
    add_few<4, 128, 32, false>();
    add_few<4, 128, 1, false>();
#elif PART == 5
    add_few<1, 64, 8, true>();
    add_few<1, 64, 4, true>();
    add_few<1, 64, 1, false>();
    add_few<1, 64, 8, false>();
    add_some_tiles<1, 64>();
#endif
  }
};
const adder add_part;

} // namespace
} // namespace study
