// Architectures: 800
//
// Tests of depthwise, pooling and resize.
#include "cuda/depthwise/kernel.cuh"
#include "cuda/pool/kernel.cuh"
#include "cuda/resize/kernel.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

using namespace test;

namespace {

struct add_relu {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> acc, f32<L> bias) const { return relu<L>(acc + bias); }
};
template <index_t C> using nhwc = dims<dyn, fixed<1>, dyn, fixed<C>>;
template <index_t C> nhwc<C> nhwc_strides(index_t h, index_t w) { return {h * w * C, {}, w * C, {}}; }

template <int V, int Columns, index_t C, index_t M, index_t K, index_t Stride, index_t Dilation, bool Whole>
struct depthwise_case : cuda::window_defaults {
  static constexpr bool whole_runs = Whole;
  static constexpr int vector = V, columns = Columns;
  dyn batch, in_h, in_w, out_h, out_w, pad_top, pad_left;
  static constexpr fixed<C> channels{};
  static constexpr fixed<M> multiplier{};
  static constexpr fixed<K> kernel_h{}, kernel_w{};
  static constexpr fixed<Stride> stride_h{}, stride_w{};
  static constexpr fixed<Dilation> dilation_h{}, dilation_w{};
};

template <class T, int V, int Columns, index_t C, index_t M, index_t K, index_t Stride, index_t Dilation, bool Whole = false>
void depthwise(index_t n, index_t h, index_t w, index_t pad, index_t skew = 0) {
  name_case("depthwise n%ld %ldx%ld c%ld m%ld k%ld s%ld d%ld p%ld vector %d columns %d skew %ld", long(n), long(h), long(w),
            long(C), long(M), long(K), long(Stride), long(Dilation), long(pad), V, Columns, long(skew));
  depthwise_case<V, Columns, C, M, K, Stride, Dilation, Whole> cfg;
  const index_t span = Dilation * (K - 1) + 1, oh = (h + 2 * pad - span) / Stride + 1, ow = (w + 2 * pad - span) / Stride + 1;
  const index_t k = C * M;
  cfg.batch = n, cfg.in_h = h, cfg.in_w = w, cfg.out_h = oh, cfg.out_w = ow, cfg.pad_top = pad, cfg.pad_left = pad;
  buffer<T> x(n * h * w * C, skew), y(n * oh * ow * k, skew), weights(K * K * k, skew);
  buffer<float> bias(k, skew);
  x.fill_random();
  weights.fill_random();
  bias.fill_random();
  std::vector<double> want;
  for (index_t b = 0; b < n; ++b)
    for (index_t i = 0; i < oh; ++i)
      for (index_t j = 0; j < ow; ++j)
        for (index_t c = 0; c < k; ++c) {
          double sum = double(bias.get(c));
          for (index_t ky = 0; ky < K; ++ky)
            for (index_t kx = 0; kx < K; ++kx) {
              const index_t iy = i * Stride - pad + ky * Dilation, ix = j * Stride - pad + kx * Dilation;
              if (iy >= 0 && iy < h && ix >= 0 && ix < w)
                sum += double(x.get(((b * h + iy) * w + ix) * C + c / M)) * double(weights.get((ky * K + kx) * k + c));
            }
          want.push_back(sum > 0 ? sum : 0);
        }
  launch(cuda::depthwise(cfg, make_view<const T>(x.device(), nhwc_strides<C>(h, w)), static_cast<const T *>(weights.device()),
                         pack(make_view(y.device(), nhwc_strides<k>(oh, ow))),
                         pack(make_view<const float>(bias.device(), extents<0, 1, 0, 0>{})), add_relu{}));
  expect_close(y, want, rounding<T>());
}

template <class Kind, class A, int Along, int V> struct pooling_case : cuda::window_defaults {
  using kind = Kind;
  using accumulator = A;
  static constexpr int along = Along, vector = V;
  dyn batch, channels, in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  dyn pad_top, pad_left, pad_bottom, pad_right;
};

/// Mode: 0 maximum, 1 mean, 2 mean with padding. Step: what strides are multiples of by their types.
template <class T, int Mode, int Along, int V, int Step = 1> void pooling(index_t n, index_t c, index_t h, index_t w, index_t kernel, index_t stride, index_t dilation, index_t pad, bool ceil) {
  name_case("pooling mode %d along %d n%ld c%ld %ldx%ld k%ld s%ld d%ld p%ld %s", Mode, Along, long(n), long(c), long(h), long(w),
            long(kernel), long(stride), long(dilation), long(pad), ceil ? "ceil" : "floor");
  using kind = std::conditional_t<Mode == 0, cuda::pooling_max, std::conditional_t<Mode == 1, cuda::pooling_mean, cuda::pooling_mean_padded>>;
  pooling_case<kind, compute_t<T>, Along, V> cfg;
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
  depthwise<float, 4, 4, 32, 1, 3, 1, 1>(2, 9, 11, 1);
  depthwise<float, 4, 4, 32, 1, 3, 1, 1>(1, 9, 11, 1, 1);
  depthwise<float, 4, 2, 30, 1, 3, 2, 1>(1, 10, 13, 1);
  depthwise<float, 4, 4, 5, 3, 3, 1, 1>(1, 6, 7, 1);
  depthwise<f16, 8, 2, 24, 1, 3, 1, 1>(2, 6, 5, 1);
  depthwise<float, 1, 1, 3, 1, 7, 1, 1>(1, 8, 9, 3);
  depthwise<f16, 4, 4, 32, 1, 7, 1, 1, true>(2, 9, 10, 3);
  depthwise<float, 4, 2, 24, 1, 3, 1, 2, true>(1, 7, 5, 2);
  pooling<float, 0, 1, 4>(2, 12, 9, 8, 3, 2, 1, 1, false);
  pooling<float, 0, 3, 4>(1, 3, 10, 13, 2, 2, 1, 0, true);
  pooling<float, 1, 1, 4>(1, 7, 8, 8, 3, 2, 1, 1, true);
  pooling<float, 2, 1, 4>(1, 8, 8, 7, 3, 2, 1, 1, true);
  pooling<float, 2, 3, 2>(1, 2, 7, 9, 3, 1, 2, 2, false);
  pooling<int8_t, 0, 1, 16>(1, 20, 6, 6, 2, 1, 1, 1, false);
  pooling<uint8_t, 0, 1, 4>(1, 5, 6, 6, 2, 1, 1, 1, false);
  pooling<f16, 0, 1, 8, 8>(2, 16, 9, 8, 3, 2, 1, 1, false);
  pooling<float, 1, 1, 4, 4>(1, 12, 8, 8, 3, 2, 1, 1, true);
  resize_linear<float, 1, 4>(1, 6, 5, 7, 10, 14);
  resize_linear<float, 3, 4>(2, 3, 8, 9, 3, 11);
#endif
  depthwise<float, 4, 3, 8, 1, 5, 2, 2>(1, 17, 20, 3);
  depthwise<f16, 2, 2, 12, 1, 5, 2, 1, true>(1, 11, 8, 2);
  pooling<f16, 1, 1, 8>(1, 16, 7, 7, 7, 1, 1, 0, false);
  pooling<float, 2, 1, 4, 4>(1, 8, 0, 5, 2, 1, 1, 1, false); // no pixels
  pooling<int8_t, 0, 1, 16, 4>(1, 36, 6, 6, 2, 1, 1, 1, false);
  resize_linear<f16, 1, 8>(1, 16, 4, 4, 7, 9);
  resize_nearest();
  return finish();
}
