// Architectures: 800
//
// Tests of non_max_suppression, by one block and by a sort.
#include "cuda/suppression/kernel.cuh"
#include "cuda/suppression/sorted.cuh"
#include "shared/sorting.h"

#include <algorithm>

using namespace test;

namespace {

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
  suppression(1, 1, 1, 1, 0.5f);
  suppression(2, 3, 40, 12, 0.3f);
  suppression(1, 1, 300, 300, 0.7f);
  suppression(1, 1, 1500, 1500, 0.95f); // several tiles, most boxes stay
  suppression(1, 3, 900, 300, 0.8f);    // full within the second tile
  suppression(2, 2, 256, 4, 0.9f);      // full within the first
#endif
  suppression(1, 2, 700, 60, 0.1f); // a thread for several boxes
  return finish();
}
