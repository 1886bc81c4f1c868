// Architectures: 800
//
// Tests of rows replaced and combined at indices, in all three ways, and of the sort that one of them
// rests on.
#include "cuda/scatter/last.cuh"
#include "cuda/scatter/sorted.cuh"
#include "shared/sorting.h"

#include <algorithm>

using namespace test;

namespace {

void sort(index_t most, index_t n, int bits, int divisor) {
  name_case("sort of %ld by %d bits, then by index / %d", long(n), bits, divisor);
  sorting s(most, n);
  const unsigned mask = bits < 32 ? (1u << bits) - 1 : ~0u;
  std::vector<cuda::sort_item> items;
  for (index_t i = 0; i < n; ++i)
    items.push_back({unsigned(generator()()) & mask, int(i)});
  s.give(items);
  s.by(bits, 0);
  if (divisor > 0)
    s.by(32, divisor);
  std::stable_sort(items.begin(), items.end(), [&](cuda::sort_item a, cuda::sort_item b) {
    const int u = divisor > 0 ? a.index / divisor : 0, v = divisor > 0 ? b.index / divisor : 0;
    return u < v || (u == v && a.key < b.key);
  });
  s.expect(items, s.from * most);
}

template <int Inner> struct scatter_config {
  dims<dyn, dyn> space;
  dims<dyn, dyn> rows;
  dims<dyn> inner;
};
template <> struct scatter_config<0> {
  dims<dyn> space;
  dims<dyn, dyn> rows;
  dims<> inner;
};

/// (a, b) rows of `inner` elements each into `places` of them; of the indices one in five is outside.
template <class Combiner, class T, int Inner>
void scatter(index_t a, index_t b, index_t places, index_t inner) {
  name_case("scatter %ldx%ld rows of %ld into %ld, %zu-byte", long(a), long(b), long(inner), long(places), sizeof(T));
  const index_t rows = a * b, least = 1;
  buffer<int64_t> indices(std::max(rows, least));
  buffer<T> updates(std::max(rows * inner, least));
  std::vector<double> x;
  updates.fill_random();
  for (index_t i = 0; i < places * inner; ++i)
    x.push_back(double(random_int(-3, 3)));
  for (index_t i = 0; i < rows; ++i)
    indices.set(i, random_int(0, 4) == 0 ? random_int(0, 1) * 2 * places - 1 : random_int(0, int(places) - 1));
  indices.upload();
  std::vector<compute_t<T>> y(x.begin(), x.end());
  for (index_t i = 0; i < rows; ++i)
    for (index_t e = 0; e < inner && indices.get(i) >= 0 && indices.get(i) < places; ++e) {
      compute_t<T> &to = y[size_t(indices.get(i) * inner + e)];
      to = Combiner{}(to, updates.get(i * inner + e));
    }
  const std::vector<double> want(y.begin(), y.end());
  scatter_config<Inner> cfg;
  cfg.rows = dims<dyn, dyn>(a, b);
  const auto at = make_view<const int64_t>(indices.device(), dims<dyn, fixed<1>>(b, {}));
  const std::string name = current;
  const auto all = [&](auto from_strides, auto to_strides) {
    const auto from = make_view<const T>(updates.device(), from_strides);
    buffer<T> out(places * inner);
    const auto to = make_view(out.device(), to_strides);
    const auto run = [&](const char *how, auto &&go) {
      current = name + ", " + how;
      for (index_t i = 0; i < out.size(); ++i)
        out.set(i, compute_t<T>(x[size_t(i)]));
      out.upload();
      go(from, to);
      expect_close(out, want, 0);
    };
    run("all compared", [&](auto u, auto v) { launch(cuda::scatter<Combiner>(cfg, at, u, v)); });
    if constexpr (tenon::detail::is_same<Combiner, scatter_replace>)
      run("last", [&](auto u, auto v) {
        buffer<int> last(places);
        launch(cuda::scatter_clear(cfg, last.device()));
        launch(cuda::scatter_claim(cfg, at, last.device()));
        launch(cuda::scatter_last(cfg, at, u, v, static_cast<const int *>(last.device())));
        last.download();
      });
    run("sorted", [&](auto u, auto v) {
      sorting s(rows + 3, rows);
      launch(cuda::scatter_keys(cfg, at, s.space));
      s.by(32 - __builtin_clz(unsigned(places)), 0);
      launch(cuda::scatter_sorted<Combiner>(cfg, at, u, v, static_cast<const cuda::sort_item *>(s.space.lists[s.from])));
      s.memory.download();
    });
  };
  if constexpr (Inner == 0) {
    cfg.space = dims<dyn>(places);
    all(dims<dyn, fixed<1>>(b, {}), extents<1>{});
  } else {
    cfg.space = dims<dyn, dyn>(places, inner);
    cfg.inner = dims<dyn>(inner);
    all(dims<dyn, dyn, fixed<1>>(b * inner, inner, {}), dims<dyn, fixed<1>>(inner, {}));
  }
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  sort(1, 1, 4, 0);
  sort(100, 0, 8, 0);
  sort(300, 255, 8, 0);
  sort(2048, 2048, 32, 0);
  sort(9000, 8191, 13, 0); // several blocks
  sort(5000, 5000, 32, 700);
  scatter<scatter_replace, float, 0>(1, 1, 1, 1);
  scatter<scatter_replace, float, 0>(3, 100, 40, 1);
  scatter<scatter_replace, int64_t, 1>(1, 900, 1000, 2);
  scatter<scatter_replace, float, 0>(4, 0, 3, 1);
  scatter<scatter_add, float, 0>(20, 130, 16, 1); // several blocks, many meet
  scatter<scatter_max, int32_t, 0>(11, 17, 9, 1);
#endif
  scatter<scatter_replace, float, 1>(5, 30, 20, 7);
  scatter<scatter_add, float, 1>(6, 50, 300, 5);
  scatter<scatter_mul, int32_t, 1>(2, 70, 33, 3);
  return finish();
}
