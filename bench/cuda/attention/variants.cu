// Defines the schedules of attention_sm90 that are built. -DPARTS=<n> -DPART=<i> builds
// every n-th of them, so that several compilers share the work.
#include "variants.h"

#include "cuda/attention/sm90.cuh"
#include "cuda/host/function.cuh"

namespace study {
namespace {

using namespace tenon;

enum mask { nothing, causal, keys_masked, scores_biased };

/// The kernel's Config for heads of D columns; batch, heads of keys and their groups are its
/// leading dimensions.
template <class Schedule, int D, int Mask> struct study_config : Schedule {
  dims<dyn, dyn, dyn> batch;
  dyn m, n;
  static constexpr fixed<D> d{}, e{};
  static constexpr int causal = Mask == mask::causal ? 0 : -1;
  static constexpr bool zero_undefined = false, bias_pairs = Mask > mask::causal; // n is even there
};

template <class T> auto view_of(T *base, const long (&stride)[3], long group, bool shared) {
  return make_view(
      base, dims<dyn, dyn, dyn, dyn, fixed<1>>(stride[0], shared ? stride[1] : group * stride[1],
                                               shared ? 0 : stride[1], stride[2], fixed<1>{}));
}

/// What is added to scores, over (batch, heads / group, group, m, n).
template <class T, int Mask> auto bias_of(const attention_problem &p) {
  if constexpr (Mask == keys_masked)
    return pack(make_view(static_cast<const float *>(p.bias),
                          dims<dyn, fixed<0>, fixed<0>, fixed<0>, fixed<1>>(
                              p.n, fixed<0>{}, fixed<0>{}, fixed<0>{}, fixed<1>{})));
  else if constexpr (Mask == scores_biased)
    return pack(
        make_view(static_cast<const T *>(p.bias),
                  dims<fixed<0>, dyn, dyn, dyn, fixed<1>>(fixed<0>{}, index_t(p.group) * p.m * p.n,
                                                          index_t(p.m) * p.n, p.n, fixed<1>{})));
  else
    return pack();
}

template <class T, int D, class Schedule, int Mask>
int launch(const attention_problem &p, cudaStream_t stream, bool early) {
  study_config<Schedule, D, Mask> cfg;
  cfg.batch = {p.batch, p.heads / p.group, p.group};
  cfg.m = p.m;
  cfg.n = p.n;
  auto kernel = cuda::attention_sm90(
      cfg, p.scale, view_of(static_cast<const T *>(p.q), p.q_stride, p.group, false),
      view_of(static_cast<const T *>(p.k), p.k_stride, p.group, true),
      view_of(static_cast<const T *>(p.v), p.v_stride, p.group, true), bias_of<T, Mask>(p),
      view_of(static_cast<T *>(p.y), p.y_stride, p.group, false));
  using K = decltype(kernel);
  if (kernel.complete() != cuda::ok)
    return -1;
  const void *const function = cuda::function_of<cuda::variant<900, 900, true>, K>();
  static const int prepared = int(cudaFuncSetAttribute(
      function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes()));
  if (prepared)
    return prepared;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(kernel.blocks().x));
  config.blockDim = dim3(K::threads);
  config.dynamicSmemBytes = size_t(kernel.shared_bytes());
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  cuda::launch_tag tag{};
  void *arguments[] = {&kernel, &tag};
  return int(cudaLaunchKernelExC(&config, function, arguments));
}

template <class T, int D, class Schedule, int Mask> void add(const char *name) {
  attention_entries().push_back({name, D, Mask == causal, detail::is_same<T, bf16>,
                                 Mask > causal ? Mask - 1 : 0, &launch<T, D, Schedule, Mask>});
}

// Variants are counted, and every PARTS-th is built here.
template <bool Here, class T, int D, class Schedule, int Mask> struct adder {
  explicit adder(const char *) {}
};
template <class T, int D, class Schedule, int Mask> struct adder<true, T, D, Schedule, Mask> {
  explicit adder(const char *name) { add<T, D, Schedule, Mask>(name); }
};
constexpr int first_counter = __COUNTER__ + 1;
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define ONE(n, name, t, d, causal, ...)                                                            \
  const adder<(n - first_counter) % PARTS == PART, t, d,                                           \
              cuda::attention_sm90_schedule<__VA_ARGS__>, causal>                                  \
      JOIN(added_, n)(name);
#define VARIANT(name, t, d, causal, ...) ONE(__COUNTER__, name, t, d, causal, __VA_ARGS__)
/// Full and causal.
#define BOTH(t, d, name, ...)                                                                      \
  VARIANT(name, t, d, nothing, __VA_ARGS__)                                                        \
  VARIANT(name, t, d, mask::causal, __VA_ARGS__)
/// With something added to scores.
#define BIASED(t, d, name, ...)                                                                    \
  VARIANT(name, t, d, keys_masked, __VA_ARGS__)                                                    \
  VARIANT(name, t, d, scores_biased, __VA_ARGS__)
/// What is tried for heads of at most 64 and of at most 128 columns.
#define NARROW(BOTH, t, d)                                                                         \
  BOTH(t, d, "c1 k128 s2 o b2", 1, 1, 128, 2, true, false, 2)                                      \
  BOTH(t, d, "c1 k64 s2 o b3", 1, 1, 64, 2, true, false, 3)                                        \
  BOTH(t, d, "c2t2 k64 s4 o", 2, 2, 64, 4, true, false, 1)                                         \
  BOTH(t, d, "c2t2 k128 s4 o", 2, 2, 128, 4, true, false, 1)                                       \
  BOTH(t, d, "c2 k128 s2 oul", 2, 1, 128, 2, true, true, 1)
/// What leaves no registers for a bias.
#define UNBIASED(t, d)                                                                             \
  BOTH(t, d, "c2 k64 s2 b2", 2, 1, 64, 2, false, false, 2)                                         \
  BOTH(t, d, "c3 k128 s2 oul", 3, 1, 128, 2, true, true, 1)
#define WIDE(t, d)                                                                                 \
  BOTH(t, d, "c1 k64 s2 o b2", 1, 1, 64, 2, true, false, 2)                                        \
  BOTH(t, d, "c2t2 k64 s4 o", 2, 2, 64, 4, true, false, 1)                                         \
  BOTH(t, d, "c2t2 k128 s2 o", 2, 2, 128, 2, true, false, 1)                                       \
  BOTH(t, d, "c2 k128 s2 oul", 2, 1, 128, 2, true, true, 1)

// c warpgroups, t teams, keys, stages; o overlap, u turns with l lazy scaling, b blocks of a
// multiprocessor
NARROW(BOTH, f16, 40)
UNBIASED(f16, 40)
NARROW(BOTH, f16, 64)
UNBIASED(f16, 64)
NARROW(BIASED, f16, 64)
NARROW(BOTH, bf16, 64)
UNBIASED(bf16, 64)
WIDE(f16, 80)
WIDE(f16, 128)
WIDE(bf16, 128)

} // namespace

#if PART == 0
std::vector<attention_entry> &attention_entries() {
  static std::vector<attention_entry> all;
  return all;
}
#endif

} // namespace study

#if PART == 0
extern "C" {
int attention_count() { return int(study::attention_entries().size()); }
const char *attention_name(int i) { return study::attention_entries()[size_t(i)].name; }
int attention_suits(int i, int d, int causal, int bf16, int masked) {
  const study::attention_entry &e = study::attention_entries()[size_t(i)];
  return e.d == d && e.causal == causal && e.bf16 == bf16 && e.masked == masked;
}
int attention_launch(int i, const study::attention_problem *p, void *stream, int early) {
  return study::attention_entries()[size_t(i)].launch(*p, static_cast<cudaStream_t>(stream),
                                                      early != 0);
}
}
#endif
