// Defines the cases of convolutions with three spatial dimensions that the tests of all contraction
// kernels share; see contraction_cases.h.
#pragma once

#include "shared/contraction_cases.h"

namespace test {

/// Along the depth, the height and the width.
struct triple {
  index_t d, h, w;
};

/// The extents of a convolution of a volume; a schedule is mixed in.
template <class Schedule, index_t C, index_t F, index_t KD, index_t KH, index_t KW, index_t G>
struct volume_case : cuda::conv_defaults, Schedule {
  dyn batch, in_d, in_h, in_w, out_d, out_h, out_w;
  static constexpr fixed<G> groups{};
  static constexpr fixed<C> channels{};
  static constexpr fixed<F> filters{};
  static constexpr fixed<KD> kernel_d{};
  static constexpr fixed<KH> kernel_h{};
  static constexpr fixed<KW> kernel_w{};
  dyn stride_d, stride_h, stride_w, dilation_d, dilation_h, dilation_w, pad_front, pad_top,
      pad_left;

  volume_case(index_t n, triple in, triple stride, triple dilation, triple pad) {
    auto out = [](index_t size, index_t kernel, index_t s, index_t d, index_t p) {
      return (size + 2 * p - d * (kernel - 1) - 1) / s + 1;
    };
    batch = n, in_d = in.d, in_h = in.h, in_w = in.w;
    stride_d = stride.d, stride_h = stride.h, stride_w = stride.w;
    dilation_d = dilation.d, dilation_h = dilation.h, dilation_w = dilation.w;
    pad_front = pad.d, pad_top = pad.h, pad_left = pad.w;
    out_d = out(in.d, KD, stride.d, dilation.d, pad.d);
    out_h = out(in.h, KH, stride.h, dilation.h, pad.h);
    out_w = out(in.w, KW, stride.w, dilation.w, pad.w);
  }
};

/// Its weights as those of a plane: taps along the depth and the height are rows.
template <class Schedule, index_t C, index_t F, index_t Rows, index_t KW, index_t G>
struct weights_of_plane : Schedule {
  static constexpr fixed<G> groups{};
  static constexpr fixed<C> channels{};
  static constexpr fixed<F> filters{};
  static constexpr fixed<Rows> kernel_h{};
  static constexpr fixed<KW> kernel_w{};
};

/// Convolution with bias, relu and residual, NDHWC. With Prologue x is relu(x * scale + shift),
/// rounded to what is multiplied.
template <class Kernels, class T, class Schedule, index_t C, index_t F, index_t KD, index_t KH,
          index_t KW, index_t G = 1, bool Prologue = false>
void volume(index_t n, triple in, triple stride, triple dilation, triple pad, index_t skew = 0) {
  const volume_case<Schedule, C, F, KD, KH, KW, G> cfg(n, in, stride, dilation, pad);
  const weights_of_plane<Schedule, C, F, KD * KH, KW, G> flat{};
  const index_t od = cfg.out_d, oh = cfg.out_h, ow = cfg.out_w, xc = C * G, yc = F * G;
  name_case("%s volume n%ld %ldx%ldx%ld c%ld f%ld k%ldx%ldx%ld g%ld s%ld,%ld,%ld d%ld,%ld,%ld "
            "p%ld,%ld,%ld splits %d%s",
            Kernels::name, long(n), long(in.d), long(in.h), long(in.w), long(C), long(F), long(KD),
            long(KH), long(KW), long(G), long(stride.d), long(stride.h), long(stride.w),
            long(dilation.d), long(dilation.h), long(dilation.w), long(pad.d), long(pad.h),
            long(pad.w), Schedule::splits, Prologue ? " prologue" : "");
  buffer<T> x(n * in.d * in.h * in.w * xc, skew), residual(n * od * oh * ow * yc),
      y(n * od * oh * ow * yc, skew);
  buffer<typename Kernels::weight> weights(Kernels::packing::size(flat));
  buffer<float> bias(yc), scale(xc), shift(xc);
  x.fill_random();
  residual.fill_random();
  bias.fill_random();
  scale.fill_random();
  shift.fill_random();
  weights.fill(0);
  for (index_t k = 0; k < yc; ++k)
    for (index_t c = 0; c < C; ++c)
      for (index_t row = 0; row < KD * KH; ++row)
        for (index_t kx = 0; kx < KW; ++kx)
          weights.set(Kernels::packing::at(flat, k, c, row, kx), random_float());
  weights.upload();

  const auto input = [&](index_t at, index_t c) {
    const double given = double(x.get(at * xc + c));
    if (!Prologue)
      return given;
    const double s = given * double(scale.get(c)) + double(shift.get(c));
    return rounded<typename Kernels::weight>(s > 0 ? s : 0);
  };
  const auto product = [&](index_t image, index_t z, index_t oy, index_t ox, index_t k) {
    double sum = 0;
    for (index_t row = 0; row < KD * KH; ++row)
      for (index_t kx = 0; kx < KW; ++kx) {
        const index_t iz = z * stride.d - pad.d + row / KH * dilation.d,
                      iy = oy * stride.h - pad.h + row % KH * dilation.h,
                      ix = ox * stride.w - pad.w + kx * dilation.w;
        if (iz < 0 || iz >= in.d || iy < 0 || iy >= in.h || ix < 0 || ix >= in.w)
          continue;
        const index_t at = ((image * in.d + iz) * in.h + iy) * in.w + ix;
        for (index_t c = 0; c < C; ++c)
          sum += input(at, k / F * C + c) *
                 double(weights.get(Kernels::packing::at(flat, k, c, row, kx)));
      }
    return sum;
  };
  std::vector<double> want;
  for (index_t p = 0; p < n * od * oh * ow; ++p)
    for (index_t k = 0; k < yc; ++k) {
      const double s = product(p / (od * oh * ow), p / (oh * ow) % od, p / ow % oh, p % ow, k) +
                       double(bias.get(k));
      want.push_back((s > 0 ? s : 0) + double(residual.get(p * yc + k)));
    }

  using five = dims<dyn, fixed<1>, dyn, dyn, fixed<xc>>;
  using out = dims<dyn, fixed<1>, dyn, dyn, fixed<yc>>;
  const auto y_strides = out(od * oh * ow * yc, {}, oh * ow * yc, ow * yc, {});
  const index_t tiles = G * ((n * od * oh * ow + Schedule::tile_m - 1) / Schedule::tile_m) *
                        ((F + Schedule::tile_n - 1) / Schedule::tile_n);
  split_buffers splits(tiles, Schedule::splits, Schedule::tile_m, Schedule::tile_n);
  stored_weights<typename Kernels::packing, typename Kernels::weight> stored(weights);
  const auto run = [&](auto... prologue) {
    launch(Kernels::conv(cfg,
                         make_view<const T>(x.device(), five(in.d * in.h * in.w * xc, {},
                                                             in.h * in.w * xc, in.w * xc, {})),
                         stored.view(), pack(make_view(y.device(), y_strides)),
                         pack(make_view<const float>(bias.device(), extents<0, 1, 0, 0, 0>{}),
                              make_view<const T>(residual.device(), y_strides)),
                         bias_relu_add{}, splits.scratch(), prologue...));
  };
  if constexpr (Prologue)
    run(scale_shift_relu{}, pack(make_view<const float>(scale.device(), extents<1>{}),
                                 make_view<const float>(shift.device(), extents<1>{})));
  else
    run();
  expect_close(y, want, Kernels::template tolerance<T>());
}

/// Ragged volumes: every extent, stride, dilation and padding different along the three
/// dimensions. C channels of a group are whole runs.
template <class Kernels, class T, class Schedule, index_t C> void volumes() {
  volume<Kernels, T, Schedule, C, 20, 3, 3, 3>(1, {5, 6, 7}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1});
  volume<Kernels, T, Schedule, C, 33, 2, 3, 1>(2, {4, 7, 5}, {1, 2, 3}, {2, 1, 1}, {1, 2, 0});
  volume<Kernels, T, Schedule, C, 9, 1, 2, 3>(3, {3, 5, 6}, {2, 1, 1}, {1, 3, 2}, {0, 1, 2});
  volume<Kernels, T, Schedule, 2 * C, 40, 1, 1, 1>(2, {3, 4, 5}, {2, 2, 1}, {1, 1, 1}, {0, 0, 0});
}

} // namespace test
