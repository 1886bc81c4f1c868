// Defines `ordered_key`: unsigned numbers in the order of the values that they stand for, of up to
// 32 bits. Sorts go by them.
#ifndef TENON_RUNTIME_CUDA_SORT_ORDERED_KEY_CUH
#define TENON_RUNTIME_CUDA_SORT_ORDERED_KEY_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

/// Keys of floats: -0 like 0, NaN behind all others.
TENON_DEVICE unsigned ordered_key(float v) {
  if (v != v)
    return 0xffffffffu;
  unsigned bits = 0;
  if (v != 0)
    memcpy(&bits, &v, sizeof(bits));
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
/// The bits that keys of a type differ in.
template <class V>
constexpr int ordered_bits = tenon::detail::is_float<V>        ? 32
                             : tenon::detail::is_same<V, bool> ? 1
                                                               : 8 * int(sizeof(V));
/// Keys of integers.
template <class V> TENON_DEVICE unsigned ordered_key(V v) {
  constexpr bool has_sign = V(-1) < V(0);
  constexpr unsigned bits = unsigned(ordered_bits<V>), all = 0xffffffffu >> (32 - bits);
  return (unsigned(v) & all) ^ (has_sign ? 1u << (bits - 1) : 0u);
}

/// The lowest bits of keys, in which those of elements of 16 bits do not differ unless others do.
template <class E>
constexpr int spare_bits = tenon::detail::is_same<E, f16>    ? 13
                           : tenon::detail::is_same<E, bf16> ? 16
                                                             : 0;
/// Keys of elements E in the order in which the largest, or the smallest, come first, and how many
/// bits they have.
template <class E> constexpr int order_bits = ordered_bits<compute_t<E>> - spare_bits<E>;
template <class E, bool Largest> TENON_DEVICE unsigned order_of(compute_t<E> v) {
  const unsigned key = ordered_key(v);
  return (Largest ? ~key : key) >> spare_bits<E>;
}

} // namespace cuda
} // namespace tenon

#endif
