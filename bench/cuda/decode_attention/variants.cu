// Defines the variants of decode_attention.cuh that are built.
#include "decode_attention.cuh"
#include "variants.h"

namespace study {
namespace {

struct variant {
  const char *name;
  int warps, splits;
};
constexpr variant variants[] = {{"w4 s1", 4, 1},   {"w8 s1", 8, 1},   {"w4 s4", 4, 4},
                                {"w8 s4", 8, 4},   {"w4 s8", 4, 8},   {"w8 s8", 8, 8},
                                {"w4 s16", 4, 16}, {"w8 s16", 8, 16}, {"w4 s32", 4, 32},
                                {"w8 s32", 8, 32}, {"w4 s64", 4, 64}};

template <int D, int Warps>
int launch(const decode_problem &p, int splits, cudaStream_t stream, bool early) {
  const decode_arguments a{static_cast<const __half *>(p.q),
                           static_cast<const __half *>(p.k),
                           static_cast<const __half *>(p.v),
                           static_cast<__half *>(p.y),
                           p.length,
                           p.parts,
                           p.arrived,
                           p.group,
                           p.capacity,
                           p.scale * 1.44269504f};
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(splits), unsigned(p.heads / p.group));
  config.blockDim = dim3(32 * Warps);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return int(cudaLaunchKernelEx(&config, decode<decode_kernel<D, Warps>, Warps>, a));
}

} // namespace
} // namespace study

extern "C" {
int decode_count() { return int(sizeof(study::variants) / sizeof(study::variant)); }
const char *decode_name(int i) { return study::variants[i].name; }
long decode_parts(int heads) { return long(heads) * 64 * 8 * 130; }
int decode_launch(int i, const study::decode_problem *p, void *stream, int early) {
  const study::variant &v = study::variants[i];
  const auto s = static_cast<cudaStream_t>(stream);
  if (p->group > 8 || (p->d != 64 && p->d != 128))
    return int(cudaErrorInvalidValue);
  if (p->d == 64)
    return v.warps == 4 ? study::launch<64, 4>(*p, v.splits, s, early != 0)
                        : study::launch<64, 8>(*p, v.splits, s, early != 0);
  return v.warps == 4 ? study::launch<128, 4>(*p, v.splits, s, early != 0)
                      : study::launch<128, 8>(*p, v.splits, s, early != 0);
}
}
