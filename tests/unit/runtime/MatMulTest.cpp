// Tests cpu::matmul (packed right operand) and cpu::matmul_dynamic against sums in double.
#include "cpu/matmul.h"
#include "Support.h"
#include "cpu/matmul_dynamic.h"

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

constexpr int W = native_lanes::width;

struct BiasRelu {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const {
    return relu<L>(f32<L>(a + b));
  }
};
struct Shift {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> s) const { return a + s; }
};

struct Base : matmul_defaults {
  static constexpr fixed<2> batch0{};
  static constexpr fixed<3> batch1{};
  static constexpr fixed<11> m{};
  static constexpr fixed<2 * W + 5> n{};
  static constexpr fixed<23> k{};
  static constexpr int mr = 4, nr = 2 * W;
  using accumulator = float;
};

template <class Cfg, bool Prologue = false> void checkPacked() {
  Cfg cfg;
  const index_t B = cfg.batch0 * cfg.batch1, M = cfg.m, N = cfg.n, K = cfg.k;
  const bool shared = cfg.b_stride1 == 0;
  const index_t bs = shared ? 1 : B, panel = ceil_div(N, Cfg::nr) * K * Cfg::nr;
  const auto a = randomFloats(B * M * K, 1), b = randomFloats(bs * K * N, 2),
             bias = randomFloats(N, 3), shift = randomFloats(K, 4);
  std::vector<float> y(B * M * N), packed(bs * panel);
  for (index_t i = 0; i < bs; ++i)
    for (index_t k = 0; k < K; ++k)
      for (index_t n = 0; n < N; ++n)
        packed[i * panel + (n / Cfg::nr * K + k) * Cfg::nr + n % Cfg::nr] = b[(i * K + k) * N + n];
  std::vector<double> want(y.size());
  for (index_t i = 0; i < B; ++i)
    for (index_t m = 0; m < M; ++m)
      for (index_t n = 0; n < N; ++n) {
        double sum = bias[n];
        for (index_t k = 0; k < K; ++k)
          sum += (double(a[(i * M + m) * K + k]) + (Prologue ? shift[k] : 0)) *
                 b[((shared ? 0 : i) * K + k) * N + n];
        want[(i * M + m) * N + n] = std::max(sum, 0.0);
      }
  pool workers(3);
  const index_t b1 = cfg.batch1;
  constexpr index_t fixedK = decltype(cfg.k)::value;
  const auto av = make_view(
      a.data(), dims<dyn, dyn, fixed<fixedK>, fixed<1>>(dyn(b1 * M * K), dyn(M * K), {}, {}));
  const auto outs = pack(
      make_view(y.data(), dims<dyn, dyn, dyn, fixed<1>>(dyn(b1 * M * N), dyn(M * N), dyn(N), {})));
  const auto ins = pack(make_view(bias.data(), extents<0, 0, 0, 1>()));
  if constexpr (Prologue)
    matmul(cfg, av, packed.data(), outs, ins, BiasRelu{}, workers, Shift{},
           pack(make_view(shift.data(), extents<1>())));
  else
    matmul(cfg, av, packed.data(), outs, ins, BiasRelu{}, workers);
  expectClose(y, want);
}

TEST(MatMul, SharedPacked) { checkPacked<Base>(); }
TEST(MatMul, Prologue) { checkPacked<Base, true>(); }
struct Batched : Base {
  static constexpr index_t panel = ceil_div(decltype(n)::value, nr) * decltype(k)::value * nr;
  static constexpr fixed<3 * panel> b_stride0{};
  static constexpr fixed<panel> b_stride1{};
};
TEST(MatMul, PackedPerBatch) { checkPacked<Batched>(); }
struct Vector : Base {
  static constexpr fixed<1> m{};
  static constexpr int mr = 1, nr = 8 * W;
};
TEST(MatMul, OneRow) { checkPacked<Vector>(); }
struct RunTimeRows : matmul_defaults {
  dyn batch0 = 1, batch1 = 2, m = 9, n = W + 1;
  static constexpr fixed<8> k{};
  static constexpr int mr = 5, nr = W;
  using accumulator = float;
};
TEST(MatMul, RunTimeExtents) { checkPacked<RunTimeRows>(); }

/// Both operands at run time, each row-major or transposed.
template <class Cfg, bool TransA, bool TransB> void checkDynamic(Cfg cfg) {
  const index_t B = cfg.batch0 * cfg.batch1, b1 = cfg.batch1, M = cfg.m, N = cfg.n, K = cfg.k;
  const auto a = randomFloats(B * M * K, 1), b = randomFloats(B * K * N, 2),
             bias = randomFloats(N, 3);
  std::vector<float> y(B * M * N);
  std::vector<double> want(y.size());
  for (index_t i = 0; i < B; ++i)
    for (index_t m = 0; m < M; ++m)
      for (index_t n = 0; n < N; ++n) {
        double sum = bias[n];
        for (index_t k = 0; k < K; ++k)
          sum += double(a[i * M * K + (TransA ? k * M + m : m * K + k)]) *
                 b[i * K * N + (TransB ? n * K + k : k * N + n)];
        want[(i * M + m) * N + n] = std::max(sum, 0.0);
      }
  pool workers(3);
  const auto matrix = [&](const auto &v, index_t rows, index_t columns, auto transposed) {
    if constexpr (decltype(transposed)::value)
      return make_view(v.data(), dims<dyn, dyn, fixed<1>, dyn>(dyn(b1 * rows * columns),
                                                               dyn(rows * columns), {}, dyn(rows)));
    else
      return make_view(v.data(),
                       dims<dyn, dyn, dyn, fixed<1>>(dyn(b1 * rows * columns), dyn(rows * columns),
                                                     dyn(columns), {}));
  };
  matmul_dynamic(cfg, matrix(a, M, K, counter<TransA>{}), matrix(b, K, N, counter<TransB>{}),
                 pack(make_view(y.data(), dims<dyn, dyn, dyn, fixed<1>>(dyn(b1 * M * N), dyn(M * N),
                                                                        dyn(N), {}))),
                 pack(make_view(bias.data(), extents<0, 0, 0, 1>())), BiasRelu{}, workers);
  expectClose(y, want);
}
struct Dynamic : matmul_dynamic_defaults {
  dyn batch0, batch1, m, n, k;
  static constexpr int mr = 4, nr = 2 * W, depth = 16;
  using accumulator = float;
};
TEST(MatMul, DynamicOperands) {
  Dynamic cfg;
  cfg.batch0 = 2, cfg.batch1 = 3, cfg.m = 9, cfg.n = 2 * W + 3, cfg.k = 13;
  checkDynamic<Dynamic, false, false>(cfg);
  checkDynamic<Dynamic, true, false>(cfg);
  checkDynamic<Dynamic, false, true>(cfg);
  cfg.k = 53; // several blocks of depth
  checkDynamic<Dynamic, true, true>(cfg);
  cfg.m = 1, cfg.n = 1, cfg.k = 1;
  checkDynamic<Dynamic, false, true>(cfg);
}

/// Bytes of two types with zero points, by pairs.
/// Blocks of columns that share the copies of a, whose rows are turned in registers.
struct Shared : Dynamic {
  static constexpr int mr = W > 2 ? W - 2 : 2, panels = 4, depth = 3 * W;
};
TEST(MatMul, DynamicOperandsShareCopies) {
  Shared cfg;
  cfg.batch0 = 4, cfg.batch1 = 8, cfg.m = 9 * W + 1, cfg.n = 5 * 2 * W + 3, cfg.k = 3 * W;
  checkDynamic<Shared, false, false>(cfg);
  checkDynamic<Shared, false, true>(cfg);
  cfg.k = 5 * W + 1; // two blocks of depth
  checkDynamic<Shared, false, false>(cfg);
  checkDynamic<Shared, true, true>(cfg);
}

struct Pairs : matmul_dynamic_defaults {
  dyn batch0, batch1, m, n, k;
  static constexpr int mr = 4, nr = 2 * W, depth = 16, zero_a = -7, zero_b = 130;
  static constexpr bool pairs = true;
  using accumulator = int32_t;
};
void checkPairs(index_t M, index_t N, index_t K) {
  Pairs cfg;
  cfg.batch0 = 1, cfg.batch1 = 2, cfg.m = M, cfg.n = N, cfg.k = K;
  const auto a = randomIntegers<int8_t>(size_t(2 * M * K), -128, 127, 1);
  const auto b = randomIntegers<uint8_t>(size_t(2 * K * N), 0, 255, 2);
  std::vector<int32_t> y(size_t(2 * M * N), -1);
  pool workers(2);
  matmul_dynamic(
      cfg, make_view(a.data(), dims<dyn, dyn, dyn, fixed<1>>(dyn(0), dyn(M * K), dyn(K), {})),
      make_view(b.data(), dims<dyn, dyn, fixed<1>, dyn>(dyn(0), dyn(N * K), {}, dyn(K))),
      pack(make_view(y.data(), dims<dyn, dyn, dyn, fixed<1>>(dyn(0), dyn(M * N), dyn(N), {}))),
      pack(), identity_body{}, workers);
  for (index_t i = 0; i < 2 * M * N; ++i) {
    const index_t batch = i / (M * N), m = i / N % M, n = i % N;
    int32_t sum = 0;
    for (index_t k = 0; k < K; ++k)
      sum += (a[size_t((batch * M + m) * K + k)] + 7) * (b[size_t((batch * N + n) * K + k)] - 130);
    ASSERT_EQ(y[size_t(i)], sum) << M << "x" << N << "x" << K << " at " << i;
  }
}
TEST(MatMul, PairsOfBytes) {
  checkPairs(9, 2 * W + 3, 13);
  checkPairs(5, 3, 32);
  checkPairs(35, W, 75); // several blocks and groups of tiles
  checkPairs(1, 1, 1);
}

TEST(MatMul, EmptySumIsZero) {
  Dynamic cfg;
  cfg.batch0 = 1, cfg.batch1 = 1, cfg.m = 2, cfg.n = 3, cfg.k = 0;
  checkDynamic<Dynamic, false, false>(cfg);
}

} // namespace
