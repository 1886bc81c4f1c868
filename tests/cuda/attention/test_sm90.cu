// Architectures: 900a
//
// Tests of attention_sm90.
#include "cuda/attention/sm90.cuh"
#include "shared/attention_cases.h"

using namespace test;

namespace {

template <class Schedule, bool Pairs> struct with_pairs : Schedule {
  static constexpr bool bias_pairs = Pairs;
};

template <bias_kind Kind, class T, class Schedule, int D, int E = D, int Causal = -1,
          bool Pairs = false, bool ZeroUndefined = false, class Parts = no_parts,
          class Order = no_order>
void check(const attention_problem &p) {
  name_case("attention, warpgroups %d teams %d keys %d stages %d%s%s blocks %d%s",
            Schedule::warpgroups, Schedule::teams, Schedule::keys, Schedule::stages,
            Schedule::overlap ? " overlap" : "", Schedule::turns ? " turns" : "", Schedule::blocks,
            Pairs ? " pairs" : "");
  check_attention<Kind, T, attention_case<with_pairs<Schedule, Pairs>, D, E, Causal, ZeroUndefined>,
                  Order, Parts>(p, [](const auto &...of) { return cuda::attention_sm90(of...); });
}
/// Queries from key `first` on, of which each sees `Window` keys (0: all); keys behind the last
/// query hold nothing.
template <bias_kind Kind, class T, class Schedule, int D, int Window = 0, int Causal = 0>
void check_behind(attention_problem p, index_t first) {
  p.first = first;
  check<Kind, T, Schedule, D, D, Causal, false, true, no_parts, order_kind<Window, false, true>>(p);
}
template <bias_kind Kind, class T, class Schedule, int Rows, int Columns, int Causal = -1>
void check_places(const attention_problem &p) {
  check<Kind, T, Schedule, 64, 64, Causal, false, false, places<Rows, Columns>>(p);
}

template <int Warpgroups, int Teams, int Keys, int Stages, bool Overlap, bool Turns, int Blocks>
using schedule =
    cuda::attention_sm90_schedule<Warpgroups, Teams, Keys, Stages, Overlap, Turns, Blocks>;
using alone = schedule<1, 1, 128, 2, true, false, 2>;
using small = schedule<1, 1, 64, 2, true, false, 3>;
using roomy = schedule<1, 1, 64, 2, true, false, 2>; // heads of more than 64
using plain = schedule<2, 1, 64, 2, false, false, 2>;
using teams = schedule<2, 2, 64, 4, true, false, 1>;
using large_teams = schedule<2, 2, 128, 2, true, false, 1>;
using turns = schedule<3, 1, 128, 2, true, true, 1>;
using pair = schedule<2, 1, 128, 2, true, true, 1>;
using wide = schedule<2, 1, 64, 2, true, true, 1>; // heads of more than 128
using wide_alone = schedule<1, 1, 64, 2, true, false, 1>;

/// Everything but addresses known when the kernel is compiled, as a file for one network has it:
/// queries, keys and values side by side as one projection left them.
struct fixed_case : alone {
  extents<2, 3> batch;
  static constexpr fixed<77> m{};
  static constexpr fixed<77> n{};
  static constexpr fixed<64> d{};
  static constexpr fixed<64> e{};
  static constexpr int causal = -1;
  static constexpr bool zero_undefined = false, bias_pairs = false;
};
void check_fixed() {
  name_case("attention of fixed extents");
  buffer<f16> x(2 * 77 * 576), y(2 * 77 * 192);
  x.fill_random();
  const auto of = [&](int which, index_t b, index_t h, index_t i, index_t c) {
    return double(x.get((b * 77 + i) * 576 + which * 192 + h * 64 + c));
  };
  const auto want = attend(
      2, 3, 77, 77, 64,
      [&](index_t b, index_t h, index_t i, index_t j) {
        double sum = 0;
        for (index_t c = 0; c < 64; ++c)
          sum += of(0, b, h, i, c) * of(1, b, h, j, c);
        return sum * 0.3;
      },
      [&](index_t b, index_t h, index_t j, index_t c) { return of(2, b, h, j, c); });
  std::vector<double> placed(want.size());
  for (index_t h = 0, p = 0; h < 6; ++h)
    for (index_t i = 0; i < 77; ++i)
      for (index_t c = 0; c < 64; ++c, ++p)
        placed[size_t((h / 3 * 77 + i) * 192 + h % 3 * 64 + c)] = want[size_t(p)];
  using of_x = extents<77 * 576, 64, 576, 1>;
  const f16 *from = x.device();
  launch(cuda::attention_sm90(fixed_case{}, 0.3f, make_view(from, of_x{}),
                              make_view(from + 192, of_x{}), make_view(from + 384, of_x{}), pack(),
                              make_view(y.device(), extents<77 * 192, 64, 192, 1>{})));
  expect_close(y, placed, 2 * rounding<f16>());
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  // Tiles of queries and of keys with a rest, and without; more tiles than stages.
  check<none, f16, alone, 64>({1, 2, 70, 130});
  check<none, f16, alone, 64>({1, 1, 64, 640, true});
  check<none, f16, small, 64>({2, 1, 64, 128});
  check<none, bf16, small, 64>({1, 3, 100, 333, true});
  check<none, f16, plain, 64>({1, 2, 197, 197, true});
  check<none, bf16, plain, 64>({1, 1, 130, 300});
  check<none, f16, pair, 64>({1, 1, 130, 500, true});
  check<none, f16, turns, 64>({1, 2, 197, 333});
  check<none, bf16, turns, 64>({1, 1, 20, 700});
  check<none, f16, pair, 128>({1, 2, 197, 333, true});
  check<none, bf16, pair, 128>({1, 1, 128, 256});
  // Teams share keys: of fewer tiles than teams, too.
  check<none, f16, teams, 64>({1, 2, 70, 384, true});
  check<none, f16, teams, 64>({1, 1, 33, 600});
  check<none, bf16, teams, 64>({1, 2, 64, 20});
  check<none, f16, large_teams, 128>({1, 1, 100, 512});
  check<none, f16, large_teams, 64>({1, 1, 30, 100});
  // Other heads: no whole blocks of 64 columns, values of another size than keys.
  check<none, f16, alone, 40>({1, 3, 65, 77, true});
  check<full, f16, small, 32>({1, 2, 49, 49});
  check<none, f16, plain, 8>({1, 1, 19, 70});
  check<none, f16, roomy, 80>({1, 2, 64, 130, true});
  check<none, bf16, roomy, 96>({1, 1, 70, 65});
  check<none, f16, small, 72, 24>({1, 2, 30, 100, true});
  check<of_pairs, f16, roomy, 40, 128>({1, 1, 30, 100});
  check<none, f16, wide, 160>({1, 2, 130, 200, true});
  check<none, f16, wide, 256>({1, 1, 100, 150});
  check<of_keys, bf16, wide_alone, 200>({1, 1, 64, 64});
  // A bias for each score, for keys, for pairs; as pairs.
  check<full, f16, alone, 64>({2, 2, 70, 130});
  check<full, f16, alone, 64, 64, -1, true>({2, 2, 70, 130, true});
  check<narrow, bf16, alone, 64>({2, 2, 70, 131});
  check<narrow, f16, pair, 64, 64, -1, true>({1, 3, 100, 196, true});
  check<of_keys, f16, alone, 64>({2, 2, 64, 77, true});
  check<of_keys, f16, pair, 64, 64, -1, true>({1, 2, 100, 200});
  check<of_keys, f16, teams, 64>({2, 1, 40, 333});
  check<of_pairs, bf16, teams, 64, 64, -1, true>({1, 2, 37, 260});
  check<full, f16, pair, 128>({1, 1, 130, 300});
  check<of_pairs, f16, turns, 64, 64, -1, true>({1, 1, 130, 300});
  // Queries from which every key is hidden.
  check<hides, f16, alone, 64>({1, 1, 70, 300});
  check<hides, f16, alone, 64, 64, -1, false, true>({1, 1, 70, 300});
  check<hides, f16, teams, 64, 64, -1, false, true>({1, 2, 20, 150});
  check<hides_most, f16, teams, 64>({1, 2, 20, 150});
  check<hides, f16, turns, 64>({1, 1, 66, 260});
  check<hides_most, bf16, pair, 128, 128, -1, true>({1, 1, 66, 260});
  // Causal: more queries than keys, as many, fewer; tiles that the diagonal crosses and misses.
  check<none, f16, alone, 64, 64, 0>({1, 2, 300, 300, true});
  check<of_keys, f16, small, 64, 64, 0>({2, 1, 130, 20});
  check<none, bf16, plain, 40, 40, 0>({1, 2, 200, 230});
  check<none, f16, teams, 64, 64, 13>({1, 3, 70, 300});
  check<none, f16, turns, 64, 64, 0>({1, 2, 300, 300, true});
  check<full, f16, turns, 64, 64, 170>({1, 1, 130, 300});
  check<of_pairs, f16, alone, 64, 64, 299>({1, 2, 1, 300});
  // Positions from memory: as many keys as there is room for, fewer; windows, by tiles and not.
  check_behind<none, f16, alone, 64>({1, 2, 130, 330}, 200);
  check_behind<none, f16, pair, 128>({2, 4, 100, 500, true, 0, 0, 2}, 140);
  check_behind<none, bf16, turns, 64, 128>({1, 2, 197, 700}, 333);
  check_behind<none, f16, wide, 256, 70>({1, 1, 150, 400, true}, 90);
  check_behind<of_keys, f16, teams, 64, 40>({2, 2, 70, 300}, 20);
  check_behind<none, f16, plain, 64, 0, -1>({1, 2, 60, 210}, 50);
  check_behind<none, f16, large_teams, 128, 0>({1, 1, 64, 300}, 0);
  check<none, f16, pair, 64, 64, 0, false, false, no_parts, order_kind<50, false, false>>(
      {1, 2, 200, 230});
  // Heads that share keys.
  check<none, f16, alone, 64>({1, 6, 70, 130, true, 0, 0, 2});
  check<none, f16, pair, 128, 128, 0>({2, 4, 130, 130, false, 0, 0, 1});
  // NaN behind each row and beyond the last one.
  check<none, f16, alone, 40>({1, 2, 65, 100, true, 0, 24});
  check<none, f16, roomy, 80>({2, 2, 65, 100, false, 0, 8});
  check<none, f16, turns, 64>({1, 2, 100, 200, true, 0, 64});
  // Scores that grow much: sums are scaled down, and those that stay near are not.
  check<none, f16, turns, 64>({1, 1, 64, 900, false, 0, 0, 0, 40});
  check<none, f16, alone, 64>({1, 1, 64, 500, false, 0, 0, 0, 40});
  check<none, f16, pair, 128>({1, 1, 64, 500, false, 0, 0, 0, 0.01f});
  // One query, one key; none.
  check<of_pairs, f16, teams, 64>({3, 2, 1, 511, true});
  check<none, f16, alone, 64>({1, 1, 1, 1});
  check<none, f16, alone, 64>({1, 1, 0, 5});
  // Parts that stay in registers, are loaded with a tile, wait in shared memory; and a bias beside.
  check_places<none, f16, alone, 5, 64>({2, 2, 70, 320, true});
  check_places<none, f16, pair, 3, 64>({1, 2, 200, 192});
  check_places<none, bf16, small, 6, 32>({1, 3, 65, 192, true});
  check_places<none, f16, small, 3, 128>({1, 2, 100, 384});
  check_places<none, f16, alone, 14, 14>({2, 3, 196, 196, true});
  check_places<none, bf16, teams, 7, 9>({1, 2, 63, 63});
  check_places<none, f16, pair, 33, 17>({1, 1, 150, 561});
  check_places<full, f16, alone, 10, 10>({1, 2, 100, 100});
  check_places<of_keys, f16, pair, 4, 64>({2, 2, 130, 256});
  check_places<none, f16, alone, 5, 40, 0>({1, 4, 200, 200, true, 0, 0, 2});
  check_places<hides, f16, teams, 8, 16>({1, 2, 40, 128});
  // Results that are no whole runs.
  check<none, f16, alone, 20>({1, 2, 70, 70, false, 0, 4});
  check_fixed();
#endif
  check<of_keys, f16, alone, 64, 64, -1, true>({2, 2, 65, 390, true});
  check<of_pairs, bf16, teams, 64>({2, 4, 33, 140, true, 0, 0, 2});
  check<none, f16, pair, 128, 128, 0>({1, 1, 400, 400});
  check_behind<none, f16, pair, 128, 100>({1, 2, 130, 400}, 200);
  check_places<none, f16, pair, 7, 64>({1, 2, 70, 448, true});
  return finish();
}
