// Architectures: 800
//
// Tests of depthwise.
#include "common/scalar.h"
#include "depthwise/cases.h"

using namespace test;

namespace {

struct add_relu {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> acc, f32<L> bias) const { return relu<L>(acc + bias); }
};
template <index_t C> using nhwc = dims<dyn, fixed<1>, dyn, fixed<C>>;
template <index_t C> nhwc<C> nhwc_strides(index_t h, index_t w) { return {h * w * C, {}, w * C, {}}; }

template <class T, int V, int Columns, index_t C, index_t M, index_t K, index_t Stride, index_t Dilation, bool Whole = false>
void depthwise(index_t n, index_t h, index_t w, index_t pad, index_t skew = 0) {
  name_case("depthwise n%ld %ldx%ld c%ld m%ld k%ld s%ld d%ld p%ld vector %d columns %d skew %ld", long(n), long(h), long(w),
            long(C), long(M), long(K), long(Stride), long(Dilation), long(pad), V, Columns, long(skew));
  depthwise_case<V, Columns, C, M, K, Stride, Dilation, Whole> cfg;
  cfg.set_image(n, h, w, pad);
  const index_t oh = cfg.out_h, ow = cfg.out_w, k = C * M;
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
#endif
  depthwise<float, 4, 3, 8, 1, 5, 2, 2>(1, 17, 20, 3);
  depthwise<f16, 2, 2, 12, 1, 5, 2, 1, true>(1, 11, 8, 2);
  return finish();
}
