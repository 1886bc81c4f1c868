// Defines how vectors sum products of constant integers of 2, 4 or 8 bits with signed bytes, four
// to each 32-bit lane, exactly:
//
//   narrow_fours   one instruction of machines with VNNI: unsigned weights times signed x
//   narrow_bytes   unsigned weights of at most 4 bits times signed x in sums of 16 bits
//                  (vpmaddubsw), which `wide` adds to those of 32 before they overflow
//   narrow_pairs   products of 16-bit integers, two at a time, of signed bytes (byte_products.h)
//
// A vector of weights holds four of each lane, a byte each, which `field` takes out of the stored
// bytes; they are larger by excess<W> than the elements of type W that they stand for. x is
// `halves` words, the same for all lanes: four bytes, or their even and their odd half as 16-bit
// integers (two_products::from_bytes).
#ifndef TENON_RUNTIME_COMMON_NARROW_PRODUCTS_H
#define TENON_RUNTIME_COMMON_NARROW_PRODUCTS_H

#include "common/byte_products.h"

namespace tenon {
namespace detail {

template <class W> inline constexpr int stored_bits = packed_bits<W> > 0 ? packed_bits<W> : 8;

/// What weights of bytes have in common, signed or not.
template <bool Signed> struct narrow_fields {
  template <class W> static constexpr int excess() {
    constexpr bool is_negative = is_signed<compute_t<W>>;
    constexpr int half = 1 << (stored_bits<W> - 1);
    if constexpr (stored_bits<W> < 8 || !Signed)
      return is_negative ? half : 0;
    else
      return is_negative ? 0 : -half;
  }
  /// Element P of each stored byte.
  template <class L, class W, int P> static TENON_FN i32<L> field(i32<L> bytes) {
    constexpr int bits = stored_bits<W>;
    constexpr uint32_t each = 0xffffffffu / 255, mask = each * ((1u << bits) - 1);
    i32<L> v = bytes;
    if constexpr (P > 0)
      v = v >> (P * bits);
    if constexpr (bits < 8)
      v = v & int32_t(mask);
    if constexpr (excess<W>() != 0) // the sign bit, turned
      v = v ^ int32_t(each << (bits - 1));
    return v;
  }
};
} // namespace detail

#if TENON_FOUR_PRODUCTS
struct narrow_fours : detail::narrow_fields<false> {
  static constexpr int halves = 1, most = 0;
  template <class L, int Half> static TENON_FN i32<L> weights(i32<L> w) { return w; }
  template <class L> static TENON_FN i32<L> multiply_add(i32<L> acc, i32<L> w, const uint32_t *x) {
#if TENON_SIMD_WIDTH >= 16
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*x));
#else
    const i32<L> v = broadcast<L, int32_t>(int32_t(*x));
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(w), "x"(v));
#endif
    return acc;
  }
};
#endif

#if TENON_BYTE_PAIRS
template <int Bits> struct narrow_bytes : detail::narrow_fields<false> {
  static constexpr int halves = 1;
  /// Vectors of products whose sums, two of each, stay in 16 bits.
  static constexpr int most = 32767 / (2 * 127 * ((1 << Bits) - 1));
  static_assert(most > 0, "weights of at most 4 bits");

  template <class L, int Half> static TENON_FN i32<L> weights(i32<L> w) { return w; }
  template <class L> static TENON_FN i32<L> multiply_add(i32<L> acc, i32<L> w, const uint32_t *x) {
    const i32<L> v = broadcast<L, int32_t>(int32_t(*x));
    return detail::add_shorts<L>(acc, detail::multiply_byte_pairs<L>(w, v));
  }
  template <class L> static TENON_FN i32<L> wide(i32<L> sums) { return detail::add_pairs<L>(sums); }
};
#endif

struct narrow_pairs : detail::narrow_fields<true> {
  static constexpr int halves = two_products::halves, most = 0;
  template <class L, int Half> static TENON_FN i32<L> weights(i32<L> w) {
    return two_products::weights<L, Half>(w);
  }
  template <class L> static TENON_FN i32<L> multiply_add(i32<L> acc, i32<L> w, const uint32_t *x) {
    return two_products::multiply_add<L>(acc, broadcast<L, int32_t>(int32_t(*x)), w);
  }
};

} // namespace tenon

#endif
