// Defines what the CUDA runtime knows kernel entries by: the addresses of their host stubs.
#ifndef TENON_RUNTIME_CUDA_HOST_FUNCTION_CUH
#define TENON_RUNTIME_CUDA_HOST_FUNCTION_CUH

#include "cuda/host/live.cuh"

namespace tenon {
namespace cuda {

template <class Variant, class K> const void *function_of() {
  return reinterpret_cast<const void *>(&entry<Variant, K>);
}
template <class Variant, class K> const void *live_function_of() {
  return reinterpret_cast<const void *>(&live_entry<Variant, K>);
}
template <class Variant> const void *probe_of() {
  return reinterpret_cast<const void *>(&build_probe<Variant>);
}

} // namespace cuda
} // namespace tenon

#endif
