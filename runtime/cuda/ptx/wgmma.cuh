// Defines wgmma.mma_async (sm_90a): a warpgroup of four warps multiplies a 64 x k tile of A by a
// k x n tile of B on Tensor Cores, D = A * B (+ D), with f32 sums in registers.
//
//   wgmma_shared<T, n, a_transposed, b_transposed>   A and B in shared memory, by descriptor
//   wgmma_registers<T, n, b_transposed>              A in registers, B in shared memory
//
// k is 32 bytes: 16 for f16 and bf16, 8 for float, which is read as tf32, 32 for f8e4m3. Lane l of
// warp w holds
//   D   d[4*j + {0,1}]: row 16*w + l/4, columns 8*j + 2*(l%4) + {0,1};  d[4*j + {2,3}]: row + 8
//   A   f16, bf16: as mma m16n8k16;  tf32: a[0] row l/4, k l%4; a[1] row + 8; a[2] k + 4; a[3] both
//
// A tile is K-major when neighbours along k lie side by side, else transposed (16-bit types only).
// Its rows are of 32, 64 or 128 bytes, swizzled as the copy engine does it; see wgmma_tile.
//
// The instructions are asynchronous. `fence` comes before the first that reads registers which were
// written otherwise; `commit` closes a group; after `wait<P>` all but the last P groups are done.
#ifndef TENON_RUNTIME_CUDA_PTX_WGMMA_CUH
#define TENON_RUNTIME_CUDA_PTX_WGMMA_CUH

#include "cuda/ptx/shared_address.cuh"
#include "cuda/ptx/wgmma_lists.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct wgmma_group {
  TENON_DEVICE static void fence() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
  }
  TENON_DEVICE static void commit() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
  }
  template <int Pending> TENON_DEVICE static void wait() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
#endif
  }
  /// Keeps the compiler from moving accesses of `values` across this point.
  template <int Count> TENON_DEVICE static void pin(float (&values)[Count]) {
#if defined(__CUDA_ARCH__)
    TENON_UNROLL
    for (int i = 0; i < Count; ++i)
      asm volatile("" : "+f"(values[i])::"memory");
#else
    (void)values;
#endif
  }
  template <int Count> TENON_DEVICE static void pin(int (&values)[Count]) {
#if defined(__CUDA_ARCH__)
    TENON_UNROLL
    for (int i = 0; i < Count; ++i)
      asm volatile("" : "+r"(values[i])::"memory");
#else
    (void)values;
#endif
  }
  /// Fragments of A: they are there before what follows, the fence.
  template <int Count> TENON_DEVICE static void pin(unsigned (&values)[Count]) {
#if defined(__CUDA_ARCH__)
    TENON_UNROLL
    for (int i = 0; i < Count; ++i)
      asm volatile("" : "+r"(values[i])::"memory");
#else
    (void)values;
#endif
  }
};

/// A swizzled tile in shared memory as descriptors name it.
///
///   K-major      rows of Span bytes along k, one after the other; eight of them are a pattern
///   transposed   blocks of Span bytes along the other dimension, each k rows of Span bytes
///
/// Within a pattern of 8 rows, 16-byte runs are exchanged: run r of row i is at r ^ (i mod 8) where
/// Span is 128, r ^ (i/2 mod 4) for 64, r ^ (i/4 mod 2) for 32. Patterns start at multiples of
/// their size.
template <int Span> struct wgmma_tile {
  static_assert(Span == 128 || Span == 64 || Span == 32, "a swizzle spans 32, 64 or 128 bytes");
  /// block_bytes: from one block of Span bytes to the next; transposed tiles only. eight_rows: from
  /// eight rows to the next eight; K-major tiles may have others between these. The swizzle goes by
  /// addresses, so that a tile may begin at any row.
  TENON_DEVICE static uint64_t descriptor(const void *tile, int block_bytes = 16,
                                          int eight_rows = 8 * Span) {
    return uint64_t(shared_address(tile) >> 4 & 0x3fff) | uint64_t(block_bytes >> 4) << 16 |
           uint64_t(eight_rows >> 4) << 32 |
           uint64_t(Span == 128  ? 1
                    : Span == 64 ? 2
                                 : 3)
               << 62;
  }
  /// The descriptor of what lies `bytes` further; addresses do not overflow into its upper word.
  TENON_DEVICE static uint64_t advance(uint64_t descriptor, int bytes) {
    return (descriptor & ~uint64_t(0xffffffff)) | (uint32_t(descriptor) + (unsigned(bytes) >> 4));
  }
};

/// A tile without a swizzle: eight rows of 16 bytes, one after the other, and 128 bytes further the
/// next eight; along k, further 16 bytes of each row lie at any distance.
struct wgmma_cells {
  /// along_k: bytes from a row's first 16 bytes to its next, not negative.
  TENON_DEVICE static uint64_t descriptor(const void *tile, int along_k) {
    return uint64_t(shared_address(tile) >> 4 & 0x3fff) | uint64_t(unsigned(along_k) >> 4) << 16 |
           uint64_t(128 >> 4) << 32;
  }
  /// As wgmma_tile::advance.
  TENON_DEVICE static uint64_t advance(uint64_t descriptor, int bytes) {
    return wgmma_tile<32>::advance(descriptor, bytes);
  }
};

// The operands after the sums: A (descriptor or four registers), B, whether to add to D, and the
// bits that say which operands are transposed.
#define TENON_WGMMA_SHARED(n, k, types, flags, i0, i1, i2, ...)                                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" i2 ", 0;\n"                                    \
               "wgmma.mma_async.sync.aligned.m64n" #n "k" k ".f32." types                          \
               " {" TENON_WGMMA_LIST_##n "}, %" i0 ", %" i1 ", p, 1, 1" flags ";\n}"               \
               : TENON_WGMMA_OUT_##n("+f")                                                         \
               : "l"(a), "l"(b), "r"(int(accumulate))__VA_ARGS__)
#define TENON_WGMMA_REGISTERS(n, k, types, flags, i0, i1, i2, i3, i4, i5, ...)                     \
  asm volatile(                                                                                    \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %" i5 ", 0;\n"                                             \
      "wgmma.mma_async.sync.aligned.m64n" #n "k" k ".f32." types " {" TENON_WGMMA_LIST_##n         \
      "}, {%" i0 ", %" i1 ", %" i2 ", %" i3 "}, %" i4 ", p, 1, 1" flags ";\n}"                     \
      : TENON_WGMMA_OUT_##n("+f")                                                                  \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate))__VA_ARGS__)

// Both operands along K; operands of 16 bits also across it, where the instruction says so.
#define TENON_WGMMA_SHARED_K_MAJOR(n, i0, i1, i2, i3, i4, i5, i6, k, types)                        \
  TENON_WGMMA_SHARED(n, k, types, "", i0, i1, i2, )
#define TENON_WGMMA_SHARED_HALVES(n, i0, i1, i2, i3, i4, i5, i6, types)                            \
  TENON_WGMMA_SHARED(n, "16", types, ", %" i3 ", %" i4, i0, i1, i2, , "n"(int(ATransposed)),       \
                     "n"(int(BTransposed)))
#define TENON_WGMMA_REGISTERS_K_MAJOR(n, i0, i1, i2, i3, i4, i5, i6, k, types)                     \
  TENON_WGMMA_REGISTERS(n, k, types, "", i0, i1, i2, i3, i4, i5, )
#define TENON_WGMMA_REGISTERS_HALVES(n, i0, i1, i2, i3, i4, i5, i6, types)                         \
  TENON_WGMMA_REGISTERS(n, "16", types, ", %" i6, i0, i1, i2, i3, i4, i5, , "n"(int(BTransposed)))

template <class T, int N, bool ATransposed = false, bool BTransposed = false> struct wgmma_shared;
template <int N, bool ATransposed, bool BTransposed>
struct wgmma_shared<f16, N, ATransposed, BTransposed> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 16;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that TENON_WGMMA_OF_N has");
  TENON_DEVICE static void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_OF_N(TENON_WGMMA_SHARED_HALVES, "f16.f16")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
template <int N, bool ATransposed, bool BTransposed>
struct wgmma_shared<bf16, N, ATransposed, BTransposed> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 16;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that TENON_WGMMA_OF_N has");
  TENON_DEVICE static void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_OF_N(TENON_WGMMA_SHARED_HALVES, "bf16.bf16")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
template <int N> struct wgmma_shared<float, N, false, false> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 8;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that TENON_WGMMA_OF_N has");
  TENON_DEVICE static void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_OF_N(TENON_WGMMA_SHARED_K_MAJOR, "8", "tf32.tf32")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
/// Sums have fewer bits than fp32 (tile/tensor_cores_fp8.cuh).
template <int N> struct wgmma_shared<f8e4m3, N, false, false> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 32;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that TENON_WGMMA_OF_N has");
  TENON_DEVICE static void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_OF_N(TENON_WGMMA_SHARED_K_MAJOR, "32", "e4m3.e4m3")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};

template <class T, int N, bool BTransposed = false> struct wgmma_registers;
template <int N, bool BTransposed> struct wgmma_registers<f16, N, BTransposed> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 16;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that TENON_WGMMA_OF_N has");
  TENON_DEVICE static void multiply(float (&d)[N / 2], const unsigned (&a)[4], uint64_t b,
                                    bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_OF_N(TENON_WGMMA_REGISTERS_HALVES, "f16.f16")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
template <int N, bool BTransposed> struct wgmma_registers<bf16, N, BTransposed> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 16;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that TENON_WGMMA_OF_N has");
  TENON_DEVICE static void multiply(float (&d)[N / 2], const unsigned (&a)[4], uint64_t b,
                                    bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_OF_N(TENON_WGMMA_REGISTERS_HALVES, "bf16.bf16")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
template <int N> struct wgmma_registers<float, N, false> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 8;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that TENON_WGMMA_OF_N has");
  TENON_DEVICE static void multiply(float (&d)[N / 2], const unsigned (&a)[4], uint64_t b,
                                    bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_OF_N(TENON_WGMMA_REGISTERS_K_MAJOR, "8", "tf32.tf32")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};

#undef TENON_WGMMA_SHARED
#undef TENON_WGMMA_SHARED_K_MAJOR
#undef TENON_WGMMA_SHARED_HALVES
#undef TENON_WGMMA_REGISTERS
#undef TENON_WGMMA_REGISTERS_K_MAJOR
#undef TENON_WGMMA_REGISTERS_HALVES

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
