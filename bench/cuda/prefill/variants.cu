// Defines the variants of narrow_wgmma.cuh that are built.
#include "narrow_wgmma.cuh"
#include "variants.h"

namespace study {
namespace {

template <int Groups, int Tokens, int Stages>
int launch(const narrow_problem &p, cudaStream_t stream) {
  using kernel = narrow_wgmma<Groups, Tokens, Stages>;
  if (p.n % kernel::outputs || p.k % 128)
    return 1000;
  narrow_arguments a{};
  tensor_box box{};
  box.base = p.x, box.element = tensor_element::f16, box.rank = 2, box.span = 128;
  box.extent[0] = p.k, box.extent[1] = p.tokens;
  box.stride[0] = 2, box.stride[1] = 2L * p.k;
  box.box[0] = kernel::depth, box.box[1] = Tokens;
  if (encode(a.x, box) != cuda::ok)
    return -1;
  a.w = static_cast<const unsigned char *>(p.w),
  a.scale = static_cast<const unsigned char *>(p.scale);
  a.y = static_cast<__half *>(p.y), a.n = p.n, a.k = p.k, a.tokens = p.tokens;
  static const int prepared = int(cudaFuncSetAttribute(
      narrow<kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel::shared_bytes));
  if (prepared)
    return prepared;
  narrow<kernel><<<unsigned(p.n / kernel::outputs * ceil_div(p.tokens, Tokens)), kernel::threads,
                   kernel::shared_bytes, stream>>>(a);
  return int(cudaGetLastError());
}

// g warpgroups that multiply, t tokens, s stages
struct variant {
  const char *name;
  int (*launch)(const narrow_problem &, cudaStream_t);
};
constexpr variant variants[] = {{"g2 t256 s5", &launch<2, 256, 5>},
                                {"g2 t192 s6", &launch<2, 192, 6>},
                                {"g2 t128 s8", &launch<2, 128, 8>},
                                {"g2 t64 s10", &launch<2, 64, 10>},
                                {"g1 t128 s8", &launch<1, 128, 8>}};

} // namespace
} // namespace study

extern "C" {
int narrow_count() { return int(sizeof(study::variants) / sizeof(study::variant)); }
const char *narrow_name(int i) { return study::variants[i].name; }
int narrow_launch(int i, const study::narrow_problem *p, void *stream) {
  return study::variants[i].launch(*p, static_cast<cudaStream_t>(stream));
}
}
