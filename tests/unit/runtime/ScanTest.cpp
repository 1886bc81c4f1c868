// Tests cpu::scan along and across memory, in all four directions.
#include "cpu/scan.h"
#include "Support.h"

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

template <bool Exclusive, bool Reverse> struct Config {
  static constexpr bool exclusive = Exclusive, reverse = Reverse;
};

template <class T> struct Sum {
  template <class L> TENON_FN typename L::template of<T> identity(L) const {
    return broadcast<L>(T(0));
  }
  template <class L, class V> TENON_FN V operator()(L, V a, V b) const { return V(a + b); }
};
/// Associative, but does not commute: the later value.
struct Later {
  template <class L> TENON_FN i32<L> identity(L) const { return broadcast<L>(int32_t(0)); }
  template <class L> TENON_FN i32<L> operator()(L, i32<L> a, i32<L> b) const {
    return select<L>(equal<L>(b, i32<L>{}), a, b);
  }
};
struct Twice {
  template <class L, class V> TENON_FN V operator()(L, V x, V y) const { return V(x + x + y); }
};

/// Sums of x[A][B][C] along one dimension, doubled, plus another tensor.
template <class T, bool Dynamic, bool Exclusive, bool Reverse, int A, int B, int C, int Axis>
void sums() {
  constexpr int extent[] = {A, B, C}, stride[] = {B * C, C, 1};
  constexpr int k0 = Axis == 0 ? 1 : 0, k1 = Axis == 2 ? 1 : 2, N = extent[Axis];
  using strides = extents<stride[k0], stride[k1], stride[Axis]>;
  const auto x = randomIntegers<T>(A * B * C, -9, 9, 1), z = randomIntegers<T>(x.size(), 0, 9, 2);
  std::vector<T> y(x.size());
  std::vector<double> want(x.size());
  for (int i = 0; i < extent[k0]; ++i)
    for (int j = 0; j < extent[k1]; ++j) {
      double sum = 0;
      for (int step = 0; step < N; ++step) {
        const int n = Reverse ? N - 1 - step : step;
        const int at = i * stride[k0] + j * stride[k1] + n * stride[Axis];
        want[at] = 2 * (sum + (Exclusive ? 0 : double(x[at]))) + double(z[at]);
        sum += double(x[at]);
      }
    }
  pool workers(3);
  const auto view = [](auto *p) { return make_view(p, strides()); };
  scan(Config<Exclusive, Reverse>{},
       listOf(extent_of<Dynamic, extent[k0]>::make(), extent_of<Dynamic, extent[k1]>::make(),
              extent_of<Dynamic, N>::make()),
       view(x.data()), Sum<T>{}, pack(view(y.data())), pack(view(z.data())), Twice{}, workers);
  expectClose(y, want, 0); // integers, also of the floats
}

template <class T, bool Exclusive, bool Reverse> void shapes() {
  sums<T, false, Exclusive, Reverse, 3, 2, 67, 2>(); // along a line, with a rest
  sums<T, true, Exclusive, Reverse, 1, 2, 1000, 2>();
  sums<T, true, Exclusive, Reverse, 2, 5, 3, 2>(); // shorter than a vector
  sums<T, false, Exclusive, Reverse, 3, 70, 3, 2>();
  sums<T, false, Exclusive, Reverse, 3, 40, 75, 1>(); // lines side by side
  sums<T, true, Exclusive, Reverse, 50, 3, 131, 0>();
}
template <class T> void directions() {
  shapes<T, false, false>();
  shapes<T, true, false>();
  shapes<T, false, true>();
  shapes<T, true, true>();
}

TEST(Scan, Floats) { directions<float>(); }
TEST(Scan, Doubles) { directions<double>(); }
TEST(Scan, WideIntegers) { directions<int64_t>(); }

TEST(Scan, IntegersWrapInPlace) {
  pool workers(3);
  auto x = randomIntegers<int8_t>(300, 20, 90, 3);
  std::vector<int8_t> want;
  for (int8_t v : x)
    want.push_back(int8_t(v + (want.empty() ? 0 : want.back())));
  scan(Config<false, false>{}, extents<300>(), make_view(x.data(), extents<1>()), Sum<int8_t>{},
       pack(make_view(x.data(), extents<1>())), pack(), identity_body{}, workers);
  EXPECT_EQ(x, want);
}

TEST(Scan, EarlierElementsComeFirst) {
  pool workers(3);
  auto x = randomIntegers<int32_t>(3 * 100, -2, 2, 3);
  for (bool reverse : {false, true}) {
    std::vector<int32_t> y(x.size()), want(x.size());
    for (int row = 0; row < 3; ++row)
      for (int step = 0, last = 0; step < 100; ++step) {
        const int at = row * 100 + (reverse ? 99 - step : step);
        last = x[at] ? x[at] : last;
        want[at] = last;
      }
    const auto in = make_view(x.data(), extents<100, 1>());
    const auto out = pack(make_view(y.data(), extents<100, 1>()));
    if (reverse)
      scan(Config<false, true>{}, extents<3, 100>(), in, Later{}, out, pack(), identity_body{},
           workers);
    else
      scan(Config<false, false>{}, extents<3, 100>(), in, Later{}, out, pack(), identity_body{},
           workers);
    EXPECT_EQ(y, want);
  }
}

} // namespace
