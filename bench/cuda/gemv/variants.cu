// Defines the variants of strip.cuh that are built. -DPART=<i>: 0 fp16, 1 int8, 2 int4 weights.
#include "strip.cuh"
#include "variants.h"

namespace study {
namespace {

template <class Kernel>
int launch(const gemv_problem &p, cudaStream_t stream, bool early, int blocks, int shared_bytes) {
  if (shared_bytes > 232448)
    return 1000;
  static const int prepared =
      int(cudaFuncSetAttribute(strip<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448));
  if (prepared)
    return prepared;
  const strip_arguments a{static_cast<const uint4 *>(p.w),
                          static_cast<const __half *>(p.scale),
                          static_cast<const __half *>(p.x),
                          static_cast<__half *>(p.y),
                          p.n,
                          p.k,
                          p.tokens};
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks));
  config.blockDim = dim3(Kernel::threads);
  config.dynamicSmemBytes = size_t(shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return int(cudaLaunchKernelEx(&config, strip<Kernel>, a));
}

template <class Kernel> int launch_strip(const gemv_problem &p, cudaStream_t stream, bool early) {
  return launch<Kernel>(p, stream, early, ceil_div(ceil_div(p.n, 16), Kernel::strips),
                        Kernel::shared_bytes(p.k, p.tokens));
}
template <class Kernel, int BlocksPerSm>
int launch_vector(const gemv_problem &p, cudaStream_t stream, bool early) {
  const int all = ceil_div(p.n, Kernel::threads / 32);
  return launch<Kernel>(p, stream, early, BlocksPerSm ? min_of(all, 132 * BlocksPerSm) : all,
                        Kernel::shared_bytes(p.k));
}
template <class Kernel> int launch_read(const gemv_problem &p, cudaStream_t stream, bool early) {
  return launch<Kernel>(p, stream, early, 264, 0);
}

template <weights Kind, int S, int P, int U> struct add {
  explicit add(const char *name) {
    const int layout = int(Kind);
    gemv_entries().push_back({name, layout, 1, 8, &launch_strip<strip_kernel<Kind, 1, S, P, U>>});
    gemv_entries().push_back({name, layout, 9, 16, &launch_strip<strip_kernel<Kind, 2, S, P, U>>});
  }
};

constexpr weights kind = weights(PART);
// s strips of a block, p parts of k, u tiles ahead of a warp
const add<kind, 1, 16, 4> a0("s1 p16 u4");
const add<kind, 2, 8, 4> a1("s2 p8 u4");
const add<kind, 4, 4, 4> a2("s4 p4 u4");
const add<kind, 8, 2, 4> a3("s8 p2 u4");
const add<kind, 1, 8, 4> a4("s1 p8 u4");
const add<kind, 2, 4, 4> a5("s2 p4 u4");
const add<kind, 4, 2, 4> a6("s4 p2 u4");
const add<kind, 1, 8, 8> b0("s1 p8 u8");
const add<kind, 2, 4, 8> b1("s2 p4 u8");
const add<kind, 4, 2, 8> b2("s4 p2 u8");
const add<kind, 8, 1, 8> b3("s8 p1 u8");

#if PART == 0
struct add_vectors {
  add_vectors() {
    // b blocks of a multiprocessor, each going on to further outputs
    gemv_entries().push_back({"vector u4", layout_rows, 1, 1, &launch_vector<vector_kernel<4>, 0>});
    gemv_entries().push_back({"vector u8", layout_rows, 1, 1, &launch_vector<vector_kernel<8>, 0>});
    gemv_entries().push_back(
        {"vector u4 b4", layout_rows, 1, 1, &launch_vector<vector_kernel<4>, 4>});
    gemv_entries().push_back(
        {"vector u8 b2", layout_rows, 1, 1, &launch_vector<vector_kernel<8>, 2>});
    gemv_entries().push_back({"read u4", layout_read, 1, 16, &launch_read<read_kernel<4>>});
    gemv_entries().push_back({"read u8", layout_read, 1, 16, &launch_read<read_kernel<8>>});
  }
} const vectors;
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
int gemv_launch(int i, const study::gemv_problem *p, void *stream, int early) {
  return study::gemv_entries()[size_t(i)].launch(*p, static_cast<cudaStream_t>(stream), early != 0);
}
}
#endif
