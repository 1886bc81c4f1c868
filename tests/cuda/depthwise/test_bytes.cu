// Architectures: 750 800
//
// Tests of depthwise with bytes: sums are exact, zero points included.
#include "depthwise/cases.h"
#include "shared/int8_cases.h"

using namespace test;

namespace {

template <class T, int Zero, int V, int Columns, index_t C, index_t M, index_t K, index_t Stride,
          index_t Dilation, bool Whole = false>
void depthwise(index_t n, index_t h, index_t w, index_t pad, index_t skew = 0) {
  name_case(
      "depthwise zero %d n%ld %ldx%ld c%ld m%ld k%ld s%ld d%ld p%ld vector %d columns %d skew %ld",
      Zero, long(n), long(h), long(w), long(C), long(M), long(K), long(Stride), long(Dilation),
      long(pad), V, Columns, long(skew));
  with_zero<depthwise_case<V, Columns, C, M, K, Stride, Dilation, Whole>, Zero> cfg;
  cfg.set_image(n, h, w, pad);
  const index_t oh = cfg.out_h, ow = cfg.out_w, k = C * M;
  buffer<T> x(n * h * w * C, skew);
  buffer<int8_t> weights(K * K * k, skew), y(n * oh * ow * k, skew), residual(n * oh * ow * k);
  buffer<int32_t> bias(k), sums(n * oh * ow * k);
  fill_bytes(x);
  fill_bytes(weights);
  fill_bytes(residual);
  bias.fill_random(-5000, 5000);
  std::vector<double> want;
  for (index_t b = 0; b < n; ++b)
    for (index_t i = 0; i < oh; ++i)
      for (index_t j = 0; j < ow; ++j)
        for (index_t f = 0; f < k; ++f) {
          double sum = 0;
          for (index_t ky = 0; ky < K; ++ky)
            for (index_t kx = 0; kx < K; ++kx) {
              const index_t iy = i * Stride - pad + ky * Dilation,
                            ix = j * Stride - pad + kx * Dilation;
              if (iy >= 0 && iy < h && ix >= 0 && ix < w)
                sum += (double(x.get(((b * h + iy) * w + ix) * C + f / M)) - Zero) *
                       double(weights.get((ky * K + kx) * k + f));
            }
          want.push_back(sum);
        }
  std::vector<double> stored;
  for (index_t i = 0; i < y.size(); ++i)
    stored.push_back(
        requantised(want[size_t(i)], double(bias.get(i % k)), double(residual.get(i))));
  using in = dims<dyn, fixed<1>, dyn, fixed<C>>;
  using out = dims<dyn, fixed<1>, dyn, fixed<k>>;
  const out strides(oh * ow * k, {}, ow * k, {});
  launch(cuda::depthwise(cfg, make_view<const T>(x.device(), in(h * w * C, {}, w * C, {})),
                         static_cast<const int8_t *>(weights.device()),
                         pack(make_view(sums.device(), strides), make_view(y.device(), strides)),
                         pack(make_view<const int32_t>(bias.device(), extents<0, 1, 0, 0>{}),
                              make_view<const int8_t>(residual.device(), strides)),
                         requantise{}));
  expect_close(sums, want, 0);
  expect_close(y, stored, 0);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  depthwise<int8_t, 0, 4, 4, 32, 1, 3, 1, 1>(2, 9, 11, 1);
  depthwise<int8_t, -128, 8, 2, 32, 1, 3, 1, 1, true>(1, 9, 11, 1);
  depthwise<uint8_t, 7, 4, 1, 12, 2, 5, 1, 2>(1, 11, 12, 4);
#endif
  depthwise<uint8_t, 131, 4, 2, 30, 1, 3, 2, 1>(1, 10, 13, 1);
  depthwise<int8_t, 9, 1, 2, 5, 3, 3, 1, 1>(2, 6, 7, 1, 1);
  return finish();
}
