// Tests cpu::topk against a stable sort: ties, NaN, infinities, rows of every length around the
// vectors that are compared at once.
#include "cpu/topk.h"
#include "Support.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

struct Both {
  template <class L, class V, class I> TENON_FN auto operator()(L, V v, I i) const {
    return pack(v, i);
  }
};

template <bool Largest, class T> void check(std::vector<T> x, index_t rows, index_t k) {
  const index_t n = index_t(x.size()) / rows;
  std::vector<T> values(size_t(rows * k));
  std::vector<int64_t> indices(size_t(rows * k));
  std::vector<index_t> places(static_cast<size_t>(k));
  pool workers(1);
  const auto over = [&](auto *p, index_t columns) {
    return make_view(p, dims<dyn, fixed<1>>(dyn(columns), {}));
  };
  topk<Largest>(dims<dyn>(dyn(rows)), dyn(n), dyn(k), over(static_cast<const T *>(x.data()), n),
                pack(over(values.data(), k), over(indices.data(), k)), pack(), Both{},
                places.data(), workers);
  for (index_t r = 0; r < rows; ++r) {
    const T *row = x.data() + r * n;
    std::vector<index_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), index_t(0));
    std::stable_sort(order.begin(), order.end(), [&](index_t a, index_t b) {
      const bool aNaN = row[a] != row[a], bNaN = row[b] != row[b]; // the largest of all
      if (aNaN || bNaN)
        return Largest ? aNaN && !bNaN : !aNaN && bNaN;
      return Largest ? row[a] > row[b] : row[a] < row[b];
    });
    for (index_t i = 0; i < k; ++i)
      ASSERT_EQ(indices[size_t(r * k + i)], order[size_t(i)])
          << i << " of row " << r << ", k " << k << " of " << n;
  }
}

template <class T> void checkLengths(const std::vector<T> &x) {
  for (index_t n : {5, 63, 64, 65, 200, 517})
    for (index_t k : {1, 2, 5, 16, 17, 50}) { // more than 16 in a heap
      if (k > n)
        break;
      const std::vector<T> some(x.begin(), x.begin() + 2 * n);
      check<true>(some, 2, k);
      check<false>(some, 2, k);
    }
}

TEST(TopK, Floats) { checkLengths(randomFloats(2000, 1)); }
TEST(TopK, Ties) {
  auto x = randomFloats(2000, 2);
  for (float &v : x)
    v = std::round(v * 3);
  checkLengths(x);
}
TEST(TopK, NumbersThatAreNone) {
  auto x = randomFloats(2000, 3);
  for (size_t i = 0; i < x.size(); ++i)
    if (i % 37 == 5)
      x[i] = std::numeric_limits<float>::quiet_NaN();
    else if (i % 41 == 7)
      x[i] = (i % 2 ? 1 : -1) * std::numeric_limits<float>::infinity();
  checkLengths(x);
  std::fill(x.begin(), x.end(), std::numeric_limits<float>::quiet_NaN());
  x[70] = 1;
  checkLengths(x);
}
TEST(TopK, Integers) { checkLengths(randomIntegers<int64_t>(2000, -50, 50, 4)); }

} // namespace
