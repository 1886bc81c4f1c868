// Defines the test of conv_bytes against the definition, with every kind of products that this
// machine has.
#pragma once

#include "WeightZeros.h"

#include "cpu/conv_bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace tenon {

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

#if TENON_BYTE_PAIRS
/// Groups of so many words of packed weights whose sums 16 bits do not hold, of each block of nr
/// filters, and whether a word that is left over is none.
struct groups_beyond {
  std::vector<uint16_t> groups;
  std::vector<uint32_t> starts = {0};
  bool leftFits = true;

  template <class Cfg>
  groups_beyond(const Cfg &, const std::vector<int8_t> &packed, index_t words) {
    constexpr index_t all = cpu::detail::byte_runs<Cfg>::words, vectors = Cfg::nr / W;
    const index_t blocks = index_t(packed.size()) / (all * W * 4);
    for (index_t first = 0; first < blocks; first += vectors) {
      for (index_t g = 0; g < all; g += words) {
        bool fits = true;
        for (index_t block = first; block < std::min(blocks, first + vectors); ++block)
          for (index_t half = 0; half < 2 * W; ++half) {
            int positive = 0, negative = 0;
            for (index_t i = g; i < std::min(all, g + words); ++i)
              for (index_t byte : {0, 1}) {
                const int v = packed[size_t((block * all + i) * W * 4 + 2 * half + byte)];
                (v < 0 ? negative : positive) += v;
              }
            fits = fits && 255 * positive <= 32767 && 255 * negative >= -32768;
          }
        if (!fits && g + words > all)
          leftFits = false;
        else if (!fits)
          groups.push_back(uint16_t(g / words));
      }
      starts.push_back(uint32_t(groups.size()));
    }
  }
};
#endif

/// Weights are at least `least`, and of 8 - `narrower` bits.
template <class T, class Cfg, bool ZeroOfAll>
void testWeights(int32_t zero, bool channelsLast, int8_t least, int narrower = 0) {
  constexpr Cfg cfg{};
  constexpr index_t C = decltype(cfg.channels)::value, H = decltype(cfg.in_h)::value,
                    V = decltype(cfg.in_w)::value, K = decltype(cfg.filters)::value;
  constexpr index_t depth = C * decltype(cfg.kernel_h)::value * decltype(cfg.kernel_w)::value;
  const index_t oh = cfg.out_h, ow = cfg.out_w;
  auto x = randomBytes<T>(size_t(cfg.batch * C * H * V), 1);
  for (size_t i = x.size() / 2; i < x.size(); ++i) // the largest sums
    x[i] = std::numeric_limits<T>::max();
  auto w = randomBytes<int8_t>(size_t(K * depth), 2);
  for (int8_t &v : w)
    v = int8_t(std::max(v, least) >> narrower);
  w[0] = int8_t(least >> narrower);
  const packed_weights<Cfg> packed(cfg, w);
  const std::vector<int32_t> bias(size_t(K), 1000);
  const auto read = [&](index_t n, index_t c, index_t h, index_t v) {
    return int32_t(
        x[size_t(channelsLast ? ((n * H + h) * V + v) * C + c : ((n * C + c) * H + h) * V + v)]);
  };
  cpu::pool workers(2);
  const auto checkZeros = [&](auto kernel, const auto &zeros, const std::vector<int32_t> &values) {
    const std::vector<int32_t> less = lessZeros(w, K, values);
    std::vector<int32_t> y(size_t(cfg.batch * oh * ow * K) + 1, -1);
    const auto outs = pack(make_view(
        y.data(), dims<dyn, fixed<1>, dyn, fixed<K>>{dyn(oh * ow * K), {}, dyn(ow * K), {}}));
    const auto ins = pack(make_view(bias.data(), extents<0, 1, 0, 0>{}));
    if (channelsLast)
      kernel(make_view(x.data(), extents<C * H * V, 1, V * C, C>{}), outs, ins, workers, zeros);
    else
      kernel(make_view(x.data(), extents<C * H * V, H * V, V, 1>{}), outs, ins, workers, zeros);
    for (index_t n = 0; n < cfg.batch; ++n)
      for (index_t h = 0; h < oh; ++h)
        for (index_t v = 0; v < ow; ++v)
          for (index_t k = 0; k < K; ++k)
            ASSERT_EQ(y[size_t(((n * oh + h) * ow + v) * K + k)],
                      1000 + expected<T>(cfg, read, less.data() + k * depth, zero, n, h, v, C, 0))
                << "image " << n << ", row " << h << ", column " << v << ", filter " << k;
    EXPECT_EQ(y.back(), -1);
  };
  const zero_points<ZeroOfAll> zeroPoints(K);
  const auto check = [&](auto kernel) {
    zeroPoints.forEach([&](const auto &zeros, const std::vector<int32_t> &values) {
      checkZeros(kernel, zeros, values);
    });
  };
  check(
      [&](const auto &view, const auto &outs, const auto &ins, cpu::pool &pool, const auto &zeros) {
        cpu::detail::conv_bytes_by<two_products>(cfg, view, packed.bytes.data(), packed.sums.data(),
                                                 zero, outs, ins, plus_bias{}, pool, zeros);
      });
#if TENON_FOUR_PRODUCTS
  if (has_four_products)
    check([&](const auto &view, const auto &outs, const auto &ins, cpu::pool &pool,
              const auto &zeros) {
      cpu::detail::conv_bytes_by<four_products>(cfg, view, packed.bytes.data(), packed.sums.data(),
                                                zero, outs, ins, plus_bias{}, pool, zeros);
    });
#endif
#if TENON_BYTE_PAIRS && TENON_SIMD_WIDTH <= 8
  const auto shorts = [&](auto words) {
    constexpr int count = decltype(words)::value;
    const groups_beyond beyond(cfg, packed.bytes, count);
    if (!beyond.leftFits)
      return;
    const cpu::wide_groups wide{beyond.groups.data(), beyond.starts.data()};
    check([&](const auto &view, const auto &outs, const auto &ins, cpu::pool &pool,
              const auto &zeros) {
      cpu::detail::conv_bytes_by<short_products<count>>(cfg, view, packed.bytes.data(),
                                                        packed.sums.data(), zero, outs, ins,
                                                        plus_bias{}, pool, zeros, wide);
    });
  };
  shorts(cpu::counter<1>{});
  shorts(cpu::counter<2>{});
  if (std::find(w.begin(), w.end(), -128) == w.end())
    check([&](const auto &view, const auto &outs, const auto &ins, cpu::pool &pool,
              const auto &zeros) {
      cpu::detail::conv_bytes_by<sign_products>(cfg, view, packed.bytes.data(), packed.sums.data(),
                                                zero, outs, ins, plus_bias{}, pool, zeros);
    });
#endif
#if TENON_NEON_PRODUCTS
  const auto by = [&](auto how) {
    check([&](const auto &view, const auto &outs, const auto &ins, cpu::pool &pool,
              const auto &zeros) {
      cpu::detail::conv_bytes_by<decltype(how)>(cfg, view, packed.bytes.data(), packed.sums.data(),
                                                zero, outs, ins, plus_bias{}, pool, zeros);
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
      check([&](const auto &view, const auto &outs, const auto &ins, cpu::pool &pool,
                const auto &zeros) {
        cpu::detail::conv_bytes_by_tiles(cfg, view, packed.bytes.data(), packed.sums.data(), zero,
                                         outs, ins, plus_bias{}, pool, zeros);
      });
#endif
}

/// With weights of all values, without -128, and of fewer bits.
template <class T, class Cfg, bool ZeroOfAll = false>
void test(int32_t zero, bool channelsLast = true) {
  testWeights<T, Cfg, ZeroOfAll>(zero, channelsLast, -128);
  testWeights<T, Cfg, ZeroOfAll>(zero, channelsLast, -127);
  testWeights<T, Cfg, ZeroOfAll>(zero, channelsLast, -128, 1);
  testWeights<T, Cfg, ZeroOfAll>(zero, channelsLast, -128, 2);
}

} // namespace tenon
