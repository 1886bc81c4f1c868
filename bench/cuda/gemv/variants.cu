// Defines the variants of strip.cuh that are built. -DPART=<i>: 0 fp16, 1 int8, 2 int4 weights.
#include "strip.cuh"
#include "variants.h"

namespace study {
namespace {

product product_of(const gemv_problem &p) {
  return {p.w, p.scale, static_cast<const __half *>(p.x), static_cast<__half *>(p.y), p.n, p.k};
}

/// `id`: an attribute whose value is an int that is 1, or that to ignore. In clusters of `cluster`.
template <class A>
int launch(void (*kernel)(A), const A &a, int blocks, int threads, int shared_bytes,
           cudaLaunchAttributeID id, cudaStream_t stream, int cluster = 1) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = id;
  attributes[0].val.cooperative = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {unsigned(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks));
  config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = size_t(shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = cluster > 1 ? 2 : 1;
  return int(cudaLaunchKernelEx(&config, kernel, a));
}
template <class A> int prepare(void (*kernel)(A), int shared_bytes) {
  return int(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
}
constexpr cudaLaunchAttributeID early_id(bool early) {
  return early ? cudaLaunchAttributeProgrammaticStreamSerialization : cudaLaunchAttributeIgnore;
}

template <class Kernel, int Split>
int launch_strip(const gemv_problem &p, cudaStream_t stream, bool early) {
  static const int prepared = prepare(&strip<Kernel>, Kernel::shared_bytes);
  // Clusters of four lie in groups of 16 or 18 multiprocessors: 32 of them find room at once.
  const int strips = ceil_div(p.n, 16), groups = min_of(Split == 4 ? 32 : 132 / Split, strips);
  if (prepared || p.k % 8 ||
      (Split > 1 && ceil_div(strips, groups) > Kernel::most_passes * Kernel::strips))
    return prepared ? prepared : 1000;
  strip_arguments a{};
  a.one = product_of(p), a.rows = p.tokens, a.count = 1;
  return launch(&strip<Kernel>, a, groups * Split, Kernel::threads, Kernel::shared_bytes,
                early_id(early), stream, Split);
}
template <class Kernel> int launch_chain(const gemv_chain &c, cudaStream_t stream) {
  static const int prepared = prepare(&strip<Kernel>, Kernel::shared_bytes);
  if (prepared || c.count > Kernel::most_products)
    return prepared ? prepared : 1000;
  strip_arguments a{};
  a.rows = c.tokens, a.count = c.count, a.chain = static_cast<const product *>(c.products);
  a.clear = static_cast<uint4 *>(c.clear), a.clear_words = c.clear_bytes / 16;
  return launch(&strip<Kernel>, a, 132, Kernel::threads, Kernel::shared_bytes,
                cudaLaunchAttributeCooperative, stream);
}
template <class Kernel> int launch_vector(const gemv_problem &p, cudaStream_t stream, bool early) {
  const int all = ceil_div(p.n, Kernel::threads / 32), bytes = Kernel::shared_bytes(p.k);
  if (bytes > 49152 || p.k % 8)
    return 1000;
  return launch(&plain<Kernel>, product_of(p), all, Kernel::threads, bytes, early_id(early),
                stream);
}
template <class Kernel> int launch_read(const gemv_problem &p, cudaStream_t stream, bool early) {
  return launch(&plain<Kernel>, product_of(p), 264, Kernel::threads, 0, early_id(early), stream);
}

constexpr weights kind = weights(PART);

template <int Rows, int W, int T, int S, int Stages, int Split = 1> struct add {
  explicit add(const char *name) {
    using kernel = strip_kernel<kind, Rows, W, T, S, Stages, false, prologue::none,
                                epilogue::halves, Split, 8192 / Split>;
    gemv_entries().push_back({name, int(kind),
                              Rows > 8   ? 9
                              : Rows > 1 ? 2
                                         : 1,
                              Rows, &launch_strip<kernel, Split>, nullptr});
  }
};
template <int Rows, int W, int T, int S, int Stages> struct add_chain {
  explicit add_chain(const char *name) {
    using kernel = strip_kernel<kind, Rows, W, T, S, Stages, true>;
    gemv_entries().push_back({name, int(kind),
                              Rows > 8   ? 9
                              : Rows > 1 ? 2
                                         : 1,
                              Rows, nullptr, &launch_chain<kernel>});
  }
};

// w warps, t tiles of a warp in a stage, s strips of a pass, r stages of the ring
const add<1, 8, 2, 4, 9> a0("w8 t2 s4 r9");
const add<1, 8, 4, 4, 4> a1("w8 t4 s4 r4");
const add<8, 8, 2, 4, 7> b0("w8 t2 s4 r7");
const add<8, 8, 4, 4, 3> b1("w8 t4 s4 r3");
const add<16, 8, 2, 2, 6> c0("w8 t2 s2 r6");
// q: blocks that share strips along k
const add<1, 8, 2, 4, 10, 2> g0("w8 t2 s4 r10 q2");
const add<1, 8, 2, 4, 10, 4> g1("w8 t2 s4 r10 q4");
const add<8, 8, 2, 4, 6, 2> g2("w8 t2 s4 r6 q2");
const add<8, 8, 2, 4, 6, 4> g3("w8 t2 s4 r6 q4");
const add<16, 8, 2, 2, 6, 2> g4("w8 t2 s2 r6 q2");
const add<16, 8, 2, 1, 6, 4> g5("w8 t2 s1 r6 q4");
const add_chain<1, 16, 2, 4, 10> d0("chain w16 t2 s4 r10");
const add_chain<1, 8, 4, 4, 10> d1("chain w8 t4 s4 r10");
const add_chain<8, 16, 2, 2, 9> e0("chain w16 t2 s2 r9");
const add_chain<16, 16, 2, 2, 7> f0("chain w16 t2 s2 r7");
const add_chain<16, 8, 2, 2, 14> f1("chain w8 t2 s2 r14");
const add_chain<16, 12, 2, 2, 9> f2("chain w12 t2 s2 r9");
const add_chain<16, 12, 2, 1, 9> f3("chain w12 t2 s1 r9");
const add_chain<8, 12, 2, 4, 9> e1("chain w12 t2 s4 r9");

#if PART == 0
struct add_others {
  add_others() {
    const auto put = [](const char *name, int layout, int most, auto call) {
      gemv_entries().push_back({name, layout, 1, most, call, nullptr});
    };
    // u runs of 16 bytes ahead
    put("vector u4", layout_rows, 1, &launch_vector<vector_kernel<4>>);
    put("read u4", layout_read, 16, &launch_read<read_kernel<4>>);
    put("read u8", layout_read, 16, &launch_read<read_kernel<8>>);
  }
} const others;
#endif

} // namespace

#if PART == 0
std::vector<gemv_entry> &gemv_entries() {
  static std::vector<gemv_entry> all;
  return all;
}
#endif

} // namespace study

#if PART == 0
extern "C" {
int gemv_count() { return int(study::gemv_entries().size()); }
const char *gemv_name(int i) { return study::gemv_entries()[size_t(i)].name; }
int gemv_layout_of(int i) { return study::gemv_entries()[size_t(i)].layout; }
int gemv_suits(int i, int tokens) {
  const study::gemv_entry &e = study::gemv_entries()[size_t(i)];
  return e.least <= tokens && tokens <= e.most;
}
int gemv_is_chain(int i) { return study::gemv_entries()[size_t(i)].launch == nullptr; }
int gemv_launch(int i, const study::gemv_problem *p, void *stream, int early) {
  return study::gemv_entries()[size_t(i)].launch(*p, static_cast<cudaStream_t>(stream), early != 0);
}
int gemv_launch_chain(int i, const study::gemv_chain *c, void *stream) {
  return study::gemv_entries()[size_t(i)].chain(*c, static_cast<cudaStream_t>(stream));
}
}
#endif
