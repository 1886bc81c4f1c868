// Stands in for runtime/cuda/host/function.cuh where kernels run on the CPU: a "function" is a
// record that the emulated CUDA runtime launches.
#ifndef TENON_RUNTIME_CUDA_FUNCTION_CUH
#define TENON_RUNTIME_CUDA_FUNCTION_CUH

#include "cuda/host/live.cuh"

namespace tenon {
namespace cuda {
namespace detail {

template <class Variant, class K> struct emulated_entry {
  static void run(void *const *arguments, dim3 blocks, int cluster, int threads, int shared_bytes) {
    if constexpr (Variant::contains(this_target) && machines<K>::contain(this_target)) {
      const K kernel = *static_cast<const K *>(arguments[0]);
      emulator::machine::instance().launch(
          int(blocks.x), int(blocks.y), int(blocks.z), cluster, threads, shared_bytes,
          [&](unsigned char *shared) { run_parts(kernel, shared); });
    } else {
      trap();
    }
  }
  static constexpr emulator::function value = {run, {sizeof(K), sizeof(launch_tag)}, K::threads};
};
template <class Variant, class K> struct emulated_live_entry {
  static void run(void *const *arguments, dim3 blocks, int cluster, int threads, int shared_bytes) {
    if constexpr (Variant::contains(this_target) && machines<K>::contain(this_target)) {
      const live_kernel<K> live = *static_cast<const live_kernel<K> *>(arguments[0]);
      emulator::machine::instance().launch(int(blocks.x), int(blocks.y), int(blocks.z), cluster,
                                           threads, shared_bytes,
                                           [&](unsigned char *shared) { run_live(live, shared); });
    } else {
      trap();
    }
  }
  static constexpr emulator::function value = {
      run, {sizeof(live_kernel<K>), sizeof(launch_tag)}, K::threads};
};
template <class Variant> struct emulated_probe {
  static constexpr emulator::function value = {nullptr, {0, 0}, 0};
};

} // namespace detail

template <class Variant, class K> const void *function_of() {
  return &detail::emulated_entry<Variant, K>::value;
}
template <class Variant, class K> const void *live_function_of() {
  return &detail::emulated_live_entry<Variant, K>::value;
}
template <class Variant> const void *probe_of() { return &detail::emulated_probe<Variant>::value; }

} // namespace cuda
} // namespace tenon

#endif
