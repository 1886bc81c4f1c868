// Tests cpu::matmul_narrow against sums in double.
#include "Support.h"
#include "cpu/matmul_narrow.h"

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

constexpr int W = native_lanes::width;

struct Bias {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const { return a + b; }
};

struct Base : matmul_narrow_defaults {
  static constexpr fixed<2> batch0{};
  static constexpr fixed<3> m{};
  static constexpr fixed<2 * 64 + 7> n{};
  static constexpr fixed<6 * W> block{};
  static constexpr fixed<5 * 6 * W> k{};
  static constexpr int mr = 2, nc = 2, rows_at_once = 4;
};

/// Elements of `Element`, `bits` each, in the order in which the kernel reads them.
template <class Cfg, class Element, int Bits, bool Zeros> void check() {
  Cfg cfg;
  const index_t M = cfg.batch0 * cfg.batch1 * cfg.m, N = cfg.n, K = cfg.k, B = K / cfg.block;
  constexpr bool isSigned = tenon::detail::is_signed<compute_t<Element>>;
  const auto a = randomFloats(M * K, 1), scale = randomFloats(N * B, 2), bias = randomFloats(N, 3);
  auto zero = randomFloats(N * B, 4);
  for (float &z : zero)
    z = std::round(z * 3);
  std::vector<unsigned char> bytes(size_t(N * K * Bits / 8));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(i * 2654435761u >> 7);
  auto weight = [&](index_t i) {
    const int bits = bytes[size_t(i * Bits / 8)] >> (i * Bits % 8) & ((1 << Bits) - 1);
    return isSigned && bits >> (Bits - 1) ? bits - (1 << Bits) : bits;
  };
  std::vector<float> y(size_t(M * N)), copies(size_t(Cfg::rows_at_once * K));
  std::vector<double> want(y.size());
  for (index_t m = 0; m < M; ++m)
    for (index_t n = 0; n < N; ++n) {
      double sum = bias[n];
      for (index_t k = 0; k < K; ++k) {
        const index_t at = n * B + k / cfg.block;
        sum += double(a[m * K + k]) * (weight(n * K + k) - (Zeros ? zero[at] : 0)) * scale[at];
      }
      want[m * N + n] = sum;
    }
  pool workers(2);
  const auto view4 = [&](auto *p, index_t columns) {
    return make_view(p, dims<dyn, dyn, dyn, fixed<1>>(dyn(index_t(cfg.m) * columns),
                                                      dyn(index_t(cfg.m) * columns), dyn(columns),
                                                      {}));
  };
  const auto ins = pack(make_view(bias.data(), extents<0, 0, 0, 1>()));
  const auto run = [&](auto w, auto z) {
    matmul_narrow(cfg, view4(static_cast<const float *>(a.data()), K), w, scale.data(), z,
                  copies.data(), pack(view4(y.data(), N)), ins, Bias{}, workers);
  };
  const auto all = [&](auto w) {
    if constexpr (Zeros)
      run(w, static_cast<const float *>(zero.data()));
    else
      run(w, no_zero_points{});
  };
  if constexpr (Bits < 8)
    all(packed_pointer<const Element>{bytes.data(), 0});
  else
    all(reinterpret_cast<const Element *>(bytes.data()));
  expectClose(y, want);
}

TEST(MatMulNarrow, FourBits) { check<Base, int4_t, 4, false>(); }
TEST(MatMulNarrow, FourBitsUnsigned) { check<Base, uint4_t, 4, true>(); }
struct Quarters : Base {
  static constexpr fixed<4 * W> block{};
  static constexpr fixed<8 * W> k{};
  static constexpr int mr = 1, nc = 4;
};
TEST(MatMulNarrow, TwoBits) { check<Quarters, int2_t, 2, true>(); }
TEST(MatMulNarrow, TwoBitsUnsigned) { check<Quarters, uint2_t, 2, true>(); }
TEST(MatMulNarrow, Bytes) { check<Base, int8_t, 8, false>(); }
TEST(MatMulNarrow, BytesUnsigned) { check<Quarters, uint8_t, 8, true>(); }
struct Lonely : Base {
  static constexpr fixed<1> batch0{}, m{};
  static constexpr fixed<3> n{};
  static constexpr int mr = 4, nc = 2;
};
TEST(MatMulNarrow, FewerRowsAndColumnsThanATile) { check<Lonely, int4_t, 4, true>(); }

} // namespace
