// Architectures: 800
//
// Tests of conv_tf32_sm80, conv_tf32x3_sm80 and their matrix products.
#include "cuda/contract_mma/tf32.cuh"
#include "shared/volume_cases.h"

using namespace test;

namespace {

struct tf32 {
  static constexpr const char *name = "tf32";
  using weight = float;
  using packing = row_weights;
  template <class T> static constexpr double tolerance() { return 2e-3; }
  template <class... Args> static auto conv(Args... args) { return cuda::conv_tf32_sm80(args...); }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_tf32_sm80(args...);
  }
};
struct tf32_tiles : tf32 {
  static constexpr const char *name = "tf32 of tiles";
  using packing = tiled_weights;
};
struct tf32x3 {
  static constexpr const char *name = "tf32x3";
  using weight = float;
  using packing = row_weights;
  /// That of fp32 (tests/cuda/contract_simt/test.cu).
  template <class T> static constexpr double tolerance() { return rounding<T>() + 1e-6; }
  template <class... Args> static auto conv(Args... args) {
    return cuda::conv_tf32x3_sm80(args...);
  }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_tf32x3_sm80(args...);
  }
};
struct tf32x3_tiles : tf32x3 {
  static constexpr const char *name = "tf32x3 of tiles";
  using packing = tiled_weights;
};
using small = cuda::contract_mma_schedule<32, 32, 16, 16, 16, 2>;
using square = cuda::contract_mma_schedule<64, 64, 32, 32, 32, 3>;
using large = cuda::contract_mma_schedule<128, 128, 32, 64, 32, 3>;
using narrow = cuda::contract_mma_schedule<64, 16, 16, 16, 16, 4>;
using paired = cuda::contract_mma_schedule<64, 64, 32, 32, 32, 3, 1, 2>;
template <int S> using split = cuda::contract_mma_schedule<32, 64, 32, 16, 32, 3, S>;

template <class Rows, class Tiles> void cases() {
  conv<Rows, float, small, 8, 32, 3>(1, 9, 7, 1, 1, 1);
  conv<Rows, float, small, 3, 20, 3>(2, 11, 13, 2, 1, 1);
  conv<Rows, float, small, 16, 33, 5>(1, 12, 6, 3, 2, 4);
  conv<Rows, float, small, 8, 32, 1>(1, 5, 5, 1, 1, 0, 1);
  conv<Rows, float, square, 32, 70, 3>(3, 6, 6, 1, 1, 1);
  conv<Rows, float, square, 20, 5, 1>(1, 17, 9, 1, 1, 0);
  conv<Rows, float, large, 64, 136, 3>(1, 14, 14, 1, 1, 1);
  conv<Rows, float, narrow, 40, 12, 3>(1, 9, 9, 1, 1, 1);
  conv<Rows, float, small, 4, 8, 3, 3>(2, 6, 5, 1, 1, 1);
  conv<Rows, float, small, 2, 2, 3, 4>(1, 6, 5, 2, 1, 1, 3);
  conv<Rows, f16, small, 8, 16, 3>(1, 8, 8, 1, 1, 1);
  conv<Rows, float, split<3>, 32, 72, 3>(1, 7, 7, 1, 1, 1);
  conv<Rows, float, split<2>, 9, 12, 3, 2>(1, 5, 5, 1, 1, 1);
  conv<Tiles, float, small, 8, 32, 3>(1, 9, 7, 1, 1, 1);
  conv<Tiles, float, square, 24, 70, 1>(1, 17, 9, 1, 1, 0);
  conv<Tiles, float, narrow, 40, 12, 3>(1, 9, 9, 1, 1, 1);
  conv_prologue<Rows, float, small, 6>();
  conv_prologue<Rows, float, square, 16>();
  conv_prologue<Tiles, float, square, 16>();
  matmul<Rows, float, small, 24, false>(3, 10, 37, false);
  matmul<Rows, float, small, 24, false>(1, 33, 40, false);
  matmul<Rows, float, small, 7, true>(2, 40, 9, false);
  matmul<Rows, float, square, 50, true>(1, 65, 70, false);
  matmul<Rows, float, small, 40, false>(2, 5, 45, true);
  matmul<Rows, float, large, 33, false>(1, 130, 64, true);
  matmul<Tiles, float, large, 36, false>(1, 130, 64, true);
  conv<Rows, float, paired, 36, 70, 3>(1, 9, 7, 1, 1, 1); // teams along K
  conv<Tiles, float, paired, 24, 40, 1>(1, 7, 9, 1, 1, 0);
}

/// Errors of tf32x3 and of a chain of fused multiply-adds in fp32, over m x n sums of Depth
/// products of values in [low, 1): root mean squares, and what is proportional to the sums, for
/// that would grow from layer to layer.
template <index_t Depth> void as_exact_as_fp32(float low, index_t m, index_t n) {
  name_case("tf32x3 against fp32, k %ld, values from %g", long(Depth), double(low));
  matmul_case<square, Depth> cfg;
  cfg.batch0 = 1, cfg.batch1 = 1, cfg.m = m, cfg.n = n;
  buffer<float> a(m * Depth), b(n * Depth), y(m * n);
  std::uniform_real_distribution<float> values(low, 1.0f);
  for (buffer<float> *p : {&a, &b}) {
    for (index_t i = 0; i < p->size(); ++i)
      p->set(i, values(generator()));
    p->upload();
  }
  launch(tf32x3::matmul(
      cfg,
      make_view<const float>(a.device(),
                             dims<fixed<0>, fixed<0>, fixed<Depth>, fixed<1>>({}, {}, {}, {})),
      row_weights::view<float>(b.device()),
      pack(make_view(y.device(), dims<fixed<0>, fixed<0>, dyn, fixed<1>>({}, {}, n, {}))), pack(),
      cuda::identity_body{}));
  y.download();
  double ours = 0, plain = 0, along = 0, squares = 0;
  for (index_t i = 0; i < m; ++i)
    for (index_t j = 0; j < n; ++j) {
      double exact = 0;
      float chain = 0;
      for (index_t k = 0; k < Depth; ++k) {
        const float x = a.get(i * Depth + k), w = b.get(j * Depth + k);
        exact += double(x) * double(w);
        chain = fmaf(x, w, chain);
      }
      const double error = double(y.get(i * n + j)) - exact, reference = double(chain) - exact;
      ours += error * error;
      along += error * exact;
      squares += exact * exact;
      plain += reference * reference;
    }
  const double bias = along / squares;
  record(fabs(bias) <= 4e-8, ("a part of " + std::to_string(bias * 1e9) + "e-9 is lost").c_str());
  record(ours <= plain,
         ("the error is " + std::to_string(sqrt(ours / plain)) + " of fp32's").c_str());
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  cases<tf32, tf32_tiles>();
  cases<tf32x3, tf32x3_tiles>();
  as_exact_as_fp32<64>(-1, 70, 60);
  as_exact_as_fp32<64>(0, 70, 60);
  as_exact_as_fp32<1152>(-1, 40, 30);
  as_exact_as_fp32<1152>(0, 40, 30);
  volumes<tf32, float, small, 8>();
  volumes<tf32x3, float, square, 4>();
  volume<tf32x3, float, small, 3, 20, 3, 3, 3>(1, {4, 5, 6}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, 1);
#endif
  conv<tf32, f16, small, 8, 16, 3>(1, 8, 8, 1, 1, 1);
  conv<tf32, float, split<3>, 32, 72, 3>(1, 7, 7, 1, 1, 1);
  conv<tf32x3, float, split<2>, 9, 12, 3, 2>(1, 5, 5, 1, 1, 1);
  matmul<tf32x3_tiles, float, large, 36, false>(1, 130, 64, true);
  return finish();
}
