// Defines the variants of warpgroup_attention.cuh that are built. -DPARTS=<n> -DPART=<i> builds
// every n-th of them, so that several compilers share the work.
#include "variants.h"
#include "warpgroup_attention.cuh"

namespace study {
namespace {

tensor_box box_of(const void *base, bool is_bf16, const attention_problem &p, int tokens, int heads,
                  const long (&stride)[3], int rows) {
  tensor_box b{};
  b.base = base;
  b.element = is_bf16 ? tensor_element::bf16 : tensor_element::f16;
  b.rank = 4;
  const long extent[4] = {p.d, tokens, heads, p.batch};
  const long bytes[4] = {2, 2 * stride[2], 2 * stride[1], 2 * stride[0]};
  const int box[4] = {64, rows, 1, 1};
  for (int i = 0; i < 4; ++i)
    b.extent[i] = extent[i], b.stride[i] = bytes[i], b.box[i] = box[i];
  b.span = 128;
  return b;
}

template <class V> int launch(const attention_problem &p, cudaStream_t stream, bool early) {
  using kernel = warpgroup_attention<V>;
  attention_arguments a{};
  const bool is_bf16 = p.bf16 != 0;
  if (encode(a.q, box_of(p.q, is_bf16, p, p.m, p.heads, p.q_stride, kernel::rows)) != cuda::ok ||
      encode(a.k, box_of(p.k, is_bf16, p, p.n, p.heads / p.group, p.k_stride, kernel::keys)) !=
          cuda::ok ||
      encode(a.v, box_of(p.v, is_bf16, p, p.n, p.heads / p.group, p.v_stride, kernel::keys)) !=
          cuda::ok)
    return -1;
  a.y = p.y;
  a.y_batch = p.y_stride[0], a.y_head = p.y_stride[1], a.y_token = p.y_stride[2];
  a.heads = p.heads, a.group = p.group, a.batch = p.batch, a.m = p.m, a.n = p.n, a.d = p.d;
  a.offset = p.offset;
  a.scale = p.scale * 1.44269504f;
  static const int prepared = int(cudaFuncSetAttribute(
      attend<V>, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel::shared_bytes));
  if (prepared)
    return prepared;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(ceil_div(p.m, kernel::rows) * p.heads * p.batch));
  config.blockDim = dim3(kernel::threads);
  config.dynamicSmemBytes = kernel::shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return int(cudaLaunchKernelEx(&config, attend<V>, a));
}

template <class V> void add(const char *name) {
  const bool is_bf16 = tenon::detail::is_same<typename V::element, bf16>;
  attention_entries().push_back({name, V::d, V::causal, is_bf16, &launch<V>});
}

// Variants are counted, and every PARTS-th is built here.
template <bool Here, class V> struct adder {
  explicit adder(const char *) {}
};
template <class V> struct adder<true, V> {
  explicit adder(const char *name) { add<V>(name); }
};
constexpr int first_counter = __COUNTER__ + 1;
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define ONE(n, name, ...)                                                                          \
  const adder<(n - first_counter) % PARTS == PART, attention_variant<__VA_ARGS__>> JOIN(added_,    \
                                                                                        n)(name);
#define VARIANT(name, ...) ONE(__COUNTER__, name, __VA_ARGS__)
/// Full and causal, fp16.
#define BOTH(name, d, c, t, k, s, o, u, e, l, b)                                                   \
  VARIANT(name, f16, d, c, t, k, s, o, u, false, e, l, b)                                          \
  VARIANT(name, f16, d, c, t, k, s, o, u, true, e, l, b)
#define BOTH_BF16(name, d, c, t, k, s, o, u, e, l, b)                                              \
  VARIANT(name, bf16, d, c, t, k, s, o, u, false, e, l, b)                                         \
  VARIANT(name, bf16, d, c, t, k, s, o, u, true, e, l, b)

// clang-format off
// name: consumers x teams, keys, stages; o overlap, u turns, e emulated, l lazy, b blocks of an SM
//                               d, c, t, keys, s, overlap, turns, e, lazy, b
BOTH("c2 k128 s2",              64, 2, 1, 128, 2, false, false, 0, false, 1)
BOTH("c2 k128 s2 u",            64, 2, 1, 128, 2, false, true, 0, false, 1)
BOTH("c2 k128 s2 o",            64, 2, 1, 128, 2, true, false, 0, false, 1)
BOTH("c2 k128 s2 ou",           64, 2, 1, 128, 2, true, true, 0, false, 1)
BOTH("c2 k128 s2 oul",          64, 2, 1, 128, 2, true, true, 0, true, 1)
BOTH("c2 k128 s2 oue2l",        64, 2, 1, 128, 2, true, true, 2, true, 1)
BOTH("c3 k128 s2 ou",           64, 3, 1, 128, 2, true, true, 0, false, 1)
BOTH("c3 k128 s2 oul",          64, 3, 1, 128, 2, true, true, 0, true, 1)
BOTH("c3 k128 s2 oue2l",        64, 3, 1, 128, 2, true, true, 2, true, 1)
BOTH("c1 k128 s2 o b2",         64, 1, 1, 128, 2, true, false, 0, false, 2)
BOTH("c1 k64 s2 o b3",          64, 1, 1, 64, 2, true, false, 0, false, 3)
BOTH("c2t2 k64 s4 o",           64, 2, 2, 64, 4, true, false, 0, false, 1)
BOTH("c2t2 k128 s4 o",          64, 2, 2, 128, 4, true, false, 0, false, 1)
BOTH("c4t4 k64 s4",             64, 4, 4, 64, 4, false, false, 0, false, 1)
BOTH("c2 k64 s2 b2",            64, 2, 1, 64, 2, false, false, 0, false, 2)
BOTH("c2 k64 s2 l b2",          64, 2, 1, 64, 2, false, false, 0, true, 2)
BOTH("c1 k128 s2 ol b2",        64, 1, 1, 128, 2, true, false, 0, true, 2)

BOTH("c2 k128 s2",             128, 2, 1, 128, 2, false, false, 0, false, 1)
BOTH("c2 k128 s2 o",           128, 2, 1, 128, 2, true, false, 0, false, 1)
BOTH("c2 k128 s2 ou",          128, 2, 1, 128, 2, true, true, 0, false, 1)
BOTH("c2 k128 s2 oul",         128, 2, 1, 128, 2, true, true, 0, true, 1)
BOTH("c2 k160 s2 ou",          128, 2, 1, 160, 2, true, true, 0, false, 1)
BOTH("c3 k64 s3 ou",           128, 3, 1, 64, 3, true, true, 0, false, 1)
BOTH("c3 k96 s2 u",            128, 3, 1, 96, 2, false, true, 0, false, 1)
BOTH("c1 k64 s2 o b2",         128, 1, 1, 64, 2, true, false, 0, false, 2)
BOTH("c2t2 k64 s4 o",          128, 2, 2, 64, 4, true, false, 0, false, 1)
BOTH("c2t2 k128 s2 o",         128, 2, 2, 128, 2, true, false, 0, false, 1)

BOTH_BF16("c2 k128 s2 ou",      64, 2, 1, 128, 2, true, true, 0, false, 1)
BOTH_BF16("c3 k128 s2 oul",     64, 3, 1, 128, 2, true, true, 0, true, 1)
BOTH_BF16("c1 k128 s2 o b2",    64, 1, 1, 128, 2, true, false, 0, false, 2)
BOTH_BF16("c1 k128 s2 ol b2",   64, 1, 1, 128, 2, true, false, 0, true, 2)
BOTH_BF16("c2 k64 s2 b2",       64, 2, 1, 64, 2, false, false, 0, false, 2)
BOTH_BF16("c2 k64 s2 l b2",     64, 2, 1, 64, 2, false, false, 0, true, 2)
BOTH_BF16("c2 k128 s2 oul",    128, 2, 1, 128, 2, true, true, 0, true, 1)
BOTH_BF16("c2 k128 s2 ou",     128, 2, 1, 128, 2, true, true, 0, false, 1)
// clang-format on

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
int attention_suits(int i, int d, int causal, int bf16) {
  const study::attention_entry &e = study::attention_entries()[size_t(i)];
  return e.d == (d <= 64 ? 64 : d <= 128 ? 128 : 256) && e.causal == causal && e.bf16 == bf16;
}
int attention_launch(int i, const study::attention_problem *p, void *stream, int early) {
  return study::attention_entries()[size_t(i)].launch(*p, static_cast<cudaStream_t>(stream),
                                                      early != 0);
}
}
#endif
