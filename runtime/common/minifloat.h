// Defines the floats of eight bits and fewer: storage types, computed in f32 like f16 and bf16.
//
//   f8e4m3                   no infinity; all ones is NaN
//   f8e5m2                   as IEEE 754
//   f8e4m3fnuz, f8e5m2fnuz   no infinity and no -0, whose code is the NaN
//   f8e8m0                   powers of two from 2^-127 to 2^127; all ones is NaN
//   f4e2m1                   neither infinity nor NaN
//
// A store rounds half to even (f8e8m0: up, so that what is divided by a scale never overflows; it
// has no negative values, those become NaN). What is too large becomes the largest number, in
// f8e5m2 infinity. f4e2m1 stores NaN as -0.
#ifndef TENON_RUNTIME_COMMON_MINIFLOAT_H
#define TENON_RUNTIME_COMMON_MINIFLOAT_H

#include "common/float16.h"
#include "common/packed.h"

namespace tenon {

struct f8e4m3 {
  uint8_t bits;
};
struct f8e4m3fnuz {
  uint8_t bits;
};
struct f8e5m2 {
  uint8_t bits;
};
struct f8e5m2fnuz {
  uint8_t bits;
};
struct f8e8m0 {
  uint8_t bits;
};
struct f4e2m1 {};
template <> inline constexpr int packed_bits<f4e2m1> = 4;

namespace detail {

enum class specials { ieee, nan_only, fnuz, none };

/// How a type with sign, exponent and mantissa is made up; `exponent` is 0 for all other types.
/// `most` is the code of the largest number, `nan` that of the NaN which a store makes.
template <int Exponent, int Mantissa, int Bias, specials Specials, uint32_t Most, uint32_t Nan>
struct float_format {
  static constexpr int exponent = Exponent, mantissa = Mantissa, bias = Bias;
  static constexpr specials kind = Specials;
  static constexpr uint32_t most = Most, nan = Nan, sign = 1u << (Exponent + Mantissa);
};
template <class T> struct minifloat : float_format<0, 0, 0, specials::none, 0, 0> {};
template <> struct minifloat<f8e4m3> : float_format<4, 3, 7, specials::nan_only, 0x7e, 0x7f> {};
template <> struct minifloat<f8e4m3fnuz> : float_format<4, 3, 8, specials::fnuz, 0x7f, 0x80> {};
template <> struct minifloat<f8e5m2> : float_format<5, 2, 15, specials::ieee, 0x7b, 0x7f> {};
template <> struct minifloat<f8e5m2fnuz> : float_format<5, 2, 16, specials::fnuz, 0x7f, 0x80> {};
template <> struct minifloat<f4e2m1> : float_format<2, 1, 1, specials::none, 0x7, 0x8> {};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
template <> struct hardware_float<f8e4m3> {
  static constexpr bool loads = true, stores = true;
  TENON_FN static float load(uint8_t bits) {
    float x;
    asm("{\n.reg .b32 pair;\n.reg .b16 low;\ncvt.rn.f16x2.e4m3x2 pair, %1;\n"
        "cvt.u16.u32 low, pair;\ncvt.f32.f16 %0, low;\n}"
        : "=f"(x)
        : "h"(uint16_t(bits)));
    return x;
  }
  TENON_FN static uint8_t store(float x) {
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return uint8_t(pair);
  }
};
#endif

template <class T> inline constexpr bool is_minifloat = minifloat<T>::exponent > 0;
template <> inline constexpr bool is_minifloat<f8e8m0> = true;

} // namespace detail
} // namespace tenon

#endif
