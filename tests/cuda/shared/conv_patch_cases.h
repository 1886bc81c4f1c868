// Defines the cases that the tests of convolutions from patches share.
// `Kernels` names the kernel under test, its weights' element type and how they are packed.
#pragma once

#include "cuda/tile/patch_loader.cuh"
#include "shared/contraction_cases.h"

namespace test {

/// Extents of one convolution with KH x KW taps; a schedule is mixed in.
template <class Schedule, index_t C, index_t F, index_t G, index_t KH, index_t KW, index_t Stride,
          index_t Dilation>
struct patch_case : Schedule {
  dyn batch, in_h, in_w, out_h, out_w, pad_top, pad_left;
  static constexpr fixed<G> groups{};
  static constexpr fixed<C> channels{};
  static constexpr fixed<F> filters{};
  static constexpr fixed<KH> kernel_h{};
  static constexpr fixed<KW> kernel_w{};
  static constexpr fixed<KH == 1 ? 1 : Stride> stride_h{};
  static constexpr fixed<Stride> stride_w{};
  static constexpr fixed<Dilation> dilation_h{}, dilation_w{};

  patch_case(index_t n, index_t h, index_t w, index_t pad) {
    batch = n, in_h = h, in_w = w;
    pad_top = KH == 1 ? 0 : pad, pad_left = pad;
    out_h = (h + 2 * index_t(pad_top) - Dilation * (KH - 1) - 1) / index_t(stride_h) + 1;
    out_w = (w + 2 * pad - Dilation * (KW - 1) - 1) / Stride + 1;
  }
};

/// The order of K, whatever tiles a kernel takes: that of one output.
template <class Config> struct one_output : Config {
  static constexpr int tile_h = 1, tile_w = 1, tile_groups = 1;
};

/// Weights as the kernels of Tensor Cores read them.
struct patch_weights {
  template <class Config> using layout = cuda::detail::patch_layout<one_output<Config>>;
  template <class Config>
  static index_t at(const Config &cfg, index_t k, index_t c, index_t ky, index_t kx) {
    using l = layout<Config>;
    return ((k * cfg.kernel_h + ky) * (l::taps_w * l::fold) + kx) * l::pixel + c;
  }
  template <class Config> static index_t size(const Config &cfg) {
    return cfg.groups * cfg.filters * layout<Config>::runs * 8;
  }
};

enum class order { nhwc, nchw };

/// Bias, relu and residual over an image in either order; with Prologue, relu(x * scale + shift)
/// before. Every missing weight is zero, and infinities lie in the image: what lies outside of a
/// window must not reach its sum.
template <class Kernels, class T, class Schedule, order Order, index_t C, index_t F, index_t G,
          index_t KH, index_t KW, index_t Stride = 1, index_t Dilation = 1, bool Prologue = false>
void conv_patch(index_t n, index_t h, index_t w, index_t pad, index_t skew = 0) {
  using config = patch_case<Schedule, C, F, G, KH, KW, Stride, Dilation>;
  using packing = typename Kernels::packing;
  const config cfg(n, h, w, pad);
  const index_t oh = cfg.out_h, ow = cfg.out_w, xc = C * G, yc = F * G;
  constexpr bool known = cuda::detail::promises_results<config>::value;
  name_case("%s patch %s n%ld %ldx%ld c%ld f%ld g%ld k%ldx%ld s%ld d%ld p%ld skew %ld%s%s",
            Kernels::name, Order == order::nhwc ? "nhwc" : "nchw", long(n), long(h), long(w),
            long(C), long(F), long(G), long(KH), long(KW), long(Stride), long(Dilation), long(pad),
            long(skew), Prologue ? " prologue" : "", known ? " known" : "");
  const auto x_at = [&](index_t b, index_t c, index_t y, index_t i) {
    return Order == order::nhwc ? ((b * h + y) * w + i) * xc + c : ((b * xc + c) * h + y) * w + i;
  };
  buffer<T> x(n * h * w * xc, skew);
  buffer<typename Kernels::weight> weights(packing::size(cfg));
  buffer<float> bias(yc, skew), scale(xc), shift(xc);
  buffer<T> residual(n * oh * ow * yc), y(n * oh * ow * yc, skew);
  x.fill_random();
  bias.fill_random();
  scale.fill_random();
  shift.fill_random();
  residual.fill_random();
  weights.fill(0);
  for (index_t k = 0; k < yc; ++k)
    for (index_t c = 0; c < C; ++c)
      for (index_t ky = 0; ky < KH; ++ky)
        for (index_t kx = 0; kx < KW; ++kx)
          weights.set(packing::at(cfg, k, c, ky, kx), random_float());
  weights.upload();
  auto want = convolve(
      cfg,
      [&](index_t b, index_t c, index_t iy, index_t ix) {
        const double v = double(x.get(x_at(b, c, iy, ix)));
        if (!Prologue)
          return v;
        const double s = v * double(scale.get(c)) + double(shift.get(c));
        return s > 0 ? s : 0;
      },
      [&](index_t k, index_t c, index_t ky, index_t kx) {
        return double(weights.get(packing::at(cfg, k, c, ky, kx)));
      });
  for (index_t i = 0; i < y.size(); ++i) {
    const double s = want[size_t(i)] + double(bias.get(i % yc));
    want[size_t(i)] = (s > 0 ? s : 0) + double(residual.get(i));
  }
  using last = dims<dyn, fixed<1>, dyn, fixed<xc>>;
  using first = dims<dyn, dyn, dyn, fixed<1>>;
  using y_pitch = std::conditional_t<known, cuda::multiple<yc>, dyn>;
  using out = dims<y_pitch, fixed<1>, y_pitch, fixed<yc>>;
  const auto y_strides = out(oh * ow * yc, {}, ow * yc, {});
  const auto weights_view = cuda::make_packed_weights<typename Kernels::weight>(weights.device());
  const auto outs = pack(make_view(y.device(), y_strides));
  const auto ins = pack(make_view<const float>(bias.device(), extents<0, 1, 0, 0>{}),
                        make_view<const T>(residual.device(), y_strides));
  const auto run = [&](const auto &image) {
    if constexpr (Prologue)
      launch(Kernels::conv(cfg, image, weights_view, outs, ins, bias_relu_add{}, scale_shift_relu{},
                           pack(make_view<const float>(scale.device(), extents<1>{}),
                                make_view<const float>(shift.device(), extents<1>{}))));
    else
      launch(Kernels::conv(cfg, image, weights_view, outs, ins, bias_relu_add{}));
  };
  const T *const image = x.size() > 0 ? x.device() : nullptr;
  if constexpr (Order == order::nhwc)
    run(make_view<const T>(image, last(h * w * xc, {}, w * xc, {})));
  else
    run(make_view<const T>(image, first(xc * h * w, h * w, w, {})));
  expect_close(y, want, Kernels::template tolerance<T>());
}

/// An infinity in the image reaches exactly the outputs whose windows hold it.
template <class Kernels, class Schedule, index_t C, index_t K, index_t Stride>
void conv_patch_infinity(index_t h, index_t w, index_t pad) {
  using config = patch_case<Schedule, C, 8, 1, K, K, Stride, 1>;
  using layout = patch_weights::layout<config>;
  const config cfg(1, h, w, pad);
  const index_t oh = cfg.out_h, ow = cfg.out_w, iy = h / 2, ix = w / 2;
  name_case("%s patch of %ldx%ld c%ld k%ld s%ld with an infinity", Kernels::name, long(h), long(w),
            long(C), long(K), long(Stride));
  buffer<f16> x(h * w * C);
  buffer<typename Kernels::weight> weights(8 * layout::runs * 8);
  buffer<float> y(oh * ow * 8);
  x.fill(0);
  x.set((iy * w + ix) * C, INFINITY);
  x.upload();
  weights.fill(0);
  for (index_t k = 0; k < 8; ++k)
    for (index_t ky = 0; ky < K; ++ky)
      for (index_t kx = 0; kx < K; ++kx)
        for (index_t c = 0; c < C; ++c)
          weights.set(((k * K + ky) * layout::taps_w * layout::fold + kx) * layout::pixel + c, 1);
  weights.upload();
  using four = dims<dyn, fixed<1>, dyn, fixed<C>>;
  launch(Kernels::conv(
      cfg, make_view<const f16>(x.device(), four(h * w * C, {}, w * C, {})),
      cuda::make_packed_weights<typename Kernels::weight>(weights.device()),
      pack(make_view(y.device(), dims<dyn, fixed<1>, dyn, fixed<8>>(oh * ow * 8, {}, ow * 8, {}))),
      pack(), cuda::identity_body{}));
  y.download();
  bool good = true;
  for (index_t i = 0; i < oh; ++i)
    for (index_t j = 0; j < ow; ++j)
      for (index_t k = 0; k < 8; ++k) {
        const index_t ty = iy - (i * Stride - pad), tx = ix - (j * Stride - pad);
        const bool sees = ty >= 0 && ty < K && tx >= 0 && tx < K;
        good &= y.get((i * ow + j) * 8 + k) == (sees ? INFINITY : 0.0f);
      }
  record(good, "an infinity outside of the window reaches the sum, or one inside does not");
}

} // namespace test
