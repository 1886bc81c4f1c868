// Defines the cases of convolutions from patches that the tests of their generations share.
// `Kernels` names the kernel under test, its weights' element type and how they are packed.
#pragma once

#include "cuda/conv_patch/kernel.cuh"
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

/// Every shape that the kernel distinguishes, ragged in all directions.
template <class Kernels> void conv_patch_cases() {
  using small = cuda::conv_patch_schedule<4, 8, 2, 8, 2, 1>;
  using groups4 = cuda::conv_patch_schedule<8, 8, 4, 8, 2, 2>;
  using odd = cuda::conv_patch_schedule<7, 7, 1, 24, 4, 1>;
  using wide = cuda::conv_patch_schedule<4, 16, 1, 32, 2, 2>;
  using line = cuda::conv_patch_schedule<1, 32, 1, 16, 2, 2>;
  using h = f16;
  // Groups: RegNet's, whose number is odd; filters beside the tile; several parts of a group.
  conv_patch<Kernels, h, small, order::nhwc, 8, 8, 3, 3, 3>(2, 9, 11, 1);
  conv_patch<Kernels, h, groups4, order::nhwc, 8, 8, 13, 3, 3, 2>(1, 12, 15, 1);
  conv_patch<Kernels, h, small, order::nhwc, 8, 8, 2, 3, 3>(1, 6, 5, 1, 1);
  conv_patch<Kernels, h, groups4, order::nhwc, 16, 16, 5, 3, 3>(1, 8, 9, 1);
  conv_patch<Kernels, h, odd, order::nhwc, 24, 24, 3, 3, 3>(1, 7, 7, 1);
  conv_patch<Kernels, h, wide, order::nhwc, 48, 40, 2, 3, 3, 2>(1, 9, 18, 1);
  conv_patch<Kernels, h, small, order::nhwc, 12, 10, 3, 3, 3>(1, 5, 9, 1);
  conv_patch<Kernels, h, wide, order::nhwc, 24, 36, 2, 3, 5, 3, 2>(1, 13, 19, 2);
  conv_patch<Kernels, h, small, order::nhwc, 4, 4, 6, 3, 3, 2>(1, 8, 10, 1);
  conv_patch<Kernels, h, line, order::nhwc, 16, 16, 3, 1, 5, 2>(2, 1, 70, 2);
  // First layers: planes of three channels, strides of one, two and four.
  conv_patch<Kernels, h, wide, order::nchw, 3, 40, 1, 3, 3, 2>(2, 19, 37, 1);
  conv_patch<Kernels, h, wide, order::nchw, 3, 64, 1, 7, 7, 2>(1, 22, 30, 3);
  conv_patch<Kernels, h, wide, order::nchw, 3, 32, 1, 4, 4, 4>(1, 17, 40, 0);
  conv_patch<Kernels, h, wide, order::nchw, 3, 20, 1, 3, 3, 1>(1, 9, 17, 1);
  conv_patch<Kernels, h, wide, order::nhwc, 3, 32, 1, 3, 3, 2>(1, 10, 21, 1);
  conv_patch<Kernels, h, wide, order::nchw, 1, 32, 1, 5, 5, 2, 1>(1, 10, 21, 2);
  conv_patch<Kernels, h, line, order::nchw, 2, 16, 1, 1, 7, 2>(2, 1, 45, 3);
  conv_patch<Kernels, float, wide, order::nchw, 3, 32, 1, 7, 7, 2>(1, 13, 20, 3);
  conv_patch<Kernels, h, wide, order::nchw, 5, 32, 1, 3, 3, 1>(1, 9, 17, 1);
  conv_patch<Kernels, h, wide, order::nchw, 3, 32, 1, 3, 3, 2>(1, 0, 21, 2); // no pixels
  // Where tensors lie is known by their types.
  conv_patch<Kernels, h, known_runs<wide>, order::nchw, 3, 64, 1, 7, 7, 2>(1, 22, 30, 3);
  conv_patch<Kernels, h, known_runs<groups4>, order::nhwc, 16, 16, 5, 3, 3>(1, 8, 9, 1);
  // A prologue leaves the padding zero; the image may be stored in fp32 then.
  conv_patch<Kernels, h, small, order::nhwc, 8, 8, 3, 3, 3, 1, 1, true>(1, 9, 11, 1);
  conv_patch<Kernels, float, wide, order::nchw, 3, 32, 1, 3, 3, 2, 1, true>(1, 11, 21, 1);
  conv_patch<Kernels, float, small, order::nhwc, 8, 8, 2, 3, 3, 1, 1, true>(1, 9, 7, 1);
  conv_patch_infinity<Kernels, wide, 3, 3, 2>(9, 17, 1);
  conv_patch_infinity<Kernels, wide, 3, 7, 2>(12, 20, 3);
  conv_patch_infinity<Kernels, wide, 8, 3, 1>(9, 17, 1);
}

} // namespace test
