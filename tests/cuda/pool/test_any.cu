// Architectures: 800
//
// Tests of pooling_any: any rank and element type.
#include "cuda/pool/any.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

using namespace test;

namespace {

template <class Kind> struct pooling_case {
  dims<dyn, dyn, dyn, dyn, dyn> space;
  dims<dyn, dyn, dyn> in, kernel, strides, dilations, pads, pads_end;
  using kind = Kind;
  using accumulator = float;
};
/// Means with padding over three spatial dimensions.
template <class Kind> void pooling(index_t n, index_t c, index_t d, index_t h, index_t w) {
  name_case("pooling_any %ldx%ldx%ldx%ldx%ld", long(n), long(c), long(d), long(h), long(w));
  constexpr bool padded = std::is_same_v<Kind, cuda::pooling_mean_padded>;
  const index_t od = d, oh = (h + 2 - 3) / 2 + 1, ow = w - 2; // kernels 3, 3, 2; strides 1, 2, 1; dilation 2 of the last
  pooling_case<Kind> cfg;
  cfg.space = dims<dyn, dyn, dyn, dyn, dyn>(n, c, od, oh, ow);
  cfg.in = dims<dyn, dyn, dyn>(d, h, w);
  cfg.kernel = dims<dyn, dyn, dyn>(3, 3, 2);
  cfg.strides = dims<dyn, dyn, dyn>(1, 2, 1);
  cfg.dilations = dims<dyn, dyn, dyn>(1, 1, 2);
  cfg.pads = cfg.pads_end = dims<dyn, dyn, dyn>(1, 1, 0);
  buffer<float> x(n * c * d * h * w), y(n * c * od * oh * ow);
  x.fill_random();
  std::vector<double> want;
  for (index_t p = 0; p < n * c; ++p)
    for (index_t i = 0; i < od; ++i)
      for (index_t j = 0; j < oh; ++j)
        for (index_t k = 0; k < ow; ++k) {
          double sum = 0;
          int inside = 0;
          for (index_t t = 0; t < 18; ++t) {
            const index_t z = i - 1 + t / 6, iy = j * 2 - 1 + t / 2 % 3, ix = k + t % 2 * 2;
            if (z < 0 || z >= d || iy < 0 || iy >= h)
              continue;
            sum += double(x.get(((p * d + z) * h + iy) * w + ix));
            ++inside;
          }
          want.push_back(sum / (padded ? 18 : inside));
        }
  using five = dims<dyn, dyn, dyn, dyn, fixed<1>>;
  launch(cuda::pooling_any(cfg, make_view<const float>(x.device(), five(c * d * h * w, d * h * w, h * w, w, {})),
                           pack(make_view(y.device(), five(c * od * oh * ow, od * oh * ow, oh * ow, ow, {}))), pack(),
                           cuda::identity_body{}));
  expect_close(y, want, 2e-6);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  pooling<cuda::pooling_mean>(2, 3, 4, 5, 6);
#endif
  pooling<cuda::pooling_mean_padded>(1, 2, 3, 7, 5);
  return finish();
}
