// Architectures: 800
//
// Tests of map and map_transposed, with views, padded_views and index_views.
#include "cuda/map/kernel.cuh"
#include "cuda/map/transposed.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

using namespace test;

namespace {

template <class Space, int V> struct map_config {
  Space space;
  static constexpr int vector = V;
};

/// relu(a + b) and a * 2.
struct two_results {
  template <class L> TENON_FN results<f32<L>, f32<L>> operator()(L, f32<L> a, f32<L> b) const {
    return pack(relu<L>(a + b), a * 2.0f);
  }
};

/// y0 = relu(x + b), y1 = 2x over rows x columns with a bias over columns, any skew of addresses.
template <class T, int V, index_t Columns> void pointwise(index_t rows, index_t skew) {
  name_case("map %ldx%ld vector %d skew %ld of %zu-byte", long(rows), long(Columns), V, long(skew), sizeof(T));
  const index_t n = rows * Columns;
  buffer<T> x(n, skew), y0(n, skew);
  buffer<float> bias(Columns, skew), y1(n);
  x.fill_random();
  bias.fill_random();
  std::vector<double> want0(n), want1(n);
  for (index_t i = 0; i < n; ++i) {
    const double a = x.get(i), s = a + double(bias.get(i % Columns));
    want0[i] = s > 0 ? s : 0;
    want1[i] = 2 * a;
  }
  map_config<dims<dyn, fixed<Columns>>, V> cfg;
  cfg.space.head = rows;
  using full = extents<Columns, 1>;
  launch(cuda::map(cfg, pack(make_view(y0.device(), full{}), make_view(y1.device(), full{})),
                   pack(make_view<const T>(x.device(), full{}),
                        make_view<const float>(bias.device(), extents<0, 1>{})),
                   two_results{}));
  expect_close(y0, want0, rounding<T>());
  expect_close(y1, want1, 1e-6);
}

/// The short forms for 16-bit values over the full ones.
struct narrowed_over_full {
  template <class L>
  TENON_FN results<f32<L>, f32<L>, f32<L>, f32<L>, f32<L>> operator()(L, f32<L> x) const {
    using N = narrowed<L>;
    return pack(exp<N>(x) / exp<L>(x), sigmoid<N>(x) / sigmoid<L>(x), div<N>(x, 1.7f) / (x / 1.7f),
                reciprocal<N>(x) / reciprocal<L>(x), erf<N>(x / 16) / erf<L>(x / 16));
  }
};
void short_forms() {
  name_case("map of the short forms of exp, sigmoid, div, reciprocal and erf");
  const index_t n = 1600;
  buffer<float> x(n), e(n), s(n), d(n), r(n), f(n);
  for (index_t i = 0; i < n; ++i)
    x.set(i, float(i - 800) / 10 + 0.05f); // -79.95 ... 79.95, never 0
  x.upload();
  const std::vector<double> ones(size_t(n), 1.0);
  using full = extents<1>;
  launch(cuda::map(map_config<extents<1600>, 4>{},
                   pack(make_view(e.device(), full{}), make_view(s.device(), full{}), make_view(d.device(), full{}),
                        make_view(r.device(), full{}), make_view(f.device(), full{})),
                   pack(make_view<const float>(x.device(), full{})), narrowed_over_full{}));
  for (buffer<float> *y : {&e, &s, &d, &r})
    expect_close(*y, ones, 1.0 / 65536);
  expect_close(f, ones, 1.0 / 32768);
}

/// A slice of channels written into the middle of a wider tensor.
void strided_copy() {
  name_case("map slice into concat");
  buffer<float> x(5 * 7 * 12), y(5 * 7 * 20);
  x.fill_random();
  y.fill_random();
  std::vector<double> want(y.size());
  for (index_t i = 0; i < y.size(); ++i)
    want[i] = y.get(i);
  for (index_t p = 0; p < 35; ++p)
    for (index_t c = 0; c < 7; ++c)
      want[p * 20 + 3 + c] = x.get(p * 12 + 2 + c);
  launch(cuda::map(map_config<extents<35, 7>, 4>{}, pack(make_view(y.device() + 3, extents<20, 1>{})),
                   pack(make_view<const float>(x.device() + 2, extents<12, 1>{})), cuda::identity_body{}));
  expect_close(y, want, 0);
}

template <int V> void padded(index_t before, index_t inner, index_t after) {
  name_case("map padded %ld+%ld+%ld vector %d", long(before), long(inner), long(after), V);
  const index_t rows = 3, out_rows = 6, width = before + inner + after;
  buffer<float> x(rows * inner), y(out_rows * width);
  x.fill_random();
  std::vector<double> want(y.size(), 7.5);
  for (index_t r = 0; r < rows; ++r)
    for (index_t c = 0; c < inner; ++c)
      want[(r + 2) * width + before + c] = x.get(r * inner + c);
  map_config<dims<dyn, dyn>, V> cfg;
  cfg.space = dims<dyn, dyn>(out_rows, width);
  const auto x_view = make_padded_view<const float>(
      x.device() - 2 * inner - before, dims<dyn, fixed<1>>(inner, fixed<1>{}), dims<dyn, dyn>(2, before),
      dims<dyn, dyn>(2 + rows, before + inner), 7.5f);
  launch(cuda::map(cfg, pack(make_view(y.device(), dims<dyn, fixed<1>>(width, fixed<1>{}))), pack(x_view),
                   cuda::identity_body{}));
  expect_close(y, want, 0);
}

struct index_body {
  template <class L> TENON_FN i64<L> operator()(L, i64<L> row, i64<L> column) const {
    return row * 100 + column;
  }
};
void index_operands() {
  name_case("map of indices");
  buffer<int64_t> y(6 * 11);
  std::vector<double> want;
  for (int r = 0; r < 6; ++r)
    for (int c = 0; c < 11; ++c)
      want.push_back(r * 100 + c);
  launch(cuda::map(map_config<extents<6, 11>, 2>{}, pack(make_view(y.device(), extents<11, 1>{})),
                   pack(index_view<int64_t, 0>{}, index_view<int64_t, 1>{}), index_body{}));
  expect_close(y, want, 0);
}

template <index_t Channels, index_t Pixels> struct transpose_config {
  dims<dyn, fixed<Pixels>, fixed<Channels>> space;
  static constexpr int across = 1;
};
struct add_body {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b, f32<L> c) const { return a + b * c; }
};

/// NCHW to NHWC with a bias over channels and a factor already in NHWC.
template <class T, index_t Channels, index_t Pixels> void transposed(index_t batch) {
  name_case("map_transposed %ldx%ldx%ld of %zu-byte", long(batch), long(Channels), long(Pixels), sizeof(T));
  const index_t n = batch * Channels * Pixels;
  buffer<T> x(n), y(n);
  buffer<float> bias(Channels), factor(n);
  x.fill_random();
  bias.fill_random();
  factor.fill_random();
  std::vector<double> want(n);
  for (index_t b = 0; b < batch; ++b)
    for (index_t c = 0; c < Channels; ++c)
      for (index_t p = 0; p < Pixels; ++p) {
        const index_t to = (b * Pixels + p) * Channels + c;
        want[to] = double(x.get((b * Channels + c) * Pixels + p)) +
                   double(bias.get(c)) * double(factor.get(to));
      }
  transpose_config<Channels, Pixels> cfg;
  cfg.space.head = batch;
  using nhwc = extents<Channels * Pixels, Channels, 1>;
  launch(cuda::map_transposed(
      cfg, pack(make_view(y.device(), nhwc{})),
      pack(make_view<const T>(x.device(), extents<Channels * Pixels, 1, Pixels>{}),
           make_view<const float>(bias.device(), extents<0, 0, 1>{}),
           make_view<const float>(factor.device(), nhwc{})),
      add_body{}));
  expect_close(y, want, rounding<T>());
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  short_forms();
  pointwise<float, 4, 64>(3, 0);
  pointwise<float, 4, 64>(3, 1);
  pointwise<float, 4, 1>(300, 0);
  pointwise<f16, 8, 96>(7, 0);
  pointwise<f16, 8, 13>(9, 0);
  pointwise<bf16, 8, 40>(2, 0);
  pointwise<float, 1, 5>(2, 0);
  strided_copy();
  padded<4>(1, 8, 3);
  padded<4>(4, 8, 4);
  padded<4>(0, 5, 0);
  padded<1>(3, 2, 1);
  padded<4>(5, 1, 9);
  transposed<float, 3, 50>(2);
#endif
  pointwise<float, 4, 67>(5, 0);
  pointwise<f16, 8, 96>(7, 3);
  index_operands();
  transposed<float, 64, 33>(1);
  transposed<f16, 40, 7>(3);
  return finish();
}
