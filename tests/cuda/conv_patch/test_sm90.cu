// Architectures: 900a
//
// Tests of conv_patch_sm90.
#include "shared/conv_patch_cases.h"
#include "cuda/conv_patch/sm90.cuh"

using namespace test;

namespace {

template <class T> struct patch {
  static constexpr const char *name = "sm90";
  using packing = patch_weights;
  using weight = T;
  /// Operands are exact here; sums are fp32; fp32 operands lose what 16 bits cannot hold.
  template <class> static constexpr double tolerance() {
    return std::is_same_v<T, tenon::bf16> ? 1e-2 : 2e-3;
  }
  template <class... Args> static auto conv(Args... args) {
    return tenon::cuda::conv_patch_sm90(args...);
  }
};
using f16_patch = patch<tenon::f16>;
using bf16_patch = patch<tenon::bf16>;

// Two blocks at most, so that each takes several tiles.
template <int H, int N, int Consumers>
using rows = tenon::cuda::conv_patch_sm90_schedule<H, N, Consumers, 2>;

} // namespace

int main() {
  using h = tenon::f16;
  using single = rows<1, 32, 1>;
  using pair = rows<3, 32, 2>;
  using tall = rows<6, 64, 3>;
  using wide = rows<2, 96, 2>;
#if !defined(TENON_INSTANCES)
  conv_patch<f16_patch, h, pair, order::nchw, 3, 40, 1, 3, 3, 2>(2, 19, 137, 1);
  conv_patch<f16_patch, h, known_runs<tall>, order::nchw, 3, 64, 1, 7, 7, 2>(1, 22, 130, 3);
  conv_patch<f16_patch, h, wide, order::nchw, 3, 96, 1, 4, 4, 4>(1, 17, 276, 0);
  conv_patch<f16_patch, h, wide, order::nchw, 3, 100, 1, 3, 3, 1>(1, 9, 77, 1);
  conv_patch<f16_patch, h, single, order::nhwc, 3, 32, 1, 3, 3, 2>(1, 10, 21, 1);
  conv_patch<f16_patch, h, single, order::nchw, 2, 16, 1, 1, 7, 2>(2, 1, 145, 3);
  conv_patch<f16_patch, h, tall, order::nchw, 5, 32, 1, 3, 3, 1>(1, 9, 67, 1);
  conv_patch<f16_patch, h, pair, order::nhwc, 7, 24, 1, 3, 4, 2>(1, 9, 67, 1);
  conv_patch<f16_patch, float, pair, order::nchw, 3, 32, 1, 7, 7, 2>(1, 13, 20, 3);
  conv_patch<f16_patch, h, pair, order::nchw, 3, 32, 1, 3, 3, 2>(1, 0, 21, 2); // no pixels
  conv_patch_infinity<f16_patch, pair, 3, 3, 2>(9, 17, 1);
  conv_patch_infinity<f16_patch, pair, 3, 7, 2>(12, 20, 3);
  conv_patch_infinity<f16_patch, pair, 3, 3, 1>(9, 17, 1);
#endif
  conv_patch<f16_patch, h, tall, order::nchw, 3, 64, 1, 7, 7, 2>(2, 42, 70, 3);
  conv_patch<f16_patch, float, pair, order::nchw, 3, 32, 1, 3, 3, 2, 1, true>(1, 11, 21, 1);
  conv_patch<f16_patch, h, pair, order::nchw, 3, 32, 1, 3, 3, 1, 2>(1, 15, 40, 2);
  conv_patch<bf16_patch, tenon::bf16, pair, order::nchw, 3, 40, 1, 3, 3, 2>(2, 19, 37, 1);
  return finish();
}
