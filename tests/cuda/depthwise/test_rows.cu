// Architectures: 800
//
// Tests of depthwise_rows: planes and volumes whose rows lie in memory one after another.
#include "common/scalar.h"
#include "cuda/depthwise/rows.cuh"
#include "shared/harness.h"

using namespace test;

namespace {

struct add_relu {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> acc, f32<L> bias) const {
    return relu<L>(acc + bias);
  }
};

template <int V, int Height, index_t M, index_t D, index_t H, index_t W, index_t Stride,
          index_t Dilation, index_t Pad, bool Whole>
struct rows_case : cuda::window_defaults {
  static constexpr bool whole_runs = Whole, whole_results = Whole;
  static constexpr int vector = V, height = Height;
  dyn batch, channels, in_d, in_h, in_w, out_d, out_h, out_w, pad_front, pad_top;
  static constexpr fixed<M> multiplier{};
  static constexpr fixed<D> kernel_d{};
  static constexpr fixed<H> kernel_h{};
  static constexpr fixed<W> kernel_w{};
  static constexpr fixed<Stride> stride_d{}, stride_h{}, stride_w{};
  static constexpr fixed<Dilation> dilation_d{}, dilation_h{}, dilation_w{};
  static constexpr fixed<Pad> pad_left{};
};

/// Pads are those of each dimension's window where it has more than one element.
template <class T, int V, int Height, index_t M, index_t D, index_t H, index_t W, index_t Stride,
          index_t Dilation, index_t Pad, bool Whole = false>
void rows(index_t n, index_t c, index_t d, index_t h, index_t w, index_t skew = 0) {
  name_case("depthwise_rows n%ld c%ld %ldx%ldx%ld m%ld k%ldx%ldx%ld s%ld d%ld p%ld vector %d "
            "height %d whole %d skew %ld",
            long(n), long(c), long(d), long(h), long(w), long(M), long(D), long(H), long(W),
            long(Stride), long(Dilation), long(Pad), V, Height, int(Whole), long(skew));
  rows_case<V, Height, M, D, H, W, Stride, Dilation, Pad, Whole> cfg;
  const index_t pd = D > 1 ? Pad : 0, ph = H > 1 ? Pad : 0;
  const auto out = [](index_t in, index_t pad, index_t k) {
    return (in + 2 * pad - (k - 1) * Dilation - 1) / Stride + 1;
  };
  const index_t od = out(d, pd, D), oh = out(h, ph, H), ow = out(w, Pad, W), k = c * M;
  cfg.batch = n, cfg.channels = c, cfg.in_d = d, cfg.in_h = h, cfg.in_w = w, cfg.out_d = od,
  cfg.out_h = oh, cfg.out_w = ow;
  cfg.pad_front = pd, cfg.pad_top = ph;
  buffer<T> x(n * c * d * h * w, skew), y(n * k * od * oh * ow, skew), weights(k * D * H * W, skew);
  buffer<float> bias(k, skew);
  x.fill_random();
  weights.fill_random();
  bias.fill_random();
  std::vector<double> want;
  for (index_t b = 0; b < n; ++b)
    for (index_t o = 0; o < k; ++o)
      for (index_t l = 0; l < od; ++l)
        for (index_t i = 0; i < oh; ++i)
          for (index_t j = 0; j < ow; ++j) {
            double sum = double(bias.get(o));
            for (index_t kz = 0; kz < D; ++kz)
              for (index_t ky = 0; ky < H; ++ky)
                for (index_t kx = 0; kx < W; ++kx) {
                  const index_t iz = l * Stride - pd + kz * Dilation,
                                iy = i * Stride - ph + ky * Dilation,
                                ix = j * Stride - Pad + kx * Dilation;
                  if (iz >= 0 && iz < d && iy >= 0 && iy < h && ix >= 0 && ix < w)
                    sum += double(x.get((((b * c + o / M) * d + iz) * h + iy) * w + ix)) *
                           double(weights.get(((o * D + kz) * H + ky) * W + kx));
                }
            want.push_back(sum > 0 ? sum : 0);
          }
  const auto strides = [](index_t of, index_t a, index_t r, index_t s) {
    return dims<dyn, dyn, dyn, dyn, fixed<1>>(of * a * r * s, a * r * s, r * s, s, {});
  };
  launch(cuda::depthwise_rows(
      cfg, make_view<const T>(x.device(), strides(c, d, h, w)),
      static_cast<const T *>(weights.device()), pack(make_view(y.device(), strides(k, od, oh, ow))),
      pack(make_view<const float>(bias.device(), extents<0, 1, 0, 0, 0>{})), add_relu{}));
  expect_close(y, want, rounding<T>() + 2e-6);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  rows<float, 4, 2, 1, 1, 3, 3, 1, 1, 1, true>(2, 5, 1, 9, 12);
  rows<f16, 8, 1, 1, 1, 3, 3, 1, 1, 1>(1, 3, 1, 6, 19);
  rows<f16, 8, 4, 2, 1, 3, 3, 1, 1, 1>(1, 3, 1, 7, 24, 1);
  rows<f16, 8, 2, 1, 1, 7, 7, 1, 1, 3, true>(1, 4, 1, 11, 16);
  rows<f16, 4, 2, 1, 1, 3, 3, 2, 1, 1>(2, 3, 1, 10, 13);
  rows<float, 4, 2, 1, 1, 3, 3, 1, 2, 2>(1, 3, 1, 9, 10);
  rows<f16, 8, 1, 1, 1, 31, 31, 1, 1, 15>(1, 2, 1, 20, 40);
  rows<float, 2, 1, 1, 1, 21, 5, 1, 1, 2>(1, 2, 1, 30, 9);
  rows<f16, 8, 2, 1, 3, 3, 3, 1, 1, 1, true>(1, 3, 5, 6, 8);
  rows<float, 4, 1, 2, 3, 3, 3, 2, 1, 1>(2, 2, 6, 7, 9);
  rows<f16, 8, 1, 1, 1, 1, 9, 1, 1, 4>(2, 5, 1, 1, 37); // along a line
  rows<float, 4, 1, 1, 1, 2, 2, 1, 1, 0>(1, 3, 1, 5, 6);
#endif
  rows<f16, 8, 2, 1, 1, 3, 3, 1, 1, 1, true>(1, 4, 1, 6, 16);
  rows<bf16, 4, 1, 1, 3, 3, 3, 1, 1, 1>(1, 2, 4, 5, 7);
  return finish();
}
