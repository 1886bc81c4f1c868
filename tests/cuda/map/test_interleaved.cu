// Architectures: 800
//
// Tests of map_interleaved.
#include "cuda/map/interleaved.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

using namespace test;

namespace {

template <index_t Runs, int V> struct interleaved_config {
  dims<dyn, dyn, fixed<Runs>> space;
  static constexpr int vector = V;
};
struct add_body {
  template <class L> TENON_FN results<f32<L>, f32<L>> operator()(L, f32<L> a, f32<L> b, f32<L> c) const {
    return pack(a + b * c, a - b);
  }
};

/// NCHW to NHWC with a factor over channels and a summand already in NHWC, of which the sum and the
/// difference are stored.
template <class T, index_t Channels, int V> void interleaved(index_t batch, index_t pixels, index_t skew = 0) {
  name_case("map_interleaved %ldx%ldx%ld vector %d skew %ld of %zu-byte", long(batch), long(Channels), long(pixels),
            V, long(skew), sizeof(T));
  const index_t n = batch * Channels * pixels;
  buffer<T> x(n, skew), y(n, skew);
  buffer<float> factor(Channels), summand(n), z(n);
  x.fill_random();
  factor.fill_random();
  summand.fill_random();
  std::vector<double> want_y(n), want_z(n);
  for (index_t b = 0; b < batch; ++b)
    for (index_t c = 0; c < Channels; ++c)
      for (index_t p = 0; p < pixels; ++p) {
        const index_t to = (b * pixels + p) * Channels + c;
        const double a = x.get((b * Channels + c) * pixels + p), s = summand.get(to);
        want_y[to] = a + s * double(factor.get(c));
        want_z[to] = a - s;
      }
  interleaved_config<Channels, V> cfg;
  cfg.space.head = batch;
  cfg.space.tail.head = pixels;
  using nhwc = dims<dyn, fixed<Channels>, fixed<1>>;
  using nchw = dims<dyn, fixed<1>, dyn>;
  const nhwc to(Channels * pixels, {}, {});
  launch(cuda::map_interleaved(
      cfg, pack(make_view(y.device(), to), make_view(z.device(), to)),
      pack(make_view<const T>(x.device(), nchw(Channels * pixels, {}, pixels)),
           make_view<const float>(summand.device(), to), make_view<const float>(factor.device(), extents<0, 0, 1>{})),
      add_body{}));
  expect_close(y, want_y, rounding<T>() * 2);
  expect_close(z, want_z, 1e-6);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  interleaved<float, 2, 4>(3, 40);
  interleaved<float, 3, 4>(2, 41);
  interleaved<float, 8, 8>(1, 7);
  interleaved<f16, 2, 8>(5, 256);
  interleaved<f16, 2, 8>(5, 250, 1);
  interleaved<bf16, 4, 8>(1, 1);
  interleaved<float, 5, 1>(2, 6);
  interleaved<f16, 3, 8>(0, 9);
#endif
  interleaved<f16, 3, 8>(2, 1001);
  interleaved<float, 4, 4>(1, 0);
  return finish();
}
