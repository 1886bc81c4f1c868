// Architectures: 800
//
// Tests of expand_depthwise_sm80.
#include "shared/contraction_cases.h"
#include "cuda/expand_depthwise/kernel.cuh"

using namespace test;

namespace {

struct scale_bias {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> sum, f32<L> scale, f32<L> bias) const {
    return sum * scale + bias;
  }
};
/// Two results: with a residual, and half of it.
struct residual_and_half {
  template <class L>
  TENON_FN results<f32<L>, f32<L>> operator()(L, f32<L> sum, f32<L> bias, f32<L> residual) const {
    const f32<L> y = relu<L>(sum + bias) + residual;
    return pack(y, y * 0.5f);
  }
};

template <class Schedule, int Depth, int Channels, int KH, int KW, int Stride, int Pad>
struct expand_case : Schedule {
  dyn batch, in_h, in_w, out_h, out_w;
  static constexpr int depth = Depth, channels = Channels, kernel_h = KH, kernel_w = KW;
  static constexpr int stride_h = Stride, stride_w = Stride, pad_top = Pad, pad_left = Pad;

  expand_case(index_t n, index_t h, index_t w) {
    batch = n, in_h = h, in_w = w;
    out_h = (h + 2 * Pad - KH) / Stride + 1, out_w = (w + 2 * Pad - KW) / Stride + 1;
  }
};

/// The bias of the first convolution keeps what it makes away from zero: beyond the border nothing
/// is made. `infinity`: a pixel is infinite, and reaches the outputs whose windows hold it.
template <class T, class Schedule, int Depth, int Channels, int KH, int KW, int Stride, int Pad>
void expand_depthwise(index_t n, index_t h, index_t w, index_t skew = 0, bool infinity = false) {
  using config = expand_case<Schedule, Depth, Channels, KH, KW, Stride, Pad>;
  const config cfg(n, h, w);
  const index_t oh = cfg.out_h, ow = cfg.out_w;
  constexpr bool known = cuda::detail::promises_results<config>::value;
  name_case("expand_depthwise n%ld %ldx%ld c%d to %d k%dx%d s%d p%d skew %ld%s%s", long(n), long(h),
            long(w), Depth, Channels, KH, KW, Stride, Pad, long(skew), known ? " known" : "",
            infinity ? " with an infinity" : "");
  buffer<T> x(n * h * w * Depth, skew), expand(Channels * Depth), filters(KH * KW * Channels);
  buffer<float> scale(Channels), bias(Channels, skew), bias2(Channels),
      half(n * oh * ow * Channels);
  buffer<T> residual(n * oh * ow * Channels), y(n * oh * ow * Channels, skew);
  for (auto *b : {&x, &expand, &filters, &residual})
    b->fill_random();
  for (auto *b : {&scale, &bias, &bias2})
    b->fill_random();
  if (infinity) {
    x.set((h / 2 * w + w / 2) * Depth + 1, INFINITY);
    x.upload();
    for (index_t i = 0; i < Channels; ++i)
      scale.set(i, 1), expand.set(i * Depth + 1, 1);
    scale.upload(), expand.upload();
    filters.fill(0.25);
  }
  std::vector<double> made(size_t(n * h * w * Channels));
  for (index_t p = 0; p < n * h * w; ++p)
    for (index_t k = 0; k < Channels; ++k) {
      double s = 0;
      for (index_t c = 0; c < Depth; ++c)
        s += double(x.get(p * Depth + c)) * double(expand.get(k * Depth + c));
      made[size_t(p * Channels + k)] = rounded<T>(s * double(scale.get(k)) + double(bias.get(k)));
    }
  std::vector<double> want, want_half;
  bool good = true;
  for (index_t b = 0; b < n; ++b)
    for (index_t i = 0; i < oh; ++i)
      for (index_t j = 0; j < ow; ++j)
        for (index_t k = 0; k < Channels; ++k) {
          double s = 0;
          for (index_t t = 0; t < KH * KW; ++t) {
            const index_t iy = i * Stride - Pad + t / KW, ix = j * Stride - Pad + t % KW;
            if (iy >= 0 && iy < h && ix >= 0 && ix < w)
              s += made[size_t(((b * h + iy) * w + ix) * Channels + k)] *
                   double(filters.get(t * Channels + k));
          }
          s += double(bias2.get(k));
          const double r =
              (s > 0 ? s : 0) + double(residual.get(((b * oh + i) * ow + j) * Channels + k));
          want.push_back(r);
          want_half.push_back(r / 2);
        }
  using pitch = std::conditional_t<known, cuda::multiple<Depth>, dyn>;
  using y_pitch = std::conditional_t<known, cuda::multiple<Channels>, dyn>;
  using in = dims<pitch, fixed<1>, pitch, fixed<Depth>>;
  using out = dims<y_pitch, fixed<1>, y_pitch, fixed<Channels>>;
  const auto strides = out(oh * ow * Channels, {}, ow * Channels, {});
  launch(cuda::expand_depthwise_sm80(
      cfg, make_view<const T>(x.device(), in(h * w * Depth, {}, w * Depth, {})),
      static_cast<const T *>(expand.device()), static_cast<const T *>(filters.device()),
      pack(make_view<const float>(scale.device(), extents<0, 1, 0, 0>{}),
           make_view<const float>(bias.device(), extents<0, 1, 0, 0>{})),
      scale_bias{}, pack(make_view(y.device(), strides), make_view(half.device(), strides)),
      pack(make_view<const float>(bias2.device(), extents<0, 1, 0, 0>{}),
           make_view<const T>(residual.device(), strides)),
      residual_and_half{}));
  if (infinity) {
    half.download();
    for (size_t i = 0; i < want_half.size(); ++i)
      good &= std::isinf(want_half[i]) == std::isinf(double(half.get(index_t(i))));
    record(good, "an infinity outside of the window reaches the sum, or one inside does not");
    return;
  }
  const double tolerance = std::is_same_v<T, bf16> ? 2e-2 : 3e-3;
  expect_close(y, want, tolerance);
  expect_close(half, want_half, tolerance);
}

template <int H, int W, int Chunk, int Columns, int Parts, int Warps, bool Widened = false>
using tiles = cuda::expand_depthwise_schedule<H, W, Chunk, Columns, Parts, Warps, Widened>;

} // namespace

int main() {
  using h = f16;
  using square = tiles<8, 8, 32, 4, 1, 4>;
  using wide = tiles<4, 16, 48, 4, 2, 8>;
  using widened = tiles<7, 8, 32, 4, 2, 8, true>;
  using line = tiles<1, 8, 16, 2, 2, 2>;
#if !defined(TENON_INSTANCES)
  // Blocks of MobileNet and EfficientNet: whole and ragged tiles, several parts.
  expand_depthwise<h, square, 16, 96, 3, 3, 2, 1>(1, 21, 19);
  expand_depthwise<h, known_runs<square>, 16, 96, 3, 3, 2, 1>(2, 16, 18);
  expand_depthwise<h, wide, 24, 144, 3, 3, 1, 1>(2, 9, 17);
  expand_depthwise<h, known_runs<wide>, 24, 144, 5, 5, 2, 2>(1, 13, 35);
  expand_depthwise<h, square, 40, 80, 5, 5, 1, 2>(1, 7, 7);
  // Channels beside the chunk; none of a run; windows as wide as they are not high; no padding.
  expand_depthwise<h, square, 8, 40, 3, 3, 1, 0>(1, 12, 11);
  expand_depthwise<h, wide, 32, 50, 3, 3, 1, 1>(1, 6, 9);
  expand_depthwise<h, line, 72, 24, 1, 5, 1, 2>(1, 1, 21);
  expand_depthwise<h, line, 16, 40, 3, 1, 2, 1>(2, 7, 9);
  // Addresses that no vector load takes.
  expand_depthwise<h, square, 16, 32, 3, 3, 1, 1>(1, 9, 10, 1);
  expand_depthwise<bf16, square, 16, 48, 3, 3, 1, 1>(1, 9, 10);
  expand_depthwise<h, square, 16, 32, 3, 3, 1, 1>(1, 9, 10, 0, true);
  expand_depthwise<h, widened, 24, 144, 3, 3, 1, 1>(2, 9, 17);
  expand_depthwise<h, known_runs<widened>, 40, 80, 5, 5, 2, 2>(1, 13, 21);
#endif
  expand_depthwise<h, line, 8, 25, 3, 3, 1, 1>(1, 3, 9);
  expand_depthwise<bf16, widened, 16, 50, 3, 3, 1, 1>(1, 9, 10);
  return finish();
}
