// Tests subnormals_as_zero: that contractions run under it, on every thread, and leave the caller's
// arithmetic as it was.
#include "Support.h"
#include "cpu/conv.h"

using namespace tenon;
using namespace tenon::cpu;

namespace {

#if TENON_SIMD_WIDTH > 1 && (defined(__x86_64__) || defined(__aarch64__))
constexpr bool kCanFlush = true;
#else
constexpr bool kCanFlush = false;
#endif

/// The product is made at run time.
float multiply(float a, float b) {
  volatile float x = a, y = b;
  return x * y;
}

TEST(Subnormals, GuardEndsWithItsScope) {
  {
    const subnormals_as_zero outer;
    {
      const subnormals_as_zero inner;
      EXPECT_EQ(multiply(1e-30f, 1e-10f) == 0, kCanFlush); // a result
      EXPECT_EQ(multiply(1e-40f, 1e20f) == 0, kCanFlush);  // an operand
    }
    EXPECT_EQ(multiply(1e-30f, 1e-10f) == 0, kCanFlush);
  }
  EXPECT_NE(multiply(1e-30f, 1e-10f), 0);
  EXPECT_NE(multiply(1e-40f, 1e20f), 0);
}

struct Product : conv_defaults {
  static constexpr fixed<1> batch{}, out_h{}, in_h{}, kernel_h{}, kernel_w{}, channels{};
  static constexpr fixed<1 << 20> out_w{}, in_w{};
  static constexpr fixed<native_lanes::width> filters{};
  static constexpr int mr = 4, nr = native_lanes::width;
  using accumulator = float;
};

TEST(Subnormals, ConvolutionGivesZero) {
  constexpr index_t pixels = Product::in_w, filters = Product::filters;
  const std::vector<float> x(pixels, 1e-30f), w(filters, 1e-10f);
  std::vector<float> y(pixels * filters, 1.0f);
  pool workers(3);
  conv(Product{}, make_view(x.data(), extents<0, 1, 0, 1>()), w.data(),
       pack(make_view(y.data(), extents<0, 1, 0, filters>())), pack(), identity_body{}, workers);
  size_t zeros = 0;
  for (float v : y)
    zeros += v == 0;
  EXPECT_EQ(zeros, kCanFlush ? y.size() : 0);
  EXPECT_NE(multiply(1e-30f, 1e-10f), 0);
}

} // namespace
