// Architectures: 800
//
// Tests of resize, linear and nearest.
#include "cuda/resize/kernel.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

using namespace test;

namespace {

template <int Along, int V> struct resize_case : cuda::window_defaults {
  static constexpr int along = Along, vector = V;
  dyn batch, channels, out_h, out_w;
};

/// Bilinear by table in one dimension and by formula in the other; half-pixel positions.
template <class T, int Along, int V> void resize_linear(index_t n, index_t c, index_t h, index_t w, index_t oh, index_t ow) {
  name_case("resize linear along %d n%ld c%ld %ldx%ld to %ldx%ld", Along, long(n), long(c), long(h), long(w), long(oh), long(ow));
  resize_case<Along, V> cfg;
  cfg.batch = n, cfg.channels = c, cfg.out_h = oh, cfg.out_w = ow;
  buffer<T> x(n * c * h * w), y(n * c * oh * ow);
  buffer<int32_t> indices(2 * oh);
  buffer<float> weights(2 * oh);
  x.fill_random();
  const float scale_h = float(h) / float(oh), scale_w = float(w) / float(ow);
  const cuda::resize_linear_axis columns{scale_w, 0.5f * scale_w - 0.5f, int(w)}, rows{scale_h, 0.5f * scale_h - 0.5f, int(h)};
  for (index_t i = 0; i < oh; ++i)
    for (int t = 0; t < 2; ++t) {
      indices.set(2 * i + t, rows.index(int(i), t));
      weights.set(2 * i + t, rows.weight(int(i), t));
    }
  indices.upload();
  weights.upload();
  const auto at = [&](index_t hh, index_t ww, index_t b, index_t k, index_t i, index_t j) {
    return Along == 1 ? ((b * hh + i) * ww + j) * c + k : ((b * c + k) * hh + i) * ww + j;
  };
  std::vector<double> want(size_t(y.size()));
  for (index_t b = 0; b < n; ++b)
    for (index_t k = 0; k < c; ++k)
      for (index_t i = 0; i < oh; ++i)
        for (index_t j = 0; j < ow; ++j) {
          const auto split = [](index_t o, index_t in, index_t out, index_t &low, index_t &high) {
            double p = (double(o) + 0.5) * double(in) / double(out) - 0.5;
            p = p < 0 ? 0 : p > double(in - 1) ? double(in - 1) : p;
            low = index_t(p);
            high = low + 1 < in ? low + 1 : in - 1;
            return p - double(low);
          };
          index_t y0, y1, x0, x1;
          const double fy = split(i, h, oh, y0, y1), fx = split(j, w, ow, x0, x1);
          const auto v = [&](index_t yy, index_t xx) { return double(x.get(at(h, w, b, k, yy, xx))); };
          want[at(oh, ow, b, k, i, j)] = (1 - fy) * ((1 - fx) * v(y0, x0) + fx * v(y0, x1)) + fy * ((1 - fx) * v(y1, x0) + fx * v(y1, x1));
        }
  using strides = std::conditional_t<Along == 1, dims<dyn, fixed<1>, dyn, dyn>, dims<dyn, dyn, dyn, fixed<1>>>;
  const auto strides_of = [&](index_t hh, index_t ww) {
    if constexpr (Along == 1)
      return strides(hh * ww * c, {}, ww * c, c);
    else
      return strides(hh * ww * c, hh * ww, ww, {});
  };
  launch(cuda::resize(cfg, make_view<const T>(x.device(), strides_of(h, w)), cuda::resize_table<2>{indices.device(), weights.device()},
                      columns, pack(make_view(y.device(), strides_of(oh, ow))), pack(), cuda::identity_body{}));
  expect_close(y, want, rounding<T>() + 1e-6);
}

/// Nearest by doubling columns; integers are copied.
void resize_nearest() {
  name_case("resize nearest of int8");
  resize_case<1, 4> cfg;
  cfg.batch = 2, cfg.channels = 6, cfg.out_h = 5, cfg.out_w = 14;
  buffer<int8_t> x(2 * 5 * 7 * 6), y(2 * 5 * 14 * 6);
  x.fill_random();
  std::vector<double> want;
  for (index_t r = 0; r < 10; ++r)
    for (index_t j = 0; j < 14; ++j)
      for (index_t k = 0; k < 6; ++k)
        want.push_back(x.get((r * 7 + j / 2) * 6 + k));
  launch(cuda::resize(cfg, make_view<const int8_t>(x.device(), extents<210, 1, 42, 6>{}), cuda::resize_same{},
                      cuda::resize_nearest_axis{0.5f, 0, 0, 7}, pack(make_view(y.device(), extents<420, 1, 84, 6>{})), pack(),
                      cuda::identity_body{}));
  expect_close(y, want, 0);
}

/// By 2 with half pixels: two outputs a period.
struct doubled {
  static constexpr int taps = 2, period = 2, advance = 1, extent = 14;
  TENON_FN static constexpr int delta(int phase, int tap) { return phase + tap - 1; }
  TENON_FN static constexpr float weight_of(int phase, int tap) { return (phase + tap) % 2 ? 0.75f : 0.25f; }
};
/// Four taps, three elements an output; the first lies two before.
struct thirds {
  static constexpr int taps = 4, period = 1, advance = 3, extent = 41;
  TENON_FN static constexpr int delta(int, int tap) { return tap - 2; }
  TENON_FN static constexpr float weight_of(int, int tap) { return tap == 2 ? 0.625f : 0.125f; }
};
/// Nearest by 4.
struct fourfold {
  static constexpr int taps = 1, period = 4, advance = 1, extent = 9;
  TENON_FN static constexpr int delta(int, int) { return 0; }
  TENON_FN static constexpr float weight_of(int, int) { return 1; }
};

/// Columns that repeat, `ow` of them; rows are `Rows`, repeated too, or the same. `skew` elements
/// off whole words.
template <class T, int V, class Columns, class Rows> void resize_repeated(index_t c, index_t h, index_t oh, index_t ow, index_t skew) {
  constexpr bool same_rows = std::is_void_v<Rows>;
  using pattern = std::conditional_t<same_rows, fourfold, Rows>;
  const index_t w = Columns::extent;
  name_case("resize repeated c%ld %ldx%ld to %ldx%ld vector %d skew %ld", long(c), long(h), long(w), long(oh), long(ow), V, long(skew));
  resize_case<3, V> cfg;
  cfg.batch = 1, cfg.channels = c, cfg.out_h = oh, cfg.out_w = ow;
  buffer<T> x(c * h * w, skew), y(c * oh * ow, skew);
  x.fill_random();
  const auto kept = [](index_t i, index_t n) { return i < 0 ? 0 : i < n ? i : n - 1; };
  std::vector<double> want;
  for (index_t k = 0; k < c; ++k)
    for (index_t i = 0; i < oh; ++i)
      for (index_t j = 0; j < ow; ++j) {
        double sum = 0;
        for (int a = 0; a < (same_rows ? 1 : pattern::taps); ++a)
          for (int b = 0; b < Columns::taps; ++b) {
            const int ip = int(i) % pattern::period, jp = int(j) % Columns::period;
            const index_t row = same_rows ? i : kept(i / pattern::period * pattern::advance + pattern::delta(ip, a), h);
            const index_t column = kept(j / Columns::period * Columns::advance + Columns::delta(jp, b), w);
            sum += (same_rows ? 1.0 : double(pattern::weight_of(ip, a))) * double(Columns::weight_of(jp, b)) *
                   double(x.get((k * h + row) * w + column));
          }
        want.push_back(sum);
      }
  using strides = dims<dyn, dyn, dyn, fixed<1>>;
  const auto go = [&](auto rows) {
    launch(cuda::resize(cfg, make_view<const T>(x.device(), strides(c * h * w, h * w, w, {})), rows, cuda::resize_repeated<Columns>{},
                        pack(make_view(y.device(), strides(c * oh * ow, oh * ow, ow, {}))), pack(), cuda::identity_body{}));
  };
  if constexpr (same_rows)
    go(cuda::resize_same{});
  else
    go(cuda::resize_repeated<Rows>{});
  expect_close(y, want, rounding<T>() + 1e-6);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  resize_linear<float, 1, 4>(1, 6, 5, 7, 10, 14);
  resize_linear<float, 3, 4>(2, 3, 8, 9, 3, 11);
  resize_linear<f16, 3, 8>(2, 3, 8, 8, 16, 16);
  resize_linear<f16, 3, 8>(1, 5, 6, 7, 12, 14); // rows that end within a run
  resize_repeated<float, 4, doubled, void>(3, 5, 5, 28, 0);
  resize_repeated<f16, 8, doubled, doubled>(3, 14, 28, 28, 1);
  resize_repeated<f16, 8, doubled, doubled>(1, 14, 28, 27, 0); // cut off
  resize_repeated<float, 2, thirds, thirds>(2, 41, 14, 14, 0);
  resize_repeated<float, 4, thirds, void>(2, 3, 3, 13, 0);
  resize_repeated<int8_t, 16, fourfold, void>(2, 3, 3, 36, 0);
  resize_repeated<f16, 4, fourfold, fourfold>(2, 9, 36, 36, 0);
#endif
  resize_repeated<f16, 8, fourfold, void>(2, 3, 3, 35, 0);
  resize_linear<f16, 1, 8>(1, 16, 4, 4, 7, 9);
  resize_nearest();
  return finish();
}
