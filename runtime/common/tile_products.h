// Defines sums of products in the tile registers of x86-64 (AMX): 16 rows of 64 bytes of x times
// 16 columns of 64 bytes of w, which are 8-bit integers, signed in w, four to a 32-bit lane, or
// bf16, two to a lane of f32, in one instruction.
//
// No x86-64 level has them, and the operating system lends them to a process on request only:
// `has_tile_products` and `has_bf16_tiles` ask the processor and Linux, once. Instructions are
// written as such, as in common/byte_products.h. Of rows and columns a tile register holds no more
// than tile_registers was told: 0 to 3 are sums, 4 and 5 hold x, 6 and 7 the weights.
#ifndef TENON_RUNTIME_COMMON_TILE_PRODUCTS_H
#define TENON_RUNTIME_COMMON_TILE_PRODUCTS_H

#include "common/byte_products.h"

#if TENON_SIMD_WIDTH >= 16 && defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#define TENON_TILE_PRODUCTS 1
#else
#define TENON_TILE_PRODUCTS 0
#endif

#if TENON_TILE_PRODUCTS
namespace tenon {
namespace detail {
/// Whether leaf 7 of the processor's description has all `bits`, and the system lends the tiles.
inline bool request_tile_products(unsigned bits) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & bits) != bits)
    return false;
  constexpr long request_permission = 0x1023, tile_data = 18; // of arch_prctl
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
} // namespace detail
inline const bool has_tile_products =
    detail::request_tile_products(1u << 24 | 1u << 25); // AMX-TILE, AMX-INT8
inline const bool has_bf16_tiles =
    detail::request_tile_products(1u << 24 | 1u << 22); // AMX-TILE, AMX-BF16

/// While one lives, this thread has its tile registers, for `rows` rows of x of `words` words, at
/// most 16 each.
class tile_registers {
public:
  tile_registers(int rows, int words) {
    const auto r = uint8_t(rows), w = uint8_t(words);
    const auto b = uint16_t(4 * words);
    const struct {
      uint8_t palette = 1, rest[15] = {};
      uint16_t row_bytes[16];
      uint8_t rows[16];
    } shapes{1, {}, {64, 64, 64, 64, b, b, 64, 64}, {r, r, r, r, r, r, w, w}};
    static_assert(sizeof(shapes) == 64, "as the instruction reads it");
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
  }
  ~tile_registers() { __asm__ volatile("tilerelease"); }
  tile_registers(const tile_registers &) = delete;
  tile_registers &operator=(const tile_registers &) = delete;
};

template <int Tile> TENON_FN void tile_zero() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(Tile));
}
/// The rows of a tile, `stride` bytes apart.
template <int Tile> TENON_FN void tile_load(const void *from, index_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                   :
                   : "r"(from), "r"(stride), "i"(Tile)
                   : "memory");
}
template <int Tile> TENON_FN void tile_store(void *to, index_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(Tile) : "memory");
}
/// Sum += X times W, with elements of type T in X.
template <class T, int Sum, int X, int W> TENON_FN void tile_multiply_add() {
  if constexpr (detail::is_same<T, bf16>)
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(X), "i"(W));
  else if constexpr (detail::is_signed<T>)
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(X), "i"(W));
  else
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(X), "i"(W));
}

} // namespace tenon
#endif

#endif
