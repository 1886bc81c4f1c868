// Tests of sums of 8-bit integers whose extents are run-time values: conv_shared and
// depthwise_shared against the definition, over ragged shapes, strides, paddings and layouts.
#include "cpu/conv_shared.h"

#include "IntegerCases.h"

#include <gtest/gtest.h>

namespace {
using namespace tenon;

template <class Cfg>
cpu::window_shape shapeOf(const Cfg &c, index_t filters, index_t channels, int32_t zero) {
  const auto n = [](index_t v) { return int16_t(v); };
  return {n(c.batch),
          n(c.in_h),
          n(c.in_w),
          n(c.out_h),
          n(c.out_w),
          n(filters),
          n(channels),
          n(c.kernel_h),
          n(c.kernel_w),
          n(c.stride_h),
          n(c.stride_w),
          n(c.dilation_h),
          n(c.dilation_w),
          n(c.pad_top),
          n(c.pad_left),
          n(zero),
          {}};
}

void setStrides(cpu::window_shape &s, index_t n, index_t c, index_t h, index_t w) {
  const index_t all[4] = {n, c, h, w};
  for (int i = 0; i < 4; ++i)
    s.x_strides[i] = int32_t(all[i]);
}

template <int MR, class T, class Cfg> void testConv(int32_t zero, bool channelsLast) {
  constexpr Cfg cfg{};
  const index_t C = cfg.channels, H = cfg.in_h, W = cfg.in_w, K = cfg.filters,
                depth = C * cfg.kernel_h * cfg.kernel_w, pixels = cfg.out_h * cfg.out_w;
  const auto x = randomBytes<T>(size_t(cfg.batch * C * H * W), 1);
  const auto w = randomWeights<Cfg::weight_bits>(K * depth, 2);
  const auto stored = storeWeights<Cfg::weight_bits, 4>(w, K);
  const std::vector<int32_t> bias(size_t(K), 1000);
  // One more word than is promised on either side must stay as it is.
  const size_t words = size_t(2 * MR * ceil_div(depth, 4));
  std::vector<uint64_t> room(words / 2 + 3, 0xdeadbeefdeadbeef);
  cpu::window_shape s = shapeOf(cfg, K, C, zero);
  if (channelsLast)
    setStrides(s, C * H * W, 1, W * C, C);
  else
    setStrides(s, C * H * W, H * W, W, 1);
  std::vector<int32_t> y(size_t(cfg.batch * K * pixels), -1);
  cpu::conv_shared<MR, Cfg::weight_bits>(
      s, x.data(), stored.data(), reinterpret_cast<uint32_t *>(room.data() + 1), plus_bias{},
      make_view(y.data(), dims<dyn, fixed<1>, fixed<0>, dyn>{dyn(pixels * K), {}, {}, dyn(K)}),
      make_view(bias.data(), extents<0, 1, 0, 0>{}));
  const auto read = [&](index_t n, index_t c, index_t h, index_t v) {
    return int32_t(
        x[size_t(channelsLast ? ((n * H + h) * W + v) * C + c : ((n * C + c) * H + h) * W + v)]);
  };
  for (index_t n = 0; n < cfg.batch; ++n)
    for (index_t p = 0; p < pixels; ++p)
      for (index_t k = 0; k < K; ++k)
        ASSERT_EQ(y[size_t((n * pixels + p) * K + k)],
                  1000 + expected<T>(cfg, read, w.data() + k * depth, zero, n, p / cfg.out_w,
                                     p % cfg.out_w, C, 0))
            << "image " << n << ", pixel " << p << ", filter " << k;
  EXPECT_EQ(room.front(), 0xdeadbeefdeadbeef);
  EXPECT_EQ(room.back(), 0xdeadbeefdeadbeef);
}

TEST(ConvShared, Pointwise) {
  testConv<4, int8_t, conv_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0, 4, 1>>(-128, true);
  testConv<4, int8_t, conv_case<2, 3, 3, 20, 8, 1, 1, 1, 1, 0, 4, 1>>(3, true);
  testConv<4, uint8_t, conv_case<1, 4, 3, 6, 5, 1, 1, 2, 1, 0, 4, 1>>(255, true);
  testConv<1, int8_t, conv_case<1, 1, 1, 130, 9, 1, 1, 1, 1, 0, 1, 1>>(-7, true);
}
TEST(ConvShared, Windows) {
  testConv<4, int8_t, conv_case<1, 7, 6, 16, 5, 3, 3, 1, 1, 1, 4, 1>>(-128, true);
  testConv<4, uint8_t, conv_case<2, 9, 8, 4, 3, 5, 3, 2, 1, 2, 4, 1>>(7, true);
  testConv<4, int8_t, conv_case<1, 9, 9, 8, 2, 3, 3, 1, 2, 2, 4, 1>>(-1, true);
}
TEST(ConvShared, FewChannelsAndOtherLayouts) {
  testConv<4, int8_t, conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, 1>>(5, true);
  testConv<4, int8_t, conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, 1>>(5, false);
  testConv<4, int8_t, conv_case<1, 11, 10, 1, 6, 10, 4, 2, 1, 3, 4, 1>>(83, true);
  testConv<1, uint8_t, conv_case<1, 6, 5, 4, 3, 6, 5, 1, 1, 0, 1, 1>>(0, false);
}

TEST(ConvShared, WeightsOfFewBits) {
  testConv<4, int8_t, narrow<4, conv_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0, 4, 1>>>(-128, true);
  testConv<4, uint8_t, narrow<4, conv_case<1, 4, 3, 6, 5, 1, 1, 2, 1, 0, 4, 1>>>(255, true);
  testConv<1, int8_t, narrow<2, conv_case<1, 1, 1, 130, 9, 1, 1, 1, 1, 0, 1, 1>>>(-7, true);
  testConv<4, int8_t, narrow<2, conv_case<1, 9, 9, 8, 2, 3, 3, 1, 2, 2, 4, 1>>>(-1, true);
}

template <class T, class Cfg> void testDepthwise(int32_t zero) {
  constexpr Cfg cfg{};
  const index_t C = cfg.channels, H = cfg.in_h, W = cfg.in_w, taps = cfg.kernel_h * cfg.kernel_w,
                pixels = cfg.out_h * cfg.out_w;
  const auto x = randomBytes<T>(size_t(cfg.batch * C * H * W), 3);
  const auto w = randomWeights<Cfg::weight_bits>(C * taps, 4);
  const auto stored = storeWeights<Cfg::weight_bits, 1>(w, C);
  const std::vector<int32_t> bias(size_t(C), -5);
  cpu::window_shape s = shapeOf(cfg, C, 1, zero);
  setStrides(s, C * H * W, 1, W * C, C);
  std::vector<int32_t> y(size_t(cfg.batch * C * pixels), -1);
  cpu::depthwise_shared<Cfg::weight_bits>(
      s, x.data(), stored.data(), plus_bias{},
      make_view(y.data(), dims<dyn, fixed<1>, fixed<0>, dyn>{dyn(pixels * C), {}, {}, dyn(C)}),
      make_view(bias.data(), extents<0, 1, 0, 0>{}));
  const auto read = [&](index_t n, index_t c, index_t h, index_t v) {
    return int32_t(x[size_t(((n * H + h) * W + v) * C + c)]);
  };
  for (index_t n = 0; n < cfg.batch; ++n)
    for (index_t p = 0; p < pixels; ++p)
      for (index_t c = 0; c < C; ++c)
        ASSERT_EQ(y[size_t((n * pixels + p) * C + c)],
                  -5 + expected<T>(cfg, read, w.data() + c * taps, zero, n, p / cfg.out_w,
                                   p % cfg.out_w, 1, c))
            << "image " << n << ", pixel " << p << ", channel " << c;
}

TEST(DepthwiseShared, Windows) {
  testDepthwise<int8_t, conv_case<1, 7, 6, 5, 1, 3, 3, 1, 1, 1, 1, 1>>(-128);
  testDepthwise<uint8_t, conv_case<2, 8, 7, 2, 1, 3, 3, 2, 1, 1, 1, 1>>(200);
  testDepthwise<int8_t, conv_case<1, 9, 9, 2, 1, 5, 5, 1, 1, 2, 1, 1>>(1);
  testDepthwise<int8_t, conv_case<1, 9, 8, 3, 1, 3, 3, 1, 2, 2, 1, 1>>(-9);
  testDepthwise<int8_t, conv_case<1, 1, 30, 4, 1, 1, 10, 1, 1, 0, 1, 1>>(-3);
}
// Windows that lie outside the image altogether.
TEST(DepthwiseShared, WidePadding) {
  testDepthwise<int8_t, conv_case<1, 2, 2, 3, 1, 3, 3, 1, 1, 4, 1, 1>>(11);
}
TEST(DepthwiseShared, WeightsOfFewBits) {
  testDepthwise<int8_t, narrow<4, conv_case<1, 7, 6, 5, 1, 3, 3, 1, 1, 1, 1, 1>>>(-128);
  testDepthwise<uint8_t, narrow<2, conv_case<2, 8, 7, 2, 1, 3, 3, 2, 1, 1, 1, 1>>>(200);
}
} // namespace
