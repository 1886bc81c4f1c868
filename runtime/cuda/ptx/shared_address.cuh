// Defines the 32-bit address that instructions on shared memory take.
#ifndef TENON_RUNTIME_CUDA_PTX_SHARED_ADDRESS_CUH
#define TENON_RUNTIME_CUDA_PTX_SHARED_ADDRESS_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

TENON_DEVICE unsigned shared_address(const void *p) {
#if defined(__CUDA_ARCH__)
  return unsigned(__cvta_generic_to_shared(p));
#else
  (void)p;
  return 0;
#endif
}

/// A place in shared memory by its 32-bit address, which is also what is computed with: pointers
/// have twice the bits, and each is converted where an instruction takes it.
struct shared_place {
  unsigned address;

  TENON_DEVICE shared_place(const void *p) : address(shared_address(p)) {}
  TENON_DEVICE explicit shared_place(unsigned a) : address(a) {}
  TENON_DEVICE shared_place operator+(int bytes) const {
    return shared_place(address + unsigned(bytes));
  }
};

/// `p`, of which the compiler knows nothing more: it keeps the address, where it would compute it
/// from the block's place in its cluster each time. For addresses of barriers and tiles; loads and
/// stores through it are generic ones.
TENON_DEVICE unsigned char *opaque(unsigned char *p) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(p));
#endif
  return p;
}
/// Computes `value` here and not where it is used.
TENON_DEVICE void settle(int &value) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(value));
#else
  (void)value;
#endif
}

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
