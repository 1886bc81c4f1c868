// Architectures: 800
//
// Tests of reduce, fold, scan, softmax, normalize, gather and gemv.
#include "cuda/base/computed.cuh"
#include "cuda/reduce/fold.cuh"
#include "cuda/gather/kernel.cuh"
#include "cuda/gemv/kernel.cuh"
#include "cuda/map/kernel.cuh"
#include "cuda/reduce/kernel.cuh"
#include "cuda/normalize/kernel.cuh"
#include "cuda/scan/kernel.cuh"
#include "cuda/softmax/kernel.cuh"
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

template <int Lanes, bool Across, int Threads> struct reduce_case {
  dims<dyn, dyn> kept;
  dims<dyn, dyn> reduced;
  static constexpr int threads = Threads;
  static constexpr int lanes = Lanes;
  static constexpr bool across = Across;
};

/// Sum of squares over h and w of (n, h, w, c) or (n, c, h, w), times a factor by channel.
template <int Lanes, bool Across, int Threads = 256> void reduce_sum(index_t n, index_t c, index_t h, index_t w) {
  name_case("reduce n%ld c%ld %ldx%ld threads %d lanes %d across %d", long(n), long(c), long(h), long(w), Threads, Lanes, Across);
  reduce_case<Lanes, Across, Threads> cfg;
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
  using strides = dims<dyn, dyn, dyn, dyn>;
  const strides s = Across ? strides(h * w * c, 1, w * c, c) : strides(h * w * c, h * w, w, 1);
  launch(cuda::reduce(cfg, pack(make_view<const float>(x.device(), s)), square_body{}, sum_combine{},
                      pack(make_view(y.device(), dims<dyn, fixed<1>>(c, {}))),
                      pack(make_view<const float>(factor.device(), extents<0, 1>{})), scale_body{}));
  expect_close(y, want, 2e-6);
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
template <int Lanes> struct arg_case {
  dims<dyn> kept, reduced;
  static constexpr int threads = 256, lanes = Lanes;
  static constexpr bool across = false;
};
template <int Lanes> void reduce_arg_max(index_t rows, index_t n) {
  name_case("reduce ArgMax %ldx%ld lanes %d", long(rows), long(n), Lanes);
  arg_case<Lanes> cfg;
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
                      pack(), both{}));
  expect_close(value, want_value, 0);
  expect_close(place, want_place, 0);
}

template <int Lanes, bool Across, bool Exclusive, bool Reverse> struct scan_case {
  dims<dyn, dyn, dyn> space;
  static constexpr int lanes = Lanes;
  static constexpr bool across = Across, exclusive = Exclusive, reverse = Reverse;
};
/// Running sums over the last axis of (a, b, n), or in place over the middle axis of (a, n, b).
template <int Lanes, bool Across, bool Exclusive, bool Reverse> void scan_sums(index_t a, index_t b, index_t n) {
  name_case("scan %ldx%ldx%ld lanes %d across %d exclusive %d reverse %d", long(a), long(b), long(n), Lanes, Across, Exclusive, Reverse);
  scan_case<Lanes, Across, Exclusive, Reverse> cfg;
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
  using strides = dims<dyn, dyn, dyn>;
  const strides s = Across ? strides(n * b, 1, b) : strides(n * b, n, 1);
  auto &result = Across ? x : y;
  launch(cuda::scan(cfg, make_view<const float>(x.device(), s), sum_combine{}, pack(make_view(result.device(), s)), pack(), cuda::identity_body{}));
  expect_close(result, want, 2e-6);
}

template <int Lanes, bool Across, bool Log> struct softmax_case {
  dims<dyn, dyn, dyn> space;
  static constexpr int lanes = Lanes;
  static constexpr bool across = Across, log = Log;
};
/// Over the last axis of (a, b, n), or in place over the middle axis of (a, n, b).
template <int Lanes, bool Across, bool Log> void softmax(index_t a, index_t b, index_t n) {
  name_case("softmax %ldx%ldx%ld lanes %d across %d log %d", long(a), long(b), long(n), Lanes, Across, Log);
  softmax_case<Lanes, Across, Log> cfg;
  cfg.space = dims<dyn, dyn, dyn>(a, b, n);
  buffer<float> x(a * b * n);
  x.fill_random();
  const auto at = [&](index_t i, index_t j, index_t k) { return Across ? (i * n + k) * b + j : (i * b + j) * n + k; };
  for (index_t i = 0; i < x.size(); ++i)
    x.set(i, x.get(i) * 20);
  x.upload();
  std::vector<double> want(size_t(x.size()));
  for (index_t i = 0; i < a; ++i)
    for (index_t j = 0; j < b; ++j) {
      double most = -1e300, sum = 0;
      for (index_t k = 0; k < n; ++k)
        most = fmax(most, double(x.get(at(i, j, k))));
      for (index_t k = 0; k < n; ++k)
        sum += ::exp(double(x.get(at(i, j, k))) - most);
      for (index_t k = 0; k < n; ++k) {
        const double shifted = double(x.get(at(i, j, k))) - most;
        want[at(i, j, k)] = Log ? shifted - ::log(sum) : ::exp(shifted) / sum;
      }
    }
  using strides = dims<dyn, dyn, dyn>;
  const strides s = Across ? strides(n * b, 1, b) : strides(n * b, n, 1);
  launch(cuda::softmax(cfg, make_view<const float>(x.device(), s), pack(make_view(x.device(), s)), pack(), cuda::identity_body{}));
  expect_close(x, want, 2e-6);
}

template <int Lanes, bool Across, int V, int Held, bool Centered> struct normalize_case {
  dims<dyn, dyn> kept;
  dims<dyn, dyn> reduced;
  static constexpr int threads = Lanes > 128 ? Lanes : 128, lanes = Lanes, vector = V, held = Held;
  static constexpr bool across = Across, centered = Centered;
};
struct scale_shift {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> x, f32<L> scale) const { return x * scale + 1; }
};
/// (a, b, n, m) over the last two dimensions, in memory as (a, n, m, b) with Across. Values have a mean far
/// from zero, where sums of squares would cancel.
template <class T, int Lanes, bool Across, int V, int Held, bool Centered>
void normalize(index_t a, index_t b, index_t n, index_t m) {
  name_case("normalize %d-byte %ldx%ldx%ldx%ld lanes %d across %d vector %d held %d centered %d", int(sizeof(T)), long(a),
            long(b), long(n), long(m), Lanes, Across, V, Held, Centered);
  normalize_case<Lanes, Across, V, Held, Centered> cfg;
  cfg.kept = dims<dyn, dyn>(a, b);
  cfg.reduced = dims<dyn, dyn>(n, m);
  buffer<T> x(a * b * n * m);
  buffer<float> scale(n * m), y(x.size());
  x.fill_random(), scale.fill_random();
  const auto at = [&](index_t i, index_t j, index_t k) {
    return Across ? (i * n * m + k) * b + j : (i * b + j) * n * m + k;
  };
  for (index_t i = 0; i < x.size(); ++i)
    x.set(i, x.get(i) + 40);
  x.upload();
  std::vector<double> want(size_t(x.size()));
  const double epsilon = 1e-5, count = double(n * m);
  for (index_t i = 0; i < a; ++i)
    for (index_t j = 0; j < b; ++j) {
      double mean = 0, squares = 0;
      for (index_t k = 0; Centered && k < n * m; ++k)
        mean += double(x.get(at(i, j, k))) / count;
      for (index_t k = 0; k < n * m; ++k)
        squares += (double(x.get(at(i, j, k))) - mean) * (double(x.get(at(i, j, k))) - mean) / count;
      for (index_t k = 0; k < n * m; ++k)
        want[at(i, j, k)] =
            (double(x.get(at(i, j, k))) - mean) / ::sqrt(squares + epsilon) * double(scale.get(k)) + 1;
    }
  const auto read = [&](auto unit, auto *p) {
    if constexpr (Across)
      return make_view(p, dims<dyn, fixed<1>, dyn, dyn>(n * m * b, {}, m * b, b));
    else
      return make_view(p, dims<dyn, dyn, dyn, decltype(unit)>(b * n * m, n * m, m, {}));
  };
  const auto factors = make_view<const float>(scale.device(), dims<fixed<0>, fixed<0>, dyn, fixed<1>>({}, {}, m, {}));
  launch(cuda::normalize(cfg, float(epsilon), read(fixed<1>{}, (const T *)x.device()),
                         pack(read(fixed<1>{}, y.device())), pack(factors), scale_shift{}));
  expect_close(y, want, 2e-5);
}

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

struct bias_body {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> acc, f32<L> bias) const { return acc + bias; }
};
template <index_t M, int Lanes, int Columns> struct gemv_case {
  static constexpr fixed<M> m{};
  dyn n, k;
  static constexpr int lanes = Lanes, columns = Columns;
};
template <class T, index_t M, int Lanes, int Columns> void gemv(index_t n, index_t k, index_t skew = 0) {
  name_case("gemv m%ld n%ld k%ld lanes %d columns %d of %zu-byte skew %ld", long(M), long(n), long(k), Lanes, Columns, sizeof(T), long(skew));
  gemv_case<M, Lanes, Columns> cfg;
  cfg.n = n, cfg.k = k;
  const index_t run = 16 / index_t(sizeof(T)), pitch = (k + run - 1) / run * run;
  buffer<T> x(M * k, skew), w(n * pitch), y(M * n, skew);
  buffer<float> bias(n);
  x.fill_random();
  bias.fill_random();
  for (index_t j = 0; j < n; ++j)
    for (index_t i = 0; i < pitch; ++i)
      w.set(j * pitch + i, i < k ? random_float() : 0.0f);
  w.upload();
  std::vector<double> want;
  for (index_t m = 0; m < M; ++m)
    for (index_t j = 0; j < n; ++j) {
      double sum = double(bias.get(j));
      for (index_t i = 0; i < k; ++i)
        sum += double(x.get(m * k + i)) * double(w.get(j * pitch + i));
      want.push_back(sum);
    }
  launch(cuda::gemv(cfg, make_view<const T>(x.device(), dims<dyn, fixed<1>>(k, {})), static_cast<const T *>(w.device()),
                    pack(make_view(y.device(), dims<dyn, fixed<1>>(n, {}))),
                    pack(make_view<const float>(bias.device(), extents<0, 1>{})), bias_body{}));
  expect_close(y, want, rounding<T>() + 1e-6);
}

/// x is computed where it is read: relu(a * scale), scale along k.
struct scaled_relu {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> scale) const {
    return relu<L>(a * scale);
  }
};
void gemv_computed(index_t n, index_t k) {
  name_case("gemv of a computed operand n%ld k%ld", long(n), long(k));
  gemv_case<2, 64, 2> cfg;
  cfg.n = n, cfg.k = k;
  const index_t pitch = (k + 3) / 4 * 4;
  buffer<float> x(2 * k), scale(k), w(n * pitch), bias(n), y(2 * n);
  x.fill_random();
  scale.fill_random();
  bias.fill_random();
  for (index_t j = 0; j < n; ++j)
    for (index_t i = 0; i < pitch; ++i)
      w.set(j * pitch + i, i < k ? random_float() : 0.0f);
  w.upload();
  std::vector<double> want;
  for (index_t m = 0; m < 2; ++m)
    for (index_t j = 0; j < n; ++j) {
      double sum = double(bias.get(j));
      for (index_t i = 0; i < k; ++i)
        sum += fmax(double(x.get(m * k + i)) * double(scale.get(i)), 0) * double(w.get(j * pitch + i));
      want.push_back(sum);
    }
  const auto computed = cuda::make_computed_view<float, 2>(
      pack(make_view<const float>(x.device(), dims<dyn, fixed<1>>(k, {})),
           make_view<const float>(scale.device(), extents<0, 1>{})),
      scaled_relu{});
  launch(cuda::gemv(cfg, computed, static_cast<const float *>(w.device()),
                    pack(make_view(y.device(), dims<dyn, fixed<1>>(n, {}))),
                    pack(make_view<const float>(bias.device(), extents<0, 1>{})), bias_body{}));
  expect_close(y, want, 1e-5);
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
  reduce_arg_max<1>(300, 7);
  scan_sums<1, true, false, false>(3, 70, 33);
  scan_sums<32, true, true, false>(2, 11, 300);
  scan_sums<8, true, false, true>(1, 40, 21);
  scan_sums<256, false, false, false>(1, 3, 2500);
  scan_sums<32, false, true, true>(4, 5, 100);
  scan_sums<2, false, true, false>(40, 7, 7);
  softmax<32, false, false>(2, 5, 100);
  softmax<256, false, false>(1, 2, 1001);
  softmax<1, true, false>(3, 50, 4);
  softmax<2, false, true>(40, 7, 2);
  normalize<float, 1, true, 1, 0, true>(3, 50, 1, 4);
  normalize<float, 32, true, 1, 3, true>(2, 20, 3, 21);
  normalize<float, 16, false, 4, 1, true>(5, 7, 1, 61);
  normalize<float, 32, false, 4, 2, true>(2, 5, 3, 64);
  normalize<float, 32, false, 1, 0, false>(1, 3, 7, 150);
  normalize<float, 1024, false, 4, 3, true>(1, 3, 1, 9001);
  normalize<f16, 16, false, 8, 1, true>(9, 11, 1, 96);
  gather<4, int32_t>(1, 5, 7, 11);
  gemv<float, 1, 32, 2>(37, 130);
  gemv<float, 3, 256, 4>(10, 1000, 1);
  gemv<f16, 1, 64, 1>(50, 77);
#endif
  reduce_sum<256, false>(1, 3, 40, 17);
  reduce_arg_max<32>(9, 100);
  scan_sums<256, false, false, true>(1, 1, 1024);
  softmax<8, true, true>(2, 20, 21);
  normalize<float, 256, false, 2, 0, true>(1, 2, 9, 300);
  normalize<f16, 64, false, 8, 2, false>(3, 2, 2, 400);
  gather<4, int64_t>(3, 9, 8, 5);
  gather<1, int32_t>(4, 6, 1, 3);
  gemv<f16, 8, 32, 4>(9, 64, 3);
  gemv_computed(21, 150);
  fold_in_order(7, 30, 19);
  return finish();
}
