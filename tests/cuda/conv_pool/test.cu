// Architectures: 900a
//
// Tests of conv_pool_sm90.
#include "shared/conv_patch_cases.h"
#include "cuda/conv_pool/kernel.cuh"

using namespace test;

namespace {

struct bias_relu {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> sum, f32<L> bias) const {
    return relu<L>(sum + bias);
  }
};
/// Two results: what is given, kNaN for NaN, which is equal to itself; and twice that and a
/// residual.
constexpr float kNaN = 1000;
struct itself_and_twice {
  template <class L>
  TENON_FN results<f32<L>, f32<L>> operator()(L, f32<L> x, f32<L> residual) const {
    const f32<L> it = select<L>(isnan<L>(x), f32<L>{} + kNaN, x);
    return pack(it, it * 2.0f + residual);
  }
};

/// Windows of Pool x Pool of a convolution; a schedule is mixed in.
template <class Schedule, index_t C, index_t F, index_t K, index_t Stride, int Pool, int PoolStride,
          int PoolPad>
struct pool_case : patch_case<Schedule, C, F, 1, K, K, Stride, 1> {
  static constexpr int pool_h = Pool, pool_w = Pool;
  static constexpr int pool_stride_h = PoolStride, pool_stride_w = PoolStride;
  static constexpr int pool_top = PoolPad, pool_left = PoolPad;
  dyn pooled_h, pooled_w;

  /// `beyond`: rows and columns of windows that end behind the border.
  pool_case(index_t n, index_t h, index_t w, index_t pad, index_t beyond)
      : patch_case<Schedule, C, F, 1, K, K, Stride, 1>(n, h, w, pad) {
    pooled_h = (index_t(this->out_h) + PoolPad + beyond - Pool) / PoolStride + 1;
    pooled_w = (index_t(this->out_w) + PoolPad + beyond - Pool) / PoolStride + 1;
  }
};

/// The largest of relu(sum + bias), rounded to R, NaN where a window has one; and twice that and a
/// residual. `Nan`: one pixel of the image is none.
template <class R, class Schedule, order Order, index_t C, index_t F, index_t K, index_t Stride,
          int Pool, int PoolStride, int PoolPad, bool Prologue = false, bool Nan = false>
void conv_pool(index_t n, index_t h, index_t w, index_t pad, index_t beyond, index_t skew = 0) {
  using config = pool_case<Schedule, C, F, K, Stride, Pool, PoolStride, PoolPad>;
  using layout = cuda::detail::patch_layout<cuda::detail::wide_patch<config, 1>>;
  const config cfg(n, h, w, pad, beyond);
  const index_t oh = cfg.out_h, ow = cfg.out_w, ph = cfg.pooled_h, pw = cfg.pooled_w;
  constexpr bool known = cuda::detail::promises_results<config>::value;
  name_case("conv_pool %s n%ld %ldx%ld c%ld f%ld k%ld s%ld p%ld, windows of %d s%d p%d to %ldx%ld "
            "skew %ld%s%s%s",
            Order == order::nhwc ? "nhwc" : "nchw", long(n), long(h), long(w), long(C), long(F),
            long(K), long(Stride), long(pad), Pool, PoolStride, PoolPad, long(ph), long(pw),
            long(skew), Prologue ? " prologue" : "", known ? " known" : "", Nan ? " NaN" : "");
  const auto weight_at = [](index_t k, index_t c, index_t ky, index_t kx) {
    constexpr index_t across = layout::taps_w * layout::fold;
    return ((k * K + ky) * across + kx) * layout::pixel + c;
  };
  const auto x_at = [&](index_t b, index_t c, index_t y, index_t i) {
    return Order == order::nhwc ? ((b * h + y) * w + i) * C + c : ((b * C + c) * h + y) * w + i;
  };
  buffer<R> x(n * h * w * C, skew), weights(F * layout::runs * 8);
  buffer<float> bias(F, skew), scale(C), shift(C), twice(n * ph * pw * F);
  buffer<R> residual(n * ph * pw * F), y(n * ph * pw * F, skew);
  x.fill_random();
  if (Nan) {
    x.set(x_at(0, C - 1, h / 2, w / 2), tenon::compute_t<R>(NAN));
    x.upload();
  }
  bias.fill_random();
  scale.fill_random();
  shift.fill_random();
  residual.fill_random();
  weights.fill(0);
  for (index_t k = 0; k < F; ++k)
    for (index_t c = 0; c < C; ++c)
      for (index_t ky = 0; ky < K; ++ky)
        for (index_t kx = 0; kx < K; ++kx)
          weights.set(weight_at(k, c, ky, kx), random_float());
  weights.upload();
  const auto sums = convolve(
      cfg,
      [&](index_t b, index_t c, index_t iy, index_t ix) {
        const double v = double(x.get(x_at(b, c, iy, ix)));
        const double s = v * double(scale.get(c)) + double(shift.get(c));
        return !Prologue ? v : s > 0 ? s : 0;
      },
      [&](index_t k, index_t c, index_t ky, index_t kx) {
        return double(weights.get(weight_at(k, c, ky, kx)));
      });
  std::vector<double> want, want_twice;
  for (index_t b = 0; b < n; ++b)
    for (index_t py = 0; py < ph; ++py)
      for (index_t px = 0; px < pw; ++px)
        for (index_t k = 0; k < F; ++k) {
          double largest = -INFINITY;
          for (index_t t = 0; t < Pool * Pool; ++t) {
            const index_t oy = py * PoolStride - PoolPad + t / Pool,
                          ox = px * PoolStride - PoolPad + t % Pool;
            if (oy < 0 || oy >= oh || ox < 0 || ox >= ow)
              continue;
            const double s = sums[size_t(((b * oh + oy) * ow + ox) * F + k)] + double(bias.get(k)),
                         r = s != s ? s : rounded<R>(s > 0 ? s : 0);
            largest = largest != largest || r <= largest ? largest : r;
          }
          if (largest != largest)
            largest = double(kNaN);
          want.push_back(largest);
          want_twice.push_back(2 * largest +
                               double(residual.get(((b * ph + py) * pw + px) * F + k)));
        }
  using last = dims<dyn, fixed<1>, dyn, fixed<C>>;
  using first = dims<dyn, dyn, dyn, fixed<1>>;
  using pitch = std::conditional_t<known, cuda::multiple<F>, dyn>;
  using out = dims<pitch, fixed<1>, pitch, fixed<F>>;
  const auto strides = out(ph * pw * F, {}, pw * F, {});
  const auto run = [&](const auto &image, auto... prologue) {
    launch(cuda::conv_pool_sm90<R>(
        cfg, image, cuda::make_packed_weights<R>(weights.device()),
        pack(make_view<const float>(bias.device(), extents<0, 1, 0, 0>{})), bias_relu{},
        pack(make_view(y.device(), strides), make_view(twice.device(), strides)),
        pack(make_view<const R>(residual.device(), strides)), itself_and_twice{}, prologue...));
  };
  const auto run_on = [&](const auto &image) {
    if constexpr (Prologue)
      run(image, scale_shift_relu{},
          pack(make_view<const float>(scale.device(), extents<1>{}),
               make_view<const float>(shift.device(), extents<1>{})));
    else
      run(image);
  };
  const R *const image = x.device();
  if constexpr (Order == order::nhwc)
    run_on(make_view<const R>(image, last(h * w * C, {}, w * C, {})));
  else
    run_on(make_view<const R>(image, first(C * h * w, h * w, w, {})));
  const double tolerance = std::is_same_v<R, bf16> ? 1e-2 : 2e-3;
  expect_close(y, want, tolerance);
  expect_close(twice, want_twice, 2 * tolerance);
}

// Two blocks at most, so that each takes several tiles.
template <int H, int N, int Consumers>
using rows = cuda::conv_pool_sm90_schedule<H, N, Consumers, 2>;

} // namespace

int main() {
  using h = f16;
  using single = rows<1, 32, 1>;
  using pair = rows<2, 32, 2>;
  using tall = rows<6, 64, 3>;
#if !defined(TENON_INSTANCES)
  using wide = rows<2, 96, 1>;
  // The first layers of ResNet and DenseNet; ragged in all directions.
  conv_pool<h, tall, order::nchw, 3, 64, 7, 2, 3, 2, 1>(2, 46, 150, 3, 1);
  conv_pool<h, known_runs<tall>, order::nchw, 3, 64, 7, 2, 3, 2, 1>(1, 50, 140, 3, 1);
  conv_pool<h, pair, order::nhwc, 3, 40, 3, 2, 3, 2, 1>(2, 19, 137, 1, 1, 1);
  // Windows that do not overlap, of two rows or columns; that overlap at a stride of one.
  conv_pool<h, pair, order::nchw, 3, 24, 3, 1, 2, 2, 0>(1, 14, 70, 1, 0);
  conv_pool<h, single, order::nchw, 2, 16, 3, 1, 2, 1, 0>(1, 9, 70, 1, 0);
  conv_pool<h, wide, order::nchw, 3, 100, 4, 2, 2, 2, 1>(1, 17, 36, 1, 1);
  // Windows that end beyond the border, and such as are narrower than a tile.
  conv_pool<h, tall, order::nchw, 1, 32, 5, 1, 3, 2, 0>(1, 10, 12, 2, 1);
  conv_pool<h, single, order::nhwc, 4, 8, 3, 2, 3, 2, 1>(3, 5, 6, 1, 1);
  // Results below zero stay what they are; NaN wins.
  conv_pool<h, pair, order::nchw, 3, 32, 3, 2, 3, 2, 1, false, true>(1, 23, 41, 1, 1);
#endif
  conv_pool<h, pair, order::nchw, 3, 32, 3, 2, 3, 2, 1, true>(1, 11, 21, 1, 1);
  conv_pool<bf16, pair, order::nchw, 3, 40, 3, 2, 3, 2, 1>(2, 19, 37, 1, 1);
  return finish();
}
