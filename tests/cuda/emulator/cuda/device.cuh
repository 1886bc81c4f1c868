// Stands in for runtime/cuda/device.cuh where kernels run on the CPU. TENON_EMULATED_ARCH is the
// architecture they are compiled for.
#ifndef TENON_RUNTIME_CUDA_DEVICE_CUH
#define TENON_RUNTIME_CUDA_DEVICE_CUH

#include "common/lanes.h"
#include "machine.h"
#include <cuda_runtime.h>

#define TENON_DEVICE inline
#define TENON_GLOBAL
#define TENON_GRID_CONSTANT
#define TENON_UNROLL
#define TENON_NO_UNROLL
#define TENON_UNROLL_BY(n)

namespace tenon {
namespace cuda {

struct target {
  int arch;
  bool specific;
};
constexpr target this_target = {TENON_EMULATED_ARCH, TENON_EMULATED_SPECIFIC != 0};
constexpr bool has_async_copy = this_target.arch >= 800;

struct word16 {
  uint4 bits;
};
struct word8 {
  uint2 bits;
};
template <int Bytes> struct word;
template <> struct word<16> { using type = word16; };
template <> struct word<8> { using type = word8; };
template <> struct word<4> { using type = uint32_t; };
template <> struct word<2> { using type = uint16_t; };
template <> struct word<1> { using type = uint8_t; };

constexpr unsigned full_warp = 0xffffffffu;

inline int thread() { return emulator::machine::instance().thread; }
inline int block_x() { return emulator::machine::instance().block[0]; }
inline int block_y() { return emulator::machine::instance().block[1]; }
inline int block_z() { return emulator::machine::instance().block[2]; }
inline int grid_x() { return emulator::machine::instance().grid[0]; }
inline void sync_block() { emulator::machine::instance().sync_block(); }
inline void sync_warp() { emulator::machine::instance().sync_warp(); }
inline void fence() {}
inline void trap() { emulator::machine::fail("trap"); }
inline int atomic_add(int *p, int v) {
  const int old = *p;
  *p += v;
  return old;
}
inline void atomic_max(int *p, int v) { *p = *p < v ? v : *p; }
inline void atomic_add(unsigned long long *p, unsigned long long v) { *p += v; }
inline word16 load_uncached(const word16 *p) { return *p; }
template <class T> T shuffle_xor(T v, int mask) {
  T got = v;
  emulator::machine::instance().exchange(v, [&](auto slot) { got = slot((thread() % 32) ^ mask); });
  return got;
}
template <class T> T shuffle(T v, int from) {
  T got = v;
  emulator::machine::instance().exchange(v, [&](auto slot) { got = slot(from); });
  return got;
}
inline bool any_lane(bool x) {
  bool any = false;
  emulator::machine::instance().exchange(x, [&](auto slot) {
    for (int i = 0; i < 32; ++i)
      any |= slot(i);
  });
  return any;
}

TENON_DEVICE int lane() { return thread() & 31; }
TENON_DEVICE int warp() { return thread() >> 5; }
TENON_DEVICE int uniform_warp() { return shuffle(warp(), 0); }

} // namespace cuda
} // namespace tenon

#endif
