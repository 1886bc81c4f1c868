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

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  resize_linear<float, 1, 4>(1, 6, 5, 7, 10, 14);
  resize_linear<float, 3, 4>(2, 3, 8, 9, 3, 11);
  resize_linear<f16, 3, 8>(2, 3, 8, 8, 16, 16);
  resize_linear<f16, 3, 8>(1, 5, 6, 7, 12, 14); // rows that end within a run
#endif
  resize_linear<f16, 1, 8>(1, 16, 4, 4, 7, 9);
  resize_nearest();
  return finish();
}
