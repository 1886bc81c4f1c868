// Defines `rounded_byte`: a float that is to be stored as an integer of 8 bits, rounded half to
// even and saturated (NaN is 0). Conversions (cvt.rni) and packing with saturation (cvt.pack.sat,
// sm_72 and up) become one instruction for two of them, so results stay floats until they are
// stored.
#ifndef TENON_RUNTIME_CUDA_PTX_ROUND_BYTES_CUH
#define TENON_RUNTIME_CUDA_PTX_ROUND_BYTES_CUH

#include "common/scalar.h"
#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

/// T: int8_t or uint8_t.
template <class T> struct round_bytes {
  static_assert(sizeof(T) == 1, "bytes");

  /// a's and b's bytes below those two of `above` that are lowest.
  TENON_FN static unsigned pair(float a, float b, unsigned above) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 720
    int x, y;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(x) : "f"(a));
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(y) : "f"(b));
    unsigned word;
    if constexpr (tenon::detail::is_same<T, int8_t>)
      asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(y), "r"(x), "r"(above));
    else
      asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(y), "r"(x), "r"(above));
    return word;
#else
    return unsigned(uint8_t(one(a))) | unsigned(uint8_t(one(b))) << 8 | above << 16;
#endif
  }
  TENON_FN static T one(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 720
    return T(pair(x, 0.0f, 0));
#else
    return tenon::cast<scalar_lanes, T, float>(round<scalar_lanes>(x));
#endif
  }
};

} // namespace ptx

template <class T> struct rounded_byte {
  float value;
  TENON_FN operator T() const { return ptx::round_bytes<T>::one(value); }
  /// The byte as a float, by operations of floats: conversions to integers have a quarter of the
  /// rate.
  TENON_FN float number() const {
    constexpr float lowest = tenon::detail::is_signed<T> ? -128.0f : 0.0f;
#if defined(__CUDA_ARCH__)
    constexpr bool finds_nan = lowest == 0; // and gives the lowest
#else
    constexpr bool finds_nan = false; // libraries of hosts let signalling ones through
#endif
    const float inside = fminf(fmaxf(value, lowest), lowest + 255.0f);
    const float whole = (inside + 12582912.0f) - 12582912.0f;
    return !finds_nan && value != value ? 0.0f : whole;
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
