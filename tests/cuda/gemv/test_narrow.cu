// Architectures: 800
//
// Tests of gemv_narrow: weights of 2, 4 and 8 bits, integers and f8e4m3, with scales and zero
// points by blocks.
#include "cuda/gemv/narrow.cuh"
#include "shared/harness.h"

using namespace test;

namespace {

template <class X, class W, index_t M, int K, int Block, int Lanes, int Columns, int Run>
struct narrow_case {
  static constexpr fixed<M> m{};
  dyn n;
  static constexpr int k = K, block = Block, lanes = Lanes, columns = Columns, run = Run;

  static constexpr int bits = packed_bits<W> > 0 ? packed_bits<W> : 8;
  /// Element i of packed bytes.
  static double element(int byte, index_t i) {
    if constexpr (tenon::detail::is_minifloat<W>) {
      const W value{uint8_t(byte)};
      return double(load_element(&value));
    }
    const int v = byte >> (i * bits % 8) & ((1 << bits) - 1);
    return tenon::detail::is_signed<compute_t<W>> && v >> (bits - 1) ? v - (1 << bits) : v;
  }

  static void check(index_t columns_of_y, bool zeros, index_t skew = 0) {
    name_case("gemv_narrow m%ld n%ld k%d block %d of %d bits lanes %d columns %d run %d zeros %d",
              long(M), long(columns_of_y), K, Block, bits, Lanes, Columns, Run, int(zeros));
    narrow_case cfg;
    cfg.n = columns_of_y;
    const index_t n = columns_of_y, blocks = K / Block;
    buffer<X> x(M * K, skew), scale(n * blocks), zero(n * blocks), y(M * n, skew);
    buffer<uint8_t> w(n * K * bits / 8);
    x.fill_random();
    scale.fill_random();
    for (index_t i = 0; i < n * blocks; ++i)
      zero.set(i, float(random_int(-3, 12)));
    zero.upload();
    for (index_t i = 0; i < n * K * bits / 8; ++i)
      w.set(i, uint8_t(tenon::detail::is_minifloat<W> ? random_int(0, 1) * 128 + random_int(0, 72)
                                                      : random_int(0, 255))); // no NaN
    w.upload();
    std::vector<double> want;
    for (index_t m = 0; m < M; ++m)
      for (index_t j = 0; j < n; ++j) {
        double sum = 0;
        for (index_t i = 0; i < K; ++i) {
          const index_t at = j * K + i, of = j * blocks + i / Block;
          const double v = element(int(w.get(at * bits / 8)), at);
          sum += double(x.get(m * K + i)) * (v - (zeros ? double(zero.get(of)) : 0.0)) *
                 double(scale.get(of));
        }
        want.push_back(sum);
      }
    launch(cuda::gemv_narrow<W>(
        cfg, make_view<const X>(x.device(), dims<dyn, fixed<1>>(K, {})),
        static_cast<const unsigned char *>(w.device()), static_cast<const X *>(scale.device()),
        zeros ? static_cast<const X *>(zero.device()) : nullptr,
        pack(make_view(y.device(), dims<dyn, fixed<1>>(n, {}))), pack(), cuda::identity_body{}));
    expect_close(y, want, rounding<X>() + 1e-5);
  }
};

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  narrow_case<float, int4_t, 1, 512, 32, 32, 1, 16>::check(37, false);
  narrow_case<float, uint4_t, 1, 4096, 128, 128, 2, 16>::check(65, true);
  narrow_case<f16, uint4_t, 8, 256, 64, 32, 1, 16>::check(11, true);
  narrow_case<float, int8_t, 2, 400, 400, 64, 1, 16>::check(20, false);
  narrow_case<float, int2_t, 4, 512, 64, 32, 2, 16>::check(33, true);
  narrow_case<float, uint2_t, 1, 64, 16, 32, 1, 4>::check(7, true);
  narrow_case<float, f8e4m3, 2, 400, 400, 64, 1, 16>::check(20, false);
#endif
  narrow_case<f16, f8e4m3, 1, 1024, 32, 64, 2, 16>::check(50, false);
  narrow_case<float, uint4_t, 3, 96, 16, 32, 2, 8>::check(9, true, 1);
  narrow_case<f16, int4_t, 1, 1024, 32, 64, 2, 16>::check(50, false);
  narrow_case<float, uint8_t, 1, 48, 16, 32, 1, 16>::check(5, true);
  return finish();
}
