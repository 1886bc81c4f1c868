// Defines subnormals_as_zero: while one lives, float arithmetic of this thread takes subnormal
// operands for zero and rounds subnormal results to zero, where the processor can.
//
// A multiply-add that meets a subnormal takes over a hundred cycles on x86. Training with weight
// decay leaves whole channels of weights at 1e-20 and below, and two layers on their products are
// subnormal: such a network runs at half its speed. So contractions, with the bodies fused into
// them, run under this guard; a term loses less than 1.2e-38 by it. Pointwise kernels and
// reductions do not: log and division tell a subnormal from zero. cpu:generic is left as the
// platform has it.
#ifndef TENON_RUNTIME_CPU_SUBNORMALS_H
#define TENON_RUNTIME_CPU_SUBNORMALS_H

#include "common/lanes.h"

namespace tenon {
namespace cpu {

class subnormals_as_zero {
public:
  subnormals_as_zero() : before_(read()) {
    if ((before_ & flags) != flags)
      write(before_ | flags);
  }
  ~subnormals_as_zero() {
    if ((before_ & flags) != flags)
      write(before_);
  }
  subnormals_as_zero(const subnormals_as_zero &) = delete;
  subnormals_as_zero &operator=(const subnormals_as_zero &) = delete;

private:
#if TENON_SIMD_WIDTH > 1 && defined(__x86_64__)
  using word = unsigned;
  static constexpr word flags = 0x8040; // results (FTZ) and operands (DAZ), in MXCSR
  static word read() { return _mm_getcsr(); }
  static void write(word w) { _mm_setcsr(w); }
#elif TENON_SIMD_WIDTH > 1 && defined(__aarch64__)
  using word = uint64_t;
  static constexpr word flags = word(1) << 24; // FZ, in FPCR
  static word read() {
    word w;
    __asm__ volatile("mrs %0, fpcr" : "=r"(w));
    return w;
  }
  static void write(word w) { __asm__ volatile("msr fpcr, %0" : : "r"(w) : "memory"); }
#else
  using word = unsigned;
  static constexpr word flags = 0;
  static word read() { return 0; }
  static void write(word) {}
#endif
  const word before_;
};

} // namespace cpu
} // namespace tenon

#endif
