// Architectures: 800
//
// Tests of the operands of map that are no plain views: bordered_view and shape_values.
#include "cuda/gather/bordered.cuh"
#include "cuda/gather/shape_values.cuh"
#include "cuda/map/kernel.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

#include <algorithm>

using namespace test;

namespace {

template <class Space, int V> struct map_config {
  Space space;
  static constexpr int vector = V;
};

/// Borders wider than the tensor where the mode allows it.
template <class Border> void bordered(const char *mode, index_t h, index_t w, index_t top, index_t left) {
  name_case("border %s of %ldx%ld by %ld and %ld", mode, long(h), long(w), long(top), long(left));
  const index_t out_h = h + 2 * top, out_w = w + 2 * left + 1;
  buffer<float> x(h * w), y(out_h * out_w);
  x.fill_random();
  const auto walk = [&](index_t i, index_t n) { // step by step, as the mode is drawn
    if (!strcmp(mode, "edge"))
      return std::min(std::max<index_t>(i, 0), n - 1);
    index_t at = 0, step = 1;
    for (index_t s = 0; s != i; s += i > 0 ? 1 : -1) {
      if (!strcmp(mode, "wrap")) {
        at = i > 0 ? (at + 1) % n : (at + n - 1) % n;
      } else if (n > 1) {
        if (at + step < 0 || at + step >= n)
          step = -step;
        at += step;
      }
    }
    return at;
  };
  std::vector<double> want;
  for (index_t i = 0; i < out_h; ++i)
    for (index_t j = 0; j < out_w; ++j)
      want.push_back(double(x.get(walk(i - top, h) * w + walk(j - left, w))));
  map_config<dims<dyn, dyn>, 4> cfg;
  cfg.space = dims<dyn, dyn>(out_h, out_w);
  const auto view = cuda::make_bordered_view<Border>(static_cast<const float *>(x.device()),
                                                     dims<dyn, fixed<1>>(w, {}),
                                                     dims<dyn, dyn>(top, left), dims<dyn, dyn>(h, w));
  launch(cuda::map(cfg, pack(make_view(y.device(), dims<dyn, fixed<1>>(out_w, {}))), pack(view),
                   cuda::identity_body{}));
  expect_close(y, want, 0);
}

void shape() {
  name_case("a shape as values");
  map_config<dims<dyn>, 1> cfg;
  cfg.space = dims<dyn>(3);
  buffer<int64_t> y(3);
  launch(cuda::map(cfg, pack(make_view(y.device(), extents<1>{})),
                   pack(cuda::make_shape_values(dims<dyn, fixed<7>, dyn>(5, {}, 1 << 20))),
                   cuda::identity_body{}));
  expect_close(y, {5, 7, 1 << 20}, 0);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  bordered<cuda::border_edge>("edge", 3, 5, 4, 2);
  bordered<cuda::border_reflect>("reflect", 4, 6, 3, 5);
  bordered<cuda::border_reflect>("reflect", 1, 3, 2, 2);
#endif
  bordered<cuda::border_wrap>("wrap", 3, 4, 5, 3);
  shape();
  return finish();
}
