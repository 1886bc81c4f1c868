// Architectures: 800
//
// Tests of scan: lines of one group of lanes, and of several blocks.
#include "cuda/scan/kernel.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

using namespace test;

namespace {

struct sum_combine {
  template <class L> TENON_FN f32<L> identity(L) const { return 0.0f; }
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const { return a + b; }
};

template <int Lanes, bool Across, bool Exclusive, bool Reverse, int Each, int Blocks, bool Whole> struct scan_case {
  dims<dyn, dyn, dyn> space;
  static constexpr int lanes = Lanes, each = Each, blocks = Blocks;
  static constexpr bool across = Across, exclusive = Exclusive, reverse = Reverse, whole = Whole;
};
/// Running sums over the last axis of (a, b, n), or in place over the middle axis of (a, n, b).
template <int Lanes, bool Across, bool Exclusive, bool Reverse, int Each = 4, int Blocks = 1, bool Whole = false>
void scan_sums(index_t a, index_t b, index_t n) {
  name_case("scan %ldx%ldx%ld lanes %d across %d exclusive %d reverse %d each %d blocks %d whole %d", long(a), long(b),
            long(n), Lanes, Across, Exclusive, Reverse, Each, Blocks, Whole);
  scan_case<Lanes, Across, Exclusive, Reverse, Each, Blocks, Whole> cfg;
  cfg.space = dims<dyn, dyn, dyn>(a, b, n);
  buffer<float> x(a * b * n), y(a * b * n);
  x.fill_random();
  std::vector<double> want(size_t(x.size()));
  for (index_t i = 0; i < a; ++i)
    for (index_t j = 0; j < b; ++j) {
      double sum = 0;
      for (index_t step = 0; step < n; ++step) {
        const index_t k = Reverse ? n - 1 - step : step, at = Across ? (i * n + k) * b + j : (i * b + j) * n + k;
        const double with = sum + double(x.get(at));
        want[size_t(at)] = Exclusive ? sum : with;
        sum = with;
      }
    }
  const auto s = [&] {
    if constexpr (Across)
      return dims<dyn, dyn, dyn>(n * b, 1, b);
    else
      return dims<dyn, dyn, fixed<1>>(n * b, n, {});
  }();
  auto &result = Across ? x : y;
  const auto in = make_view<const float>(x.device(), s);
  const auto outs = pack(make_view(result.device(), s));
  if constexpr (Blocks > 1) {
    buffer<float> parts(a * b * Blocks);
    launch(cuda::scan_parts(cfg, in, sum_combine{}, parts.device()));
    launch(cuda::scan_joined(cfg, in, sum_combine{}, outs, pack(), cuda::identity_body{}, parts.device()));
  } else {
    launch(cuda::scan(cfg, in, sum_combine{}, outs, pack(), cuda::identity_body{}));
  }
  expect_close(result, want, 2e-6);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  scan_sums<1, true, false, false>(3, 70, 33);
  scan_sums<32, true, true, false>(2, 11, 300);
  scan_sums<8, true, false, true>(1, 40, 21);
  scan_sums<256, false, false, false>(1, 3, 2500);
  scan_sums<32, false, true, true>(4, 5, 100);
  scan_sums<2, false, true, false>(40, 7, 7);
  scan_sums<64, false, false, false, 8, 1, true>(2, 3, 1040);
  scan_sums<16, false, true, true, 4, 1, true>(9, 3, 100);
  scan_sums<256, false, false, false, 4, 9>(1, 2, 12345);
  scan_sums<32, true, false, true, 4, 3>(1, 11, 700);
#endif
  scan_sums<256, false, false, true>(1, 1, 1024);
  scan_sums<128, false, true, true, 8, 16>(1, 1, 30001);
  return finish();
}
