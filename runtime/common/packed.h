// Defines the integer types that are narrower than a byte. Several share one, the first in its
// lowest bits, as in ONNX; packed_pointer (base.h) addresses them. They are storage types without
// values of their own: a body holds them in 8-bit lanes.
//
// A store reads and writes the whole byte, so neighbours are not for two threads to write.
#ifndef TENON_RUNTIME_COMMON_PACKED_H
#define TENON_RUNTIME_COMMON_PACKED_H

#include "common/base.h"

namespace tenon {

struct int4_t {};
struct uint4_t {};
struct int2_t {};
struct uint2_t {};

template <> inline constexpr int packed_bits<int4_t> = 4;
template <> inline constexpr int packed_bits<uint4_t> = 4;
template <> inline constexpr int packed_bits<int2_t> = 2;
template <> inline constexpr int packed_bits<uint2_t> = 2;

namespace detail {

/// A packed element's byte and the place of its lowest bit in it; places before the first count on.
template <int Bits> struct packed_place {
  static constexpr int per_byte = 8 / Bits, mask = (1 << Bits) - 1;
  index_t byte;
  int shift;
  TENON_FN constexpr packed_place(index_t at)
      : byte((at - place(at)) / per_byte), shift(int(place(at)) * Bits) {}

private:
  static TENON_FN constexpr index_t place(index_t at) { return at & (per_byte - 1); }
};

/// The bits of an element, in the lowest ones of a byte.
template <class T> TENON_FN uint8_t load_bits(packed_pointer<T> p) {
  using place_type = packed_place<packed_bits<T>>;
  const place_type place(p.at);
  return uint8_t((p.bytes[place.byte] >> place.shift) & place_type::mask);
}
template <class T> TENON_FN void store_bits(packed_pointer<T> p, uint8_t bits) {
  using place_type = packed_place<packed_bits<T>>;
  const place_type place(p.at);
  unsigned char &byte = p.bytes[place.byte];
  byte = static_cast<unsigned char>((byte & ~(place_type::mask << place.shift)) |
                                    ((bits & place_type::mask) << place.shift));
}

} // namespace detail
} // namespace tenon

#endif
