// Defines sums of products of 8-bit integers in the tile registers of x86-64 (AMX): 16 rows of 64
// bytes of x times 64 rows of 16 signed bytes of w, four to a 32-bit lane, in one instruction.
//
// No x86-64 level has them, and the operating system lends them to a process on request only:
// `has_tile_products` asks the processor and Linux, once. Instructions are written as such, as in
// common/byte_products.h. Tile t holds 16 rows of 64 bytes, whatever t.
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
inline bool request_tile_products() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d >> 24 & 3) != 3) // AMX-TILE, AMX-INT8
    return false;
  constexpr long request_permission = 0x1023, tile_data = 18; // of arch_prctl
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
} // namespace detail
inline const bool has_tile_products = detail::request_tile_products();

/// While one lives, this thread has its tile registers.
class tile_registers {
public:
  tile_registers() {
    struct {
      uint8_t palette = 1, rest[15] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } const shapes;
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
/// 16 rows, `stride` bytes apart.
template <int Tile> TENON_FN void tile_load(const void *from, index_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                   :
                   : "r"(from), "r"(stride), "i"(Tile)
                   : "memory");
}
template <int Tile> TENON_FN void tile_store(void *to, index_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(Tile) : "memory");
}
/// Sum += X times W, with bytes of type T in X.
template <class T, int Sum, int X, int W> TENON_FN void tile_multiply_add() {
  if constexpr (detail::is_signed<T>)
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(X), "i"(W));
  else
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(X), "i"(W));
}

} // namespace tenon
#endif

#endif
