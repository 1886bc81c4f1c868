// Architectures: 800
//
// Tests of attention_sm80.
#include "shared/attention_cases.h"
#include "cuda/attention/kernel.cuh"

using namespace test;

namespace {

/// `skew` moves tensors from their 16-byte boundaries.
template <bias_kind Kind, class T, class Schedule, int D, int E, bool ZeroUndefined = false,
          int Causal = -1, class Parts = no_parts>
void check(index_t batch, index_t heads, index_t m, index_t n, bool beside = false,
           index_t skew = 0, index_t key_heads = 0) {
  name_case("attention, warps %d teams %d keys %d stages %d", Schedule::warps, Schedule::teams,
            Schedule::keys, Schedule::stages);
  check_attention<Kind, T, attention_case<Schedule, D, E, Causal, ZeroUndefined>, no_order, Parts>(
      {batch, heads, m, n, beside, skew, 0, key_heads},
      [](const auto &...of) { return cuda::attention_sm80(of...); });
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
  launch(cuda::attention_sm80(fixed_case{}, 0.3f, make_view<const f16>(q.device(), of_q{}),
                              make_view<const f16>(kv.device(), of_kv{}),
                              make_view<const f16>(kv.device() + 192, of_kv{}),
                              pack(make_view<const float>(bias.device(), extents<96, 0, 0, 1>{})),
                              make_view(y.device(), of_q{})));
  expect_close(y, placed, 2 * rounding<f16>());
}

/// Later keys are hidden.
template <bias_kind Kind, class T, class Schedule, int D, int Causal>
void check_causal(index_t batch, index_t heads, index_t m, index_t n) {
  check<Kind, T, Schedule, D, D, false, Causal>(batch, heads, m, n, true);
}

/// Keys are places of an image.
template <bias_kind Kind, class T, class Schedule, int Rows, int Columns>
void check_places(index_t batch, index_t heads, index_t m) {
  check<Kind, T, Schedule, 64, 64, false, -1, places<Rows, Columns>>(batch, heads, m,
                                                                     Rows * Columns, true);
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
  check<none, f16, square, 64, 64>(1, 2, 70, 130);
  check<full, f16, square, 64, 64>(2, 1, 64, 128, true);
  check<of_keys, f16, square, 64, 64>(1, 3, 16, 20);
  check<of_pairs, bf16, square, 64, 64>(2, 2, 65, 67, true);
  check<of_keys, f16, square, 128, 128>(1, 2, 33, 77, true);
  check<none, f16, square, 8, 8>(2, 1, 19, 70);
  check<hides_most, f16, square, 32, 16>(1, 2, 40, 64);
  // Teams share keys.
  check<full, f16, paired, 64, 64>(2, 2, 37, 130, true);
  check<narrow, bf16, paired, 64, 64>(2, 2, 37, 130, true);
  check<of_pairs, f16, paired, 40, 40>(1, 2, 33, 65);
  check<hides, bf16, paired, 128, 96>(1, 1, 32, 64);
  check<of_keys, f16, spread, 64, 64>(2, 3, 5, 300, true);
  check<none, f16, spread, 64, 64>(1, 2, 17, 513);
  check<full, f16, spread, 40, 72>(1, 2, 16, 31);
  // Heads that share keys.
  check<none, f16, paired, 64, 64>(1, 6, 33, 65, true, 0, 2);
  check<full, f16, square, 64, 64>(2, 4, 20, 70, false, 0, 1);
  // One query, one key, none.
  check<of_pairs, f16, spread, 64, 64>(3, 2, 1, 511, true);
  check<none, f16, spread, 64, 64>(1, 1, 1, 1);
  check<of_keys, f16, square, 64, 64>(1, 2, 3, 1);
  check<none, f16, square, 64, 64>(1, 1, 5, 0);
  check<none, f16, square, 64, 64>(1, 1, 0, 5);
  // Queries from which every key is hidden.
  check<hides, f16, square, 64, 64>(1, 1, 20, 70);
  check<hides, f16, square, 64, 64, true>(1, 1, 20, 70);
  check<hides, f16, spread, 64, 64, true>(1, 2, 20, 150);
  check<hides_most, f16, spread, 64, 64>(1, 2, 20, 150);
  // Rows that are no whole runs, and addresses that are not aligned.
  check<full, f16, square, 10, 7>(1, 2, 18, 70, true);
  check<none, f16, paired, 20, 36>(1, 2, 18, 70);
  check<none, f16, square, 64, 64>(1, 2, 18, 70, true, 1);
  check<of_keys, bf16, spread, 64, 64>(1, 1, 9, 140, false, 4);
  check_fixed();
  check_places<none, f16, square, 7, 7>(2, 3, 49);
  check_places<full, bf16, paired, 10, 13>(1, 2, 37);
  // Causal: more queries than keys, as many, fewer; tiles that the diagonal crosses and misses.
  check_causal<none, f16, square, 64, 0>(1, 2, 200, 200);
  check_causal<of_keys, f16, square, 64, 0>(2, 1, 70, 20);
  check_causal<full, bf16, paired, 40, 0>(1, 2, 100, 130);
  check_causal<none, f16, spread, 64, 13>(1, 3, 37, 300);
#endif
  check<none, f16, paired, 72, 24>(1, 2, 30, 100, true);
  check<hides, bf16, eight, 48, 48>(1, 2, 3, 300, true);
  check_causal<of_pairs, f16, spread, 64, 299>(1, 2, 1, 300);
  return finish();
}
