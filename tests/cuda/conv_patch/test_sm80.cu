// Architectures: 800
//
// Tests of conv_patch_sm80.
#include "conv_patch/cases.h"
#include "cuda/conv_patch/sm80.cuh"
#include "shared/int8_cases.h"

namespace {

struct patch {
  static constexpr const char *name = "sm80";
  using packing = test::patch_weights;
  using weight = tenon::f16;
  /// fp16 operands are exact here; sums are fp32; fp32 operands lose what fp16 cannot hold.
  template <class T> static constexpr double tolerance() { return 2e-3; }
  template <class... Args> static auto conv(Args... args) {
    return tenon::cuda::conv_patch_sm80(args...);
  }
};
/// bf16 operands, exact as well.
struct patch_bf16 : patch {
  static constexpr const char *name = "sm80 bf16";
  using weight = tenon::bf16;
  template <class T> static constexpr double tolerance() { return 1e-2; }
};

/// Bytes with zero point Zero, weights of up to 15: sums keep to 22 bits.
template <class T, int Zero, class Schedule, test::order Order, tenon::index_t C, tenon::index_t F,
          tenon::index_t G, tenon::index_t K, tenon::index_t Stride>
void patch_of_bytes(tenon::index_t n, tenon::index_t h, tenon::index_t w, tenon::index_t pad) {
  using namespace test;
  using config = with_zero<patch_case<Schedule, C, F, G, K, K, Stride, 1>, Zero>;
  using layout = cuda::detail::patch_layout<config>;
  const config cfg(n, h, w, pad);
  const index_t oh = cfg.out_h, ow = cfg.out_w, xc = C * G, yc = F * G;
  constexpr bool last = Order == order::nhwc;
  name_case("patch of bytes zero %d n%ld %ldx%ld c%ld f%ld g%ld k%ld s%ld p%ld", Zero, long(n),
            long(h), long(w), long(C), long(F), long(G), long(K), long(Stride), long(pad));
  const auto weight_at = [](index_t k, index_t c, index_t ky, index_t kx) {
    return ((k * K + ky) * layout::taps_w * layout::fold + kx) * layout::pixel + c;
  };
  buffer<T> x(n * h * w * xc);
  buffer<int8_t> weights(yc * layout::runs * 8), y(n * oh * ow * yc), residual(n * oh * ow * yc);
  buffer<int32_t> bias(yc), sums(n * oh * ow * yc);
  fill_bytes(x);
  fill_bytes(residual);
  bias.fill_random(-5000, 5000);
  weights.fill(0);
  for (index_t k = 0; k < yc; ++k)
    for (index_t c = 0; c < C; ++c)
      for (index_t ky = 0; ky < K; ++ky)
        for (index_t kx = 0; kx < K; ++kx)
          weights.set(weight_at(k, c, ky, kx), int8_t(random_int(-15, 15)));
  weights.upload();
  const std::vector<double> want = convolve(
      cfg,
      [&](index_t b, index_t c, index_t i, index_t j) {
        return double(
                   x.get(last ? ((b * h + i) * w + j) * xc + c : ((b * xc + c) * h + i) * w + j)) -
               Zero;
      },
      [&](index_t k, index_t c, index_t ky, index_t kx) {
        return double(weights.get(weight_at(k, c, ky, kx)));
      });
  std::vector<double> stored;
  for (index_t i = 0; i < y.size(); ++i)
    stored.push_back(
        requantised(want[size_t(i)], double(bias.get(i % yc)), double(residual.get(i))));
  using out = dims<dyn, fixed<1>, dyn, fixed<yc>>;
  const out strides(oh * ow * yc, {}, ow * yc, {});
  const auto run = [&](auto view) {
    launch(cuda::conv_patch_sm80(
        cfg, view, cuda::make_packed_weights(static_cast<const int8_t *>(weights.device())),
        pack(make_view(sums.device(), strides), make_view(y.device(), strides)),
        pack(make_view<const int32_t>(bias.device(), extents<0, 1, 0, 0>{}),
             make_view<const int8_t>(residual.device(), strides)),
        requantise{}));
  };
  if constexpr (last)
    run(make_view<const T>(x.device(),
                           dims<dyn, fixed<1>, dyn, fixed<xc>>(h * w * xc, {}, w * xc, {})));
  else
    run(make_view<const T>(x.device(), dims<dyn, dyn, dyn, fixed<1>>(xc * h * w, h * w, w, {})));
  expect_close(sums, want, 0);
  expect_close(y, stored, 0);
}

} // namespace

int main() {
  using small = tenon::cuda::conv_patch_schedule<4, 8, 2, 8, 2, 1>;
  using first = tenon::cuda::conv_patch_schedule<8, 8, 1, 32, 2, 2>;
  using test::order;
#if !defined(TENON_INSTANCES)
  test::conv_patch_cases<patch>();
  patch_of_bytes<int8_t, -128, first, order::nhwc, 3, 32, 1, 3, 2>(1, 9, 11, 1);
  patch_of_bytes<uint8_t, 9, small, order::nhwc, 4, 8, 2, 3, 1>(1, 9, 11, 1);
#endif
  test::conv_patch<patch_bf16, tenon::bf16, small, order::nhwc, 8, 8, 3, 3, 3>(2, 9, 11, 1);
  patch_of_bytes<uint8_t, 114, first, order::nchw, 3, 40, 1, 7, 2>(2, 21, 19, 3);
  patch_of_bytes<int8_t, 0, small, order::nhwc, 8, 8, 3, 3, 1>(2, 9, 11, 1);
  test::conv_patch<patch, float, small, order::nhwc, 8, 8, 2, 3, 3, 1, 1, true>(1, 9, 7, 1);
  return test::finish();
}
