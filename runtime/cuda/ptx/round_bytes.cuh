// Defines `rounded_byte`: a float that is to be stored as an integer of 8 bits, rounded half to
// even and saturated (NaN is 0). Results stay floats until they are stored: conversions have an
// eighth of the rate of additions, so that a float becomes a byte by adding what leaves the byte in
// its lowest bits, and permutations collect four of them.
#ifndef TENON_RUNTIME_CUDA_PTX_ROUND_BYTES_CUH
#define TENON_RUNTIME_CUDA_PTX_ROUND_BYTES_CUH

#include "common/scalar.h"
#include "cuda/ptx/byte_permute.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

/// T: int8_t or uint8_t.
template <class T> struct round_bytes {
  static_assert(sizeof(T) == 1, "bytes");
  /// Between 2^23 and 2^24, where floats are whole numbers.
  static constexpr float origin = 12582912.0f;

  /// The byte that x becomes, above `origin`.
  TENON_FN static float above_origin(float x) {
    constexpr float lowest = tenon::detail::is_signed<T> ? -128.0f : 0.0f;
#if defined(__CUDA_ARCH__)
    constexpr bool finds_nan = lowest == 0; // and gives the lowest
#else
    constexpr bool finds_nan = false; // libraries of hosts let signalling ones through
#endif
    const float inside = fminf(fmaxf(x, lowest), lowest + 255.0f);
    return (!finds_nan && x != x ? 0.0f : inside) + origin;
  }
  TENON_FN static T one(float x) { return T(bits(x)); }
  /// Four bytes, the first the lowest.
  TENON_DEVICE static unsigned four(float a, float b, float c, float d) {
    return byte_permute::low_halves(byte_permute::low_bytes(bits(a), bits(b)),
                                    byte_permute::low_bytes(bits(c), bits(d)));
  }

private:
  TENON_FN static unsigned bits(float x) {
    const float y = above_origin(x);
    unsigned word;
    memcpy(&word, &y, sizeof(word));
    return word;
  }
};

} // namespace ptx

template <class T> struct rounded_byte {
  float value;
  TENON_FN operator T() const { return ptx::round_bytes<T>::one(value); }
  /// The byte as a float.
  TENON_FN float number() const {
    return ptx::round_bytes<T>::above_origin(value) - ptx::round_bytes<T>::origin;
  }
};

} // namespace cuda

/// The result of a body that rounds floats to bytes, which it leaves to whoever stores them.
template <class L, class T> using byte_result = cuda::rounded_byte<T>;
template <class L, class T> TENON_FN cuda::rounded_byte<T> round_to(f32<L> x) {
  static_assert(L::width == 1, "bodies on devices are of one lane");
  return {x};
}
/// cast<L, float, T>(round_to<L, T>(x)).
template <class L, class T> TENON_FN f32<L> round_within(f32<L> x) {
  return round_to<L, T>(x).number();
}

} // namespace tenon

#endif
