// Tests cpu::map: pointwise functions, broadcasts, transposes, pads, several results, ragged
// extents.
#include "cpu/map.h"
#include "Support.h"

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

struct Add {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const { return a + b; }
};

template <class T, class L> void checkTransposedLanes() {
  using V = typename L::template of<T>;
  constexpr int n = L::width;
  T elements[n * n];
  V rows[n];
  for (int i = 0; i < n * n; ++i)
    elements[i] = T(i + 1);
  for (int i = 0; i < n; ++i)
    rows[i] = load<L>(elements + i * n);
  cpu::detail::transpose_lanes<n>(rows);
  for (int i = 0; i < n; ++i) {
    T row[n];
    store<L, T>(row, rows[i]);
    for (int j = 0; j < n; ++j)
      EXPECT_EQ(row[j], elements[j * n + i]) << i << ", " << j;
  }
}
TEST(Map, TransposedLanes) {
  checkTransposedLanes<float, native_lanes>();
  checkTransposedLanes<int32_t, native_lanes>();
  checkTransposedLanes<int16_t, native_lanes>();
  checkTransposedLanes<double, lanes_for<double>>();
}

TEST(Map, PointwiseAnyLength) {
  pool workers(3);
  for (index_t n : {0, 1, 3, 15, 16, 17, 100, 4095, 4096, 4097, 9000}) {
    const auto a = randomFloats(n, 1), b = randomFloats(n, 2);
    std::vector<float> y(n + 1, 7);
    map(dims<dyn>(n), pack(make_view(y.data(), extents<1>())),
        pack(make_view(a.data(), extents<1>()), make_view(b.data(), extents<1>())), Add{}, workers);
    for (index_t i = 0; i < n; ++i)
      ASSERT_EQ(y[i], a[i] + b[i]);
    EXPECT_EQ(y[n], 7);
  }
}

TEST(Map, Scalar) {
  pool workers(3);
  const float a = 2, b = 3;
  float y = 0;
  map(dims<>(), pack(make_view(&y, dims<>())),
      pack(make_view(&a, dims<>()), make_view(&b, dims<>())), Add{}, workers);
  EXPECT_EQ(y, 5);
}

TEST(Map, BroadcastBothWays) {
  pool workers(3);
  constexpr int A = 5, B = 7, C = 19;
  const auto row = randomFloats(C, 1), column = randomFloats(A * B, 2);
  std::vector<float> y(A * B * C);
  map(extents<A, B, C>(), pack(make_view(y.data(), extents<B * C, C, 1>())),
      pack(make_view(row.data(), extents<0, 0, 1>()), make_view(column.data(), extents<B, 1, 0>())),
      Add{}, workers);
  for (int i = 0; i < A * B; ++i)
    for (int c = 0; c < C; ++c)
      ASSERT_EQ(y[i * C + c], row[c] + column[i]);
}

/// y[b][a] = x[a][b] with run-time or constant extents and strides.
template <class T, class DA, class DB> void transpose(DA a, DB b) {
  pool workers(3);
  const index_t A = a, B = b;
  const auto x = randomIntegers<T>(A * B, -100, 100, 3);
  std::vector<T> y(A * B);
  map(dims<DB, DA>(b, a), pack(make_view(y.data(), dims<DA, fixed<1>>(a, {}))),
      pack(make_view(x.data(), dims<fixed<1>, DB>({}, b))), identity_body{}, workers);
  for (index_t i = 0; i < A; ++i)
    for (index_t j = 0; j < B; ++j)
      ASSERT_EQ(y[j * A + i], x[i * B + j]);
}
TEST(Map, Transpose) {
  transpose<float>(fixed<37>{}, fixed<70>{});
  transpose<float>(dyn(130), dyn(17));
  transpose<int64_t>(fixed<9>{}, dyn(33));
  transpose<int8_t>(dyn(33), fixed<65>{});
  transpose<double>(fixed<70>{}, fixed<37>{});
  transpose<int32_t>(fixed<48>{}, fixed<80>{});
}

/// y[b][a] = x[a][b] + v[b][a] in a third dimension, with views of which one crosses.
TEST(Map, TransposedBesideAnother) {
  pool workers(2);
  constexpr int N = 3, A = 35, B = 50;
  const auto x = randomFloats(N * A * B, 1), v = randomFloats(N * A * B, 2);
  std::vector<float> y(N * A * B);
  map(extents<N, B, A>(), pack(make_view(y.data(), extents<A * B, A, 1>())),
      pack(make_view(x.data(), extents<A * B, 1, B>()),
           make_view(v.data(), extents<A * B, A, 1>())),
      Add{}, workers);
  for (int n = 0; n < N; ++n)
    for (int a = 0; a < A; ++a)
      for (int b = 0; b < B; ++b)
        ASSERT_EQ(y[(n * B + b) * A + a], x[(n * A + a) * B + b] + v[(n * B + b) * A + a]);
}

TEST(Map, PadFillsOutside) {
  pool workers(3);
  constexpr int H = 4, W = 21, T = 2, B = 1, L = 3, R = 30;
  const auto x = randomFloats(H * W, 1);
  std::vector<float> y((H + T + B) * (W + L + R));
  map(extents<H + T + B, W + L + R>(), pack(make_view(y.data(), extents<W + L + R, 1>())),
      pack(make_padded_view(x.data() - T * W - L, extents<W, 1>(), extents<T, L>(),
                            extents<T + H, L + W>(), 9.0f)),
      identity_body{}, workers);
  for (int i = 0; i < H + T + B; ++i)
    for (int j = 0; j < W + L + R; ++j) {
      const bool inside = i >= T && i < T + H && j >= L && j < L + W;
      ASSERT_EQ(y[i * (W + L + R) + j], inside ? x[(i - T) * W + j - L] : 9.0f);
    }
}

struct SumAndSign {
  template <class L> TENON_FN results<f32<L>, b1<L>> operator()(L, f32<L> a, i64<L> i) const {
    const f32<L> s = a + cast<L, float, int64_t>(i);
    return pack(s, less<L>(a, f32<L>{}));
  }
};
TEST(Map, SeveralResultsOfSeveralTypesAndAnIndex) {
  pool workers(3);
  const auto x = randomFloats(3 * 21, 1);
  std::vector<float> y(3 * 21);
  bool negative[3 * 21];
  map(extents<3, 21>(),
      pack(make_view(y.data(), extents<21, 1>()), make_view(negative, extents<21, 1>())),
      pack(make_view(x.data(), extents<21, 1>()), index_view<int64_t, 1>{}), SumAndSign{}, workers);
  for (int i = 0; i < 63; ++i) {
    ASSERT_EQ(y[i], x[i] + float(i % 21));
    ASSERT_EQ(negative[i], x[i] < 0);
  }
}

struct Widen {
  template <class L> TENON_FN f64<L> operator()(L, f32<L> a) const {
    return cast<L, double, float>(a) / 3.0;
  }
};
TEST(Map, LanesFitTheWidestElement) {
  pool workers(3);
  const auto x = randomFloats(50, 1);
  std::vector<double> y(50);
  map(dims<dyn>(50), pack(make_view(y.data(), extents<1>())),
      pack(make_view(x.data(), extents<1>())), Widen{}, workers);
  for (int i = 0; i < 50; ++i)
    ASSERT_EQ(y[i], double(x[i]) / 3.0);
}

TEST(Map, InPlace) {
  pool workers(3);
  auto x = randomFloats(77, 1);
  const auto before = x;
  map(extents<77>(), pack(make_view(x.data(), extents<1>())),
      pack(make_view((const float *)x.data(), extents<1>()),
           make_view((const float *)x.data(), extents<1>())),
      Add{}, workers);
  for (int i = 0; i < 77; ++i)
    ASSERT_EQ(x[i], before[i] + before[i]);
}

} // namespace
