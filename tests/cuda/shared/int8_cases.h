// Defines the cases that the tests of all kernels for contractions of bytes share. Sums are exact:
// so is every comparison. `Kernels` names the kernels under test: conv, matmul and the packing of
// their weights.
#pragma once

#include "shared/contraction_cases.h"

namespace test {

/// The sum, and what a layer with int8 results stores: clamp((sum + bias) * 2^-8 + residual).
struct requantise {
  template <class L>
  TENON_FN results<i32<L>, i32<L>> operator()(L, i32<L> sum, i32<L> bias, i32<L> residual) const {
    const i32<L> scaled = round_shift<L>(sum + bias, i32<L>{} + 8) + residual;
    return pack(sum, clamp<L>(scaled, i32<L>{} - 128, i32<L>{} + 127));
  }
};
inline double requantised(double sum, double bias, double residual) {
  const double y = nearbyint((sum + bias) / 256) + residual;
  return y < -128 ? -128 : y > 127 ? 127 : y;
}

/// A case whose zero point the compiler knows.
template <class Case, int Zero> struct with_zero : Case {
  using Case::Case;
  static constexpr int x_zero = Zero;
};

/// All values of a type of bytes.
template <class T> void fill_bytes(buffer<T> &b) {
  b.fill_random(tenon::detail::is_signed<T> ? -128 : 0, tenon::detail::is_signed<T> ? 127 : 255);
}

/// Channels-last convolution of T, zero point Zero.
template <class Kernels, class T, int Zero, class Schedule, index_t C, index_t F, index_t K,
          index_t G = 1>
void conv_int8(index_t n, index_t h, index_t w, index_t stride, index_t dilation, index_t pad,
               index_t skew = 0) {
  const with_zero<conv_case<Schedule, C, F, K, G>, Zero> cfg(n, h, w, stride, dilation, pad);
  const index_t oh = cfg.out_h, ow = cfg.out_w, xc = C * G, yc = F * G;
  name_case("%s conv %s zero %d n%ld %ldx%ld c%ld f%ld k%ld g%ld s%ld d%ld p%ld skew %ld splits %d",
            Kernels::name, tenon::detail::is_signed<T> ? "s8" : "u8", Zero, long(n), long(h),
            long(w), long(C), long(F), long(K), long(G), long(stride), long(dilation), long(pad),
            long(skew), Schedule::splits);
  buffer<T> x(n * h * w * xc, skew);
  buffer<int8_t> weights(Kernels::packing::size(cfg)), residual(n * oh * ow * yc),
      y(n * oh * ow * yc, skew);
  buffer<int32_t> bias(yc), sums(n * oh * ow * yc);
  fill_bytes(x);
  fill_bytes(weights);
  fill_bytes(residual);
  bias.fill_random(-5000, 5000);
  const std::vector<double> want = convolve(
      cfg,
      [&](index_t b, index_t c, index_t iy, index_t ix) {
        return double(x.get(((b * h + iy) * w + ix) * xc + c)) - Zero;
      },
      [&](index_t k, index_t c, index_t ky, index_t kx) {
        return double(weights.get(Kernels::packing::at(cfg, k, c, ky, kx)));
      });
  std::vector<double> stored;
  for (index_t i = 0; i < y.size(); ++i)
    stored.push_back(
        requantised(want[size_t(i)], double(bias.get(i % yc)), double(residual.get(i))));
  using four = dims<dyn, fixed<1>, dyn, fixed<xc>>;
  using out = dims<dyn, fixed<1>, dyn, fixed<yc>>;
  const auto y_strides = out(oh * ow * yc, {}, ow * yc, {});
  const index_t tiles = G * ((n * oh * ow + Schedule::tile_m - 1) / Schedule::tile_m) *
                        ((F + Schedule::tile_n - 1) / Schedule::tile_n);
  split_buffers splits(tiles, Schedule::splits, Schedule::tile_m, Schedule::tile_n);
  launch(Kernels::conv(cfg, make_view<const T>(x.device(), four(h * w * xc, {}, w * xc, {})),
                       Kernels::packing::view(static_cast<const int8_t *>(weights.device())),
                       pack(make_view(sums.device(), y_strides), make_view(y.device(), y_strides)),
                       pack(make_view<const int32_t>(bias.device(), extents<0, 1, 0, 0>{}),
                            make_view<const int8_t>(residual.device(), y_strides)),
                       requantise{}, splits.scratch()));
  expect_close(sums, want, 0);
  expect_close(y, stored, 0);
  if (Schedule::splits > 1)
    splits.expect_zero();
}

template <class Schedule, index_t Depth, int Zero>
struct matmul_int8_case : cuda::matmul_defaults, Schedule {
  dyn m, n;
  static constexpr fixed<Depth> k{};
  static constexpr int x_zero = Zero;
};

/// Rows times weights, or times another tensor that is given by rows along K in batches.
template <class Kernels, class T, int Zero, class Schedule, index_t Depth>
void matmul_int8(index_t m, index_t n) {
  name_case("%s matmul %s zero %d m %ld n %ld k %ld", Kernels::name,
            tenon::detail::is_signed<T> ? "s8" : "u8", Zero, long(m), long(n), long(Depth));
  matmul_int8_case<Schedule, Depth, Zero> cfg;
  cfg.m = m, cfg.n = n;
  buffer<T> a(m * Depth);
  buffer<int8_t> b(n * Kernels::packing::pitch(Depth));
  buffer<int32_t> y(m * n);
  fill_bytes(a);
  fill_bytes(b);
  std::vector<double> want;
  for (index_t i = 0; i < m; ++i)
    for (index_t j = 0; j < n; ++j) {
      double sum = 0;
      for (index_t k = 0; k < Depth; ++k)
        sum += (double(a.get(i * Depth + k)) - Zero) *
               double(b.get(Kernels::packing::matrix_at(cfg, k, j)));
      want.push_back(sum);
    }
  const index_t tiles = (m + Schedule::tile_m - 1) / Schedule::tile_m *
                        ((n + Schedule::tile_n - 1) / Schedule::tile_n);
  split_buffers splits(tiles, Schedule::splits, Schedule::tile_m, Schedule::tile_n);
  launch(Kernels::matmul(
      cfg,
      make_view<const T>(a.device(),
                         dims<fixed<0>, fixed<0>, fixed<Depth>, fixed<1>>({}, {}, {}, {})),
      Kernels::packing::view(static_cast<const int8_t *>(b.device())),
      pack(make_view(y.device(), dims<fixed<0>, fixed<0>, dyn, fixed<1>>({}, {}, n, {}))), pack(),
      cuda::identity_body{}, splits.scratch()));
  expect_close(y, want, 0);
  if (Schedule::splits > 1)
    splits.expect_zero();
}

} // namespace test
