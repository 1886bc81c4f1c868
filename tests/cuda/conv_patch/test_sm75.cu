// Architectures: 750
//
// Tests of conv_patch_sm75.
#include "shared/conv_patch_cases.h"
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
  test::conv_patch_cases<patch>();
  return test::finish();
}
