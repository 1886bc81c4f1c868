// Tests of sums of 8-bit integers by pairs: conv_pairs and depthwise_pairs against the definition,
// over ragged shapes, strides, paddings and layouts.
#include "cpu/conv_pairs.h"
#include "cpu/depthwise_pairs.h"

#include "IntegerCases.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace {
using namespace tenon;

template <class T, class Cfg> void testConv(int32_t zero, bool channelsLast) {
  constexpr Cfg cfg{};
  constexpr index_t C = decltype(cfg.channels)::value, H = decltype(cfg.in_h)::value,
                    W = decltype(cfg.in_w)::value, K = decltype(cfg.filters)::value;
  constexpr index_t depth = C * decltype(cfg.kernel_h)::value * decltype(cfg.kernel_w)::value;
  const index_t pixels = cfg.out_h * cfg.out_w;
  const auto x = randomBytes<T>(size_t(cfg.batch * C * H * W), 1);
  auto w = randomWeights<Cfg::weight_bits>(K * depth, 2);
  if (Cfg::joined != 0)
    std::replace(w.begin(), w.end(), int8_t(-128), int8_t(-127));
  const auto stored =
      Cfg::joined ? joinWeights(w, K, Cfg::joined) : storeWeights<Cfg::weight_bits, 4>(w, K);
  const std::vector<int32_t> bias(size_t(K), 1000);
  // One more word than is promised on either side must stay as it is.
  std::vector<uint32_t> room(size_t(cpu::patch_words<Cfg>) + 4, 0xdeadbeef);
  uint32_t *patches = room.data() + 2;
  if (reinterpret_cast<uintptr_t>(patches) % 8 != 0)
    FAIL() << "the test's memory is not aligned";
  std::vector<int32_t> y(size_t(cfg.batch * K * pixels), -1);
  const auto outs = pack(
      make_view(y.data(), dims<dyn, fixed<1>, fixed<0>, fixed<K>>{dyn(pixels * K), {}, {}, {}}));
  const auto ins = pack(make_view(bias.data(), extents<0, 1, 0, 0>{}));
  const auto run = [&](auto strides) {
    cpu::conv_pairs(cfg, make_view(x.data(), strides), stored.data(), zero, patches, outs, ins,
                    plus_bias{});
  };
  if (channelsLast)
    run(extents<C * H * W, 1, W * C, C>{});
  else
    run(extents<C * H * W, H * W, W, 1>{});
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
  EXPECT_EQ(room[0], 0xdeadbeef);
  EXPECT_EQ(room[1], 0xdeadbeef);
  EXPECT_EQ(room[room.size() - 1], 0xdeadbeef);
  EXPECT_EQ(room[room.size() - 2], 0xdeadbeef);
}

TEST(ConvPairs, Pointwise) {
  testConv<int8_t, conv_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0, 4, 1>>(-128, true);
  testConv<int8_t, conv_case<2, 3, 3, 20, 8, 1, 1, 1, 1, 0, 2, 2>>(3, true);
  testConv<uint8_t, conv_case<1, 4, 3, 6, 5, 1, 1, 2, 1, 0, 3, 2>>(255, true);
  testConv<int8_t, conv_case<1, 1, 1, 130, 9, 1, 1, 1, 1, 0, 1, 4>>(-7, true);
}
TEST(ConvPairs, Windows) {
  testConv<int8_t, conv_case<1, 7, 6, 16, 5, 3, 3, 1, 1, 1, 4, 1>>(-128, true);
  testConv<int8_t, conv_case<1, 7, 6, 16, 5, 3, 3, 2, 1, 1, 4, 1>>(0, true);
  testConv<uint8_t, conv_case<2, 9, 8, 4, 3, 5, 3, 2, 1, 2, 3, 1>>(7, true);
  testConv<int8_t, conv_case<1, 9, 9, 8, 2, 3, 3, 1, 2, 2, 4, 1>>(-1, true);
}
TEST(ConvPairs, FewChannelsAndOtherLayouts) {
  testConv<int8_t, conv_case<1, 12, 14, 3, 4, 5, 5, 2, 1, 2, 3, 1>>(-20, true);
  testConv<uint8_t, conv_case<1, 12, 14, 3, 4, 5, 5, 2, 1, 2, 3, 1>>(40, false);
  testConv<int8_t, conv_case<1, 12, 14, 7, 2, 3, 3, 1, 2, 2, 3, 1>>(-20, true);
  testConv<int8_t, conv_case<1, 12, 14, 7, 2, 3, 3, 1, 1, 1, 3, 1>>(-20, false);
  testConv<int8_t, conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, 1>>(5, true);
  testConv<int8_t, conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, 1>>(5, false);
  testConv<int8_t, conv_case<1, 11, 10, 1, 6, 10, 4, 2, 1, 3, 4, 1>>(83, true);
  testConv<uint8_t, conv_case<1, 6, 5, 4, 3, 3, 3, 1, 1, 1, 2, 2>>(0, false);
}

TEST(ConvPairs, WeightsOfFewBits) {
  testConv<int8_t, narrow<4, conv_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0, 4, 1>>>(-128, true);
  testConv<int8_t, narrow<4, conv_case<2, 3, 3, 20, 8, 1, 1, 1, 1, 0, 2, 2>>>(3, true);
  testConv<uint8_t, narrow<4, conv_case<1, 4, 3, 6, 5, 1, 1, 2, 1, 0, 3, 2>>>(255, true);
  testConv<int8_t, narrow<4, conv_case<1, 7, 6, 16, 5, 3, 3, 1, 1, 1, 4, 1>>>(-128, true);
  testConv<int8_t, narrow<4, conv_case<1, 1, 1, 132, 9, 1, 1, 1, 1, 0, 1, 4>>>(-7, true);
  testConv<int8_t, narrow<2, conv_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0, 4, 1>>>(-128, true);
  testConv<uint8_t, narrow<2, conv_case<2, 9, 8, 4, 3, 5, 3, 2, 1, 2, 3, 1>>>(7, true);
  testConv<int8_t, narrow<2, conv_case<1, 11, 10, 1, 6, 10, 4, 2, 1, 3, 4, 1>>>(83, true);
  testConv<int8_t, narrow<2, conv_case<1, 1, 1, 130, 9, 1, 1, 1, 1, 0, 1, 4>>>(-7, true);
}

TEST(ConvPairs, JoinedFilters) {
  testConv<int8_t, with_pairs<1, conv_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0, 3, 1>>>(-128, true);
  testConv<int8_t, with_pairs<1, conv_case<2, 3, 3, 20, 8, 1, 1, 1, 1, 0, 3, 1>>>(3, true);
  testConv<uint8_t, with_pairs<1, conv_case<1, 4, 3, 6, 5, 1, 1, 2, 1, 0, 3, 1>>>(255, true);
  testConv<int8_t, with_pairs<1, conv_case<1, 7, 6, 16, 5, 3, 3, 2, 1, 1, 3, 1>>>(0, true);
  testConv<int8_t, with_pairs<1, conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 3, 1>>>(5, false);
  testConv<int8_t, with_pairs<2, conv_case<1, 1, 1, 130, 9, 1, 1, 1, 1, 0, 1, 1>>>(-7, true);
  testConv<uint8_t, with_pairs<2, conv_case<1, 1, 1, 132, 6, 1, 1, 1, 1, 0, 1, 1>>>(9, true);
}
/// The sums that a first filter of 259 weights 127 and one `last` has with inputs of 255, against a
/// second filter of its negatives: as computed and as defined.
std::pair<int64_t, int64_t> firstOfJoined(int sign, int last) {
  using Cfg = with_pairs<1, conv_case<1, 1, 1, 260, 2, 1, 1, 1, 1, 0, 1, 1>>;
  std::vector<int8_t> w(520, int8_t(127 * sign));
  w[259] = int8_t(last * sign);
  for (size_t i = 0; i < 260; ++i)
    w[260 + i] = int8_t(-w[i]);
  const std::vector<int8_t> stored = joinWeights(w, 2, 1), x(260, 127);
  const std::vector<int32_t> bias(2, 0);
  std::vector<int32_t> y(2, -1);
  cpu::conv_pairs(Cfg{}, make_view(x.data(), extents<260, 1, 260, 260>{}), stored.data(), -128,
                  nullptr, pack(make_view(y.data(), extents<2, 1, 0, 2>{})),
                  pack(make_view(bias.data(), extents<0, 1, 0, 0>{})), plus_bias{});
  const int64_t sum = 255 * (259 * 127 + last) * sign;
  EXPECT_EQ(y[1], -sum);
  return {y[0], sum};
}
TEST(ConvPairs, JoinedFiltersAtTheirBound) {
  for (int sign : {1, -1}) {
    const auto [computed, sum] = firstOfJoined(sign, 3); // the last multiple of 255 below 2^23
    EXPECT_EQ(computed, sum);
    const auto [beyond, larger] = firstOfJoined(sign, 4);
    EXPECT_NE(beyond, larger);
  }
}

template <class T, class Cfg> void testDepthwise(int32_t zero) {
  constexpr Cfg cfg{};
  constexpr index_t C = decltype(cfg.channels)::value, H = decltype(cfg.in_h)::value,
                    W = decltype(cfg.in_w)::value;
  constexpr index_t taps = decltype(cfg.kernel_h)::value * decltype(cfg.kernel_w)::value;
  const index_t pixels = cfg.out_h * cfg.out_w, bytes = cpu::plane_bytes(cfg);
  const auto x = randomBytes<T>(size_t(cfg.batch * C * H * W), 3);
  const auto w = randomWeights<Cfg::weight_bits>(C * taps, 4);
  const auto stored = storeWeights<Cfg::weight_bits, 1>(w, C);
  const std::vector<int32_t> bias(size_t(C), -5);
  std::vector<T> plane(size_t(bytes) + 2, T(77));
  std::vector<int32_t> y(size_t(cfg.batch * C * pixels), -1);
  cpu::depthwise_pairs(
      cfg, make_view(x.data(), extents<C * H * W, 1, W * C, C>{}), stored.data(), zero,
      plane.data() + 1,
      pack(make_view(y.data(),
                     dims<dyn, fixed<1>, fixed<0>, fixed<C>>{dyn(pixels * C), {}, {}, {}})),
      pack(make_view(bias.data(), extents<0, 1, 0, 0>{})), plus_bias{});
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
  EXPECT_EQ(plane.front(), T(77));
  EXPECT_EQ(plane.back(), T(77));
}

TEST(DepthwisePairs, ThreeTaps) {
  testDepthwise<int8_t, conv_case<1, 7, 6, 5, 1, 3, 3, 1, 1, 1, 1, 1>>(-128);
  testDepthwise<int8_t, conv_case<2, 6, 7, 3, 1, 3, 3, 1, 1, 0, 1, 1>>(4);
  testDepthwise<uint8_t, conv_case<1, 8, 7, 2, 1, 3, 3, 2, 1, 1, 1, 1>>(200);
}
TEST(DepthwisePairs, OtherWindows) {
  testDepthwise<int8_t, conv_case<1, 9, 9, 2, 1, 5, 5, 1, 1, 2, 1, 1>>(1);
  testDepthwise<int8_t, conv_case<1, 1, 30, 4, 1, 1, 10, 1, 1, 0, 1, 1>>(-3);
  testDepthwise<int8_t, conv_case<1, 4, 4, 3, 1, 2, 1, 2, 1, 0, 1, 1>>(0);
  testDepthwise<int8_t, conv_case<1, 3, 2, 2, 1, 3, 3, 1, 1, 1, 1, 1>>(9);
}
TEST(DepthwisePairs, RowsOfMoreSumsThanWait) {
  testDepthwise<int8_t, conv_case<1, 3, 99, 2, 1, 3, 3, 1, 1, 1, 1, 1>>(-7);
  testDepthwise<int8_t, conv_case<1, 5, 101, 1, 1, 3, 3, 2, 1, 1, 1, 1>>(8);
  testDepthwise<uint8_t, conv_case<1, 12, 19, 2, 1, 3, 3, 1, 1, 1, 1, 1>>(128);
}
/// A case whose plane has height and width in each other's place.
template <class Case> struct in_turned_plane : Case { static constexpr int turned = 1; };
TEST(DepthwisePairs, TurnedPlanes) {
  testDepthwise<int8_t, in_turned_plane<conv_case<1, 25, 5, 6, 1, 3, 3, 1, 1, 1, 1, 1>>>(-128);
  testDepthwise<int8_t, in_turned_plane<conv_case<2, 99, 4, 2, 1, 3, 3, 2, 1, 1, 1, 1>>>(5);
  testDepthwise<uint8_t, in_turned_plane<conv_case<1, 30, 1, 4, 1, 10, 1, 1, 1, 0, 1, 1>>>(3);
  testDepthwise<int8_t, in_turned_plane<narrow<4, conv_case<1, 9, 6, 3, 1, 5, 3, 1, 1, 2, 1, 1>>>>(
      -3);
}
template <class Case> struct tap_by_tap : Case { static constexpr int plain = 1; };
TEST(DepthwisePairs, TapByTap) {
  testDepthwise<int8_t, tap_by_tap<conv_case<1, 7, 6, 5, 1, 3, 3, 1, 1, 1, 1, 1>>>(-128);
  testDepthwise<uint8_t, tap_by_tap<conv_case<2, 8, 7, 2, 1, 3, 3, 2, 1, 1, 1, 1>>>(200);
  testDepthwise<int8_t, tap_by_tap<narrow<4, conv_case<1, 9, 9, 2, 1, 5, 2, 1, 1, 2, 1, 1>>>>(1);
  testDepthwise<int8_t,
                in_turned_plane<tap_by_tap<conv_case<1, 25, 5, 6, 1, 3, 2, 1, 1, 1, 1, 1>>>>(-4);
}
TEST(DepthwisePairs, WeightsOfFewBits) {
  testDepthwise<int8_t, narrow<4, conv_case<1, 7, 6, 5, 1, 3, 3, 1, 1, 1, 1, 1>>>(-128);
  testDepthwise<uint8_t, narrow<2, conv_case<1, 8, 7, 2, 1, 3, 3, 2, 1, 1, 1, 1>>>(200);
}
} // namespace
