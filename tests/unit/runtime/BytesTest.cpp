// Tests of conv_bytes and depthwise_bytes against the definition, over ragged shapes, strides,
// paddings and layouts, with every kind of products that this machine has.
#include "cpu/conv_bytes.h"
#include "cpu/depthwise_bytes.h"

#include "IntegerCases.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace {
using namespace tenon;

constexpr int W = native_lanes::width;

/// Runs along rows.
template <class Case> struct by_rows : Case { static constexpr bool row_runs = true; };

/// Weights [filters][kernel_h][kernel_w][channels] as the kernel reads them, and their sums.
template <class Cfg> struct packed_weights {
  std::vector<int8_t> bytes;
  std::vector<int32_t> sums;

  packed_weights(const Cfg &cfg, const std::vector<int8_t> &w) {
    using R = cpu::detail::byte_runs<Cfg>;
    const index_t filters = cfg.filters, blocks = (filters + W - 1) / W;
    const index_t depth = index_t(w.size()) / filters, groups = (R::bytes + 3) / 4;
    bytes.resize(size_t(blocks * R::words * W * 4));
    sums.resize(size_t(blocks * W));
    for (index_t k = 0; k < filters; ++k)
      for (index_t i = 0; i < depth; ++i) {
        const index_t tap = i / R::channels, c = i % R::channels;
        const index_t run = R::along_row ? c * R::kernel_h + tap / R::kernel_w : tap,
                      at = R::along_row ? tap % R::kernel_w : c;
        const int8_t v = w[size_t(k * depth + i)];
        bytes[size_t((((k / W * R::words + run * groups + at / 4) * W) + k % W) * 4 + at % 4)] = v;
        sums[size_t(k)] += v;
      }
  }
};

template <class T, class Cfg> void testWeights(int32_t zero, bool channelsLast, int8_t least) {
  constexpr Cfg cfg{};
  constexpr index_t C = decltype(cfg.channels)::value, H = decltype(cfg.in_h)::value,
                    V = decltype(cfg.in_w)::value, K = decltype(cfg.filters)::value;
  constexpr index_t depth = C * decltype(cfg.kernel_h)::value * decltype(cfg.kernel_w)::value;
  const index_t oh = cfg.out_h, ow = cfg.out_w;
  const auto x = randomBytes<T>(size_t(cfg.batch * C * H * V), 1);
  auto w = randomBytes<int8_t>(size_t(K * depth), 2);
  for (int8_t &v : w)
    v = std::max(v, least);
  w[0] = least;
  const packed_weights<Cfg> packed(cfg, w);
  const std::vector<int32_t> bias(size_t(K), 1000);
  const auto read = [&](index_t n, index_t c, index_t h, index_t v) {
    return int32_t(
        x[size_t(channelsLast ? ((n * H + h) * V + v) * C + c : ((n * C + c) * H + h) * V + v)]);
  };
  cpu::pool workers(2);
  const auto check = [&](auto kernel) {
    std::vector<int32_t> y(size_t(cfg.batch * oh * ow * K) + 1, -1);
    const auto outs = pack(make_view(
        y.data(), dims<dyn, fixed<1>, dyn, fixed<K>>{dyn(oh * ow * K), {}, dyn(ow * K), {}}));
    const auto ins = pack(make_view(bias.data(), extents<0, 1, 0, 0>{}));
    if (channelsLast)
      kernel(make_view(x.data(), extents<C * H * V, 1, V * C, C>{}), outs, ins, workers);
    else
      kernel(make_view(x.data(), extents<C * H * V, H * V, V, 1>{}), outs, ins, workers);
    for (index_t n = 0; n < cfg.batch; ++n)
      for (index_t h = 0; h < oh; ++h)
        for (index_t v = 0; v < ow; ++v)
          for (index_t k = 0; k < K; ++k)
            ASSERT_EQ(y[size_t(((n * oh + h) * ow + v) * K + k)],
                      1000 + expected<T>(cfg, read, w.data() + k * depth, zero, n, h, v, C, 0))
                << "image " << n << ", row " << h << ", column " << v << ", filter " << k;
    EXPECT_EQ(y.back(), -1);
  };
  check([&](const auto &view, const auto &outs, const auto &ins, cpu::pool &pool) {
    cpu::detail::conv_bytes_by<two_products>(cfg, view, packed.bytes.data(), packed.sums.data(),
                                             zero, outs, ins, plus_bias{}, pool);
  });
#if TENON_FOUR_PRODUCTS
  if (has_four_products)
    check([&](const auto &view, const auto &outs, const auto &ins, cpu::pool &pool) {
      cpu::detail::conv_bytes_by<four_products>(cfg, view, packed.bytes.data(), packed.sums.data(),
                                                zero, outs, ins, plus_bias{}, pool);
    });
#endif
#if TENON_NEON_PRODUCTS
  const auto by = [&](auto how) {
    check([&](const auto &view, const auto &outs, const auto &ins, cpu::pool &pool) {
      cpu::detail::conv_bytes_by<decltype(how)>(cfg, view, packed.bytes.data(), packed.sums.data(),
                                                zero, outs, ins, plus_bias{}, pool);
    });
  };
  by(long_products<false>{});
  if (std::find(w.begin(), w.end(), -128) == w.end())
    by(long_products<true>{});
  if (has_dot_products)
    by(dot_products{});
  if (has_matrix_products)
    by(matrix_products{});
#endif
#if TENON_TILE_PRODUCTS
  if constexpr (cpu::detail::fits_tiles<Cfg>)
    if (has_tile_products)
      check([&](const auto &view, const auto &outs, const auto &ins, cpu::pool &pool) {
        cpu::detail::conv_bytes_by_tiles(cfg, view, packed.bytes.data(), packed.sums.data(), zero,
                                         outs, ins, plus_bias{}, pool);
      });
#endif
}

/// With weights of all values, and without -128.
template <class T, class Cfg> void test(int32_t zero, bool channelsLast = true) {
  testWeights<T, Cfg>(zero, channelsLast, -128);
  testWeights<T, Cfg>(zero, channelsLast, -127);
}

TEST(ConvBytes, Pointwise) {
  test<int8_t, conv_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0, 4, W>>(-128);
  test<int8_t, conv_case<2, 3, 3, 20, 3 * W + 1, 1, 1, 1, 1, 0, 2, 2 * W>>(3);
  test<uint8_t, conv_case<1, 4, 3, 6, 4 * W, 1, 1, 2, 1, 0, 3, 2 * W>>(255);
  test<int8_t, conv_case<1, 1, 1, 130, 5 * W - 1, 1, 1, 1, 1, 0, 1, 4 * W>>(-7);
  test<uint8_t, conv_case<1, 1, 90, 640, W, 1, 1, 1, 1, 0, 6, W>>(0); // several chunks
}
TEST(ConvBytes, Windows) {
  test<int8_t, conv_case<1, 7, 6, 16, 5, 3, 3, 1, 1, 1, 4, W>>(-128);
  test<int8_t, conv_case<1, 7, 6, 16, W + 3, 3, 3, 2, 1, 1, 4, 2 * W>>(0);
  test<uint8_t, conv_case<2, 9, 8, 4, 3, 5, 3, 2, 1, 2, 3, W>>(7);
  test<int8_t, conv_case<1, 9, 9, 8, 2 * W, 3, 3, 1, 2, 2, 5, W>>(127);
  test<uint8_t, conv_case<1, 3, 2, 100, W, 3, 3, 1, 1, 1, 6, W>>(255);
}
TEST(ConvBytes, FewChannelsAndOtherLayouts) {
  test<int8_t, conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, W>>(5);
  test<int8_t, conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, W>>(5, false);
  test<int8_t, conv_case<1, 11, 10, 1, 2 * W, 10, 4, 2, 1, 3, 4, 2 * W>>(83);
  test<uint8_t, conv_case<1, 11, 10, 1, 6, 3, 3, 1, 2, 1, 4, W>>(128);
  test<uint8_t, conv_case<1, 6, 5, 4, 3, 3, 3, 1, 1, 1, 2, W>>(0, false);
  test<int8_t, conv_case<2, 6, 5, 18, 3, 3, 3, 1, 1, 1, 2, W>>(-1, false);
}

TEST(ConvBytes, RunsAlongRows) {
  test<int8_t, by_rows<conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, W>>>(5, false);
  test<uint8_t, by_rows<conv_case<2, 12, 11, 3, W + 2, 7, 7, 2, 1, 3, 4, 2 * W>>>(99, false);
  test<int8_t, by_rows<conv_case<1, 9, 9, 2, 3, 3, 5, 1, 2, 2, 4, W>>>(-128, false);
  test<uint8_t, by_rows<conv_case<1, 6, 5, 4, 3, 3, 3, 1, 1, 1, 2, W>>>(1);
}
#if TENON_TILE_PRODUCTS
TEST(ConvBytes, Tiles) {
  test<int8_t, conv_case<1, 5, 7, 64, 3 * W, 1, 1, 1, 1, 0, 4, 2 * W>>(-128);
  test<uint8_t, conv_case<2, 8, 8, 128, 2 * W, 1, 1, 1, 1, 0, 4, 3 * W>>(7); // in place
  test<int8_t, conv_case<1, 8, 20, 192, W, 1, 1, 2, 1, 0, 6, W>>(1);
  test<uint8_t, conv_case<2, 9, 7, 64, 4 * W, 3, 3, 1, 1, 1, 6, 4 * W>>(255);
  test<int8_t, conv_case<1, 9, 7, 16, W, 5, 4, 2, 1, 2, 6, W>>(-3);
  test<int8_t, conv_case<1, 3, 3, 64, W, 1, 1, 1, 1, 0, 6, W>>(-3); // fewer than one tile
}
#endif

template <class T, class Cfg> void testDepthwise(int32_t zero) {
  constexpr Cfg cfg{};
  constexpr index_t C = decltype(cfg.channels)::value, H = decltype(cfg.in_h)::value,
                    V = decltype(cfg.in_w)::value, kernel_h = decltype(cfg.kernel_h)::value,
                    kernel_w = decltype(cfg.kernel_w)::value, taps = kernel_h * kernel_w;
  const index_t oh = cfg.out_h, ow = cfg.out_w, blocks = (C + W - 1) / W;
  const auto x = randomBytes<T>(size_t(cfg.batch * C * H * V), 3);
  const auto w = randomBytes<int8_t>(size_t(C * taps), 4);
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
  const auto check = [&](auto how, const std::vector<int8_t> &weights) {
    std::vector<int32_t> y(size_t(cfg.batch * oh * ow * C) + 1, -1);
    cpu::detail::depthwise_bytes_by<decltype(how)>(
        cfg, make_view(x.data(), extents<C * H * V, 1, V * C, C>{}), weights.data(), sums.data(),
        zero,
        pack(make_view(y.data(),
                       dims<dyn, fixed<1>, dyn, fixed<C>>{dyn(oh * ow * C), {}, dyn(ow * C), {}})),
        pack(make_view(bias.data(), extents<0, 1, 0, 0>{})), plus_bias{}, workers);
    for (index_t n = 0; n < cfg.batch; ++n)
      for (index_t h = 0; h < oh; ++h)
        for (index_t v = 0; v < ow; ++v)
          for (index_t c = 0; c < C; ++c)
            ASSERT_EQ(y[size_t(((n * oh + h) * ow + v) * C + c)],
                      -5 + expected<T>(cfg, read, w.data() + c * taps, zero, n, h, v, 1, c))
                << "image " << n << ", row " << h << ", column " << v << ", channel " << c;
    EXPECT_EQ(y.back(), -1);
  };
  check(two_products{}, packed);
#if TENON_FOUR_PRODUCTS
  if (has_four_products)
    check(four_products{}, packed);
#endif
#if TENON_NEON_PRODUCTS
  check(tap_products{}, eights);
#endif
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
} // namespace
