// Defines softmax_bytes: softmax of 8-bit integers in integers, the same bits everywhere.
//
//   d = largest - x[i, j]                      sum = sum over j of table[d]
//   y[i, j] = body(saturate(zero + round(table[d] / sum * multiplier / 2^shift)), ins[i, j]...)
//
//   softmax_bytes<T>(config, space, x, table, outs, ins, body, workers)
//
// T: int8_t or uint8_t, of y. Config: multiplier (31 bits), shift (0 to 31), zero. space: dims<...>
// whose last dimension is the normalised one; x, outs, ins: views over it. table: e^(-scale * d),
// sums of them below 2^31. Instead of dividing, elements are multiplied by one factor of the whole
// row: 2^62 / sum, rounded down, times the multiplier; round is half to even.
#ifndef TENON_RUNTIME_CPU_SOFTMAX_BYTES_H
#define TENON_RUNTIME_CPU_SOFTMAX_BYTES_H

#include "cpu/reduce.h"

namespace tenon {
namespace cpu {
namespace detail {

/// floor(2^62 / n) for n from 2^31 to 2^32 - 1, bit by bit: for cores that divide 32 bits at most.
TENON_FN uint32_t reciprocal_by_bits(uint32_t n) {
  uint32_t rest = uint32_t(1) << 30, quotient = 0;
  for (int i = 0; i < 32; ++i) {
    const bool carry = (rest >> 31) != 0;
    rest <<= 1;
    quotient <<= 1;
    if (carry || rest >= n) {
      rest -= n;
      quotient |= 1;
    }
  }
  return quotient;
}
TENON_FN uint32_t reciprocal_of(uint32_t n) {
  if constexpr (sizeof(void *) >= 8)
    return uint32_t((uint64_t(1) << 62) / n);
  else
    return reciprocal_by_bits(n);
}

/// What a row multiplies its exponentials with, and by how many bits the products are too large.
struct softmax_scale {
  uint32_t factor;
  int32_t shift;
};
TENON_FN softmax_scale softmax_scale_of(uint32_t sum, uint32_t multiplier, int32_t shift) {
  int32_t up = 0;
  while ((sum >> 31) == 0) {
    sum <<= 1;
    ++up;
  }
  const uint64_t product = uint64_t(reciprocal_of(sum)) * multiplier;
  return {uint32_t((product + (uint64_t(1) << 30)) >> 31), shift + 31 - up};
}

/// zero + round(exponential * factor / 2^shift), saturated.
template <class T> TENON_FN T softmax_step(uint32_t exponential, softmax_scale by, int32_t zero) {
  const uint64_t product = uint64_t(exponential) * by.factor;
  uint32_t steps = uint32_t(product);
  if (by.shift > 0) {
    // Half a step less one, plus the bit that makes an odd neighbour of a tie even.
    const uint64_t odd = (product >> by.shift) & 1;
    steps = uint32_t((product + (uint64_t(1) << (by.shift - 1)) - 1 + odd) >> by.shift);
  }
  constexpr int32_t lowest = T(-1) < T(0) ? -128 : 0, highest = lowest + 255;
  // More steps than the type has saturate whatever the zero point.
  const int32_t y = zero + (steps > 511 ? 511 : int32_t(steps));
  return T(y > highest ? highest : y < lowest ? lowest : y);
}

} // namespace detail

template <class T, class Config, class Space, class X, class Outs, class Ins, class Body>
void softmax_bytes(const Config &, const Space &space, const X &x, const uint32_t (&table)[256],
                   const Outs &outs, const Ins &ins, const Body &body, pool &workers) {
  using namespace detail;
  constexpr int rank = Space::rank, last = rank - 1;
  static_assert(rank > 0, "softmax needs a dimension");
  const index_t n = space.template get<last>();
  odometer<rank> outer;
  fill_extents<0>(space, outer.extents);
  outer.extents[last] = 1;
  workers.parallel_for(outer.size(), 1 + 16384 / (n + 1), [&](index_t begin, index_t end) {
    odometer<rank> it = outer;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      index_t at[rank];
      for (int d = 0; d < rank; ++d)
        at[d] = it.at[d];
      const auto element = [&](index_t i) TENON_LAMBDA {
        at[last] = i;
        return int32_t(x.data[x.offset(at)]);
      };
      int32_t largest = -128;
      for (index_t i = 0; i < n; ++i) {
        const int32_t v = element(i);
        largest = v > largest ? v : largest;
      }
      uint32_t sum = 0;
      for (index_t i = 0; i < n; ++i)
        sum += table[largest - element(i)];
      if (n == 0)
        continue;
      const softmax_scale by = softmax_scale_of(sum, uint32_t(Config::multiplier), Config::shift);
      for (index_t i = 0; i < n; ++i) {
        const T y = softmax_step<T>(table[largest - element(i)], by, Config::zero);
        apply_body<scalar_lanes, last>(body, outs, ins, at, fixed<1>{}, y);
      }
    }
  });
}

} // namespace cpu
} // namespace tenon

#endif
