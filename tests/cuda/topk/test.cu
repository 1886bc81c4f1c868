// Architectures: 800
//
// Tests of topk in its four ways.
#include "cuda/topk/kernel.cuh"
#include "cuda/topk/parts.cuh"
#include "cuda/topk/rows.cuh"
#include "cuda/topk/sorted.cuh"
#include "common/scalar.h"
#include "shared/sorting.h"

#include <algorithm>

using namespace test;

namespace {

template <bool Largest> struct topk_config {
  dims<dyn, dyn> space;
  dyn k;
  static constexpr bool largest = Largest;
  static constexpr int threads = 128, run = 3; // of a block that sorts a row
};
/// Parts of 96.
template <bool Largest> struct topk_parts_config {
  dims<dyn, dyn> space;
  dyn k;
  static constexpr bool largest = Largest;
  static constexpr int threads = 32, run = 3, kept = 70, merge_threads = 128, merge_run = 13;
};
struct both {
  template <class L, class V> TENON_FN auto operator()(L, V v, i64<L> i) const { return pack(v, i); }
};
/// Small integers, so that there are many equals; among floats NaN and zeros of either sign.
template <class T, bool Largest> void topk(index_t rows, index_t n, index_t k) {
  topk_config<Largest> cfg;
  cfg.space = dims<dyn, dyn>(rows, n);
  cfg.k = k;
  using V = compute_t<T>;
  buffer<T> x(rows * n);
  for (index_t i = 0; i < x.size(); ++i) {
    const int v = random_int(-4, 4);
    x.set(i, V(v));
    if constexpr (tenon::detail::is_float<V>)
      if (v == 0 || (v == 4 && random_int(0, 1) == 0))
        x.set(i, copysignf(v == 0 ? 0.0f : NAN, random_float()));
  }
  x.upload();
  std::vector<V> want_value;
  std::vector<double> want_index;
  const auto before = [](V a, V b) {
    if (a != a || b != b)
      return Largest ? a != a && b == b : b != b && a == a;
    return Largest ? a > b : a < b;
  };
  for (index_t r = 0; r < rows; ++r) {
    std::vector<index_t> order;
    for (index_t i = 0; i < n; ++i)
      order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](index_t i, index_t j) { return before(x.get(r * n + i), x.get(r * n + j)); });
    for (index_t i = 0; i < k; ++i) {
      want_value.push_back(x.get(r * n + order[size_t(i)]));
      want_index.push_back(double(order[size_t(i)]));
    }
  }
  using strides = dims<dyn, fixed<1>>;
  const auto view = make_view<const T>(x.device(), strides(n, {}));
  enum { compared, sorted, by_row, by_parts, ways };
  const char *const names[] = {"all compared", "sorted", "a row sorted by a block", "part by part"};
  for (int way = 0; way < ways; ++way) {
    if (way == by_row && n > cfg.threads * cfg.run)
      continue;
    if (way == by_parts && (k > 70 || (n + 95) / 96 * 70 > 128 * 13))
      continue;
    name_case("topk %ld of %ldx%ld largest %d, %zu-byte, %s", long(k), long(rows), long(n), Largest, sizeof(T),
              names[way]);
    buffer<T> value(rows * k);
    buffer<int64_t> index(rows * k);
    const auto outs = pack(make_view(value.device(), strides(k, {})), make_view(index.device(), strides(k, {})));
    if (way == by_row) {
      launch(cuda::topk_rows(cfg, view, outs, pack(), both{}));
    } else if (way == by_parts) {
      topk_parts_config<Largest> parts;
      parts.space = dims<dyn, dyn>(rows, n);
      parts.k = k;
      buffer<int64_t> left((rows + 1) * ((n + 95) / 96) * 70);
      auto *const items = reinterpret_cast<cuda::sort_item *>(left.device());
      launch(cuda::topk_parts(parts, view, items));
      launch(cuda::topk_merge(parts, view, outs, pack(), both{}, static_cast<const cuda::sort_item *>(items)));
    } else if (way == sorted) {
      sorting s(rows * n + 1, rows * n);
      launch(cuda::topk_keys(cfg, view, s.space));
      s.by(tenon::detail::is_float<V> ? 32 : 8 * int(sizeof(T)), 0);
      s.by(rows > 1 ? 32 - __builtin_clz(unsigned(rows - 1)) : 0, int(n));
      launch(cuda::topk_sorted(cfg, view, outs, pack(), both{},
                               static_cast<const cuda::sort_item *>(s.space.lists[s.from])));
      s.memory.download();
    } else {
      launch(cuda::topk(cfg, view, outs, pack(), both{}));
    }
    expect_same(value, [&](index_t i) { return want_value[size_t(i)]; }, "values");
    expect_close(index, want_index, 0);
  }
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  topk<float, true>(7, 40, 5);
  topk<float, false>(3, 1, 1);
  topk<float, true>(2, 300, 300);
  topk<float, false>(3, 384, 384);
  topk<int8_t, true>(1, 2100, 70); // two blocks
  topk<int32_t, false>(17, 190, 3);
  topk<uint8_t, true>(2, 50, 50);
#endif
  topk<float, true>(0, 5, 2);
  topk<f16, false>(19, 33, 4);
  return finish();
}
