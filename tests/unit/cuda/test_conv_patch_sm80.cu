// Tests of conv_patch_sm80.
#include "conv_patch_cases.h"
#include "cuda/conv_patch_sm80.cuh"

namespace {

struct patch {
  static constexpr const char *name = "sm80";
  using weight = tenon::f16;
  /// fp16 operands are exact here; sums are fp32; fp32 operands lose what fp16 cannot hold.
  template <class T> static constexpr double tolerance() { return 2e-3; }
  template <class... Args> static auto conv(Args... args) {
    return tenon::cuda::conv_patch_sm80(args...);
  }
};
/// bf16 operands, exact as well.
struct patch_bf16 : patch {
  static constexpr const char *name = "sm80 bf16";
  using weight = tenon::bf16;
  template <class T> static constexpr double tolerance() { return 1e-2; }
};

} // namespace

int main() {
  using small = tenon::cuda::conv_patch_schedule<4, 8, 2, 8, 2, 1>;
  test::conv_patch_cases<patch>();
  test::conv_patch<patch_bf16, tenon::bf16, small, test::order::nhwc, 8, 8, 3, 3, 3>(2, 9, 11, 1);
  return test::finish();
}
