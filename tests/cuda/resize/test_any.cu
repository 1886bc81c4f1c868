// Architectures: 800
//
// Tests of resize_any: several dimensions at once.
#include "cuda/resize/any.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

#include <algorithm>

using namespace test;

namespace {

struct resize_config {
  dims<dyn, dyn, dyn> space;
};

/// Three dimensions at once: nearest, linear, and one as it is.
template <class T> void resize_three(index_t a, index_t b, index_t c, index_t to_a, index_t to_b) {
  name_case("resize_any %ldx%ldx%ld to %ldx%ld", long(a), long(b), long(c), long(to_a), long(to_b));
  buffer<T> x(a * b * c), y(to_a * to_b * c);
  x.fill_random();
  const float scale_a = float(a) / float(to_a), scale_b = float(b) / float(to_b);
  std::vector<double> want;
  for (index_t i = 0; i < to_a; ++i)
    for (index_t j = 0; j < to_b; ++j)
      for (index_t k = 0; k < c; ++k) {
        const index_t from_a = std::min(index_t(float(i) * scale_a), a - 1);
        const double at = std::max(double(float(j) * scale_b + (0.5f * scale_b - 0.5f)), 0.0);
        const index_t low = std::min(index_t(at), b - 1), high = std::min(low + 1, b - 1);
        const double part = at - double(low);
        const auto value = [&](index_t m) { return double(x.get((from_a * b + m) * c + k)); };
        want.push_back(value(low) * (1 - part) + value(high) * part);
      }
  resize_config cfg;
  cfg.space = dims<dyn, dyn, dyn>(to_a, to_b, c);
  using strides = dims<dyn, dyn, fixed<1>>;
  launch(cuda::resize_any(
      cfg, make_view<const T>(x.device(), strides(b * c, c, {})),
      pack(cuda::resize_nearest_axis{scale_a, 0, 0, int(a)},
           cuda::resize_linear_axis{scale_b, 0.5f * scale_b - 0.5f, int(b)},
           cuda::resize_nearest_axis{1, 0, 0, int(c)}),
      compute_t<T>(0), pack(make_view(y.device(), strides(to_b * c, c, {}))), pack(),
      cuda::identity_body{}));
  expect_close(y, want, rounding<T>() + 1e-5);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  resize_three<float>(3, 5, 7, 6, 11);
  resize_three<float>(8, 9, 2, 3, 4);
#endif
  resize_three<f16>(2, 6, 5, 5, 13);
  return finish();
}
