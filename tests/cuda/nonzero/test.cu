// Architectures: 800
//
// Tests of nonzero.
#include "cuda/nonzero/kernel.cuh"
#include "shared/harness.h"

#include <algorithm>

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

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  nonzero<float>(3, 4, 5, 3);
  nonzero<float>(7, 150, 11, 2); // several blocks
  nonzero<int64_t>(5, 40, 9, 50);
  nonzero<float>(4, 4, 4, 0);
  nonzero<float>(4, 0, 4, 1);
#endif
  nonzero<f16>(2, 33, 64, 1);
  return finish();
}
