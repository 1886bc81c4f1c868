// Architectures: 800
//
// Tests of gather.
#include "cuda/gather/kernel.cuh"
#include "cuda/map/kernel.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

using namespace test;

namespace {

template <int V> struct gather_config {
  dims<dyn, dyn, dyn> space;
  static constexpr int vector = V;
};
/// (a, n, b) indexed along the middle by (m) indices, some negative.
template <int V, class I> void gather(index_t a, index_t n, index_t b, index_t m) {
  name_case("gather %ldx%ldx%ld by %ld", long(a), long(n), long(b), long(m));
  gather_config<V> cfg;
  cfg.space = dims<dyn, dyn, dyn>(a, m, b);
  buffer<float> x(a * n * b), y(a * m * b);
  buffer<I> index(m);
  x.fill_random();
  index.fill_random(int(-n), int(n - 1));
  std::vector<double> want;
  for (index_t i = 0; i < a; ++i)
    for (index_t j = 0; j < m; ++j)
      for (index_t k = 0; k < b; ++k) {
        const index_t w = index_t(index.get(j));
        want.push_back(double(x.get((i * n + (w < 0 ? w + n : w)) * b + k)));
      }
  launch(cuda::map(cfg, pack(make_view(y.device(), dims<dyn, dyn, fixed<1>>(m * b, b, {}))),
                   pack(cuda::make_gathered_view(make_view<const float>(x.device(), dims<dyn, fixed<0>, fixed<1>>(n * b, {}, {})),
                                                 make_view<const I>(index.device(), extents<0, 1, 0>{}), dyn(b), dyn(n))),
                   cuda::identity_body{}));
  expect_close(y, want, 0);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  gather<4, int32_t>(1, 5, 7, 11);
#endif
  gather<4, int64_t>(3, 9, 8, 5);
  gather<1, int32_t>(4, 6, 1, 3);
  return finish();
}
