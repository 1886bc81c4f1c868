// Architectures: 800 900
//
// Tests of softmax: rows of one group of lanes, of a block, of a cluster, and of blocks that take
// two launches.
#include "cuda/softmax/kernel.cuh"
#include "common/scalar.h"
#include "shared/row_sharing.h"

using namespace test;

namespace {

template <class Sharing, bool Log> struct softmax_case : Sharing {
  dims<dyn, dyn> kept;
  dims<dyn> reduced;
  static constexpr bool log = Log;
};
/// Over the last axis of (a, b, n), or over the middle axis of (a, n, b), in place. Some elements
/// are -inf, a whole part of the first row, too.
template <class T, class Sharing, bool Log> void softmax(index_t a, index_t b, index_t n) {
  if (!Sharing::runs())
    return;
  Sharing::name(Log ? "log softmax" : "softmax", a, b, n, 1);
  constexpr bool across = Sharing::across;
  softmax_case<Sharing, Log> cfg;
  cfg.kept = dims<dyn, dyn>(a, b);
  cfg.reduced = dims<dyn>(n);
  buffer<T> x(a * b * n), again(a * b * n);
  x.fill_random();
  const auto at = [&](index_t i, index_t j, index_t k) { return across ? (i * n + k) * b + j : (i * b + j) * n + k; };
  for (index_t i = 0; i < x.size(); ++i)
    x.set(i, random_int(0, 9) ? x.get(i) * 20 : -INFINITY);
  for (index_t k = 0; k < n; ++k)
    x.set(at(0, 0, k), k < n - 2 ? -INFINITY : 1.0f);
  for (index_t i = 0; i < x.size(); ++i)
    again.set(i, x.get(i));
  x.upload(), again.upload();
  std::vector<double> want(size_t(x.size()));
  for (index_t i = 0; i < a; ++i)
    for (index_t j = 0; j < b; ++j) {
      double most = -1e300, sum = 0;
      for (index_t k = 0; k < n; ++k)
        most = fmax(most, double(x.get(at(i, j, k))));
      for (index_t k = 0; k < n; ++k)
        sum += ::exp(double(x.get(at(i, j, k))) - most);
      for (index_t k = 0; k < n; ++k) {
        const double shifted = double(x.get(at(i, j, k))) - most;
        want[at(i, j, k)] = Log ? shifted - ::log(sum) : ::exp(shifted) / sum;
      }
    }
  const auto run = [&](auto unit, buffer<T> &y) {
    const auto s = [&] {
      if constexpr (across)
        return dims<dyn, fixed<1>, dyn>(n * b, {}, b);
      else
        return dims<dyn, dyn, decltype(unit)>(b * n, n, {});
    }();
    const auto in = make_view<const T>(y.device(), s);
    const auto outs = pack(make_view(y.device(), s));
    if constexpr (Sharing::joined) {
      buffer<cuda::exponentials<float>> parts(a * b * Sharing::blocks);
      launch(cuda::softmax_parts(cfg, in, parts.device()));
      launch(cuda::softmax_joined(cfg, in, outs, pack(), cuda::identity_body{}, parts.device()));
    } else {
      launch(cuda::softmax(cfg, in, outs, pack(), cuda::identity_body{}));
    }
  };
  run(fixed<1>{}, x);
  run(fixed<1>{}, again);
  if (Log) { // -inf has no error that a bound could hold
    x.download(), again.download();
    for (index_t i = 0; i < x.size(); ++i)
      if (want[size_t(i)] == -INFINITY) {
        record(x.get(i) == -INFINITY, "expected -inf");
        x.set(i, 0), again.set(i, 0), want[size_t(i)] = 0;
      }
    x.upload(), again.upload();
  }
  expect_close(x, want, 2e-6 + rounding<T>());
  std::vector<double> same(want.size());
  for (index_t i = 0; i < x.size(); ++i)
    same[size_t(i)] = double(x.get(i));
  expect_close(again, same, 0);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  softmax<float, sharing<256, 32, false, 1, 0>, false>(2, 5, 100);
  softmax<float, sharing<256, 256, false, 4, 1>, false>(1, 2, 1001);
  softmax<float, sharing<256, 1, true, 1, 4>, false>(3, 50, 4);
  softmax<float, sharing<256, 2, true, 1, 0>, true>(40, 7, 3);
  softmax<f16, sharing<128, 32, false, 8, 2>, false>(3, 7, 500);
  softmax<f16, sharing<128, 32, false, 8, 2, 1, false, true>, false>(3, 7, 496);
  softmax<float, sharing<64, 64, false, 4, 0, 4, true>, false>(1, 3, 5000);
  softmax<float, sharing<64, 64, false, 1, 3, 3, true>, true>(2, 2, 520);
  softmax<float, sharing<64, 64, false, 4, 2, 8>, false>(1, 3, 4001);
  softmax<f16, sharing<128, 128, false, 8, 0, 4>, false>(1, 2, 20007);
  softmax<float, sharing<64, 16, true, 1, 8, 2>, true>(2, 9, 250);
#endif
  softmax<float, sharing<256, 8, true, 1, 0>, true>(2, 20, 21);
  softmax<f16, sharing<256, 256, false, 8, 2, 8>, false>(1, 1, 30001);
  softmax<float, sharing<64, 64, false, 2, 0, 16, true>, false>(1, 2, 3000);
  return finish();
}
