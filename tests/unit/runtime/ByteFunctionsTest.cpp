// Tests of functions of bytes: lookup over all lanes, softmax_bytes against its definition and
// against softmax of reals.
#include "Support.h"
#include "common/lookup.h"
#include "common/quads.h"
#include "cpu/softmax_bytes.h"

#include <cmath>

namespace {
using namespace tenon;

template <class L, class V, class T> void testLookup(const T (&table)[256]) {
  V bytes[256];
  T found[256];
  for (int i = 0; i < 256; ++i)
    bytes[i] = V(i);
  for (int i = 0; i < 256; i += L::width)
    store<L>(found + i, lookup<L>(load<L>(bytes + i), table));
  for (int i = 0; i < 256; ++i)
    ASSERT_EQ(found[i], table[i]) << "bits " << i;
}

template <class T> void testLookups() {
  T table[256];
  for (int i = 0; i < 256; ++i)
    table[i] = T(i * 40503 + 7);
  testLookup<scalar_lanes, int8_t>(table);
  testLookup<native_lanes, int8_t>(table);
  testLookup<native_lanes, uint8_t>(table);
  testLookup<quads, int8_t>(table);
  testLookup<quads, uint8_t>(table);
}

TEST(Lookup, GivesTheEntryOfTheBits) {
  testLookups<int8_t>();
  testLookups<uint8_t>();
  testLookups<int32_t>();
}

TEST(SoftmaxBytes, ReciprocalsAreThoseOfDivision) {
  std::mt19937 engine(1);
  for (int i = 0; i < 1000; ++i) {
    const uint32_t n = i == 0 ? 0x80000000u : i == 1 ? 0xffffffffu : engine() | 0x80000000u;
    const auto quotient = uint32_t((uint64_t(1) << 62) / n);
    ASSERT_EQ(cpu::detail::reciprocal_by_bits(n), quotient) << n;
    ASSERT_EQ(cpu::detail::reciprocal_of(n), quotient) << n;
  }
}

TEST(SoftmaxBytes, TiesGoToEvenAndResultsSaturate) {
  using cpu::detail::softmax_step;
  EXPECT_EQ(softmax_step<int8_t>(3, {1, 1}, 0), 2); // 1.5
  EXPECT_EQ(softmax_step<int8_t>(5, {1, 1}, 0), 2); // 2.5
  EXPECT_EQ(softmax_step<int8_t>(5, {1, 0}, -128), -123);
  EXPECT_EQ(softmax_step<int8_t>(300, {1, 0}, -128), 127);
  EXPECT_EQ(softmax_step<uint8_t>(256, {1, 0}, 0), 255);
  EXPECT_EQ(softmax_step<uint8_t>(0x7fffffff, {1, 0}, 0), 255);
}

struct tenth {
  static constexpr int multiplier = 1 << 30, shift = 22, zero = -128; // 256 steps
};

/// Rows of N of the bytes with `Stride` between elements; within a step of the reals.
template <index_t N, bool Across> void testRows(double scale, int spread) {
  constexpr index_t rows = 7;
  const int bits = 30 - int(std::ceil(std::log2(double(N))));
  uint32_t table[256];
  for (int d = 0; d < 256; ++d)
    table[d] = uint32_t(std::llrint(std::ldexp(std::exp(-scale * d), bits)));
  const auto x = test::randomIntegers<int8_t>(size_t(rows * N), -spread, spread - 1, 3);
  std::vector<int8_t> y(x.size(), 99);
  using S = std::conditional_t<Across, extents<1, rows>, extents<N, 1>>;
  cpu::pool workers(1);
  cpu::softmax_bytes<int8_t>(tenth{}, extents<rows, N>{}, make_view(x.data(), S{}), table,
                             pack(make_view(y.data(), S{})), pack(), cpu::identity_body{}, workers);
  for (index_t r = 0; r < rows; ++r) {
    const auto at = [&](index_t i) { return size_t(Across ? i * rows + r : r * N + i); };
    double sum = 0;
    for (index_t i = 0; i < N; ++i)
      sum += std::exp(scale * x[at(i)]);
    for (index_t i = 0; i < N; ++i) {
      const double exact = std::exp(scale * x[at(i)]) / sum * 256 - 128;
      ASSERT_NEAR(double(y[at(i)]), std::min(exact, 127.0), 0.51) << "row " << r << ", " << i;
    }
  }
}

TEST(SoftmaxBytes, IsWithinHalfAStepOfReals) {
  testRows<1, false>(0.1, 128);
  testRows<10, false>(0.05, 128);
  testRows<10, true>(0.02, 128);
  testRows<197, false>(0.08, 128);
  testRows<1000, true>(0.2, 20);
}

} // namespace
