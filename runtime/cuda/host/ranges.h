// Defines range: with TENON_NVTX a named range around what a scope issues, which profilers such as
// Nsight Systems show above its kernels; else nothing. A context then issues step by step instead
// of launching its graph, whose kernels no range would stand around.
#ifndef TENON_RUNTIME_CUDA_HOST_RANGES_H
#define TENON_RUNTIME_CUDA_HOST_RANGES_H

#if defined(TENON_NVTX)
#include <nvtx3/nvToolsExt.h>
#endif

namespace tenon {
namespace cuda {

#if defined(TENON_NVTX)
constexpr bool ranges_wanted = true;
class range {
public:
  explicit range(const char *name) { nvtxRangePushA(name); }
  range(const range &) = delete;
  range &operator=(const range &) = delete;
  ~range() { nvtxRangePop(); }
};
#else
constexpr bool ranges_wanted = false;
struct range {
  explicit range(const char *) {}
};
#endif

} // namespace cuda
} // namespace tenon

#endif
