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

template <class T, int N, bool ATransposed = false, bool BTransposed = false> struct wgmma_shared;
template <int N, bool ATransposed, bool BTransposed>
struct wgmma_shared<f16, N, ATransposed, BTransposed> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 16;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that have a row below");
  TENON_DEVICE static void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (N == 16)
      TENON_WGMMA_SHARED(16, "16", "f16.f16", ", %11, %12", "8", "9", "10", , "n"(int(ATransposed)),
                         "n"(int(BTransposed)));
    else if constexpr (N == 32)
      TENON_WGMMA_SHARED(32, "16", "f16.f16", ", %19, %20", "16", "17", "18", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 64)
      TENON_WGMMA_SHARED(64, "16", "f16.f16", ", %35, %36", "32", "33", "34", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 96)
      TENON_WGMMA_SHARED(96, "16", "f16.f16", ", %51, %52", "48", "49", "50", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 128)
      TENON_WGMMA_SHARED(128, "16", "f16.f16", ", %67, %68", "64", "65", "66", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 160)
      TENON_WGMMA_SHARED(160, "16", "f16.f16", ", %83, %84", "80", "81", "82", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 192)
      TENON_WGMMA_SHARED(192, "16", "f16.f16", ", %99, %100", "96", "97", "98", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 224)
      TENON_WGMMA_SHARED(224, "16", "f16.f16", ", %115, %116", "112", "113", "114", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 256)
      TENON_WGMMA_SHARED(256, "16", "f16.f16", ", %131, %132", "128", "129", "130", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
template <int N, bool ATransposed, bool BTransposed>
struct wgmma_shared<bf16, N, ATransposed, BTransposed> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 16;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that have a row below");
  TENON_DEVICE static void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (N == 16)
      TENON_WGMMA_SHARED(16, "16", "bf16.bf16", ", %11, %12", "8", "9", "10", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 32)
      TENON_WGMMA_SHARED(32, "16", "bf16.bf16", ", %19, %20", "16", "17", "18", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 64)
      TENON_WGMMA_SHARED(64, "16", "bf16.bf16", ", %35, %36", "32", "33", "34", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 96)
      TENON_WGMMA_SHARED(96, "16", "bf16.bf16", ", %51, %52", "48", "49", "50", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 128)
      TENON_WGMMA_SHARED(128, "16", "bf16.bf16", ", %67, %68", "64", "65", "66", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 160)
      TENON_WGMMA_SHARED(160, "16", "bf16.bf16", ", %83, %84", "80", "81", "82", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 192)
      TENON_WGMMA_SHARED(192, "16", "bf16.bf16", ", %99, %100", "96", "97", "98", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 224)
      TENON_WGMMA_SHARED(224, "16", "bf16.bf16", ", %115, %116", "112", "113", "114", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
    else if constexpr (N == 256)
      TENON_WGMMA_SHARED(256, "16", "bf16.bf16", ", %131, %132", "128", "129", "130", ,
                         "n"(int(ATransposed)), "n"(int(BTransposed)));
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
#define TENON_WGMMA_K_MAJOR(k, types)                                                              \
  if constexpr (N == 16)                                                                           \
    TENON_WGMMA_SHARED(16, k, types, "", "8", "9", "10", );                                        \
  else if constexpr (N == 32)                                                                      \
    TENON_WGMMA_SHARED(32, k, types, "", "16", "17", "18", );                                      \
  else if constexpr (N == 64)                                                                      \
    TENON_WGMMA_SHARED(64, k, types, "", "32", "33", "34", );                                      \
  else if constexpr (N == 96)                                                                      \
    TENON_WGMMA_SHARED(96, k, types, "", "48", "49", "50", );                                      \
  else if constexpr (N == 128)                                                                     \
    TENON_WGMMA_SHARED(128, k, types, "", "64", "65", "66", );                                     \
  else if constexpr (N == 160)                                                                     \
    TENON_WGMMA_SHARED(160, k, types, "", "80", "81", "82", );                                     \
  else if constexpr (N == 192)                                                                     \
    TENON_WGMMA_SHARED(192, k, types, "", "96", "97", "98", );                                     \
  else if constexpr (N == 224)                                                                     \
    TENON_WGMMA_SHARED(224, k, types, "", "112", "113", "114", );                                  \
  else if constexpr (N == 256)                                                                     \
    TENON_WGMMA_SHARED(256, k, types, "", "128", "129", "130", );

template <int N> struct wgmma_shared<float, N, false, false> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 8;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that have a row above");
  TENON_DEVICE static void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_K_MAJOR("8", "tf32.tf32")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
/// Sums have fewer bits than fp32 (tile/tensor_cores_fp8.cuh).
template <int N> struct wgmma_shared<f8e4m3, N, false, false> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 32;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that have a row above");
  TENON_DEVICE static void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_K_MAJOR("32", "e4m3.e4m3")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};

template <class T, int N, bool BTransposed = false> struct wgmma_registers;
template <int N, bool BTransposed> struct wgmma_registers<f16, N, BTransposed> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 16;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that have a row below");
  TENON_DEVICE static void multiply(float (&d)[N / 2], const unsigned (&a)[4], uint64_t b,
                                    bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (N == 16)
      TENON_WGMMA_REGISTERS(16, "16", "f16.f16", ", %14", "8", "9", "10", "11", "12", "13", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 32)
      TENON_WGMMA_REGISTERS(32, "16", "f16.f16", ", %22", "16", "17", "18", "19", "20", "21", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 64)
      TENON_WGMMA_REGISTERS(64, "16", "f16.f16", ", %38", "32", "33", "34", "35", "36", "37", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 96)
      TENON_WGMMA_REGISTERS(96, "16", "f16.f16", ", %54", "48", "49", "50", "51", "52", "53", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 128)
      TENON_WGMMA_REGISTERS(128, "16", "f16.f16", ", %70", "64", "65", "66", "67", "68", "69", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 160)
      TENON_WGMMA_REGISTERS(160, "16", "f16.f16", ", %86", "80", "81", "82", "83", "84", "85", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 192)
      TENON_WGMMA_REGISTERS(192, "16", "f16.f16", ", %102", "96", "97", "98", "99", "100", "101", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 224)
      TENON_WGMMA_REGISTERS(224, "16", "f16.f16", ", %118", "112", "113", "114", "115", "116",
                            "117", , "n"(int(BTransposed)));
    else if constexpr (N == 256)
      TENON_WGMMA_REGISTERS(256, "16", "f16.f16", ", %134", "128", "129", "130", "131", "132",
                            "133", , "n"(int(BTransposed)));
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
template <int N, bool BTransposed> struct wgmma_registers<bf16, N, BTransposed> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 16;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that have a row below");
  TENON_DEVICE static void multiply(float (&d)[N / 2], const unsigned (&a)[4], uint64_t b,
                                    bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (N == 16)
      TENON_WGMMA_REGISTERS(16, "16", "bf16.bf16", ", %14", "8", "9", "10", "11", "12", "13", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 32)
      TENON_WGMMA_REGISTERS(32, "16", "bf16.bf16", ", %22", "16", "17", "18", "19", "20", "21", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 64)
      TENON_WGMMA_REGISTERS(64, "16", "bf16.bf16", ", %38", "32", "33", "34", "35", "36", "37", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 96)
      TENON_WGMMA_REGISTERS(96, "16", "bf16.bf16", ", %54", "48", "49", "50", "51", "52", "53", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 128)
      TENON_WGMMA_REGISTERS(128, "16", "bf16.bf16", ", %70", "64", "65", "66", "67", "68", "69", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 160)
      TENON_WGMMA_REGISTERS(160, "16", "bf16.bf16", ", %86", "80", "81", "82", "83", "84", "85", ,
                            "n"(int(BTransposed)));
    else if constexpr (N == 192)
      TENON_WGMMA_REGISTERS(192, "16", "bf16.bf16", ", %102", "96", "97", "98", "99", "100", "101",
                            , "n"(int(BTransposed)));
    else if constexpr (N == 224)
      TENON_WGMMA_REGISTERS(224, "16", "bf16.bf16", ", %118", "112", "113", "114", "115", "116",
                            "117", , "n"(int(BTransposed)));
    else if constexpr (N == 256)
      TENON_WGMMA_REGISTERS(256, "16", "bf16.bf16", ", %134", "128", "129", "130", "131", "132",
                            "133", , "n"(int(BTransposed)));
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
template <int N> struct wgmma_registers<float, N, false> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 8;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that have a row below");
  TENON_DEVICE static void multiply(float (&d)[N / 2], const unsigned (&a)[4], uint64_t b,
                                    bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (N == 16)
      TENON_WGMMA_REGISTERS(16, "8", "tf32.tf32", "", "8", "9", "10", "11", "12", "13", );
    else if constexpr (N == 32)
      TENON_WGMMA_REGISTERS(32, "8", "tf32.tf32", "", "16", "17", "18", "19", "20", "21", );
    else if constexpr (N == 64)
      TENON_WGMMA_REGISTERS(64, "8", "tf32.tf32", "", "32", "33", "34", "35", "36", "37", );
    else if constexpr (N == 96)
      TENON_WGMMA_REGISTERS(96, "8", "tf32.tf32", "", "48", "49", "50", "51", "52", "53", );
    else if constexpr (N == 128)
      TENON_WGMMA_REGISTERS(128, "8", "tf32.tf32", "", "64", "65", "66", "67", "68", "69", );
    else if constexpr (N == 160)
      TENON_WGMMA_REGISTERS(160, "8", "tf32.tf32", "", "80", "81", "82", "83", "84", "85", );
    else if constexpr (N == 192)
      TENON_WGMMA_REGISTERS(192, "8", "tf32.tf32", "", "96", "97", "98", "99", "100", "101", );
    else if constexpr (N == 224)
      TENON_WGMMA_REGISTERS(224, "8", "tf32.tf32", "", "112", "113", "114", "115", "116", "117", );
    else if constexpr (N == 256)
      TENON_WGMMA_REGISTERS(256, "8", "tf32.tf32", "", "128", "129", "130", "131", "132", "133", );
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};

#undef TENON_WGMMA_K_MAJOR
#undef TENON_WGMMA_SHARED
#undef TENON_WGMMA_REGISTERS

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
