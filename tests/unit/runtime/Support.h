// Defines what the runtime tests share: seeded values, and comparison with a reference in double.
#ifndef TENON_TESTS_UNIT_RUNTIME_SUPPORT_H
#define TENON_TESTS_UNIT_RUNTIME_SUPPORT_H

#include "common/scalar.h"
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace tenon::test {

/// `count` seeded values in [-1, 1).
inline std::vector<float> randomFloats(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float &v : values)
    v = uniform(engine);
  return values;
}

/// `count` seeded integers of T in [lo, hi].
template <class T> std::vector<T> randomIntegers(size_t count, int lo, int hi, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> uniform(lo, hi);
  std::vector<T> values(count);
  for (T &v : values)
    v = T(uniform(engine));
  return values;
}

/// Every element of `got` within `relative` of the largest magnitude in `want`.
template <class T>
void expectClose(const std::vector<T> &got, const std::vector<double> &want,
                 double relative = 2e-6) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 1e-30;
  for (double w : want)
    largest = std::max(largest, std::abs(w));
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(double(got[i]), want[i], relative * largest)
        << "at element " << i << " of " << want.size();
}

/// A dimension as the emitter writes it: constant, or the same value known at run time only.
template <bool Dynamic, index_t N> struct extent_of {
  using type = fixed<N>;
  static type make() { return {}; }
};
template <index_t N> struct extent_of<true, N> {
  using type = dyn;
  static type make() { return N; }
};

template <class... Ds> dims<Ds...> listOf(Ds... extents) { return dims<Ds...>(extents...); }

} // namespace tenon::test

#endif
