// Architectures: 750
//
// Tests of conv_patch_sm75.
#include "conv_patch/cases.h"
#include "cuda/conv_patch/sm75.cuh"

namespace {

struct patch {
  static constexpr const char *name = "sm75";
  using packing = test::patch_weights;
  using weight = tenon::f16;
  /// fp16 operands are exact here; sums are fp32; fp32 operands lose what fp16 cannot hold.
  template <class T> static constexpr double tolerance() { return 2e-3; }
  template <class... Args> static auto conv(Args... args) {
    return tenon::cuda::conv_patch_sm75(args...);
  }
};

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  test::conv_patch_cases<patch>();
#endif
  test::conv_patch<patch, tenon::f16, tenon::cuda::conv_patch_schedule<4, 8, 2, 8, 2, 1>, test::order::nhwc, 8, 8, 3, 3, 3, 1, 1, true>(1, 9, 11, 1);
  test::conv_patch<patch, float, tenon::cuda::conv_patch_schedule<4, 16, 1, 32, 2, 2>, test::order::nchw, 3, 32, 1, 7, 7, 2>(1, 13, 20, 3);
  return test::finish();
}
