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

/// Rows of a that are K apart, as is known when the kernel is compiled, of which those of the last
/// tile are not all there.
template <index_t K> void checkRowsInPlace() {
  constexpr index_t M = 10, N = 2 * W + 3;
  Dynamic cfg;
  cfg.batch0 = 1, cfg.batch1 = 2, cfg.m = M, cfg.n = N, cfg.k = K;
  const auto a = randomFloats(2 * M * K, 1), b = randomFloats(2 * K * N, 2);
  std::vector<float> y(2 * M * N);
  std::vector<double> want(y.size());
  for (index_t i = 0; i < 2 * M; ++i)
    for (index_t n = 0; n < N; ++n)
      for (index_t k = 0; k < K; ++k)
        want[size_t(i * N + n)] +=
            double(a[size_t(i * K + k)]) * b[size_t((i / M * K + k) * N + n)];
  pool workers(2);
  matmul_dynamic(cfg, make_view(a.data(), extents<0, M * K, K, 1>()),
                 make_view(b.data(), extents<0, K * N, N, 1>()),
                 pack(make_view(y.data(), extents<0, M * N, N, 1>())), pack(), identity_body{},
                 workers);
  expectClose(y, want);
}
TEST(MatMul, RowsAreReadInPlaceUnlessTheyShareASet) {
  using cpu::detail::row_distance_in_place;
  static_assert(row_distance_in_place<float, float, fixed<23>, fixed<1>>() == 23);
  static_assert(row_distance_in_place<float, float, fixed<2048>, fixed<1>>() == 0);
  static_assert(row_distance_in_place<float, float, dyn, fixed<1>>() == 0);
  static_assert(row_distance_in_place<float, float, fixed<1>, fixed<23>>() == 0);
  static_assert(row_distance_in_place<float, f16, fixed<23>, fixed<1>>() == 0);
  checkRowsInPlace<13>();
  checkRowsInPlace<53>(); // several blocks of depth
  checkRowsInPlace<1024>();
}

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

template <class A, class B, int ZeroA, int ZeroB> struct Pairs : matmul_dynamic_defaults {
  dyn batch0, batch1, m, n, k;
  static constexpr int mr = 4, nr = 2 * W, depth = 16;
  static constexpr fixed<ZeroA> zero_a{};
  dyn zero_b = ZeroB; // one as steps that are alike have it
  static constexpr bool pairs = true;
  using accumulator = int32_t;
};
/// BAcross: columns of b lie side by side.
template <class A, class B, int ZeroA, int ZeroB, bool BAcross>
void checkPairsOf(index_t M, index_t N, index_t K) {
  using Config = Pairs<A, B, ZeroA, ZeroB>;
  Config cfg;
  cfg.batch0 = 1, cfg.batch1 = 2, cfg.m = M, cfg.n = N, cfg.k = K;
  const auto a = randomIntegers<A>(size_t(2 * M * K), std::numeric_limits<A>::min(),
                                   std::numeric_limits<A>::max(), 1);
  const auto b = randomIntegers<B>(size_t(2 * K * N), std::numeric_limits<B>::min(),
                                   std::numeric_limits<B>::max(), 2);
  std::vector<int32_t> y(size_t(2 * M * N), -1);
  pool workers(2);
  const auto outs =
      pack(make_view(y.data(), dims<dyn, dyn, dyn, fixed<1>>(dyn(0), dyn(M * N), dyn(N), {})));
  const auto left =
      make_view(a.data(), dims<dyn, dyn, dyn, fixed<1>>(dyn(0), dyn(M * K), dyn(K), {}));
  const auto check = [&](auto products, const auto &right) {
    cpu::detail::matmul_dynamic_by<decltype(products)>(cfg, left, right, outs, pack(),
                                                       identity_body{}, workers);
    for (index_t i = 0; i < 2 * M * N; ++i) {
      const index_t batch = i / (M * N), m = i / N % M, n = i % N;
      int32_t sum = 0;
      for (index_t k = 0; k < K; ++k)
        sum += (a[size_t((batch * M + m) * K + k)] - ZeroA) *
               (b[size_t(BAcross ? (batch * K + k) * N + n : (batch * N + n) * K + k)] - ZeroB);
      ASSERT_EQ(y[size_t(i)], sum) << M << "x" << N << "x" << K << " at " << i;
    }
  };
  const auto each = [&](const auto &right) {
    check(cpu::detail::word_products<Config>(cfg), right);
#if TENON_FOUR_PRODUCTS
    std::fill(y.begin(), y.end(), -1);
    if (has_four_products)
      check(cpu::detail::dynamic_fours<Config, decltype(left), std::decay_t<decltype(right)>>(cfg),
            right);
#endif
  };
  if constexpr (BAcross)
    each(make_view(b.data(), dims<dyn, dyn, dyn, fixed<1>>(dyn(0), dyn(N * K), dyn(N), {})));
  else
    each(make_view(b.data(), dims<dyn, dyn, fixed<1>, dyn>(dyn(0), dyn(N * K), {}, dyn(K))));
}
void checkPairs(index_t M, index_t N, index_t K) {
  checkPairsOf<int8_t, uint8_t, -7, 130, false>(M, N, K);
  checkPairsOf<uint8_t, uint8_t, 0, 77, true>(M, N, K);
  checkPairsOf<uint8_t, int8_t, 255, 0, true>(M, N, K);
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
