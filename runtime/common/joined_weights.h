// Defines joined_weights: constant 8-bit weights of two filters side by side, 256 a + b in 16 bits.
//
// Sums of products with such numbers are 256 A + B, and sums with their lower bytes B: one SXTB16
// gives two filters what plain bytes need two for (common/pairs.h). A = (256 A + B - B) / 256 is
// exact as long as |A| < 2^23, however far sums wrap in between; codegen sees to that, and that no
// weight is -128.
//
// A row serves Pairs pairs of filters. Each group of four weights is 2 * Pairs words: a pair's
// weights 0 and 2, its weights 1 and 3, which is the order of widened bytes, then the next pair's.
// Zeros fill the last group of a row and the filters of the last row.
#ifndef TENON_RUNTIME_COMMON_JOINED_WEIGHTS_H
#define TENON_RUNTIME_COMMON_JOINED_WEIGHTS_H

#include "common/base.h"

namespace tenon {

template <int Pairs> struct joined_weights {
  static constexpr int filters = 2 * Pairs, group_bytes = 8 * Pairs;

  /// Bytes of a row whose filters have `count` weights each.
  static constexpr TENON_FN index_t row_bytes(index_t count) {
    return ceil_div(count, 4) * group_bytes;
  }
  /// A, of 256 A + B and B.
  static TENON_FN int32_t first_sum(int32_t joined, int32_t second) {
    return int32_t(uint32_t(joined) - uint32_t(second)) >> 8;
  }
};

} // namespace tenon

#endif
