// Architectures: 800
//
// Tests of reduce and fold.
#include "cuda/reduce/fold.cuh"
#include "cuda/reduce/kernel.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

using namespace test;

namespace {

struct square_body {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> x) const { return x * x; }
};
struct sum_combine {
  template <class L> TENON_FN f32<L> identity(L) const { return 0.0f; }
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const { return a + b; }
};
struct scale_body {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> sum, f32<L> factor) const { return sum * factor; }
};

/// Bytes of what a block adds to a result that several share.
constexpr int part_bytes = 32;
template <int Blocks> struct shared_part {
  static constexpr int part = part_bytes;
};
template <> struct shared_part<1> {};

template <int Lanes, bool Across, int Threads, int V = 1, int Blocks = 1, bool Whole = false>
struct reduce_case : shared_part<Blocks> {
  dims<dyn, dyn> kept;
  dims<dyn, dyn> reduced;
  static constexpr int vector = V, blocks = Blocks;
  static constexpr bool whole = Whole;
  static constexpr int threads = Threads;
  static constexpr int lanes = Lanes;
  static constexpr bool across = Across;
};

/// The scratch of a reduction that several blocks share.
struct shared_results {
  buffer<unsigned char> parts;
  buffer<int> counters;
  shared_results(index_t results, int blocks) : parts(results * blocks * part_bytes + 16), counters(results) {
    counters.fill(0);
  }
  cuda::reduce_scratch scratch() { return {parts.device(), counters.device()}; }
};

/// Sum of squares over h and w of (n, h, w, c) or (n, c, h, w), times a factor by channel; twice, for the same
/// bits.
template <int Lanes, bool Across, int Threads = 256, int V = 1, int Blocks = 1, bool Whole = false>
void reduce_sum(index_t n, index_t c, index_t h, index_t w) {
  name_case("reduce n%ld c%ld %ldx%ld threads %d lanes %d across %d vector %d blocks %d whole %d", long(n), long(c),
            long(h), long(w), Threads, Lanes, Across, V, Blocks, Whole);
  reduce_case<Lanes, Across, Threads, V, Blocks, Whole> cfg;
  cfg.kept = dims<dyn, dyn>(n, c);
  cfg.reduced = dims<dyn, dyn>(h, w);
  buffer<float> x(n * c * h * w), factor(c), y(n * c);
  x.fill_random();
  factor.fill_random();
  std::vector<double> want;
  for (index_t b = 0; b < n; ++b)
    for (index_t k = 0; k < c; ++k) {
      double sum = 0;
      for (index_t p = 0; p < h * w; ++p) {
        const double v = double(x.get(Across ? (b * h * w + p) * c + k : (b * c + k) * h * w + p));
        sum += v * v;
      }
      want.push_back(sum * double(factor.get(k)));
    }
  const auto s = [&] {
    if constexpr (Across)
      return dims<dyn, fixed<1>, dyn, dyn>(h * w * c, {}, w * c, c);
    else
      return dims<dyn, dyn, dyn, fixed<1>>(h * w * c, h * w, w, {});
  }();
  shared_results shared(n * c, Blocks);
  buffer<float> again(n * c);
  for (buffer<float> *result : {&y, &again})
    launch(cuda::reduce(cfg, pack(make_view<const float>(x.device(), s)), square_body{}, sum_combine{},
                        pack(make_view(result->device(), dims<dyn, fixed<1>>(c, {}))),
                        pack(make_view<const float>(factor.device(), extents<0, 1>{})), scale_body{}, shared.scratch()));
  expect_zero(shared.counters);
  expect_close(y, want, 2e-6);
  std::vector<double> same;
  for (index_t i = 0; i < y.size(); ++i)
    same.push_back(double(y.get(i)));
  expect_close(again, same, 0);
}

struct with_index {
  template <class L> TENON_FN results<f32<L>, i64<L>> operator()(L, f32<L> x, i64<L> i) const { return pack(x, i); }
};
/// Largest value and the first index that has it.
struct arg_max {
  template <class L> TENON_FN results<f32<L>, i64<L>> identity(L) const { return pack(f32<L>(-INFINITY), i64<L>(INT64_MAX)); }
  template <class L>
  TENON_FN results<f32<L>, i64<L>> operator()(L, f32<L> a, i64<L> i, f32<L> b, i64<L> j) const {
    const bool first = a > b || (a == b && i < j);
    return pack(first ? a : b, first ? i : j);
  }
};
struct both {
  template <class L> TENON_FN results<f32<L>, i64<L>> operator()(L, f32<L> v, i64<L> i) const { return pack(v, i); }
};
template <int Lanes, int V, int Blocks> struct arg_case : shared_part<Blocks> {
  dims<dyn> kept, reduced;
  static constexpr int threads = 256, lanes = Lanes, vector = V, blocks = Blocks;
  static constexpr bool across = false, whole = false;
};
template <int Lanes, int V = 1, int Blocks = 1> void reduce_arg_max(index_t rows, index_t n) {
  name_case("reduce ArgMax %ldx%ld lanes %d vector %d blocks %d", long(rows), long(n), Lanes, V, Blocks);
  arg_case<Lanes, V, Blocks> cfg;
  shared_results shared(rows, Blocks);
  cfg.kept = dims<dyn>(rows);
  cfg.reduced = dims<dyn>(n);
  buffer<float> x(rows * n), value(rows);
  buffer<int64_t> place(rows);
  for (index_t i = 0; i < x.size(); ++i)
    x.set(i, float(random_int(0, 9)));
  x.upload();
  std::vector<double> want_value, want_place;
  for (index_t r = 0; r < rows; ++r) {
    index_t best = 0;
    for (index_t i = 1; i < n; ++i)
      if (x.get(r * n + i) > x.get(r * n + best))
        best = i;
    want_value.push_back(double(x.get(r * n + best)));
    want_place.push_back(double(best));
  }
  launch(cuda::reduce(cfg, pack(make_view<const float>(x.device(), dims<dyn, fixed<1>>(n, {})), index_view<int64_t, 1>{}),
                      with_index{}, arg_max{}, pack(make_view(value.device(), extents<1>{}), make_view(place.device(), extents<1>{})),
                      pack(), both{}, shared.scratch()));
  expect_zero(shared.counters);
  expect_close(value, want_value, 0);
  expect_close(place, want_place, 0);
}

/// A combiner that is not associative: elements must come in order.
struct horner {
  template <class L> TENON_FN f32<L> identity(L) const { return 0.5f; }
  template <class L> TENON_FN f32<L> operator()(L, f32<L> sum, f32<L> x) const { return sum * 0.7f + x; }
};
struct fold_case {
  dims<dyn, dyn> kept;
  dims<dyn> reduced;
};
void fold_in_order(index_t a, index_t b, index_t n) {
  name_case("fold %ldx%ldx%ld", long(a), long(b), long(n));
  fold_case cfg;
  cfg.kept = dims<dyn, dyn>(a, b);
  cfg.reduced = dims<dyn>(n);
  buffer<float> x(a * b * n), y(a * b);
  x.fill_random();
  std::vector<double> want;
  for (index_t r = 0; r < a * b; ++r) {
    double sum = 0.5;
    for (index_t i = 0; i < n; ++i)
      sum = sum * double(0.7f) + double(x.get(r * n + i));
    want.push_back(sum);
  }
  launch(cuda::fold(cfg, pack(make_view<const float>(x.device(), dims<dyn, dyn, fixed<1>>(b * n, n, {}))),
                    cuda::identity_body{}, horner{}, pack(make_view(y.device(), dims<dyn, fixed<1>>(b, {}))), pack(),
                    cuda::identity_body{}));
  expect_close(y, want, 2e-6);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  reduce_sum<1, true>(2, 40, 3, 5);
  reduce_sum<8, true>(2, 33, 7, 7);
  reduce_sum<32, false>(3, 5, 6, 9);
  reduce_sum<128, true, 1024>(1, 20, 30, 41);
  reduce_sum<8, true, 64>(2, 19, 7, 7);
  reduce_sum<1024, false, 1024>(1, 2, 50, 61);
  reduce_sum<4, false>(1, 70, 1, 3);
  reduce_sum<32, false, 256, 4>(3, 5, 6, 9 * 4);
  reduce_sum<32, false, 256, 4, 1, true>(3, 5, 6, 9 * 4);
  reduce_sum<256, false, 256, 4, 5>(1, 3, 1, 9003);
  reduce_sum<64, false, 256, 2, 16>(2, 3, 30, 70);
  reduce_sum<32, true, 256, 1, 4>(2, 11, 30, 41);
  reduce_arg_max<1>(300, 7);
  reduce_arg_max<256, 4, 8>(1, 20001);
#endif
  reduce_sum<256, false>(1, 3, 40, 17);
  reduce_sum<256, false, 256, 4, 32, true>(1, 1, 1, 40000);
  reduce_arg_max<32>(9, 100);
  fold_in_order(7, 30, 19);
  return finish();
}
