// Architectures: 800
//
// Tests of resize_any, topk in its three ways and the operands of map that are no plain views: bordered_view and
// shape_values.
#include "cuda/gather/bordered.cuh"
#include "cuda/map/kernel.cuh"
#include "cuda/resize/kernel.cuh"
#include "cuda/resize/any.cuh"
#include "cuda/gather/shape_values.cuh"
#include "cuda/topk/kernel.cuh"
#include "cuda/topk/rows.cuh"
#include "cuda/topk/sorted.cuh"
#include "common/scalar.h"
#include "shared/sorting.h"

#include <algorithm>

using namespace test;

namespace {

struct resize_config {
  dims<dyn, dyn, dyn> space;
};
template <class Space, int V> struct map_config {
  Space space;
  static constexpr int vector = V;
};

/// Three dimensions at once: nearest, linear, and one as it is.
template <class T> void resize_three(index_t a, index_t b, index_t c, index_t to_a, index_t to_b) {
  name_case("resize_any %ldx%ldx%ld to %ldx%ld", long(a), long(b), long(c), long(to_a), long(to_b));
  buffer<T> x(a * b * c), y(to_a * to_b * c);
  x.fill_random();
  const float scale_a = float(a) / float(to_a), scale_b = float(b) / float(to_b);
  std::vector<double> want;
  for (index_t i = 0; i < to_a; ++i)
    for (index_t j = 0; j < to_b; ++j)
      for (index_t k = 0; k < c; ++k) {
        const index_t from_a = std::min(index_t(float(i) * scale_a), a - 1);
        const double at = std::max(double(float(j) * scale_b + (0.5f * scale_b - 0.5f)), 0.0);
        const index_t low = std::min(index_t(at), b - 1), high = std::min(low + 1, b - 1);
        const double part = at - double(low);
        const auto value = [&](index_t m) { return double(x.get((from_a * b + m) * c + k)); };
        want.push_back(value(low) * (1 - part) + value(high) * part);
      }
  resize_config cfg;
  cfg.space = dims<dyn, dyn, dyn>(to_a, to_b, c);
  using strides = dims<dyn, dyn, fixed<1>>;
  launch(cuda::resize_any(
      cfg, make_view<const T>(x.device(), strides(b * c, c, {})),
      pack(cuda::resize_nearest_axis{scale_a, 0, 0, int(a)},
           cuda::resize_linear_axis{scale_b, 0.5f * scale_b - 0.5f, int(b)},
           cuda::resize_nearest_axis{1, 0, 0, int(c)}),
      compute_t<T>(0), pack(make_view(y.device(), strides(to_b * c, c, {}))), pack(),
      cuda::identity_body{}));
  expect_close(y, want, rounding<T>() + 1e-5);
}

template <bool Largest> struct topk_config {
  dims<dyn, dyn> space;
  dyn k;
  static constexpr bool largest = Largest;
  static constexpr int threads = 128, run = 3; // of a block that sorts a row
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
  enum { compared, sorted, by_row, ways };
  const char *const names[] = {"all compared", "sorted", "a row sorted by a block"};
  for (int way = 0; way < ways; ++way) {
    if (way == by_row && n > cfg.threads * cfg.run)
      continue;
    name_case("topk %ld of %ldx%ld largest %d, %zu-byte, %s", long(k), long(rows), long(n), Largest, sizeof(T),
              names[way]);
    buffer<T> value(rows * k);
    buffer<int64_t> index(rows * k);
    const auto outs = pack(make_view(value.device(), strides(k, {})), make_view(index.device(), strides(k, {})));
    if (way == by_row) {
      launch(cuda::topk_rows(cfg, view, outs, pack(), both{}));
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
    value.download();
    bool same = true;
    for (index_t i = 0; i < value.size(); ++i) {
      const V got = value.get(i), want = want_value[size_t(i)];
      same = same && (got == want || (got != got && want != want));
    }
    record(same, "values");
    expect_close(index, want_index, 0);
  }
}

/// Borders wider than the tensor where the mode allows it.
template <class Border> void bordered(const char *mode, index_t h, index_t w, index_t top, index_t left) {
  name_case("border %s of %ldx%ld by %ld and %ld", mode, long(h), long(w), long(top), long(left));
  const index_t out_h = h + 2 * top, out_w = w + 2 * left + 1;
  buffer<float> x(h * w), y(out_h * out_w);
  x.fill_random();
  const auto walk = [&](index_t i, index_t n) { // step by step, as the mode is drawn
    if (!strcmp(mode, "edge"))
      return std::min(std::max<index_t>(i, 0), n - 1);
    index_t at = 0, step = 1;
    for (index_t s = 0; s != i; s += i > 0 ? 1 : -1) {
      if (!strcmp(mode, "wrap")) {
        at = i > 0 ? (at + 1) % n : (at + n - 1) % n;
      } else if (n > 1) {
        if (at + step < 0 || at + step >= n)
          step = -step;
        at += step;
      }
    }
    return at;
  };
  std::vector<double> want;
  for (index_t i = 0; i < out_h; ++i)
    for (index_t j = 0; j < out_w; ++j)
      want.push_back(double(x.get(walk(i - top, h) * w + walk(j - left, w))));
  map_config<dims<dyn, dyn>, 4> cfg;
  cfg.space = dims<dyn, dyn>(out_h, out_w);
  const auto view = cuda::make_bordered_view<Border>(static_cast<const float *>(x.device()),
                                                     dims<dyn, fixed<1>>(w, {}),
                                                     dims<dyn, dyn>(top, left), dims<dyn, dyn>(h, w));
  launch(cuda::map(cfg, pack(make_view(y.device(), dims<dyn, fixed<1>>(out_w, {}))), pack(view),
                   cuda::identity_body{}));
  expect_close(y, want, 0);
}

void shape() {
  name_case("a shape as values");
  map_config<dims<dyn>, 1> cfg;
  cfg.space = dims<dyn>(3);
  buffer<int64_t> y(3);
  launch(cuda::map(cfg, pack(make_view(y.device(), extents<1>{})),
                   pack(cuda::make_shape_values(dims<dyn, fixed<7>, dyn>(5, {}, 1 << 20))),
                   cuda::identity_body{}));
  expect_close(y, {5, 7, 1 << 20}, 0);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  resize_three<float>(3, 5, 7, 6, 11);
  resize_three<float>(8, 9, 2, 3, 4);
  topk<float, true>(7, 40, 5);
  topk<float, false>(3, 1, 1);
  topk<float, true>(2, 300, 300);
  topk<float, false>(3, 384, 384);
  topk<int8_t, true>(1, 2100, 70); // two blocks
  topk<int32_t, false>(17, 190, 3);
  topk<uint8_t, true>(2, 50, 50);
  bordered<cuda::border_edge>("edge", 3, 5, 4, 2);
  bordered<cuda::border_reflect>("reflect", 4, 6, 3, 5);
  bordered<cuda::border_reflect>("reflect", 1, 3, 2, 2);
#endif
  resize_three<f16>(2, 6, 5, 5, 13);
  topk<float, true>(0, 5, 2);
  topk<f16, false>(19, 33, 4);
  bordered<cuda::border_wrap>("wrap", 3, 4, 5, 3);
  shape();
  return finish();
}
