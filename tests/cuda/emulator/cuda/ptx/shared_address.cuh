// Stands in for runtime/cuda/ptx/shared_address.cuh: addresses count from the start of the block's
// shared memory.
#ifndef TENON_RUNTIME_CUDA_PTX_SHARED_ADDRESS_CUH
#define TENON_RUNTIME_CUDA_PTX_SHARED_ADDRESS_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

inline unsigned shared_address(const void *p) {
  return unsigned(static_cast<const unsigned char *>(p) - emulator::machine::instance().shared());
}

struct shared_place {
  unsigned address;

  shared_place(const void *p) : address(shared_address(p)) {}
  explicit shared_place(unsigned a) : address(a) {}
  shared_place operator+(int bytes) const { return shared_place(address + unsigned(bytes)); }
  unsigned char *pointer() const { return emulator::machine::instance().shared() + address; }
};

inline unsigned char *opaque(unsigned char *p) { return p; }
inline void settle(int &) {}

/// Where the swizzle of a span of 32, 64 or 128 bytes puts the byte of an address.
inline unsigned swizzled(unsigned address, int span) {
  const unsigned runs = unsigned(span) / 16 - 1;
  return address ^ ((address >> 7 & runs) << 4);
}

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
