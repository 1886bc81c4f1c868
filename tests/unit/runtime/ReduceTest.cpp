// Tests cpu::reduce, cpu::softmax and cpu::normalize over contiguous, strided and mixed dimensions.
#include "Support.h"
#include "cpu/normalize.h"
#include "cpu/softmax.h"

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

struct Sum {
  template <class L> TENON_FN f32<L> identity(L) const { return f32<L>{}; }
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const { return a + b; }
};
struct Square {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> x) const { return x * x; }
};
struct MeanPlus {
  float scale;
  template <class L> TENON_FN f32<L> operator()(L, f32<L> s, f32<L> b) const {
    return s * scale + b;
  }
};

/// Mean of squares of x[A][B][C] over one dimension, plus a value per kept point.
template <bool Dynamic, int A, int B, int C, int Axis> void meanOfSquares() {
  const auto x = randomFloats(A * B * C, 1);
  constexpr int extent[] = {A, B, C}, stride[] = {B * C, C, 1};
  constexpr int k0 = Axis == 0 ? 1 : 0, k1 = Axis == 2 ? 1 : 2;
  constexpr int K0 = extent[k0], K1 = extent[k1], R = extent[Axis];
  const auto bias = randomFloats(K0 * K1, 2);
  std::vector<float> y(K0 * K1);
  std::vector<double> want(y.size());
  for (int i = 0; i < K0; ++i)
    for (int j = 0; j < K1; ++j) {
      double sum = 0;
      for (int r = 0; r < R; ++r)
        sum += std::pow(double(x[i * stride[k0] + j * stride[k1] + r * stride[Axis]]), 2);
      want[i * K1 + j] = sum / R + bias[i * K1 + j];
    }
  pool workers(3);
  const auto kept = listOf(extent_of<Dynamic, K0>::make(), extent_of<Dynamic, K1>::make());
  const auto reduced = listOf(extent_of<Dynamic, R>::make());
  reduce(kept, reduced, pack(make_view(x.data(), extents<stride[k0], stride[k1], stride[Axis]>())),
         Square{}, Sum{}, pack(make_view(y.data(), extents<K1, 1>())),
         pack(make_view(bias.data(), extents<K1, 1>())), MeanPlus{1.0f / R}, workers);
  expectClose(y, want);
}
TEST(Reduce, AnyAxis) {
  meanOfSquares<false, 3, 5, 70, 2>();
  meanOfSquares<false, 3, 5, 70, 1>();
  meanOfSquares<false, 3, 5, 70, 0>();
  meanOfSquares<true, 7, 131, 3, 1>();
  meanOfSquares<true, 4, 3, 200, 2>();
  meanOfSquares<true, 40, 3, 17, 0>();
  meanOfSquares<false, 40, 9, 2, 1>();
}

TEST(Reduce, AllDimensions) {
  pool workers(3);
  const auto x = randomFloats(7 * 33, 1);
  float y = 0;
  double want = 0;
  for (float v : x)
    want += v;
  reduce(dims<>(), extents<7, 33>(), pack(make_view(x.data(), extents<33, 1>())), identity_body{},
         Sum{}, pack(make_view(&y, dims<>())), pack(), identity_body{}, workers);
  EXPECT_NEAR(y, want, 1e-4);
}

TEST(Reduce, NoDimension) {
  pool workers(3);
  const auto x = randomFloats(33, 1);
  std::vector<float> y(33);
  reduce(extents<33>(), dims<>(), pack(make_view(x.data(), extents<1>())), identity_body{}, Sum{},
         pack(make_view(y.data(), extents<1>())), pack(), identity_body{}, workers);
  EXPECT_EQ(x, y);
}

/// ArgMax: value and index; the lower index wins a tie.
struct Larger {
  template <class L> TENON_FN results<f32<L>, i64<L>> identity(L) const {
    return pack(broadcast<L>(-INFINITY), broadcast<L>(int64_t(1) << 62));
  }
  template <class L>
  TENON_FN results<f32<L>, i64<L>> operator()(L, f32<L> a, i64<L> i, f32<L> b, i64<L> j) const {
    const b1<L> take =
        logical_or<L>(greater<L>(b, a), logical_and<L>(equal<L>(b, a), less<L>(j, i)));
    return pack(select<L>(take, b, a), select<L>(take, j, i));
  }
};
struct Both {
  template <class L> TENON_FN results<f32<L>, i64<L>> operator()(L, f32<L> x, i64<L> i) const {
    return pack(x, i);
  }
};
struct Second {
  template <class L> TENON_FN i64<L> operator()(L, f32<L>, i64<L> i) const { return i; }
};
template <int KeptStride, int ReducedStride> void argMax(int kept, int reduced) {
  pool workers(3);
  const auto x = randomIntegers<float>(size_t(kept) * reduced, -5, 5, 3);
  std::vector<int64_t> y(kept);
  reduce(dims<dyn>(kept), dims<dyn>(reduced),
         pack(make_view(x.data(), extents<KeptStride, ReducedStride>()), index_view<int64_t, 1>{}),
         Both{}, Larger{}, pack(make_view(y.data(), extents<1>())), pack(), Second{}, workers);
  for (int k = 0; k < kept; ++k) {
    int64_t want = 0;
    for (int r = 1; r < reduced; ++r)
      if (x[k * KeptStride + r * ReducedStride] > x[k * KeptStride + want * ReducedStride])
        want = r;
    ASSERT_EQ(y[k], want);
  }
}
TEST(Reduce, ArgMax) {
  argMax<57, 1>(13, 57);
  argMax<1, 45>(45, 12);
}

struct All {
  template <class L> TENON_FN b1<L> identity(L) const { return broadcast<L>(true); }
  template <class L> TENON_FN b1<L> operator()(L, b1<L> a, b1<L> b) const {
    return logical_and<L>(a, b);
  }
};
TEST(Reduce, BooleansAcrossLanes) {
  pool workers(3);
  bool x[3 * 100], y[3];
  for (bool &b : x)
    b = true;
  x[137] = false;
  reduce(extents<3>(), extents<100>(), pack(make_view((const bool *)x, extents<100, 1>())),
         identity_body{}, All{}, pack(make_view(y, extents<1>())), pack(), identity_body{},
         workers);
  EXPECT_TRUE(y[0]);
  EXPECT_FALSE(y[1]);
  EXPECT_TRUE(y[2]);
}

struct Double {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> x) const { return x + x; }
};
/// Softmax of A x B x C over the last dimension of its views, in place.
template <bool Log, int SA, int SB, int SC, class Space> void checkSoftmax(Space space) {
  const index_t A = space.template get<0>(), B = space.template get<1>(),
                C = space.template get<2>();
  auto x = randomFloats(A * B * C, 5);
  for (float &v : x)
    v *= 30;
  std::vector<double> want(x.size());
  for (index_t a = 0; a < A; ++a)
    for (index_t b = 0; b < B; ++b) {
      const index_t base = a * SA + b * SB;
      double largest = -1e30, sum = 0;
      for (index_t c = 0; c < C; ++c)
        largest = std::max(largest, double(x[base + c * SC]));
      for (index_t c = 0; c < C; ++c)
        sum += std::exp(x[base + c * SC] - largest);
      for (index_t c = 0; c < C; ++c) {
        const double shifted = x[base + c * SC] - largest;
        want[base + c * SC] = 2 * (Log ? shifted - std::log(sum) : std::exp(shifted) / sum);
      }
    }
  pool workers(3);
  softmax<Log>(space, make_view((const float *)x.data(), extents<SA, SB, SC>()),
               pack(make_view(x.data(), extents<SA, SB, SC>())), pack(), Double{}, workers);
  expectClose(x, want, C > 10000 ? 3e-5 : 2e-6); // without vectors one sum takes a whole row
}
TEST(Softmax, ContiguousRows) {
  checkSoftmax<false, 5 * 37, 37, 1>(extents<3, 5, 37>());
  checkSoftmax<true, 5 * 37, 37, 1>(dims<dyn, dyn, dyn>(3, 5, 37));
}
/// Exponentials that wait, and those that are computed again.
TEST(Softmax, LongRows) {
  checkSoftmax<false, 2 * 3001, 3001, 1>(extents<1, 2, 3001>());
  checkSoftmax<false, 2 * 32771, 32771, 1>(extents<1, 2, 32771>());
  checkSoftmax<false, 2 * 1999, 1999, 1>(dims<dyn, dyn, dyn>(1, 2, 1999));
  checkSoftmax<false, 2 * 3001, 3001, 1>(dims<dyn, dyn, dyn>(1, 2, 3001));
}
TEST(Softmax, FewClasses) { checkSoftmax<false, 50 * 2, 2, 1>(extents<3, 50, 2>()); }
TEST(Softmax, InnerAxis) {
  checkSoftmax<false, 9 * 35, 1, 35>(extents<2, 35, 9>());
  checkSoftmax<true, 9 * 35, 1, 35>(dims<dyn, dyn, dyn>(2, 35, 9));
}

/// Normalises A x B x C over its last Reduced dimensions, in place; the mean is far from zero.
template <int Reduced, bool Centered, int SA, int SB, int SC, class Space>
void checkNormalize(Space space) {
  const index_t A = space.template get<0>(), B = space.template get<1>(),
                C = space.template get<2>();
  auto x = randomFloats(A * B * C, 7);
  for (float &v : x)
    v += 5;
  const index_t rows = Reduced == 1 ? A * B : A, length = A * B * C / rows;
  auto at = [&](index_t row, index_t i) {
    return Reduced == 1 ? row / B * SA + row % B * SB + i * SC : row * SA + i / C * SB + i % C * SC;
  };
  std::vector<double> want(x.size());
  for (index_t row = 0; row < rows; ++row) {
    double mean = 0, squares = 0;
    for (index_t i = 0; Centered && i < length; ++i)
      mean += x[at(row, i)] / double(length);
    for (index_t i = 0; i < length; ++i)
      squares += (x[at(row, i)] - mean) * (x[at(row, i)] - mean) / double(length);
    for (index_t i = 0; i < length; ++i)
      want[at(row, i)] = 2 * (x[at(row, i)] - mean) / std::sqrt(squares + 1e-3);
  }
  pool workers(3);
  normalize<Reduced, Centered>(
      space, 1e-3f, make_view((const float *)x.data(), extents<SA, SB, SC>()),
      pack(make_view(x.data(), extents<SA, SB, SC>())), pack(), Double{}, workers);
  expectClose(x, want, 2e-5);
}
TEST(Normalize, ContiguousRows) {
  checkNormalize<1, true, 5 * 37, 37, 1>(extents<3, 5, 37>());
  checkNormalize<2, true, 5 * 37, 37, 1>(extents<3, 5, 37>());
  checkNormalize<1, false, 5 * 37, 37, 1>(dims<dyn, dyn, dyn>(3, 5, 37));
  checkNormalize<1, true, 5000, 2500, 1>(extents<1, 2, 2500>());
}
TEST(Normalize, ShortRows) { checkNormalize<1, true, 50 * 3, 3, 1>(extents<2, 50, 3>()); }
TEST(Normalize, StridedRows) {
  checkNormalize<1, true, 9 * 35, 1, 35>(extents<2, 35, 9>());
  checkNormalize<2, true, 1, 35 * 4, 35>(extents<35, 6, 4>());
  checkNormalize<1, false, 9 * 35, 1, 35>(dims<dyn, dyn, dyn>(2, 35, 9));
}

} // namespace
