// Defines weight_fields: constant weights of 2 or 4 bits as the integer kernels read them, and of 8
// bits as the plain case.
//
// A run of Lanes bytes holds 8 / Bits groups of Lanes weights: byte j has weight j of each group,
// the first group in the highest bits. So a shift and a mask give all weights of a group as signed
// bytes, `scale` times as large; sums of products with them are multiples of `scale`, which
// descale() takes off without loss. Rows begin with a run of their own; zeros fill the last one.
//
// Such sums stay in 32 bits as long as 255 * 128 * their terms do: codegen sees to it.
#ifndef TENON_RUNTIME_COMMON_WEIGHT_FIELDS_H
#define TENON_RUNTIME_COMMON_WEIGHT_FIELDS_H

#include "common/base.h"

namespace tenon {

template <int Bits, int Lanes> struct weight_fields {
  static_assert(Bits == 2 || Bits == 4 || Bits == 8, "whole groups in a byte");
  static constexpr int groups = 8 / Bits, excess = 8 - Bits, run = Lanes * groups;

  /// Bytes of a row of `count` weights. Those of 8 bits need not fill runs.
  static constexpr TENON_FN index_t row_bytes(index_t count) {
    return Bits == 8 ? count : ceil_div(count, run) * Lanes;
  }
  /// Four bytes of a run to the same bytes of one of its groups, each weight times 2^excess.
  static constexpr TENON_FN uint32_t group(uint32_t bytes, int number) {
    constexpr uint32_t mask = 0x01010101u * (0xffu << excess & 0xffu);
    return bytes << Bits * number & mask;
  }
  static constexpr TENON_FN int32_t descale(int32_t sum) { return sum >> excess; }
  /// Weight `i` of a row.
  static TENON_FN int32_t at(const int8_t *row, index_t i) {
    if constexpr (Bits == 8)
      return row[i];
    const auto place = uint32_t(i);
    const uint32_t byte = uint8_t(row[place / run * Lanes + place % Lanes]);
    return descale(int8_t(uint8_t(byte << Bits * (place % run / Lanes))));
  }
};

} // namespace tenon

#endif
