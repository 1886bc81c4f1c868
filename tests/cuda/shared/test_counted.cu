// Architectures: 800
//
// Tests of kernels whose results hang on data: nonzero, unique, non_max_suppression.
#include "cuda/suppression/kernel.cuh"
#include "cuda/suppression/sorted.cuh"
#include "cuda/nonzero/kernel.cuh"
#include "cuda/unique/kernel.cuh"
#include "shared/harness.h"
#include "shared/sorting.h"

#include <algorithm>
#include <map>

using namespace test;

namespace {

struct nonzero_config {
  dims<dyn, dyn, dyn> space;
};

/// Of `one_in` elements one is not zero; with 0 none is. Dimensions may be absent, or empty.
template <class T> void nonzero(index_t a, index_t b, index_t c, int one_in) {
  name_case("nonzero %ldx%ldx%ld, one in %d", long(a), long(b), long(c), one_in);
  const index_t n = a * b * c;
  buffer<T> x(std::max<index_t>(n, 1));
  std::vector<index_t> found;
  for (index_t i = 0; i < n; ++i) {
    const bool there = one_in > 0 && random_int(1, one_in) == 1;
    x.set(i, compute_t<T>(there ? random_int(0, 1) * 2 - 1 : 0));
    if (there)
      found.push_back(i);
  }
  x.upload();
  std::vector<double> want;
  for (int d = 0; d < 3; ++d)
    for (index_t i : found)
      want.push_back(double(d == 0 ? i / (b * c) : d == 1 ? i / c % b : i % c));
  nonzero_config cfg;
  cfg.space = dims<dyn, dyn, dyn>(a, b, c);
  buffer<int64_t> places(std::max<index_t>(index_t(want.size()), 1));
  buffer<int64_t> memory(index_t(sizeof(cuda::counted) / sizeof(int64_t)));
  auto *numbers = reinterpret_cast<cuda::counted *>(memory.device());
  const auto view = make_view<const T>(x.device(), dims<dyn, dyn, fixed<1>>(b * c, c, {}));
  launch(cuda::nonzero_count(cfg, view, numbers));
  launch(cuda::nonzero_place(cfg, view, numbers, places.device()));
  memory.download();
  record(memory.get(0) == int64_t(found.size()), "the number found");
  if (!want.empty())
    expect_close(places, want, 0);
}

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

struct boxes_config {
  dyn batch, classes, n, k;
  static constexpr bool center = false;
};

/// Against the definition: candidates by score, each taken unless it overlaps one taken before.
void suppression(index_t batch, index_t classes, index_t n, index_t k, float iou) {
  buffer<float> boxes(batch * n * 4), scores(batch * classes * n);
  for (index_t i = 0; i < batch * n; ++i)
    for (int d = 0; d < 2; ++d) {
      const int low = random_int(0, 20);
      boxes.set(i * 4 + d, float(low));
      boxes.set(i * 4 + 2 + d, float(low + random_int(1, 10)));
    }
  for (index_t i = 0; i < scores.size(); ++i)
    scores.set(i, float(random_int(-3, 9))); // many equals, some too low
  boxes.upload();
  scores.upload();
  std::vector<double> want;
  for (index_t b = 0; b < batch; ++b)
    for (index_t c = 0; c < classes; ++c) {
      const auto score = [&](index_t i) { return scores.get((b * classes + c) * n + i); };
      const auto read = [&](index_t i) {
        float v[4];
        for (index_t d = 0; d < 4; ++d)
          v[d] = boxes.get((b * n + i) * 4 + d);
        return box::of<false>(v);
      };
      std::vector<index_t> order, taken;
      for (index_t i = 0; i < n; ++i)
        if (score(i) > 0)
          order.push_back(i);
      std::stable_sort(order.begin(), order.end(),
                       [&](index_t i, index_t j) { return score(i) > score(j); });
      for (index_t i : order)
        if (index_t(taken.size()) < k && std::none_of(taken.begin(), taken.end(), [&](index_t t) {
              return overlap(read(i), read(t)) > iou;
            }))
          taken.push_back(i);
      for (index_t i = 0; i < k; ++i)
        want.push_back(i < index_t(taken.size()) ? double(taken[size_t(i)]) : -1);
    }
  boxes_config cfg;
  cfg.batch = batch;
  cfg.classes = classes;
  cfg.n = n;
  cfg.k = k;
  const index_t rows = batch * classes, taken = std::min(n, k);
  const auto b = make_view<const float>(boxes.device(), dims<dyn, fixed<4>, fixed<1>>(n * 4, {}, {}));
  const auto s = make_view<const float>(scores.device(), dims<dyn, dyn, fixed<1>>(classes * n, n, {}));
  for (const bool sorted : {false, true}) {
    name_case("non_max_suppression %ld of %ldx%ldx%ld, iou %g, %s", long(k), long(batch),
              long(classes), long(n), double(iou), sorted ? "sorted" : "in rounds");
    buffer<int64_t> out(rows * k);
    const auto y = make_view(out.device(), dims<dyn, dyn, fixed<1>>(classes * k, k, {}));
    buffer<int> lists(rows * n);
    if (!sorted) {
      launch(cuda::non_max_suppression(cfg, b, s, y, iou, 0.0f, lists.device()));
      expect_close(out, want, 0);
      continue;
    }
    sorting with(rows * n + 1, rows * n);
    buffer<unsigned char> scratch(rows * taken * 16 + (1 + 2 * rows) * 4);
    const auto space = cuda::suppression_space::over(scratch.device(), rows, taken);
    launch(cuda::suppression_begin(cfg, b, s, y, iou, 0.0f, space, with.space));
    with.by(32, 0);
    if (rows > 1)
      with.by(4, int(n));
    launch(cuda::non_max_suppression_sorted(
        cfg, b, s, y, iou, 0.0f, space,
        static_cast<const cuda::sort_item *>(with.space.lists[with.from])));
    expect_close(out, want, 0);
  }
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  nonzero<float>(3, 4, 5, 3);
  nonzero<float>(7, 150, 11, 2); // several blocks
  nonzero<int64_t>(5, 40, 9, 50);
  nonzero<float>(4, 4, 4, 0);
  nonzero<float>(4, 0, 4, 1);
  unique<true>(1, 1, 0);
  unique<true>(300, 1, 40);
  unique<false>(300, 1, 40);
  suppression(1, 1, 1, 1, 0.5f);
  suppression(2, 3, 40, 12, 0.3f);
  suppression(1, 1, 300, 300, 0.7f);
  suppression(1, 1, 1500, 1500, 0.95f); // several tiles, most boxes stay
  suppression(1, 3, 900, 300, 0.8f);    // full within the second tile
  suppression(2, 2, 256, 4, 0.9f);      // full within the first
#endif
  nonzero<f16>(2, 33, 64, 1);
  unique<true>(90, 3, 2);
  unique<false>(150, 2, 3);
  suppression(1, 2, 700, 60, 0.1f); // a thread for several boxes
  return finish();
}
