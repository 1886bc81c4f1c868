// Architectures: 800 900
//
// Tests of normalize: rows of one group of lanes, of a block, of a cluster, and of blocks that take
// two launches.
#include "cuda/base/computed.cuh"
#include "cuda/normalize/kernel.cuh"
#include "common/scalar.h"
#include "shared/row_sharing.h"

using namespace test;

namespace {

template <class Sharing, bool Centered> struct normalize_case : Sharing {
  dims<dyn, dyn> kept;
  dims<dyn, dyn> reduced;
  static constexpr bool centered = Centered;
};
struct scale_shift {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> x, f32<L> scale) const { return x * scale + 1; }
};
struct halved {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> x) const { return x * 0.5f; }
};
/// (a, b, n, m) over the last two dimensions, in memory as (a, n, m, b) across rows, as (a, n, b, m) where
/// `Grouped`. Values have a mean far from zero, where sums of squares would cancel. Computed: x is halved on
/// the way in.
template <class T, class Sharing, bool Centered, bool Grouped = false, bool Computed = false>
void normalize(index_t a, index_t b, index_t n, index_t m, index_t skew = 0) {
  if (!Sharing::runs())
    return;
  Sharing::name(sizeof(T) == 2 ? "normalize f16" : "normalize", a, b, n, m);
  constexpr bool across = Sharing::across;
  normalize_case<Sharing, Centered> cfg;
  cfg.kept = dims<dyn, dyn>(a, b);
  cfg.reduced = dims<dyn, dyn>(n, m);
  buffer<T> x(a * b * n * m, skew);
  buffer<float> scale(n * m), y(x.size(), skew), again(x.size(), skew);
  x.fill_random(), scale.fill_random();
  const auto at = [&](index_t i, index_t j, index_t k) {
    return across    ? (i * n * m + k) * b + j
           : Grouped ? ((i * n + k / m) * b + j) * m + k % m
                     : (i * b + j) * n * m + k;
  };
  for (index_t i = 0; i < x.size(); ++i)
    x.set(i, x.get(i) + 40);
  x.upload();
  std::vector<double> want(size_t(x.size()));
  const double epsilon = 1e-5, count = double(n * m), factor = Computed ? 0.5 : 1;
  for (index_t i = 0; i < a; ++i)
    for (index_t j = 0; j < b; ++j) {
      double mean = 0, squares = 0;
      for (index_t k = 0; Centered && k < n * m; ++k)
        mean += factor * double(x.get(at(i, j, k))) / count;
      for (index_t k = 0; k < n * m; ++k) {
        const double apart = factor * double(x.get(at(i, j, k))) - mean;
        squares += apart * apart / count;
      }
      for (index_t k = 0; k < n * m; ++k)
        want[at(i, j, k)] =
            (factor * double(x.get(at(i, j, k))) - mean) / ::sqrt(squares + epsilon) * double(scale.get(k)) + 1;
    }
  const auto strides = [&] {
    if constexpr (across)
      return dims<dyn, fixed<1>, dyn, dyn>(n * m * b, {}, m * b, b);
    else if constexpr (Grouped)
      return dims<dyn, dyn, dyn, fixed<1>>(b * n * m, m, b * m, {});
    else
      return dims<dyn, dyn, dyn, fixed<1>>(b * n * m, n * m, m, {});
  }();
  const auto factors = make_view<const float>(scale.device(), dims<fixed<0>, fixed<0>, dyn, fixed<1>>({}, {}, m, {}));
  const auto plain = make_view((const T *)x.device(), strides);
  const auto in = [&] {
    if constexpr (Computed)
      return cuda::make_computed_view<float, 4>(pack(plain), halved{});
    else
      return plain;
  }();
  for (buffer<float> *result : {&y, &again}) {
    const auto outs = pack(make_view(result->device(), strides));
    if constexpr (Sharing::joined) {
      buffer<cuda::row_moments<float>> parts(a * b * Sharing::blocks);
      launch(cuda::normalize_parts(cfg, in, parts.device()));
      launch(cuda::normalize_joined(cfg, float(epsilon), in, outs, pack(factors), scale_shift{}, parts.device()));
    } else {
      launch(cuda::normalize(cfg, float(epsilon), in, outs, pack(factors), scale_shift{}));
    }
  }
  expect_close(y, want, 2e-5);
  std::vector<double> same(want.size());
  for (index_t i = 0; i < y.size(); ++i)
    same[size_t(i)] = double(y.get(i));
  expect_close(again, same, 0);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  normalize<float, sharing<128, 1, true, 1, 0>, true>(3, 50, 1, 4);
  normalize<float, sharing<128, 32, true, 1, 3>, true>(2, 20, 3, 21);
  normalize<float, sharing<128, 16, false, 4, 1>, true>(5, 7, 1, 61);
  normalize<float, sharing<128, 32, false, 4, 2>, true>(2, 5, 3, 64);
  normalize<float, sharing<128, 32, false, 4, 2, 1, false, true>, true>(2, 5, 3, 64);
  normalize<float, sharing<128, 32, false, 1, 0>, false>(1, 3, 7, 150);
  normalize<float, sharing<1024, 1024, false, 4, 3>, true>(1, 3, 1, 9001);
  normalize<f16, sharing<128, 16, false, 8, 1>, true>(9, 11, 1, 96);
  normalize<f16, sharing<128, 128, false, 2, 3, 8>, true, true>(1, 3, 500, 10);
  normalize<f16, sharing<128, 128, false, 2, 3, 8, false, true>, true, true>(1, 3, 500, 10);
  normalize<f16, sharing<64, 64, false, 2, 0, 4>, true, true>(2, 2, 300, 6);
  normalize<float, sharing<64, 64, false, 4, 0, 6, true>, true>(1, 2, 3, 1024, 1);
  normalize<float, sharing<64, 8, true, 1, 0, 5, true>, true>(2, 19, 10, 31);
  normalize<float, sharing<64, 8, true, 1, 4, 8>, true>(1, 9, 8, 32);
  normalize<float, sharing<128, 64, false, 1, 0, 2>, false, false, true>(1, 3, 5, 70);
#endif
  normalize<float, sharing<256, 256, false, 2, 0>, true>(1, 2, 9, 300);
  normalize<f16, sharing<128, 64, false, 8, 2>, false>(3, 2, 2, 400);
  normalize<f16, sharing<256, 256, false, 2, 4, 4>, true, true>(1, 2, 400, 10);
  normalize<float, sharing<64, 64, false, 1, 0, 3, true>, true>(1, 2, 7, 90);
  return finish();
}
