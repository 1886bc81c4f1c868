// Defines ex2.approx.ftz.f32: 2^x within 2 ulp. Results below the smallest normal number are 0;
// 2^-infinity is 0, and NaN stays.
#ifndef TENON_RUNTIME_CUDA_PTX_EXP2_CUH
#define TENON_RUNTIME_CUDA_PTX_EXP2_CUH

#include "cuda/device.cuh"
#include <math.h>

namespace tenon {
namespace cuda {
namespace ptx {

struct exp2_approximate {
  TENON_DEVICE static float of(float x) {
#if defined(__CUDA_ARCH__)
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return ::exp2f(x);
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
