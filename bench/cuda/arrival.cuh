// Defines how a kernel takes values that another one, running at the same time, may not have
// written yet: memory holds ones beforehand, which no result does, and a reader loads again until
// it sees none. Halves: no 0xffff; floats: no 0xffffffff. (Both are NaNs that nothing computes.)
#pragma once

#include "cuda/device.cuh"
#include <cuda_fp16.h>

namespace study {

using namespace tenon;
using namespace tenon::cuda;

struct arrival_of_values {
  TENON_DEVICE static uint4 load(const void *from) {
    uint4 w;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                 : "l"(from)
                 : "memory");
    return w;
  }
  /// A half of `w` is not there.
  TENON_DEVICE static bool lacks_halves(const uint4 &w) {
    return (ones(w.x) | ones(w.y) | ones(w.z) | ones(w.w)) != 0;
  }
  /// A float of `w` is not there.
  TENON_DEVICE static bool lacks_floats(const uint4 &w) {
    return w.x == ~0u || w.y == ~0u || w.z == ~0u || w.w == ~0u;
  }
  /// Loads `w` again until its halves are there.
  TENON_DEVICE static void await_halves(uint4 &w, const void *at) {
    for (int tries = 0; lacks_halves(w); ++tries)
      w = load(at), give_up(tries);
  }
  TENON_DEVICE static void await_floats(uint4 &w, const void *at) {
    for (int tries = 0; lacks_floats(w); ++tries)
      w = load(at), give_up(tries);
  }
  TENON_DEVICE static float await_float(const float *at) {
    for (int tries = 0;; ++tries) {
      unsigned bits;
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(bits) : "l"(at) : "memory");
      if (bits != ~0u)
        return __uint_as_float(bits);
      give_up(tries);
    }
  }
  TENON_DEVICE static void store(__half *to, float value) {
    asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(to),
                 "h"(__half_as_ushort(__float2half(value)))
                 : "memory");
  }
  TENON_DEVICE static void store(float *to, float value) {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
  }

private:
  /// Not zero if one half of `w` is 0xffff.
  TENON_DEVICE static unsigned ones(unsigned w) { return (~w - 0x00010001u) & w & 0x80008000u; }
  TENON_DEVICE static void give_up(int tries) {
    if (tries > 1 << 22)
      trap(); // nothing will write it
  }
};

} // namespace study
