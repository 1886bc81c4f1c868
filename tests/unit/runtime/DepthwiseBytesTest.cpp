// Tests of depthwise_bytes against the definition, with every kind of products that this machine
// has.
#include "WeightZeros.h"

#include "cpu/depthwise_bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace {
using namespace tenon;

/// Weights of 8 - `narrower` bits.
template <class T, class Cfg, bool ZeroOfAll>
void testDepthwiseWeights(int32_t zero, int narrower) {
  constexpr Cfg cfg{};
  constexpr index_t C = decltype(cfg.channels)::value, H = decltype(cfg.in_h)::value,
                    V = decltype(cfg.in_w)::value, kernel_h = decltype(cfg.kernel_h)::value,
                    kernel_w = decltype(cfg.kernel_w)::value, taps = kernel_h * kernel_w;
  const index_t oh = cfg.out_h, ow = cfg.out_w, blocks = (C + W - 1) / W;
  auto x = randomBytes<T>(size_t(cfg.batch * C * H * V), 3);
  for (size_t i = x.size() / 2; i < x.size(); ++i)
    x[i] = std::numeric_limits<T>::max();
  auto w = randomBytes<int8_t>(size_t(C * taps), 4);
  for (int8_t &v : w)
    v = int8_t((narrower == 0 ? std::max<int8_t>(v, -127) : v) >> narrower);
  if (narrower > 0)
    w[0] = -64;
  std::vector<int8_t> packed(size_t(blocks * ((kernel_h + 3) / 4) * kernel_w * W * 4)),
      eights(size_t((C + 7) / 8 * 8 * taps)); // as aarch64 reads them
  std::vector<int32_t> sums(size_t(blocks * W));
  for (index_t c = 0; c < C; ++c)
    for (index_t i = 0; i < taps; ++i) {
      const index_t ky = i / kernel_w, kx = i % kernel_w;
      const int8_t v = w[size_t(c * taps + i)];
      packed[size_t(((((c / W) * ((kernel_h + 3) / 4) + ky / 4) * kernel_w + kx) * W + c % W) * 4 +
                    ky % 4)] = v;
      eights[size_t((c / 8 * taps + i) * 8 + c % 8)] = v;
      sums[size_t(c)] += v;
    }
  const std::vector<int32_t> bias(size_t(C), -5);
  const auto read = [&](index_t n, index_t c, index_t h, index_t v) {
    return int32_t(x[size_t(((n * H + h) * V + v) * C + c)]);
  };
  cpu::pool workers(2);
  const auto checkZeros = [&](auto how, const std::vector<int8_t> &weights, const auto &zeros,
                              const std::vector<int32_t> &values) {
    const std::vector<int32_t> less = lessZeros(w, C, values);
    std::vector<int32_t> y(size_t(cfg.batch * oh * ow * C) + 1, -1);
    cpu::detail::depthwise_bytes_by<decltype(how)>(
        cfg, make_view(x.data(), extents<C * H * V, 1, V * C, C>{}), weights.data(), sums.data(),
        zero,
        pack(make_view(y.data(),
                       dims<dyn, fixed<1>, dyn, fixed<C>>{dyn(oh * ow * C), {}, dyn(ow * C), {}})),
        pack(make_view(bias.data(), extents<0, 1, 0, 0>{})), plus_bias{}, workers, zeros);
    for (index_t n = 0; n < cfg.batch; ++n)
      for (index_t h = 0; h < oh; ++h)
        for (index_t v = 0; v < ow; ++v)
          for (index_t c = 0; c < C; ++c)
            ASSERT_EQ(y[size_t(((n * oh + h) * ow + v) * C + c)],
                      -5 + expected<T>(cfg, read, less.data() + c * taps, zero, n, h, v, 1, c))
                << "image " << n << ", row " << h << ", column " << v << ", channel " << c;
    EXPECT_EQ(y.back(), -1);
  };
  const zero_points<ZeroOfAll> zeroPoints(C);
  const auto check = [&](auto how, const std::vector<int8_t> &weights) {
    zeroPoints.forEach([&](const auto &zeros, const std::vector<int32_t> &values) {
      checkZeros(how, weights, zeros, values);
    });
  };
  check(two_products{}, packed);
#if TENON_BYTE_PAIRS && TENON_SIMD_WIDTH <= 8
  if (narrower == 0)
    check(sign_products{}, packed);
  else
    check(short_products<1>{}, packed);
#endif
#if TENON_FOUR_PRODUCTS
  if (has_four_products)
    check(four_products{}, packed);
#endif
#if TENON_NEON_PRODUCTS
  check(tap_products{}, eights);
#endif
}

template <class T, class Cfg, bool ZeroOfAll = false> void testDepthwise(int32_t zero) {
  testDepthwiseWeights<T, Cfg, ZeroOfAll>(zero, 0);
  testDepthwiseWeights<T, Cfg, ZeroOfAll>(zero, 1);
}

TEST(DepthwiseBytes, ThreeTaps) {
  testDepthwise<int8_t, conv_case<1, 7, 6, W, 1, 3, 3, 1, 1, 1, 4, 1>>(-128);
  testDepthwise<int8_t, conv_case<2, 6, 17, 2 * W + 3, 1, 3, 3, 1, 1, 0, 5, 1>>(4);
  testDepthwise<uint8_t, conv_case<1, 8, 7, 5, 1, 3, 3, 2, 1, 1, 3, 1>>(255);
  testDepthwise<uint8_t, conv_case<1, 12, 12, W, 1, 3, 3, 1, 2, 2, 4, 1>>(0);
}
TEST(DepthwiseBytes, OtherWindows) {
  testDepthwise<int8_t, conv_case<1, 9, 12, W + 1, 1, 5, 5, 1, 1, 2, 3, 1>>(127);
  testDepthwise<int8_t, conv_case<1, 1, 30, 4, 1, 1, 10, 1, 1, 0, 4, 1>>(-3);
  testDepthwise<uint8_t, conv_case<1, 4, 4, 2 * W, 1, 2, 1, 2, 1, 0, 1, 1>>(7);
  testDepthwise<int8_t, conv_case<1, 3, 2, 2, 1, 3, 3, 1, 1, 1, 2, 1>>(9);
}
TEST(DepthwiseBytes, OneZeroOfAllWeights) {
  testDepthwise<int8_t, conv_case<2, 6, 17, 2 * W + 3, 1, 3, 3, 1, 1, 0, 5, 1>, true>(4);
  testDepthwise<uint8_t, conv_case<1, 4, 4, 2 * W, 1, 2, 1, 2, 1, 0, 1, 1>, true>(7);
}
} // namespace
