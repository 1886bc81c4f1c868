// Defines the kernels of a decoder's step and their launches. -DPART=<i>: weights of kind i (0
// fp16, 2 int4); -DPART=9: what does not depend on it. See README.md.
#include "decode_attention.cuh"
#include "kernels.h"
#include "strip.cuh"

namespace study {

#if PART != 9

namespace {

constexpr weights kind = weights(PART);

/// As strip, with at most `Registers` a thread: so that two blocks of products leave room for one
/// of the attention.
template <class Kernel, int Registers>
__global__ void __maxnreg__(Registers) lean_strip(const __grid_constant__ strip_arguments a) {
  extern __shared__ __align__(128) unsigned char shared[];
  Kernel::run(a, *reinterpret_cast<typename Kernel::memory *>(shared));
}

template <class Kernel, int Registers> constexpr auto kernel_of() {
  if constexpr (Registers > 0)
    return &lean_strip<Kernel, Registers>;
  else
    return &strip<Kernel>;
}

template <class Kernel, int Split, int Registers>
int launch_strip(strip_arguments a, const step_launch_options &how) {
  constexpr auto kernel = kernel_of<Kernel, Registers>();
  static const int prepared = prepare(reinterpret_cast<const void *>(kernel), Kernel::shared_bytes);
  if (prepared)
    return prepared;
  const int groups = multiprocessors / Split, strips = ceil_div(a.one.n, 16);
  const bool fits =
      a.one.k % 8 == 0 && (!Kernel::normalizes || a.one.k <= Kernel::depth * Split) &&
      (Split == 1 || ceil_div(strips, groups) <= Kernel::most_passes * Kernel::strips);
  if (!fits)
    return 1000;
  a.rows = 1, a.count = 1, a.late = how.late;
  return study::launch(kernel, dim3(unsigned(groups * Split)), Kernel::threads,
                       Kernel::shared_bytes, Split, how, a);
}

/// Warps, tiles of a stage, strips of a pass, stages; splits of qkv and down; registers (0: free).
template <int W, int T, int S, int R, int SplitQkv, int SplitDown, int Registers = 0,
          arrival By = arrival::grid>
struct products {
  template <prologue In, epilogue Out, int Split, int Depth>
  static int one(const strip_arguments &a, const step_launch_options &how) {
    constexpr int depth = max_of(Depth / Split, 256 * W);
    return launch_strip<strip_kernel<kind, 1, W, T, S, R, false, In, Out, Split, depth, By>, Split,
                        Registers>(a, how);
  }
  static int launch(step_product which, const strip_arguments &a, const step_launch_options &how) {
    switch (which) {
    case step_product::qkv:
      return one<prologue::rms_norm, epilogue::halves, SplitQkv, 2048>(a, how);
    case step_product::project: return one<prologue::none, epilogue::residual, 1, 2048>(a, how);
    case step_product::gate_up: return one<prologue::rms_norm, epilogue::swiglu, 1, 2048>(a, how);
    case step_product::down:
      return one<prologue::none, epilogue::residual, SplitDown, 8192>(a, how);
    default: return one<prologue::rms_norm, epilogue::argmax, 1, 2048>(a, how);
    }
  }
};

// w, t, s, r, q, d: as the parameters of products.
const step_entry entries[] = {
#if PART == 0
    {"w8 t2 s4 r10 q2 d2", &products<8, 2, 4, 10, 2, 2>::launch, false},
    {"w8 t2 s4 r10 q1 d1", &products<8, 2, 4, 10, 1, 1>::launch, false},
    {"w8 t2 s4 r10 q2 d2 lean", &products<8, 2, 4, 10, 2, 2, 72>::launch, false},
    {"w8 t4 s4 r5 q2 d2", &products<8, 4, 4, 5, 2, 2>::launch, false},
    {"w4 t4 s2 r10 q2 d2", &products<4, 4, 2, 10, 2, 2>::launch, false},
    {"w8 t2 s4 r10 q2 d2 polls", &products<8, 2, 4, 10, 2, 2, 0, arrival::values>::launch, true},
    {"w8 t2 s4 r10 q1 d1 polls", &products<8, 2, 4, 10, 1, 1, 0, arrival::values>::launch, true},
    {"w8 t2 s4 r10 q2 d2 lean polls", &products<8, 2, 4, 10, 2, 2, 72, arrival::values>::launch,
     true},
#else
    {"w8 t2 s4 r9 q2 d2", &products<8, 2, 4, 9, 2, 2>::launch, false},
    {"w8 t2 s4 r9 q1 d1", &products<8, 2, 4, 9, 1, 1>::launch, false},
    {"w8 t2 s2 r9 q2 d2 lean", &products<8, 2, 2, 9, 2, 2, 72>::launch, false},
    {"w8 t2 s2 r9 q2 d2", &products<8, 2, 2, 9, 2, 2>::launch, false},
    {"w4 t2 s2 r18 q2 d2", &products<4, 2, 2, 18, 2, 2>::launch, false},
    {"w8 t2 s4 r9 q2 d2 polls", &products<8, 2, 4, 9, 2, 2, 0, arrival::values>::launch, true},
    {"w8 t2 s4 r9 q1 d1 polls", &products<8, 2, 4, 9, 1, 1, 0, arrival::values>::launch, true},
    {"w8 t2 s2 r9 q2 d2 lean polls", &products<8, 2, 2, 9, 2, 2, 72, arrival::values>::launch,
     true},
#endif
};

/// The embedding of a token, from the weights of the head.
__global__ void embed(const unsigned char *w, const unsigned short *scale, const int *token,
                      float *stream, int hidden, int vocabulary) {
  using tile = tile_of<kind>;
  ptx::griddepcontrol::launch_dependents();
  ptx::griddepcontrol::wait();
  const int o = min_of(max_of(*token, 0), vocabulary - 1), row = o % 16;
  for (int k = int(blockIdx.x * blockDim.x + threadIdx.x); k < hidden;
       k += int(gridDim.x * blockDim.x)) {
    const int t = k % 32 / 8, s = k % 8 / 4, h = k % 2, r = row / 8 + 2 * (k % 4 / 2), g = row % 8;
    const size_t tiles = size_t(2 * ceil_div(hidden, 2 * tile::depth)),
                 at = size_t(o / 16) * tiles +
                      size_t(tile::depth == 16 ? k / 32 * 2 + s : k / tile::depth);
    const unsigned char *const lane_of = w + at * 512 + (4 * g + t) * 16;
    if constexpr (kind == weights::fp16) {
      arrival_of_values::store(
          stream + k, __half2float(*reinterpret_cast<const __half *>(lane_of + 4 * r + 2 * h)));
    } else {
      const int block = k % tile::depth / 32;
      const unsigned bits = *reinterpret_cast<const unsigned *>(lane_of + 4 * (2 * block + s));
      const int q = int(bits >> 4 * (4 * h + r) & 15u) - 8;
      const size_t of_scale =
          ((at * 8 + size_t(g)) * tile::blocks + size_t(block)) * 2 + size_t(row / 8);
      arrival_of_values::store(stream + k,
                               float(q) * __half2float(__ushort_as_half(scale[of_scale])));
    }
  }
}

int launch_embed(const step_model &m, float *stream, const step_launch_options &how) {
  static const int prepared = prepare(reinterpret_cast<const void *>(&embed), 0);
  return prepared
             ? prepared
             : launch(&embed, dim3(8), 256, 0, 1, how, static_cast<const unsigned char *>(m.head),
                      static_cast<const unsigned short *>(m.head_scale),
                      static_cast<const int *>(m.token), stream, m.hidden, m.vocabulary);
}

} // namespace

template <> step_kernels kernels_of<PART>() {
  return {entries, int(sizeof(entries) / sizeof(entries[0])), &launch_embed};
}

#else

namespace {

template <int D, int Warps, int Cluster, bool Polls>
int launch_attend(const decode_arguments &a, int kv_heads, const step_launch_options &how) {
  using kernel = decode_kernel<D, Warps, Cluster, true, Polls>;
  static const int prepared = prepare(reinterpret_cast<const void *>(&decode<kernel>), 0);
  static const int wide =
      prepared ? prepared
               : int(cudaFuncSetAttribute(decode<kernel>,
                                          cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  return wide ? wide
              : launch(&decode<kernel>, dim3(Cluster, unsigned(kv_heads)), 32 * Warps, 0, Cluster,
                       how, a);
}
template <int Warps, int Cluster>
int attend(const decode_arguments &a, int kv_heads, int d, bool polls,
           const step_launch_options &how) {
  if (d == 64)
    return polls ? launch_attend<64, Warps, Cluster, true>(a, kv_heads, how)
                 : launch_attend<64, Warps, Cluster, false>(a, kv_heads, how);
  return polls ? launch_attend<128, Warps, Cluster, true>(a, kv_heads, how)
               : launch_attend<128, Warps, Cluster, false>(a, kv_heads, how);
}
struct attend_entry {
  const char *name;
  int (*launch)(const decode_arguments &, int kv_heads, int d, bool polls,
                const step_launch_options &);
};
const attend_entry attends[] = {{"w4 c16", &attend<4, 16>},
                                {"w5 c16", &attend<5, 16>},
                                {"w8 c16", &attend<8, 16>},
                                {"w8 c8", &attend<8, 8>},
                                {"w4 c8", &attend<4, 8>}};

/// The end of a step: the token that follows, and the length; results are cleared.
__global__ void end_step(unsigned long long *best, int *token, int *length, int *tokens,
                         int capacity, uint4 *clear, int clear_words) {
  ptx::griddepcontrol::launch_dependents();
  ptx::griddepcontrol::wait();
  for (int i = thread(); i < clear_words; i += int(blockDim.x))
    clear[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
  if (thread() > 0)
    return;
  const int next = int(~unsigned(*best)), at = *length;
  *best = 0;
  if (at < capacity) {
    tokens[at] = next;
    *token = next;
    *length = at + 1;
  }
}

step_kernels kernels(int kind) { return kind == 0 ? kernels_of<0>() : kernels_of<2>(); }

/// Bytes of the results of kernels before `index`.
long results_before(const step_model &m, int index) {
  const auto padded = [](long bytes) { return (bytes + 15) / 16 * 16; };
  const long stream = padded(4L * m.hidden), qkv = padded(2L * (m.heads + 2 * m.kv_heads) * m.d),
             attended = padded(2L * m.heads * m.d), inner = padded(2L * m.inner_size);
  const long parts[] = {qkv, attended, stream, inner, stream};
  long bytes = 0;
  for (int i = 0; i < min_of(index, 5 * m.count + 1); ++i)
    bytes += i == 0 ? stream : parts[(i - 1) % 5];
  return bytes;
}

/// A kernel clears what the fourth before it gave, whose readers have ended.
constexpr int clears_behind = 4;

int launch_one(const step_model &m, const step_options &o, int index, cudaStream_t stream) {
  const step_launch_options how{stream, o.early != 0, o.late != 0};
  const step_kernels of = kernels(o.kind);
  const step_entry &entry = of.entries[o.variant];
  unsigned char *const base = static_cast<unsigned char *>(m.results);
  const auto result = [&](int i) { return base + results_before(m, i); };
  const auto stream_of = [&](int i) { return reinterpret_cast<float *>(result(i)); };
  // What is read before waits (lengths, old keys) is from steps that have ended, for the first
  // kernel begins when all of the step before has ended.
  if (index == 0)
    return of.embed(m, stream_of(0), {stream, false, false});
  const int last = 5 * m.count + 1;
  const int from = max_of(0, index - clears_behind),
            to = index > last ? index : from + (index >= clears_behind);
  uint4 *const clear = reinterpret_cast<uint4 *>(result(from));
  const int clear_words = entry.polls ? int(result(to) - result(from)) / 16 : 0;
  if (index > last) {
    static const int prepared = prepare(reinterpret_cast<const void *>(&end_step), 0);
    return prepared ? prepared
                    : launch(&end_step, dim3(1), 256, 0, 1, how, m.best, m.token, m.length,
                             m.tokens, m.capacity, clear, clear_words);
  }
  unsigned long long *const times =
      m.times ? m.times + size_t(index) * multiprocessors * 3 : nullptr;
  const step_layer *const l = index == last ? nullptr : m.layers + (index - 1) / 5;
  const int part = index == last ? 5 : (index - 1) % 5, q_size = m.heads * m.d;
  const void *const before = result(index - 1);
  if (part == 1) {
    decode_arguments a{};
    const __half *const q = static_cast<const __half *>(before);
    a.q = q, a.new_k = q + q_size, a.new_v = q + q_size + m.kv_heads * m.d;
    a.k = static_cast<const __half *>(l->k), a.v = static_cast<const __half *>(l->v);
    a.y = reinterpret_cast<__half *>(result(index)), a.length = m.length;
    a.group = m.heads / m.kv_heads, a.capacity = m.capacity;
    a.scale = 1.44269504f / sqrtf(float(m.d));
    a.cos = m.cos, a.sin = m.sin, a.late = o.late != 0, a.times = times;
    a.clear = clear, a.clear_words = clear_words;
    return attends[o.attend].launch(a, m.kv_heads, m.d, entry.polls, how);
  }
  strip_arguments a{};
  a.times = reinterpret_cast<stamps *>(times);
  a.stream = stream_of(index - 1), a.epsilon = m.epsilon, a.best = m.best;
  a.clear = clear, a.clear_words = clear_words;
  // The stream that project and down add to: that before qkv, and project's.
  a.addend = stream_of(part == 2 ? index - 3 : max_of(0, index - 2)), a.sums = stream_of(index);
  const auto put = [&](const void *w, const void *scale, const void *x, void *y, int n, int k,
                       const void *gamma) {
    a.one = {w, scale, static_cast<const __half *>(x), static_cast<__half *>(y), n, k};
    a.gamma = static_cast<const __half *>(gamma);
  };
  step_product which = step_product::head;
  switch (part) {
  case 0:
    which = step_product::qkv;
    put(l->qkv, l->qkv_scale, nullptr, result(index), q_size + 2 * m.kv_heads * m.d, m.hidden,
        l->attend_gamma);
    break;
  case 2:
    which = step_product::project;
    put(l->project, l->project_scale, before, nullptr, m.hidden, q_size, nullptr);
    break;
  case 3:
    which = step_product::gate_up;
    put(l->gate_up, l->gate_up_scale, nullptr, result(index), 2 * m.inner_size, m.hidden,
        l->mlp_gamma);
    break;
  case 4:
    which = step_product::down;
    put(l->down, l->down_scale, before, nullptr, m.hidden, m.inner_size, nullptr);
    break;
  default: put(m.head, m.head_scale, nullptr, m.logits, m.vocabulary, m.hidden, m.gamma);
  }
  return entry.launch(which, a, how);
}

} // namespace

#endif

} // namespace study

#if PART == 9
extern "C" {
int step_variants(int kind) { return study::kernels(kind).count; }
const char *step_variant_name(int kind, int i) { return study::kernels(kind).entries[i].name; }
int step_variant_polls(int kind, int i) { return study::kernels(kind).entries[i].polls; }
long step_results(const study::step_model *m, int i) { return study::results_before(*m, i); }
int step_attends() { return int(sizeof(study::attends) / sizeof(study::attends[0])); }
const char *step_attend_name(int i) { return study::attends[i].name; }
int step_launch(const study::step_model *m, const study::step_options *o, int first, int count,
                void *stream) {
  for (int i = first; i < first + count; ++i)
    if (const int e = study::launch_one(*m, *o, i, static_cast<cudaStream_t>(stream)))
      return e;
  return 0;
}
}
#endif
