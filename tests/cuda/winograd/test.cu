// Architectures: 750 800
//
// Tests of conv_winograd.
#include "shared/contraction_cases.h"
#include "cuda/winograd/kernel.cuh"

using namespace test;

namespace {

using plain = cuda::winograd_schedule<32, 64, 8, 16, 3>;
using narrow = cuda::winograd_schedule<16, 32, 16, 8, 2>;
using pairs = cuda::winograd_schedule<32, 32, 8, 4, 3>;
template <int S> using split = cuda::winograd_schedule<16, 32, 8, 8, 3, S>;

/// G g G^T.
void transform(const double (&g)[3][3], double (&u)[4][4]) {
  const double G[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 4; ++x) {
      u[y][x] = 0;
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
          u[y][x] += G[y][i] * g[i][j] * G[x][j];
    }
}

struct extents_of_case {
  index_t n, h, w, pad_top, pad_left, pad_bottom, pad_right;
};

/// Convolution with bias, relu and residual; with Prologue x is relu(x * scale + shift). Nhwc:
/// channels are neighbours in x.
template <class Schedule, index_t C, index_t F, bool Prologue = false, bool Nhwc = true,
          class T = float>
void winograd(const extents_of_case &e, double tolerance = 2e-6) {
  conv_case<Schedule, C, F, 3> cfg(e.n, e.h, e.w, 1, 1, e.pad_top);
  cfg.pad_left = e.pad_left;
  const index_t oh = e.h + e.pad_top + e.pad_bottom - 2, ow = e.w + e.pad_left + e.pad_right - 2;
  cfg.out_h = oh, cfg.out_w = ow;
  name_case("winograd n%ld %ldx%ld to %ldx%ld c%ld f%ld splits %d%s%s", long(e.n), long(e.h),
            long(e.w), long(oh), long(ow), long(C), long(F), Schedule::splits,
            Prologue ? " prologue" : "", Nhwc ? "" : " nchw");
  const index_t tile = Schedule::tile_n, tiles = (F + tile - 1) / tile;
  buffer<T> x(e.n * C * e.h * e.w);
  buffer<float> u(tiles * tile * C * 16), bias(F), scale(C), shift(C);
  buffer<float> residual(e.n * oh * ow * F), y(e.n * oh * ow * F);
  x.fill_random();
  bias.fill_random();
  scale.fill_random();
  shift.fill_random();
  residual.fill_random();
  std::vector<double> g(size_t(F * C * 9));
  for (double &v : g)
    v = double(random_float());
  u.fill(0);
  for (index_t k = 0; k < F; ++k)
    for (index_t c = 0; c < C; ++c) {
      double taps[3][3], products[4][4];
      for (int t = 0; t < 9; ++t)
        taps[t / 3][t % 3] = g[size_t((k * C + c) * 9 + t)];
      transform(taps, products);
      for (int p = 0; p < 16; ++p)
        u.set(((k / tile * C + c) * 16 + p) * tile + k % tile, float(products[p / 4][p % 4]));
    }
  u.upload();
  const auto x_at = [&](index_t b, index_t c, index_t iy, index_t ix) {
    return Nhwc ? ((b * e.h + iy) * e.w + ix) * C + c : ((b * C + c) * e.h + iy) * e.w + ix;
  };
  auto want = convolve(
      cfg,
      [&](index_t b, index_t c, index_t iy, index_t ix) {
        const double given = double(x.get(x_at(b, c, iy, ix)));
        if (!Prologue)
          return given;
        const double s = given * double(scale.get(c)) + double(shift.get(c));
        return s > 0 ? s : 0;
      },
      [&](index_t k, index_t c, index_t ky, index_t kx) {
        return g[size_t((k * C + c) * 9 + ky * 3 + kx)];
      });
  for (index_t i = 0; i < y.size(); ++i) {
    const double s = want[i] + double(bias.get(i % F));
    want[i] = (s > 0 ? s : 0) + double(residual.get(i));
  }
  using out = dims<dyn, fixed<1>, dyn, fixed<F>>;
  const out y_strides(oh * ow * F, {}, ow * F, {});
  const index_t patches = e.n * ((oh + 1) / 2) * ((ow + 1) / 2);
  split_buffers splits((patches + Schedule::tile_t - 1) / Schedule::tile_t * tiles,
                       Schedule::splits, 16 * Schedule::tile_t, Schedule::tile_n);
  const auto x_strides = [&] {
    if constexpr (Nhwc)
      return dims<dyn, fixed<1>, dyn, fixed<C>>(e.h * e.w * C, {}, e.w * C, {});
    else
      return dims<dyn, dyn, dyn, fixed<1>>(C * e.h * e.w, e.h * e.w, e.w, {});
  }();
  const auto make = [&](auto... prologue) {
    return cuda::conv_winograd(cfg, make_view<const T>(x.device(), x_strides),
                               cuda::make_packed_weights<float>(u.device()),
                               pack(make_view(y.device(), y_strides)),
                               pack(make_view<const float>(bias.device(), extents<0, 1, 0, 0>{}),
                                    make_view<const float>(residual.device(), y_strides)),
                               bias_relu_add{}, splits.scratch(), prologue...);
  };
  const auto kernel = [&] {
    if constexpr (Prologue)
      return make(scale_shift_relu{}, pack(make_view<const float>(scale.device(), extents<1>{}),
                                           make_view<const float>(shift.device(), extents<1>{})));
    else
      return make();
  }();
  launch(kernel);
  expect_close(y, want, tolerance);
  if (Schedule::splits > 1) {
    launch(kernel); // counters are ready for the next run
    expect_close(y, want, tolerance);
    splits.expect_zero();
  }
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  winograd<plain, 16, 64>({1, 8, 8, 1, 1, 1, 1});
  winograd<plain, 13, 70>({2, 7, 9, 1, 1, 1, 1});
  winograd<plain, 8, 5>({1, 5, 4, 0, 0, 0, 0});
  winograd<plain, 24, 33>({1, 6, 11, 2, 0, 0, 2});
  winograd<narrow, 20, 40>({3, 5, 5, 1, 1, 1, 1});
  winograd<narrow, 3, 32>({1, 9, 14, 1, 1, 1, 1});
  winograd<narrow, 16, 32>({1, 1, 1, 1, 1, 1, 1});
  winograd<pairs, 9, 20>({1, 6, 7, 1, 2, 1, 2});
  winograd<pairs, 40, 64>({1, 14, 14, 1, 1, 1, 1});
  winograd<split<3>, 40, 40>({1, 7, 7, 1, 1, 1, 1});
  winograd<split<4>, 12, 32>({2, 4, 6, 1, 1, 1, 1});
  winograd<plain, 16, 64, true>({1, 7, 7, 1, 1, 1, 1});
  winograd<narrow, 7, 32, false, false>({2, 6, 7, 1, 1, 1, 1});
#endif
  winograd<split<2>, 21, 30, true>({1, 6, 9, 1, 1, 1, 1});
  winograd<pairs, 8, 16, true, true, f16>({1, 6, 6, 1, 1, 1, 1});
  return finish();
}
