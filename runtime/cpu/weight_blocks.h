// Defines what kernels with integer weights in blocks share: their bytes, their types, and zero
// points that may all be 0.
#ifndef TENON_RUNTIME_CPU_WEIGHT_BLOCKS_H
#define TENON_RUNTIME_CPU_WEIGHT_BLOCKS_H

#include "common/packed.h"
#include "common/values.h"

namespace tenon {
namespace cpu {

struct no_zero_points {};

namespace detail {
using namespace tenon::detail;

template <class W> TENON_FN const unsigned char *first_byte(const W *w) {
  return reinterpret_cast<const unsigned char *>(w);
}
template <class W> TENON_FN const unsigned char *first_byte(packed_pointer<W> w) {
  return w.bytes + w.at / (8 / packed_bits<W>);
}

template <class W> struct weight_element { using type = bare<W>; };
template <class W> struct weight_element<packed_pointer<W>> { using type = bare<W>; };
template <class W> struct weight_element<W *> { using type = bare<W>; };

template <class Zero> TENON_FN Zero zero_points_from(Zero zero, index_t i) {
  if constexpr (is_same<Zero, no_zero_points>)
    return zero;
  else
    return zero + i;
}

} // namespace detail
} // namespace cpu
} // namespace tenon

#endif
