// Architectures: 800
//
// Tests of softmax_topk: one warp for each row.
#include "cuda/softmax_topk/kernel.cuh"
#include "shared/harness.h"

#include <algorithm>

using namespace test;

namespace {

template <int Warps, int Run, bool Largest, bool Log> struct router {
  dims<dyn, dyn, dyn> space;
  dyn k;
  static constexpr bool largest = Largest, log = Log;
  static constexpr int warps = Warps, run = Run;
};
struct both {
  template <class L, class V> TENON_FN auto operator()(L, V v, i64<L> i) const { return pack(v, i); }
};
/// Along the last dimension of (a, b, n), or with Across along the middle one of (a, n, b). Elements
/// are small integers, so that there are many equals; -inf among them, and in the first row NaN.
template <class T, int Warps, int Run, bool Largest, bool Log, bool Across = false>
void softmax_topk(index_t a, index_t b, index_t n, index_t k) {
  name_case("%ld %s of %ld, %ldx%ld rows%s%s, %zu-byte", long(k), Largest ? "largest" : "smallest", long(n), long(a),
            long(b), Log ? ", log" : "", Across ? ", across" : "", sizeof(T));
  router<Warps, Run, Largest, Log> cfg;
  cfg.space = dims<dyn, dyn, dyn>(a, b, n);
  cfg.k = k;
  buffer<T> x(a * b * n), value(a * b * k);
  buffer<int64_t> index(a * b * k);
  const auto at = [&](index_t row, index_t i, index_t length) {
    return Across ? (row / b * length + i) * b + row % b : row * length + i;
  };
  for (index_t i = 0; i < x.size(); ++i)
    x.set(i, random_int(0, 9) ? float(random_int(-4, 4)) : -INFINITY);
  if (n > 5 && a * b > 1)
    x.set(at(0, 5, n), NAN);
  x.upload();
  std::vector<double> want(size_t(value.size())), place(size_t(value.size()));
  for (index_t row = 0; row < a * b; ++row) {
    std::vector<double> y;
    double most = -1e300, sum = 0;
    for (index_t i = 0; i < n; ++i) {
      y.push_back(double(x.get(at(row, i, n))));
      most = y.back() != y.back() || most != most ? NAN : fmax(most, y.back());
    }
    for (double v : y)
      sum += ::exp(v - most);
    std::vector<index_t> order;
    for (index_t i = 0; i < n; ++i) {
      y[size_t(i)] = Log ? y[size_t(i)] - most - ::log(sum) : ::exp(y[size_t(i)] - most) / sum;
      order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](index_t i, index_t j) {
      return Largest ? y[size_t(i)] > y[size_t(j)] : y[size_t(i)] < y[size_t(j)];
    });
    for (index_t r = 0; r < k; ++r) {
      want[size_t(at(row, r, k))] = y[size_t(order[size_t(r)])];
      place[size_t(at(row, r, k))] = double(order[size_t(r)]);
    }
  }
  const auto strides = [&](index_t length) {
    return Across ? dims<dyn, dyn, dyn>(length * b, 1, b) : dims<dyn, dyn, dyn>(b * length, length, 1);
  };
  const auto outs = pack(make_view(value.device(), strides(k)), make_view(index.device(), strides(k)));
  launch(cuda::softmax_topk<T>(cfg, make_view<const T>(x.device(), strides(n)), outs, pack(), both{}));
  index.download(), value.download();
  expect_close(index, place, 0);
  bool same = true;
  for (index_t i = 0; i < value.size(); ++i) {
    const double got = double(value.get(i)), wanted = want[size_t(i)];
    same = same && (got == wanted || (got != got && wanted != wanted) || fabs(got - wanted) <= 4 * rounding<T>());
  }
  record(same, "values");
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  softmax_topk<float, 4, 2, true, false>(1, 1, 64, 8);
  softmax_topk<float, 4, 2, true, false>(3, 5, 60, 60);
  softmax_topk<float, 1, 1, true, false, true>(2, 3, 7, 2);
  softmax_topk<bf16, 8, 32, true, false>(1, 2, 1024, 3);
  softmax_topk<float, 2, 4, false, true>(1, 9, 100, 4);
#endif
  softmax_topk<float, 4, 2, true, false>(0, 1, 40, 2);
  softmax_topk<f16, 1, 4, false, true, true>(2, 2, 101, 5);
  return finish();
}
