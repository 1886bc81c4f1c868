// Architectures: 800
//
// Tests of conv_any and matmul_any: any rank, element type and zero point.
#include "cuda/contract_any/kernel.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

using namespace test;

namespace {

template <class A, bool Transposed> struct conv_case {
  dims<dyn, dyn, dyn, dyn> space;
  dims<dyn, dyn> in, kernel, strides, dilations, pads;
  dyn channels, filters;
  static constexpr bool transposed = Transposed;
  using accumulator = A;
};

/// One convolution of (n, groups * channels, h, w), NCHW, by scattering every product: the definition
/// of a transposed convolution read forwards, of a plain one read backwards.
template <class T, class A, bool Transposed>
void conv(index_t n, index_t groups, index_t channels, index_t filters, index_t h, index_t w, index_t kernel, index_t stride,
          index_t dilation, index_t pad, int x_zero) {
  name_case("conv_any %s n%ld g%ld c%ld f%ld %ldx%ld k%ld s%ld d%ld p%ld zero %d of %zu-byte", Transposed ? "transposed" : "plain",
            long(n), long(groups), long(channels), long(filters), long(h), long(w), long(kernel), long(stride), long(dilation),
            long(pad), x_zero, sizeof(T));
  const auto out = [&](index_t i) {
    const index_t span = dilation * (kernel - 1) + 1;
    return Transposed ? (i - 1) * stride + span - 2 * pad : (i + 2 * pad - span) / stride + 1;
  };
  const index_t oh = out(h), ow = out(w), xc = groups * channels, yc = groups * filters;
  conv_case<A, Transposed> cfg;
  cfg.space = dims<dyn, dyn, dyn, dyn>(n, yc, oh, ow);
  cfg.in = dims<dyn, dyn>(h, w);
  cfg.kernel = dims<dyn, dyn>(kernel, kernel);
  cfg.strides = dims<dyn, dyn>(stride, stride);
  cfg.dilations = dims<dyn, dyn>(dilation, dilation);
  cfg.pads = dims<dyn, dyn>(pad, pad);
  cfg.channels = channels, cfg.filters = filters;
  const index_t taps = kernel * kernel, w1 = Transposed ? filters : channels;
  buffer<T> x(n * xc * h * w), weights((Transposed ? xc : yc) * w1 * taps), zero(1);
  buffer<A> y(n * yc * oh * ow);
  x.fill_random();
  weights.fill_random();
  zero.set(0, compute_t<T>(x_zero));
  zero.upload();
  std::vector<double> want(size_t(y.size()), 0.0);
  for (index_t b = 0; b < n; ++b)
    for (index_t g = 0; g < groups; ++g)
      for (index_t c = 0; c < channels; ++c)
        for (index_t f = 0; f < filters; ++f)
          for (index_t i = 0; i < h; ++i)
            for (index_t j = 0; j < w; ++j)
              for (index_t t = 0; t < taps; ++t) {
                const index_t ky = t / kernel * dilation, kx = t % kernel * dilation;
                index_t oy, ox;
                if (Transposed) {
                  oy = i * stride + ky - pad;
                  ox = j * stride + kx - pad;
                } else {
                  if ((i + pad - ky) % stride || (j + pad - kx) % stride)
                    continue;
                  oy = (i + pad - ky) / stride;
                  ox = (j + pad - kx) / stride;
                }
                if (oy < 0 || oy >= oh || ox < 0 || ox >= ow || (!Transposed && (i + pad < ky || j + pad < kx)))
                  continue;
                const index_t at = Transposed ? ((g * channels + c) * filters + f) * taps + t : ((g * filters + f) * channels + c) * taps + t;
                want[((b * groups + g) * filters + f) * oh * ow + oy * ow + ox] +=
                    (double(x.get(((b * groups + g) * channels + c) * h * w + i * w + j)) - x_zero) * double(weights.get(at));
              }
  using four = dims<dyn, dyn, dyn, fixed<1>>;
  launch(cuda::conv_any(cfg, make_view<const T>(x.device(), four(xc * h * w, h * w, w, {})),
                        make_view<const T>(zero.device(), extents<0>{}),
                        make_view<const T>(weights.device(), four(w1 * taps, taps, kernel, {})), cuda::no_zero_point{},
                        pack(make_view(y.device(), four(yc * oh * ow, oh * ow, ow, {}))), pack(), cuda::identity_body{}));
  expect_close(y, want, tenon::detail::is_float<A> ? 2e-6 : 0);
}

struct matmul_case {
  dims<dyn, dyn, dyn> space;
  dyn depth;
  using accumulator = int32_t;
};
/// uint8 x int8 with a zero point for each row and each column.
void matmul(index_t batch, index_t m, index_t n, index_t k) {
  name_case("matmul_any %ldx%ldx%ldx%ld", long(batch), long(m), long(n), long(k));
  matmul_case cfg;
  cfg.space = dims<dyn, dyn, dyn>(batch, m, n);
  cfg.depth = k;
  buffer<uint8_t> a(batch * m * k), a_zero(m);
  buffer<int8_t> b(k * n), b_zero(n);
  buffer<int32_t> y(batch * m * n);
  a.fill_random(0, 255);
  a_zero.fill_random(0, 255);
  b.fill_random(-128, 127);
  b_zero.fill_random(-128, 127);
  std::vector<double> want;
  for (index_t s = 0; s < batch; ++s)
    for (index_t i = 0; i < m; ++i)
      for (index_t j = 0; j < n; ++j) {
        int sum = 0;
        for (index_t d = 0; d < k; ++d)
          sum += (a.get((s * m + i) * k + d) - a_zero.get(i)) * (b.get(d * n + j) - b_zero.get(j));
        want.push_back(sum);
      }
  using three = dims<dyn, dyn, fixed<1>>;
  launch(cuda::matmul_any(cfg, make_view<const uint8_t>(a.device(), three(m * k, k, {})),
                          make_view<const uint8_t>(a_zero.device(), extents<1>{}),
                          make_view<const int8_t>(b.device(), dims<fixed<0>, dyn, fixed<1>>({}, n, {})),
                          make_view<const int8_t>(b_zero.device(), extents<1>{}), pack(make_view(y.device(), three(m * n, n, {}))),
                          pack(), cuda::identity_body{}));
  expect_close(y, want, 0);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  conv<float, float, false>(2, 1, 3, 5, 7, 6, 3, 1, 1, 1, 0);
  conv<float, float, true>(1, 2, 3, 2, 5, 4, 3, 2, 1, 1, 0);
  conv<double, double, false>(1, 1, 2, 2, 6, 6, 3, 1, 2, 2, 0);
  matmul(2, 5, 33, 40);
#endif
  conv<float, float, true>(1, 1, 2, 3, 4, 4, 2, 3, 2, 0, 0);
  conv<int8_t, int32_t, false>(1, 2, 4, 3, 6, 7, 3, 2, 1, 1, 3);
  matmul(1, 1, 1, 7);
  return finish();
}
