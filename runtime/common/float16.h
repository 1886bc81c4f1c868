// Defines f16 (IEEE binary16) and bf16 (upper half of binary32): storage types only. Arithmetic is
// done in f32; a store rounds half to even. On CUDA the hardware converts; the toolkit's headers of
// such types are not needed, which nvcc would read in each of its passes over a file.
#ifndef TENON_RUNTIME_COMMON_FLOAT16_H
#define TENON_RUNTIME_COMMON_FLOAT16_H

#include "common/base.h"

namespace tenon {

struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

namespace detail {
/// Instructions that convert T, where the architecture has them.
template <class T> struct hardware_float { static constexpr bool loads = false, stores = false; };
#if defined(__CUDA_ARCH__)
template <> struct hardware_float<f16> {
  static constexpr bool loads = true, stores = true;
  TENON_FN static float load(uint16_t bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
  TENON_FN static uint16_t store(float x) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
  }
};
template <> struct hardware_float<bf16> {
  static constexpr bool loads = true, stores = __CUDA_ARCH__ >= 800;
  TENON_FN static float load(uint16_t bits) {
    float x;
    asm("mov.b32 %0, {0, %1};" : "=f"(x) : "h"(bits));
    return x;
  }
#if __CUDA_ARCH__ >= 800
  TENON_FN static uint16_t store(float x) {
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
  }
#endif
};
#endif
} // namespace detail

} // namespace tenon

#endif
