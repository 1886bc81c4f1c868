// Defines what kernels use of the machine: qualifiers, thread and block indices, barriers,
// shuffles, atomics and the architecture they are being compiled for.
//
// Every built-in of CUDA C++ is reached through here or through ptx/, so that kernels parse as
// plain C++: the host part of a file is compiled against older toolkits' headers that way, and the
// unit tests run kernels on the CPU by replacing these few files.
#ifndef TENON_RUNTIME_CUDA_DEVICE_CUH
#define TENON_RUNTIME_CUDA_DEVICE_CUH

#include "common/lanes.h"
#include <cuda_runtime.h>

#if defined(__CUDACC__)
#define TENON_DEVICE __device__ __forceinline__
#define TENON_GLOBAL __global__
#define TENON_GRID_CONSTANT __grid_constant__
#define TENON_UNROLL _Pragma("unroll")
#define TENON_NO_UNROLL _Pragma("unroll 1")
#define TENON_PRAGMA(text) _Pragma(#text)
#define TENON_UNROLL_BY(n) TENON_PRAGMA(unroll n)
#else
#define TENON_DEVICE inline
#define TENON_GLOBAL
#define TENON_GRID_CONSTANT
#define TENON_UNROLL
#define TENON_NO_UNROLL
#define TENON_UNROLL_BY(n)
#endif

namespace tenon {
namespace cuda {

/// The architecture of this compilation pass: 10 x compute capability, and whether code specific to
/// it (the `a` in sm_90a) may be used. 0 in the host pass.
struct target {
  int arch;
  bool specific;
};
#if defined(__CUDA_ARCH__)
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_SPECIFIC__)
constexpr target this_target = {__CUDA_ARCH__, true};
#else
constexpr target this_target = {__CUDA_ARCH__, false};
#endif
#else
constexpr target this_target = {0, false};
#endif

/// cp.async exists; below, copies to shared memory go through registers.
constexpr bool has_async_copy = this_target.arch >= 800;

/// Words that one load or store instruction moves.
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

#if defined(__CUDA_ARCH__)
TENON_DEVICE int thread() { return int(threadIdx.x); }
TENON_DEVICE int block_x() { return int(blockIdx.x); }
TENON_DEVICE int block_y() { return int(blockIdx.y); }
TENON_DEVICE int block_z() { return int(blockIdx.z); }
TENON_DEVICE int grid_x() { return int(gridDim.x); }
TENON_DEVICE void sync_block() { __syncthreads(); }
TENON_DEVICE void sync_warp() { __syncwarp(); }
TENON_DEVICE void fence() { __threadfence(); }
TENON_DEVICE void trap() { __trap(); }
TENON_DEVICE int atomic_add(int *p, int v) { return atomicAdd(p, v); }
TENON_DEVICE void atomic_max(int *p, int v) { (void)atomicMax(p, v); }
TENON_DEVICE void atomic_add(unsigned long long *p, unsigned long long v) { (void)atomicAdd(p, v); }
/// Reads past the first-level cache what another block has written.
TENON_DEVICE word16 load_uncached(const word16 *p) {
  return {__ldcg(reinterpret_cast<const uint4 *>(p))};
}
template <class T> TENON_DEVICE T shuffle_xor(T v, int mask) {
  return __shfl_xor_sync(full_warp, v, mask);
}
template <class T> TENON_DEVICE T shuffle(T v, int from) { return __shfl_sync(full_warp, v, from); }
/// Whether it holds in any lane of a warp; all of them come.
TENON_DEVICE bool any_lane(bool x) { return __any_sync(full_warp, x) != 0; }
#else
TENON_DEVICE int thread() { return 0; }
TENON_DEVICE int block_x() { return 0; }
TENON_DEVICE int block_y() { return 0; }
TENON_DEVICE int block_z() { return 0; }
TENON_DEVICE int grid_x() { return 1; }
TENON_DEVICE void sync_block() {}
TENON_DEVICE void sync_warp() {}
TENON_DEVICE void fence() {}
TENON_DEVICE void trap() {}
TENON_DEVICE int atomic_add(int *p, int v) {
  const int old = *p;
  *p += v;
  return old;
}
TENON_DEVICE void atomic_max(int *p, int v) { *p = *p < v ? v : *p; }
TENON_DEVICE void atomic_add(unsigned long long *p, unsigned long long v) { *p += v; }
TENON_DEVICE word16 load_uncached(const word16 *p) { return *p; }
template <class T> TENON_DEVICE T shuffle_xor(T v, int) { return v; }
template <class T> TENON_DEVICE T shuffle(T v, int) { return v; }
TENON_DEVICE bool any_lane(bool x) { return x; }
#endif

TENON_DEVICE int lane() { return thread() & 31; }
TENON_DEVICE int warp() { return thread() >> 5; }
/// The same, and the compiler knows that all lanes have it: branches on it and what is computed
/// from it take no thread's registers.
TENON_DEVICE int uniform_warp() { return shuffle(warp(), 0); }

} // namespace cuda
} // namespace tenon

#endif
