// Tests cpu::resize, gathered_view through cpu::map, and cpu::nonzero.
#include "Support.h"
#include "cpu/map.h"
#include "cpu/nonzero.h"
#include "cpu/resize.h"

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

constexpr int W = native_lanes::width;

struct Extents : resize_defaults {
  static constexpr fixed<2> batch{};
  static constexpr fixed<W + 2> channels{};
  static constexpr fixed<9> out_h{};
  static constexpr fixed<8> out_w{};
};

/// Resizes [2][5][4][C] (or planes, lanes impossible) with two axes and compares with their
/// definition.
template <bool Nchw, class T, class AxisH, class AxisW>
void checkResize(AxisH rows, AxisW columns) {
  Extents cfg;
  const index_t N = cfg.batch, C = cfg.channels, H = 5, IW = 4, OH = cfg.out_h, OW = cfg.out_w;
  const auto x = randomIntegers<T>(N * C * H * IW, -50, 50, 1);
  std::vector<T> y(N * C * OH * OW);
  std::vector<double> want(y.size());
  for (index_t n = 0; n < N; ++n)
    for (index_t c = 0; c < C; ++c)
      for (index_t oh = 0; oh < OH; ++oh)
        for (index_t ow = 0; ow < OW; ++ow) {
          double sum = 0;
          for (int i = 0; i < AxisH::taps; ++i)
            for (int j = 0; j < AxisW::taps; ++j) {
              const index_t ih = rows.index(oh, i), iw = columns.index(ow, j);
              ASSERT_TRUE(ih >= 0 && ih < H && iw >= 0 && iw < IW);
              sum += double(x[Nchw ? ((n * C + c) * H + ih) * IW + iw
                                   : ((n * H + ih) * IW + iw) * C + c]) *
                     (AxisH::taps == 1 ? 1 : rows.weight(oh, i)) *
                     (AxisW::taps == 1 ? 1 : columns.weight(ow, j));
            }
          want[((n * OH + oh) * OW + ow) * C + c] = sum;
        }
  pool workers(3);
  const auto outs = pack(make_view(
      y.data(), dims<dyn, fixed<1>, dyn, dyn>(dyn(OH * OW * C), {}, dyn(OW * C), dyn(C))));
  if constexpr (Nchw)
    resize(cfg,
           make_view(x.data(),
                     dims<dyn, dyn, dyn, fixed<1>>(dyn(C * H * IW), dyn(H * IW), dyn(IW), {})),
           rows, columns, outs, pack(), identity_body{}, workers);
  else
    resize(cfg,
           make_view(x.data(),
                     dims<dyn, fixed<1>, dyn, dyn>(dyn(H * IW * C), {}, dyn(IW * C), dyn(C))),
           rows, columns, outs, pack(), identity_body{}, workers);
  expectClose(y, want);
}

TEST(Resize, Linear) {
  const resize_linear_axis rows{5.0f / 9, 0.5f * 5 / 9 - 0.5f, 5}, columns{0.5f, -0.25f, 4};
  checkResize<false, float>(rows, columns);
  checkResize<true, float>(rows, columns);
}
TEST(Resize, NearestOfIntegers) {
  const resize_nearest_axis rows{5.0f / 9, 0, 0, 5}, columns{0.5f, -0.25f, 0.5f, 4};
  checkResize<false, int8_t>(rows, columns);
  checkResize<true, int64_t>(rows, columns);
}
TEST(Resize, TablesAndOneAxis) {
  int32_t indices[8 * 4];
  float weights[8 * 4];
  for (int i = 0; i < 32; ++i)
    indices[i] = i * 7 % 4, weights[i] = float(i % 5) - 1.5f;
  const resize_nearest_axis rows{0.5f, 0, 0, 5};
  checkResize<false, float>(rows, resize_table<4>{indices, weights});
  checkResize<false, float>(rows, resize_table<1>{indices, nullptr});
}

/// Planes of rows that are a few columns longer than whole vectors, by a table and by its blocks.
constexpr int kLineW = 3 * W + 2, kLinesW = 2 * W + 5;
struct Lines : resize_defaults {
  static constexpr fixed<2> batch{};
  static constexpr fixed<3> channels{};
  static constexpr fixed<9> out_h{};
  static constexpr fixed<kLineW> in_w{};
  static constexpr fixed<kLinesW> out_w{};
};
template <bool Near> void checkBlocks() {
  constexpr int taps = 3, inW = kLineW, outW = kLinesW, blocks = (outW + W - 1) / W;
  constexpr int C = 3, N = 2, H = 5, OH = 9;
  const auto x = randomFloats(N * C * H * inW, 1);
  const resize_linear_axis rows{5.0f / 9, 0.5f * 5 / 9 - 0.5f, H};
  int32_t first[blocks], places[blocks * taps * W] = {};
  float weights[blocks * taps * W] = {};
  std::vector<double> want(size_t(N * C * OH * outW));
  for (int b = 0; b < blocks; ++b) {
    first[b] = Near ? std::min(b * W, inW - 1) : 0;
    for (int j = 0; j < taps; ++j)
      for (int l = 0; l < W && b * W + l < outW; ++l) {
        const int end = Near ? std::min(2 * W, inW - first[b]) : inW;
        places[(b * taps + j) * W + l] = (l * 7 + j * 5 + b) % end;
        weights[(b * taps + j) * W + l] = float((l + j) % 5) - 1.5f;
        for (int p = 0; p < N * C; ++p)
          for (int oh = 0; oh < OH; ++oh)
            for (int i = 0; i < 2; ++i)
              want[size_t((p * OH + oh) * outW + b * W + l)] +=
                  double(rows.weight(oh, i)) * weights[(b * taps + j) * W + l] *
                  x[size_t((p * H + rows.index(oh, i)) * inW + first[b] +
                           places[(b * taps + j) * W + l])];
      }
  }
  std::vector<float> y(want.size(), -1);
  pool workers(3);
  resize(Lines{}, make_view(x.data(), extents<C * H * inW, H * inW, inW, 1>()), rows,
         resize_blocks<taps, Near>{first, places, weights},
         pack(make_view(y.data(), extents<C * OH * outW, OH * outW, outW, 1>())), pack(),
         identity_body{}, workers);
  expectClose(y, want, 1e-5);
}
TEST(Resize, BlocksOfRows) {
  checkBlocks<true>();
  checkBlocks<false>();
}

TEST(Resize, PositionsAreClampedAtTheBorder) {
  const resize_linear_axis axis{0.5f, -0.25f, 4};
  EXPECT_EQ(axis.index(0, 0), 0);
  EXPECT_EQ(axis.weight(0, 0), 1);
  EXPECT_EQ(axis.index(7, 0), 3);
  EXPECT_EQ(axis.index(7, 1), 3);
  EXPECT_EQ(axis.index(2, 0), 0);
  EXPECT_EQ(axis.weight(2, 1), 0.75f);
}

/// y[a][i][c] = x[a][indices[i]][c]; indices may be negative, and beyond the end are clamped.
TEST(Gather, AlongTheMiddle) {
  constexpr int A = 3, N = 5, I = 7, C = W + 3;
  const auto x = randomFloats(A * N * C, 1);
  const int64_t indices[I] = {4, 0, -1, 2, 2, 9, -9};
  const int resolved[I] = {4, 0, 4, 2, 2, 4, 0};
  std::vector<float> y(A * I * C);
  pool workers(3);
  map(extents<A, I, C>(), pack(make_view(y.data(), extents<I * C, C, 1>())),
      pack(make_gathered_view(make_view(x.data(), extents<N * C, 0, 1>()),
                              make_view((const int64_t *)indices, extents<0, 1, 0>()), fixed<C>{},
                              fixed<N>{})),
      identity_body{}, workers);
  for (int a = 0; a < A; ++a)
    for (int i = 0; i < I; ++i)
      for (int c = 0; c < C; ++c)
        ASSERT_EQ(y[(a * I + i) * C + c], x[(a * N + resolved[i]) * C + c]);
}
TEST(Gather, IndicesAlongTheLanes) {
  constexpr int N = 11, I = 2 * W + 1;
  const auto x = randomIntegers<int32_t>(N, -99, 99, 1);
  const auto indices = randomIntegers<int32_t>(I, -N, N - 1, 2);
  std::vector<int32_t> y(I);
  pool workers(3);
  map(extents<I>(), pack(make_view(y.data(), extents<1>())),
      pack(make_gathered_view(make_view(x.data(), extents<0>()),
                              make_view(indices.data(), extents<1>()), fixed<1>{}, fixed<N>{})),
      identity_body{}, workers);
  for (int i = 0; i < I; ++i)
    ASSERT_EQ(y[i], x[(indices[i] + N) % N]);
}

TEST(NonZero, RowMajorOrder) {
  const float x[2 * 3] = {0, 1, -0.0f, NAN, 0, 5};
  int64_t out[2 * 6], found = -1;
  nonzero(extents<2, 3>(), make_view((const float *)x, extents<3, 1>()),
          make_view(out, extents<6, 1>()), &found);
  ASSERT_EQ(found, 3);
  const int64_t rows[] = {0, 1, 1}, columns[] = {1, 0, 2};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(out[i], rows[i]);
    EXPECT_EQ(out[6 + i], columns[i]);
  }
}
TEST(NonZero, NothingFound) {
  const bool x[4] = {};
  int64_t out[4], found = -1;
  nonzero(dims<dyn>(4), make_view((const bool *)x, extents<1>()), make_view(out, extents<4, 1>()),
          &found);
  EXPECT_EQ(found, 0);
}

} // namespace
