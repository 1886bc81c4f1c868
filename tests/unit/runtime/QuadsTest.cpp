// Tests of sums of 8-bit integers by vectors of four (common/quads.h): conv_quads and
// depthwise_quads against the definition, over ragged shapes, strides, paddings and layouts, and
// the functions of quads against those of single values.
#include "IntegerCases.h"
#include "cpu/conv_quads.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace {
using namespace tenon;

/// What requantisation is made of, with a bias and a multiplier for each filter.
struct requantize {
  template <class L> i8<L> operator()(L, i32<L> acc, i32<L> bias, i32<L> scale) const {
    const i32<L> high = mul_high<L>(add<L>(acc, bias), scale);
    const i32<L> shifted = shift_right<L>(high, broadcast<L>(int32_t(5)));
    return cast<L, int8_t, int32_t>(
        clamp<L>(shifted, broadcast<L>(int32_t(-128)), broadcast<L>(int32_t(127))));
  }
};

template <index_t Batch, index_t InH, index_t InW, index_t Channels, index_t Filters,
          index_t KernelH, index_t KernelW, index_t Stride, index_t Dilation, index_t Pad,
          bool Vector = true>
struct quads_case
    : conv_case<Batch, InH, InW, Channels, Filters, KernelH, KernelW, Stride, Dilation, Pad, 1, 1> {
  static constexpr bool vector_body = Vector;
};

/// Runs `kernel(x, outs, ins)` on images of C channels and compares K results a pixel with sums
/// over channels [first(k), first(k) + depth) and weight(k, ky, kx, c).
template <class Cfg, class Kernel, class Weight>
void check(int32_t zero, bool channelsLast, index_t C, index_t K, bool depthwise,
           const Kernel &kernel, const Weight &weight) {
  const Cfg cfg{};
  const index_t H = cfg.in_h, W = cfg.in_w, pixels = cfg.out_h * cfg.out_w;
  const auto x = randomBytes<int8_t>(size_t(cfg.batch * C * H * W), 1);
  const auto bias = randomBytes<int16_t>(size_t(K), 2);
  const std::vector<int32_t> biases(bias.begin(), bias.end());
  const auto scales = randomBytes<int32_t>(size_t(K), 3);
  std::vector<int8_t> y(size_t(cfg.batch * K * pixels), -1);
  const auto outs = pack(make_view(
      y.data(), dims<dyn, fixed<1>, dyn, dyn>{dyn(pixels * K), {}, dyn(cfg.out_w * K), dyn(K)}));
  const auto ins = pack(make_view(biases.data(), extents<0, 1, 0, 0>{}),
                        make_view(scales.data(), extents<0, 1, 0, 0>{}));
  kernel(x.data(), outs, ins);
  for (index_t n = 0; n < cfg.batch; ++n)
    for (index_t p = 0; p < pixels; ++p)
      for (index_t k = 0; k < K; ++k) {
        int32_t sum = 0;
        for (index_t ky = 0; ky < cfg.kernel_h; ++ky)
          for (index_t kx = 0; kx < cfg.kernel_w; ++kx)
            for (index_t i = 0; i < (depthwise ? 1 : C); ++i) {
              const index_t c = depthwise ? k : i;
              const index_t h = p / cfg.out_w * cfg.stride_h - cfg.pad_top + ky * cfg.dilation_h;
              const index_t v = p % cfg.out_w * cfg.stride_w - cfg.pad_left + kx * cfg.dilation_w;
              if (h >= 0 && h < cfg.in_h && v >= 0 && v < cfg.in_w)
                sum += (x[size_t(channelsLast ? ((n * H + h) * W + v) * C + c
                                              : ((n * C + c) * H + h) * W + v)] -
                        zero) *
                       weight(k, ky, kx, i);
            }
        const int8_t expected =
            requantize{}(scalar_lanes{}, sum, biases[size_t(k)], scales[size_t(k)]);
        ASSERT_EQ(y[size_t((n * pixels + p) * K + k)], expected)
            << "image " << n << ", pixel " << p << ", filter " << k;
      }
}

template <class Cfg> void testConv(int32_t zero, bool channelsLast = true) {
  constexpr Cfg cfg{};
  constexpr index_t C = decltype(cfg.channels)::value, H = decltype(cfg.in_h)::value,
                    W = decltype(cfg.in_w)::value, K = decltype(cfg.filters)::value,
                    kernel_w = decltype(cfg.kernel_w)::value,
                    depth = C * decltype(cfg.kernel_h)::value * kernel_w;
  const auto w = randomWeights<Cfg::weight_bits>(K * depth, 4);
  const auto stored = storeWeights<Cfg::weight_bits, 16>(w, K);
  std::vector<int8_t> patch(size_t(depth) + 2, 77);
  std::vector<int32_t> sums(size_t(K) + 2, 77);
  check<Cfg>(
      zero, channelsLast, C, K, false,
      [&](const int8_t *x, const auto &outs, const auto &ins) {
        const auto run = [&](auto strides) {
          cpu::conv_quads(cfg, make_view(x, strides), stored.data(), zero, patch.data() + 1,
                          sums.data() + 1, outs, ins, requantize{});
        };
        if (channelsLast)
          run(extents<C * H * W, 1, W * C, C>{});
        else
          run(extents<C * H * W, H * W, W, 1>{});
      },
      [&](index_t k, index_t ky, index_t kx, index_t c) {
        return w[size_t(k * depth + (ky * kernel_w + kx) * C + c)];
      });
  EXPECT_EQ(patch.front(), 77);
  EXPECT_EQ(patch.back(), 77);
  EXPECT_EQ(sums.front(), 77);
  EXPECT_EQ(sums.back(), 77);
}

TEST(ConvQuads, Pointwise) {
  testConv<quads_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0>>(-128);
  testConv<quads_case<2, 3, 3, 20, 8, 1, 1, 1, 1, 0>>(3);
  testConv<quads_case<1, 4, 3, 6, 5, 1, 1, 2, 1, 0, false>>(127);
  testConv<quads_case<1, 1, 1, 130, 9, 1, 1, 1, 1, 0>>(-7);
}
TEST(ConvQuads, Windows) {
  testConv<quads_case<1, 7, 6, 16, 5, 3, 3, 1, 1, 1>>(-128);
  testConv<quads_case<1, 7, 6, 16, 4, 3, 3, 2, 1, 1, false>>(0);
  testConv<quads_case<2, 9, 8, 4, 3, 5, 3, 2, 1, 2>>(7);
  testConv<quads_case<1, 9, 9, 8, 4, 3, 3, 1, 2, 2>>(-1);
}
TEST(ConvQuads, FewChannelsAndOtherLayouts) {
  testConv<quads_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1>>(5);
  testConv<quads_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1>>(5, false);
  testConv<quads_case<1, 11, 10, 1, 6, 10, 4, 2, 1, 3>>(83);
  testConv<quads_case<1, 6, 5, 4, 8, 1, 1, 1, 1, 0>>(0, false);
}

TEST(ConvQuads, WeightsOfFewBits) {
  testConv<narrow<4, quads_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0>>>(-128);
  testConv<narrow<4, quads_case<2, 9, 8, 4, 3, 5, 3, 2, 1, 2>>>(7);
  testConv<narrow<2, quads_case<1, 1, 1, 130, 9, 1, 1, 1, 1, 0>>>(-7);
  testConv<narrow<2, quads_case<1, 7, 6, 16, 4, 3, 3, 2, 1, 1, false>>>(0);
}

template <class Cfg> void testDepthwise(int32_t zero) {
  constexpr Cfg cfg{};
  constexpr index_t C = decltype(cfg.channels)::value, H = decltype(cfg.in_h)::value,
                    W = decltype(cfg.in_w)::value, kernel_w = decltype(cfg.kernel_w)::value,
                    taps = decltype(cfg.kernel_h)::value * kernel_w;
  const auto w = randomBytes<int8_t>(size_t(C * taps), 5);
  std::vector<int32_t> sums(size_t(C) + 2, 77);
  check<Cfg>(
      zero, true, C, C, true,
      [&](const int8_t *x, const auto &outs, const auto &ins) {
        cpu::depthwise_quads(cfg, make_view(x, extents<C * H * W, 1, W * C, C>{}), w.data(), zero,
                             sums.data() + 1, outs, ins, requantize{});
      },
      [&](index_t k, index_t ky, index_t kx, index_t) {
        return w[size_t((k / 4 * taps + ky * kernel_w + kx) * 4 + k % 4)];
      });
  EXPECT_EQ(sums.front(), 77);
  EXPECT_EQ(sums.back(), 77);
}

TEST(DepthwiseQuads, Windows) {
  testDepthwise<quads_case<1, 7, 6, 20, 1, 3, 3, 1, 1, 1>>(-128);
  testDepthwise<quads_case<2, 6, 7, 4, 1, 3, 3, 1, 1, 0>>(4);
  testDepthwise<quads_case<1, 8, 7, 16, 1, 3, 3, 2, 1, 1>>(100);
  testDepthwise<quads_case<1, 9, 9, 8, 1, 3, 3, 1, 2, 2>>(-3);
  testDepthwise<quads_case<1, 1, 30, 4, 1, 1, 10, 1, 1, 0>>(1);
  testDepthwise<quads_case<1, 3, 2, 36, 1, 3, 3, 1, 1, 1>>(9);
}

template <class From, class To> void testCast() {
  const auto x = randomBytes<From>(4, 6);
  To narrow[4];
  const auto casted = cast<quads, To, From>(quads::load(x.data()));
  quads::store(narrow, casted);
  int32_t wide[4];
  quads::store(wide, cast<quads, int32_t, To>(casted));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(narrow[i], To(x[size_t(i)]));
    EXPECT_EQ(wide[i], int32_t(To(x[size_t(i)])));
  }
}
TEST(Quads, Casts) {
  testCast<int32_t, int8_t>();
  testCast<int32_t, uint8_t>();
  testCast<int32_t, int16_t>();
  testCast<int32_t, uint16_t>();
  testCast<int16_t, uint8_t>();
  testCast<uint8_t, int8_t>();
  testCast<int8_t, uint8_t>();
}
TEST(Quads, Shifts) {
  const std::vector<int32_t> values = {0,  1,  2,  3,          5,           -1,
                                       -3, -5, -6, 0x7fffffff, -0x7fffffff, -0x7fffffff - 1};
  for (int32_t count = 0; count < 32; ++count)
    for (int32_t v : values)
      for (int32_t x : {v, int32_t(uint32_t(v) << (count / 2)), int32_t(uint32_t(v) << count)}) {
        const auto test = [&](const char *name, auto vector, auto single) {
          int32_t y[4];
          quads::store(y, vector(quads::broadcast(x), quads::broadcast(count)));
          for (int i = 0; i < 4; ++i)
            EXPECT_EQ(y[i], single(x, count)) << name << " of " << x << " by " << count;
        };
        using Q = quad<int32_t>;
        test(
            "shift_left", [](Q a, Q n) { return shift_left<quads>(a, n); },
            [](int32_t a, int32_t n) { return shift_left<scalar_lanes>(a, n); });
        test(
            "shift_right", [](Q a, Q n) { return shift_right<quads>(a, n); },
            [](int32_t a, int32_t n) { return shift_right<scalar_lanes>(a, n); });
        test(
            "round_shift", [](Q a, Q n) { return round_shift<quads>(a, n); },
            [](int32_t a, int32_t n) { return round_shift<scalar_lanes>(a, n); });
      }
}
} // namespace
