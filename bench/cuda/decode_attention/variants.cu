// Defines the variants of decode_attention.cuh that are built.
#include "decode_attention.cuh"
#include "variants.h"

namespace study {
namespace {

template <int D, int Warps, int Cluster>
int launch(const decode_problem &p, cudaStream_t stream, bool early) {
  using kernel = decode_kernel<D, Warps, Cluster>;
  static const int prepared =
      Cluster > 8 ? int(cudaFuncSetAttribute(decode<kernel>,
                                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1))
                  : 0;
  if (prepared)
    return prepared;
  decode_arguments a{};
  a.q = static_cast<const __half *>(p.q), a.k = static_cast<const __half *>(p.k);
  a.v = static_cast<const __half *>(p.v), a.y = static_cast<__half *>(p.y);
  a.length = p.length, a.group = p.group, a.capacity = p.capacity;
  a.scale = p.scale * 1.44269504f;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = Cluster;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(Cluster, unsigned(p.heads / p.group));
  config.blockDim = dim3(32 * Warps);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = early ? 2 : 1;
  return int(cudaLaunchKernelEx(&config, decode<kernel>, a));
}

template <int Warps, int Cluster>
int launch_any(const decode_problem &p, cudaStream_t stream, bool early) {
  return p.d == 64 ? launch<64, Warps, Cluster>(p, stream, early)
                   : launch<128, Warps, Cluster>(p, stream, early);
}

// w warps of a block, c blocks of a cluster
struct variant {
  const char *name;
  int (*launch)(const decode_problem &, cudaStream_t, bool early);
};
constexpr variant variants[] = {{"w4 c1", &launch_any<4, 1>},
                                {"w4 c8", &launch_any<4, 8>},
                                {"w8 c8", &launch_any<8, 8>},
                                {"w4 c16", &launch_any<4, 16>},
                                {"w8 c16", &launch_any<8, 16>}};

} // namespace
} // namespace study

extern "C" {
int decode_count() { return int(sizeof(study::variants) / sizeof(study::variant)); }
const char *decode_name(int i) { return study::variants[i].name; }
int decode_launch(int i, const study::decode_problem *p, void *stream, int early) {
  if (p->group > 8 || (p->d != 64 && p->d != 128))
    return int(cudaErrorInvalidValue);
  return study::variants[i].launch(*p, static_cast<cudaStream_t>(stream), early != 0);
}
}
