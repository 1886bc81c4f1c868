// Defines cp.async (sm_80 and up): copies from global to shared memory that bypass registers and
// complete in groups. Where `valid` is false nothing is read and the destination becomes zero.
#ifndef TENON_RUNTIME_CUDA_PTX_CP_ASYNC_CUH
#define TENON_RUNTIME_CUDA_PTX_CP_ASYNC_CUH

#include "cuda/ptx/shared_address.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

/// Both addresses are multiples of Bytes.
template <int Bytes> struct cp_async {
  static_assert(Bytes == 16 || Bytes == 8 || Bytes == 4, "cp.async moves 4, 8 or 16 bytes");
  TENON_DEVICE static void copy(void *shared, const void *global, bool valid) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const int bytes = valid ? Bytes : 0;
    if constexpr (Bytes == 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                   "l"(global), "r"(bytes)
                   : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)),
                   "l"(global), "n"(Bytes), "r"(bytes)
                   : "memory");
#else
    (void)shared, (void)global, (void)valid;
#endif
  }
};

struct cp_async_group {
  /// Closes the group of this thread's copies issued so far.
  TENON_DEVICE static void commit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }
  /// Waits until at most Pending of this thread's groups are still under way.
  template <int Pending> TENON_DEVICE static void wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
