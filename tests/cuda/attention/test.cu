// Architectures: 800
//
// Tests of attention_sm80.
#include "cuda/attention/kernel.cuh"
#include "shared/harness.h"

#include <float.h>

using namespace test;

namespace {

/// What is added to the scores.
enum bias_kind {
  none,
  full,       // a number for each score
  of_keys,    // the same for all heads and queries
  of_pairs,   // the same for all heads
  hides,      // of_pairs; -infinity hides some keys, and all of them from every third query
  hides_most, // of_pairs; the lowest float hides some keys, and all of them from every third query
};

template <class Schedule, int D, int E, int Causal, bool ZeroUndefined>
struct attention_case : Schedule {
  dims<dyn, dyn> batch;
  dyn m, n;
  static constexpr fixed<D> d{};
  static constexpr fixed<E> e{};
  static constexpr int causal = Causal;
  static constexpr bool zero_undefined = ZeroUndefined;
};

/// Attention in double. score(b, h, i, j) and value(b, h, j, c) for `keys` keys; NaN where every key
/// is hidden.
template <class Score, class Value>
std::vector<double> attend(index_t batch, index_t heads, index_t m, index_t keys, index_t e,
                           Score score, Value value) {
  std::vector<double> y;
  std::vector<double> weights(size_t(keys) + 1);
  for (index_t b = 0; b < batch; ++b)
    for (index_t h = 0; h < heads; ++h)
      for (index_t i = 0; i < m; ++i) {
        double largest = -double(INFINITY), total = 0;
        for (index_t j = 0; j < keys; ++j)
          largest = fmax(largest, weights[size_t(j)] = score(b, h, i, j));
        for (index_t j = 0; j < keys; ++j)
          total += weights[size_t(j)] = ::exp(weights[size_t(j)] - largest);
        for (index_t c = 0; c < e; ++c) {
          double sum = 0;
          for (index_t j = 0; j < keys; ++j)
            sum += weights[size_t(j)] * value(b, h, j, c);
          y.push_back(keys > 0 ? sum / total : 0);
        }
      }
  return y;
}

/// Rows of [batch][heads][rows][width], or [batch][rows][heads][width] where heads lie side by side.
struct rows_of_heads {
  index_t heads, rows, width;
  bool beside;
  index_t row() const { return beside ? heads * width : width; }
  index_t head() const { return beside ? width : rows * width; }
  index_t at(index_t b, index_t h, index_t i, index_t c) const {
    return b * heads * rows * width + h * head() + i * row() + c;
  }
  dims<dyn, dyn, dyn, fixed<1>> strides() const {
    return {heads * rows * width, head(), row(), fixed<1>{}};
  }
};

/// `skew` moves tensors from their 16-byte boundaries.
template <class T, class Schedule, int D, int E, bool ZeroUndefined = false, int Causal = -1>
void check(index_t batch, index_t heads, index_t m, index_t n, bias_kind kind, bool beside = false,
           index_t skew = 0) {
  name_case("attention %s %ldx%ld m%ld n%ld d%d e%d warps %d teams %d keys %d stages %d bias %d causal %d%s%s%s",
            detail::is_same<T, bf16> ? "bf16" : "f16", long(batch), long(heads), long(m), long(n), D,
            E, Schedule::warps, Schedule::teams, Schedule::keys, Schedule::stages, int(kind), Causal,
            beside ? " side by side" : "", skew ? " skewed" : "", ZeroUndefined ? " defined" : "");
  attention_case<Schedule, D, E, Causal, ZeroUndefined> cfg;
  cfg.batch = dims<dyn, dyn>(batch, heads);
  cfg.m = m;
  cfg.n = n;
  const rows_of_heads of_q{heads, m, D, beside}, of_k{heads, n, D, beside}, of_v{heads, n, E, beside},
      of_y{heads, m, E, beside};
  buffer<T> q(batch * heads * m * D, skew), k(batch * heads * n * D, skew),
      v(batch * heads * n * E, skew), y(batch * heads * m * E, skew);
  q.fill_random();
  k.fill_random();
  v.fill_random();
  // Strides of the bias over (batch, heads, m, n).
  const index_t s0 = kind == full ? heads * m * n : kind == of_keys ? n : 0,
                s1 = kind == full ? m * n : 0, s2 = kind == of_keys ? 0 : n;
  buffer<float> bias(kind == full ? batch * heads * m * n : kind == of_keys ? batch * n : m * n);
  bias.fill_random();
  if (kind == hides || kind == hides_most) {
    for (index_t i = 0; i < m; ++i)
      for (index_t j = 0; j < n; ++j)
        if (i % 3 == 0 || (i + j) % 5 == 0)
          bias.set(i * n + j, kind == hides ? -float(INFINITY) : -FLT_MAX);
    bias.upload();
  }
  const float scale = 2.5f / sqrtf(float(D));
  std::vector<double> want = attend(
      batch, heads, m, n, E,
      [&](index_t b, index_t h, index_t i, index_t j) {
        if (Causal >= 0 && j > i + Causal)
          return -double(INFINITY);
        double sum = 0;
        for (index_t c = 0; c < D; ++c)
          sum += double(q.get(of_q.at(b, h, i, c))) * double(k.get(of_k.at(b, h, j, c)));
        const double score = sum * double(scale);
        // As floats are: nothing of a score is left beside the lowest of them.
        return kind == none ? score
                            : double(float(score + double(bias.get(b * s0 + h * s1 + i * s2 + j))));
      },
      [&](index_t b, index_t h, index_t j, index_t c) { return double(v.get(of_v.at(b, h, j, c))); });
  // In the order of y's memory.
  std::vector<double> placed(want.size());
  for (index_t i = 0, p = 0; i < batch * heads; ++i)
    for (index_t r = 0; r < m; ++r)
      for (index_t c = 0; c < E; ++c, ++p)
        placed[size_t(of_y.at(i / heads, i % heads, r, c))] = want[size_t(p)];
  const auto views = [&](const auto &added) {
    launch(cuda::attention_sm80(cfg, scale, make_view<const T>(q.device(), of_q.strides()),
                                make_view<const T>(k.device(), of_k.strides()),
                                make_view<const T>(v.device(), of_v.strides()), added,
                                make_view(y.device(), of_y.strides())));
  };
  if (kind == none)
    views(pack());
  else
    views(pack(make_view<const float>(
        bias.device(), dims<dyn, dyn, dyn, fixed<1>>(s0, s1, s2, fixed<1>{}))));
  // Where every key is hidden, 0 or NaN, which compares with nothing.
  y.download();
  bool undefined = true;
  for (index_t i = 0; i < y.size(); ++i)
    if (placed[size_t(i)] != placed[size_t(i)]) {
      const float value = float(y.get(i));
      undefined &= ZeroUndefined ? value == 0 : value != value;
      y.set(i, 0);
      placed[size_t(i)] = 0;
    }
  y.upload();
  if (kind == hides)
    record(undefined, "a query from which every key is hidden gives neither NaN nor, asked for, 0");
  expect_close(y, placed, 2 * rounding<T>());
}

/// Everything but addresses known when the kernel is compiled, as a file for one network has it.
struct fixed_case : cuda::attention_schedule<2, 2, 32, 2> {
  extents<2, 3> batch;
  static constexpr fixed<37> m{};
  static constexpr fixed<96> n{};
  static constexpr fixed<64> d{};
  static constexpr fixed<64> e{};
  static constexpr int causal = -1;
  static constexpr bool zero_undefined = false;
};
void check_fixed() {
  name_case("attention of fixed extents");
  buffer<f16> q(37 * 192 * 2), kv(96 * 384 * 2), y(37 * 192 * 2);
  buffer<float> bias(2 * 96);
  q.fill_random();
  kv.fill_random();
  bias.fill_random();
  const auto want = attend(
      2, 3, 37, 96, 64,
      [&](index_t b, index_t h, index_t i, index_t j) {
        double sum = 0;
        for (index_t c = 0; c < 64; ++c)
          sum += double(q.get((b * 37 + i) * 192 + h * 64 + c)) *
                 double(kv.get((b * 96 + j) * 384 + h * 64 + c));
        return sum * 0.3 + double(bias.get(b * 96 + j));
      },
      [&](index_t b, index_t h, index_t j, index_t c) {
        return double(kv.get((b * 96 + j) * 384 + 192 + h * 64 + c));
      });
  std::vector<double> placed(want.size());
  for (index_t h = 0, p = 0; h < 6; ++h)
    for (index_t i = 0; i < 37; ++i)
      for (index_t c = 0; c < 64; ++c, ++p)
        placed[size_t((h / 3 * 37 + i) * 192 + h % 3 * 64 + c)] = want[size_t(p)];
  using of_q = extents<37 * 192, 64, 192, 1>;
  using of_kv = extents<96 * 384, 64, 384, 1>;
  launch(cuda::attention_sm80(
      fixed_case{}, 0.3f, make_view<const f16>(q.device(), of_q{}),
      make_view<const f16>(kv.device(), of_kv{}), make_view<const f16>(kv.device() + 192, of_kv{}),
      pack(make_view<const float>(bias.device(), extents<96, 0, 0, 1>{})),
      make_view(y.device(), of_q{})));
  expect_close(y, placed, 2 * rounding<f16>());
}

/// Later keys are hidden.
template <class T, class Schedule, int D, int Causal>
void check_causal(index_t batch, index_t heads, index_t m, index_t n, bias_kind kind) {
  check<T, Schedule, D, D, false, Causal>(batch, heads, m, n, kind, true);
}

template <int Warps, int Teams, int Keys, int Stages = 2>
using schedule = cuda::attention_schedule<Warps, Teams, Keys, Stages>;
using square = schedule<4, 1, 64>;
using paired = schedule<2, 2, 32>;
using spread = schedule<1, 4, 32, 3>;
using eight = schedule<1, 8, 16>;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  // One warp's queries after another; tiles of keys with a rest, and without.
  check<f16, square, 64, 64>(1, 2, 70, 130, none);
  check<f16, square, 64, 64>(2, 1, 64, 128, full, true);
  check<f16, square, 64, 64>(1, 3, 16, 20, of_keys);
  check<bf16, square, 64, 64>(2, 2, 65, 67, of_pairs, true);
  check<f16, square, 128, 128>(1, 2, 33, 77, of_keys, true);
  check<f16, square, 8, 8>(2, 1, 19, 70, none);
  check<f16, square, 32, 16>(1, 2, 40, 64, hides_most);
  // Teams share keys.
  check<f16, paired, 64, 64>(2, 2, 37, 130, full, true);
  check<f16, paired, 40, 40>(1, 2, 33, 65, of_pairs);
  check<bf16, paired, 128, 96>(1, 1, 32, 64, hides);
  check<f16, spread, 64, 64>(2, 3, 5, 300, of_keys, true);
  check<f16, spread, 64, 64>(1, 2, 17, 513, none);
  check<f16, spread, 40, 72>(1, 2, 16, 31, full);
  // One query, one key, none.
  check<f16, spread, 64, 64>(3, 2, 1, 511, of_pairs, true);
  check<f16, spread, 64, 64>(1, 1, 1, 1, none);
  check<f16, square, 64, 64>(1, 2, 3, 1, of_keys);
  check<f16, square, 64, 64>(1, 1, 5, 0, none);
  check<f16, square, 64, 64>(1, 1, 0, 5, none);
  // Queries from which every key is hidden.
  check<f16, square, 64, 64>(1, 1, 20, 70, hides);
  check<f16, square, 64, 64, true>(1, 1, 20, 70, hides);
  check<f16, spread, 64, 64, true>(1, 2, 20, 150, hides);
  check<f16, spread, 64, 64>(1, 2, 20, 150, hides_most);
  // Rows that are no whole runs, and addresses that are not aligned.
  check<f16, square, 10, 7>(1, 2, 18, 70, full, true);
  check<f16, paired, 20, 36>(1, 2, 18, 70, none);
  check<f16, square, 64, 64>(1, 2, 18, 70, none, true, 1);
  check<bf16, spread, 64, 64>(1, 1, 9, 140, of_keys, false, 4);
  check_fixed();
  // Causal: more queries than keys, as many, fewer; tiles that the diagonal crosses and misses.
  check_causal<f16, square, 64, 0>(1, 2, 200, 200, none);
  check_causal<f16, square, 64, 0>(2, 1, 70, 20, of_keys);
  check_causal<bf16, paired, 40, 0>(1, 2, 100, 130, full);
  check_causal<f16, spread, 64, 13>(1, 3, 37, 300, none);
#endif
  check<f16, paired, 72, 24>(1, 2, 30, 100, none, true);
  check<bf16, eight, 48, 48>(1, 2, 3, 300, hides, true);
  check_causal<f16, spread, 64, 299>(1, 2, 1, 300, of_pairs);
  return finish();
}
