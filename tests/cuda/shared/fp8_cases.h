// Defines the cases that the tests of all kernels for contractions of f8e4m3 share. `Kernels` names
// the kernels under test: conv, matmul and the packing of their weights.
//
// Tensor Cores cut off each product, and the sum so far, 13 bits below the leading bit of the
// largest of them (runtime/cuda/tile/tensor_cores_fp8.cuh; the emulator's sum_fp8). Operands that
// are multiples of 1/2 up to 2 lose nothing so, in sums of up to 128 products: their results are
// exact. Others are tested by long sums that grow, which lose more than kLost unless they are
// promoted.
#pragma once

#include "shared/contraction_cases.h"
#include <cmath>

namespace test {

/// What a sum of numbers from 0 up may lose of itself, promoted after 128 products. Four
/// instructions each cut off 32 products and a sum, each by less than 2^-13 of the largest, which
/// is no more than the sum of the 128. An H100 loses 5.6e-4 of sums of 4,096 products of numbers
/// evenly between 0 and 2, as much as that says of their products' bits.
constexpr double kLost = 4 * 33.0 / (1 << 13);
/// What fp32 loses of an exact sum in an epilogue.
constexpr double kRounded = 1e-6;

/// acc * scale + bias, and what a layer that is followed by another one stores.
struct scale_bias_store {
  template <class L>
  TENON_FN results<f32<L>, f32<L>> operator()(L, f32<L> acc, f32<L> scale, f32<L> bias) const {
    const f32<L> y = relu<L>(acc * scale + bias);
    return pack(y, clamp<L>(y * 4.0f, f32<L>{} - 448.0f, f32<L>{} + 448.0f));
  }
};

/// Random numbers from `low` to `high`; of a `unit`, multiples of it.
template <class T> void fill_between(buffer<T> &b, double low, double high, double unit = 0) {
  for (index_t i = 0; i < b.size(); ++i) {
    const double x = low + (high - low) * (double(random_float()) + 1) / 2;
    b.set(i, float(unit == 0 ? x : std::round(x / unit) * unit));
  }
  b.upload();
}

/// Channels-last convolution.
template <class Kernels, class Schedule, index_t C, index_t F, index_t K, index_t G = 1>
void conv_fp8(index_t n, index_t h, index_t w, index_t stride, index_t dilation, index_t pad,
              index_t skew = 0) {
  const conv_case<Schedule, C, F, K, G> cfg(n, h, w, stride, dilation, pad);
  const index_t oh = cfg.out_h, ow = cfg.out_w, xc = C * G, yc = F * G;
  name_case("%s conv n%ld %ldx%ld c%ld f%ld k%ld g%ld s%ld d%ld p%ld skew %ld splits %d",
            Kernels::name, long(n), long(h), long(w), long(C), long(F), long(K), long(G),
            long(stride), long(dilation), long(pad), long(skew), Schedule::splits);
  buffer<f8e4m3> x(n * h * w * xc, skew), weights(Kernels::packing::size(cfg)),
      stored(n * oh * ow * yc, skew);
  buffer<float> scale(yc), bias(yc), y(n * oh * ow * yc);
  fill_between(x, -2, 2, 0.5);
  fill_between(weights, -2, 2, 0.5);
  fill_between(scale, 0.01, 0.1);
  bias.fill_random();
  const std::vector<double> sums = convolve(
      cfg,
      [&](index_t b, index_t c, index_t iy, index_t ix) {
        return double(x.get(((b * h + iy) * w + ix) * xc + c));
      },
      [&](index_t k, index_t c, index_t ky, index_t kx) {
        return double(weights.get(Kernels::packing::at(cfg, k, c, ky, kx)));
      });
  std::vector<double> want;
  for (index_t i = 0; i < y.size(); ++i)
    want.push_back(
        std::max(0.0, sums[size_t(i)] * double(scale.get(i % yc)) + double(bias.get(i % yc))));
  using four = dims<dyn, fixed<1>, dyn, fixed<xc>>;
  using out = dims<dyn, fixed<1>, dyn, fixed<yc>>;
  const auto y_strides = out(oh * ow * yc, {}, ow * yc, {});
  const auto per_channel = [](buffer<float> &b) {
    return make_view<const float>(b.device(), extents<0, 1, 0, 0>{});
  };
  const index_t tiles = G * ((n * oh * ow + Schedule::tile_m - 1) / Schedule::tile_m) *
                        ((F + Schedule::tile_n - 1) / Schedule::tile_n);
  split_buffers splits(tiles, Schedule::splits, Schedule::tile_m, Schedule::tile_n);
  launch(Kernels::conv(
      cfg, make_view<const f8e4m3>(x.device(), four(h * w * xc, {}, w * xc, {})),
      Kernels::packing::view(static_cast<const f8e4m3 *>(weights.device())),
      pack(make_view(y.device(), y_strides), make_view(stored.device(), y_strides)),
      pack(per_channel(scale), per_channel(bias)), scale_bias_store{}, splits.scratch()));
  expect_close(y, want, kRounded);
  // What is stored is the f32 result in 8 bits: the nearest number, where that is not too large.
  std::vector<double> rounded;
  for (index_t i = 0; i < y.size(); ++i) {
    f8e4m3 narrow;
    store_element(&narrow, float(std::min(448.0, 4 * double(y.get(i)))));
    rounded.push_back(double(load_element(&narrow)));
  }
  expect_close(stored, rounded, 0);
  if (Schedule::splits > 1)
    splits.expect_zero();
}

template <class Schedule, index_t Depth> struct matmul_fp8_case : cuda::matmul_defaults, Schedule {
  dyn m, n;
  static constexpr fixed<Depth> k{};
};

/// Rows times weights; `grows`: of numbers from 0 up, whose sums grow with K.
template <class Kernels, class Schedule, index_t Depth>
void matmul_fp8(index_t m, index_t n, bool grows = false) {
  name_case("%s matmul m %ld n %ld k %ld%s splits %d", Kernels::name, long(m), long(n), long(Depth),
            grows ? " that grows" : "", Schedule::splits);
  matmul_fp8_case<Schedule, Depth> cfg;
  cfg.m = m, cfg.n = n;
  buffer<f8e4m3> a(m * Depth), b(n * Kernels::packing::pitch(Depth));
  buffer<float> y(m * n);
  fill_between(a, grows ? 0 : -2, 2, grows ? 0 : 0.5);
  fill_between(b, grows ? 0 : -2, 2, grows ? 0 : 0.5);
  std::vector<double> want;
  for (index_t i = 0; i < m; ++i)
    for (index_t j = 0; j < n; ++j) {
      double sum = 0;
      for (index_t k = 0; k < Depth; ++k)
        sum += double(a.get(i * Depth + k)) * double(b.get(Kernels::packing::matrix_at(cfg, k, j)));
      want.push_back(sum);
    }
  const index_t tiles = (m + Schedule::tile_m - 1) / Schedule::tile_m *
                        ((n + Schedule::tile_n - 1) / Schedule::tile_n);
  split_buffers splits(tiles, Schedule::splits, Schedule::tile_m, Schedule::tile_n);
  launch(Kernels::matmul(
      cfg,
      make_view<const f8e4m3>(a.device(),
                              dims<fixed<0>, fixed<0>, fixed<Depth>, fixed<1>>({}, {}, {}, {})),
      Kernels::packing::view(static_cast<const f8e4m3 *>(b.device())),
      pack(make_view(y.device(), dims<fixed<0>, fixed<0>, dyn, fixed<1>>({}, {}, n, {}))), pack(),
      cuda::identity_body{}, splits.scratch()));
  expect_close(y, want, grows ? kLost : kRounded);
  if (Schedule::splits > 1)
    splits.expect_zero();
}

} // namespace test
