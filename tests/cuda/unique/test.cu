// Architectures: 800
//
// Tests of unique.
#include "cuda/unique/kernel.cuh"
#include "shared/sorting.h"

#include <algorithm>

using namespace test;

namespace {

template <bool Sorted> struct unique_config {
  dyn rows, columns;
  static constexpr bool sorted = Sorted;
};

template <bool Sorted> void unique(index_t rows, index_t columns, int values) {
  name_case("unique of %ldx%ld, %d values, sorted %d", long(rows), long(columns), values, Sorted);
  buffer<float> x(rows * columns);
  std::vector<std::vector<float>> row(static_cast<size_t>(rows));
  for (index_t i = 0; i < x.size(); ++i) {
    x.set(i, float(random_int(0, values)));
    row[size_t(i / columns)].push_back(x.get(i));
  }
  x.upload();
  std::vector<std::vector<float>> classes;
  for (const auto &r : row)
    if (std::find(classes.begin(), classes.end(), r) == classes.end())
      classes.push_back(r);
  if (Sorted)
    std::sort(classes.begin(), classes.end());
  std::vector<double> want(size_t(3 * rows), 0);
  for (index_t i = 0; i < rows; ++i)
    want[size_t(rows + i)] = -1;
  for (index_t i = 0; i < rows; ++i) {
    const auto c =
        size_t(std::find(classes.begin(), classes.end(), row[size_t(i)]) - classes.begin());
    want[size_t(i)] = double(c);
    if (want[size_t(2 * rows) + c]++ == 0)
      want[size_t(rows) + c] = double(i);
  }
  unique_config<Sorted> cfg;
  cfg.rows = rows;
  cfg.columns = columns;
  buffer<int64_t> out(3 * rows);
  buffer<int> firsts(rows);
  const auto in = make_view<const float>(x.device(), dims<dyn, fixed<1>>(columns, {}));
  const auto to = make_view(out.device(), dims<dyn, fixed<1>>(rows, {}));
  launch(cuda::unique_first(cfg, in, to, firsts.device()));
  launch(cuda::unique_class(cfg, in, to, firsts.device()));
  expect_close(out, want, 0);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  unique<true>(1, 1, 0);
  unique<true>(300, 1, 40);
  unique<false>(300, 1, 40);
#endif
  unique<true>(90, 3, 2);
  unique<false>(150, 2, 3);
  return finish();
}
