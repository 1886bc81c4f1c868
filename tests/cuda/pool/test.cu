// Architectures: 800
//
// Tests of pooling.
#include "cuda/pool/kernel.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

using namespace test;

namespace {

template <class Kind, class A, int Along, int V, bool Slides> struct pooling_case : cuda::window_defaults {
  using kind = Kind;
  using accumulator = A;
  static constexpr int along = Along, vector = V;
  static constexpr bool slides = Slides;
  dyn batch, channels, in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  dyn pad_top, pad_left, pad_bottom, pad_right;
};

/// Mode: 0 maximum, 1 mean, 2 mean with padding. Step: what strides are multiples of by their types.
template <class T, int Mode, int Along, int V, int Step = 1, bool Slides = false> void pooling(index_t n, index_t c, index_t h, index_t w, index_t kernel, index_t stride, index_t dilation, index_t pad, bool ceil) {
  name_case("pooling mode %d along %d%s n%ld c%ld %ldx%ld k%ld s%ld d%ld p%ld %s", Mode, Along, Slides ? " sliding" : "", long(n), long(c), long(h), long(w),
            long(kernel), long(stride), long(dilation), long(pad), ceil ? "ceil" : "floor");
  using kind = std::conditional_t<Mode == 0, cuda::pooling_max, std::conditional_t<Mode == 1, cuda::pooling_mean, cuda::pooling_mean_padded>>;
  pooling_case<kind, compute_t<T>, Along, V, Slides> cfg;
  const index_t span = dilation * (kernel - 1) + 1;
  const auto out = [&](index_t in) {
    index_t o = (in + 2 * pad - span + (ceil ? stride - 1 : 0)) / stride + 1;
    return ceil && (o - 1) * stride >= in + pad ? o - 1 : o;
  };
  const index_t oh = out(h), ow = out(w);
  cfg.batch = n, cfg.channels = c, cfg.in_h = h, cfg.in_w = w, cfg.out_h = oh, cfg.out_w = ow;
  cfg.kernel_h = cfg.kernel_w = kernel, cfg.stride_h = cfg.stride_w = stride, cfg.dilation_h = cfg.dilation_w = dilation;
  cfg.pad_top = cfg.pad_left = cfg.pad_bottom = cfg.pad_right = pad;
  buffer<T> x(n * c * h * w), y(n * c * oh * ow);
  x.fill_random();
  const auto x_at = [&](index_t b, index_t k, index_t i, index_t j) {
    return Along == 1 ? ((b * h + i) * w + j) * c + k : ((b * c + k) * h + i) * w + j;
  };
  std::vector<double> want(size_t(y.size()));
  for (index_t b = 0; b < n; ++b)
    for (index_t k = 0; k < c; ++k)
      for (index_t i = 0; i < oh; ++i)
        for (index_t j = 0; j < ow; ++j) {
          double sum = Mode == 0 ? -1e300 : 0;
          int inside = 0, padded = 0;
          for (index_t ky = 0; ky < kernel; ++ky)
            for (index_t kx = 0; kx < kernel; ++kx) {
              const index_t iy = i * stride - pad + ky * dilation, ix = j * stride - pad + kx * dilation;
              padded += iy < h + pad && ix < w + pad;
              if (iy < 0 || iy >= h || ix < 0 || ix >= w)
                continue;
              ++inside;
              const double v = double(x.get(x_at(b, k, iy, ix)));
              sum = Mode == 0 ? (v > sum ? v : sum) : sum + v;
            }
          const index_t to = Along == 1 ? ((b * oh + i) * ow + j) * c + k : ((b * c + k) * oh + i) * ow + j;
          want[to] = Mode == 0 ? sum : Mode == 1 ? sum / inside : sum / padded;
        }
  using pitch = std::conditional_t<(Step > 1), cuda::multiple<Step>, dyn>;
  using strides = std::conditional_t<Along == 1, dims<pitch, fixed<1>, pitch, pitch>, dims<dyn, dyn, dyn, fixed<1>>>;
  const auto strides_of = [&](index_t hh, index_t ww) {
    if constexpr (Along == 1)
      return strides(hh * ww * c, {}, ww * c, c);
    else
      return strides(hh * ww * c, hh * ww, ww, {});
  };
  launch(cuda::pooling(cfg, make_view<const T>(x.size() > 0 ? x.device() : nullptr, strides_of(h, w)), pack(make_view(y.device(), strides_of(oh, ow))),
                       pack(), cuda::identity_body{}));
  expect_close(y, want, rounding<T>());
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  pooling<float, 0, 1, 4>(2, 12, 9, 8, 3, 2, 1, 1, false);
  pooling<float, 0, 3, 4>(1, 3, 10, 13, 2, 2, 1, 0, true);
  pooling<float, 1, 1, 4>(1, 7, 8, 8, 3, 2, 1, 1, true);
  pooling<float, 2, 1, 4>(1, 8, 8, 7, 3, 2, 1, 1, true);
  pooling<float, 2, 3, 2>(1, 2, 7, 9, 3, 1, 2, 2, false);
  pooling<int8_t, 0, 1, 16>(1, 20, 6, 6, 2, 1, 1, 1, false);
  pooling<uint8_t, 0, 1, 4>(1, 5, 6, 6, 2, 1, 1, 1, false);
  pooling<f16, 0, 1, 8, 8>(2, 16, 9, 8, 3, 2, 1, 1, false);
  pooling<float, 1, 1, 4, 4>(1, 12, 8, 8, 3, 2, 1, 1, true);
  pooling<float, 0, 3, 4, 1, true>(2, 3, 11, 13, 5, 1, 1, 2, false);
  pooling<float, 1, 3, 4, 1, true>(1, 2, 9, 30, 9, 1, 1, 4, false);
  pooling<f16, 2, 3, 2, 1, true>(1, 3, 6, 7, 3, 1, 1, 2, false);
  pooling<float, 1, 3, 4, 1, true>(1, 2, 5, 4, 7, 1, 1, 3, false); // windows wider than the image
#endif
  pooling<float, 2, 3, 4, 1, true>(1, 2, 7, 9, 4, 1, 1, 1, false);
  pooling<f16, 1, 1, 8>(1, 16, 7, 7, 7, 1, 1, 0, false);
  pooling<float, 2, 1, 4, 4>(1, 8, 0, 5, 2, 1, 1, 1, false); // no pixels
  pooling<int8_t, 0, 1, 16, 4>(1, 36, 6, 6, 2, 1, 1, 1, false);
  pooling<uint8_t, 0, 1, 8, 8>(2, 16, 9, 8, 3, 2, 1, 1, false); // four bytes at a time
  pooling<int8_t, 0, 1, 16, 16>(1, 32, 7, 6, 3, 1, 2, 2, false);
  return finish();
}
