// Architectures: 800 900
//
// Tests of decode_attention_sm80 and decode_attention_sm90.
#include "attention/cases.h"
#include "cuda/decode_attention/kernel.cuh"

using namespace test;

namespace {

template <class Schedule, int Group, int D, int E, int Causal, bool ZeroUndefined>
struct decode_case : Schedule {
  dims<dyn, dyn> batch;
  static constexpr fixed<Group> group{};
  dyn m, n;
  static constexpr fixed<D> d{};
  static constexpr fixed<E> e{};
  static constexpr int causal = Causal;
  static constexpr bool zero_undefined = ZeroUndefined;
  void set_batch(index_t images, index_t key_heads, index_t) {
    batch = dims<dyn, dyn>(images, key_heads);
  }
};

#if defined(TENON_EMULATED_ARCH)
constexpr bool has_clusters = TENON_EMULATED_ARCH >= 900;
#else
constexpr bool has_clusters = true;
#endif

/// Heads of keys, each of `Group` heads of queries; on both kernels where there are clusters.
template <bias_kind Kind, class T, class Schedule, int Group, int D, int E = D, int Causal = -1,
          class Order = no_order, bool ZeroUndefined = false>
void check(index_t batch, index_t key_heads, index_t m, index_t n, index_t first = 0,
           bool beside = false, index_t skew = 0, index_t gap = 0) {
  using of = decode_case<Schedule, Group, D, E, Causal, ZeroUndefined>;
  attention_problem p{batch, key_heads * Group, m, n, beside, skew, gap, key_heads};
  p.first = first;
  constexpr cuda::decode_attention_geometry shape = {
      Schedule::warps, Schedule::keys, Schedule::stages, Schedule::splits, D, E, false};
  const index_t tiles = ceil_div(Group * m, index_t(16)) * batch * key_heads;
  buffer<int> counters(tiles + 1);
  for (index_t i = 0; i < counters.size(); ++i)
    counters.set(i, 0);
  counters.upload();
  buffer<float> partials(shape.part_bytes(tiles) / 4 + 4);
  const cuda::split_scratch scratch = {partials.device(), counters.device()};
  const auto name = [](const char *kernel) {
    name_case("%s, warps %d keys %d stages %d splits %d", kernel, Schedule::warps, Schedule::keys,
              Schedule::stages, Schedule::splits);
  };
  name("decode_attention_sm80");
  check_attention<Kind, T, of, Order>(p, [&](const auto &cfg, float scale, const auto &q,
                                             const auto &k, const auto &v, const auto &bias,
                                             const auto &y, const auto &...order) {
    if constexpr (sizeof...(order) > 0)
      return cuda::decode_attention_sm80(cfg, scale, q, k, v, bias, y, order...,
                                         cuda::no_appended_rows{}, scratch);
    else
      return cuda::decode_attention_sm80(cfg, scale, q, k, v, bias, y, plain_order{},
                                         cuda::no_appended_rows{}, scratch);
  });
  counters.download();
  bool cleared = true;
  for (index_t i = 0; i < counters.size(); ++i)
    cleared &= counters.get(i) == 0;
  record(cleared, "counters are not left zero");
  if constexpr (has_clusters && Schedule::splits <= 8) {
    name("decode_attention_sm90");
    check_attention<Kind, T, of, Order>(
        p, [](const auto &...with) { return cuda::decode_attention_sm90(with...); });
  }
}

template <int Warps, int Keys, int Stages, int Splits>
using schedule = cuda::decode_attention_schedule<Warps, Keys, Stages, Splits>;
using usual = schedule<8, 16, 2, 8>;
using few = schedule<4, 32, 3, 3>;
using alone = schedule<1, 16, 4, 1>;
using many = schedule<2, 16, 2, 20>;

template <int Window, bool Capped> using from_memory = order_kind<Window, Capped, true>;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  // Heads that share keys: rows of one tile, of several, fewer than a tile.
  check<none, f16, usual, 4, 64>(1, 2, 1, 300);
  check<none, f16, usual, 4, 64>(2, 3, 4, 1025, 0, true);
  check<none, bf16, few, 8, 128>(1, 2, 5, 401);
  check<none, f16, alone, 1, 64>(1, 3, 16, 70);
  check<none, f16, many, 3, 64>(1, 1, 7, 1000);
  // Sizes of heads; values of another size.
  check<none, f16, few, 2, 32>(1, 2, 1, 200);
  check<none, f16, usual, 2, 80>(1, 2, 3, 200);
  check<none, f16, few, 2, 96>(1, 1, 1, 130);
  check<none, f16, schedule<4, 16, 2, 2>, 4, 256>(1, 1, 2, 130);
  check<none, f16, few, 4, 40, 72>(1, 2, 2, 90);
  check<none, f16, usual, 2, 64, 8>(1, 2, 1, 90);
  // Biases.
  check<full, f16, usual, 4, 64>(2, 2, 3, 300);
  check<of_keys, bf16, few, 1, 64>(2, 3, 5, 130, 0, true);
  check<of_pairs, f16, many, 4, 64>(1, 2, 2, 77);
  check<hides, f16, usual, 4, 64>(1, 1, 6, 300);
  check<hides, f16, few, 2, 64, 64, -1, no_order, true>(1, 2, 6, 150);
  check<hides_most, f16, usual, 1, 64>(1, 2, 16, 150);
  // Causal; lengths from memory; windows; bounded scores.
  check<none, f16, usual, 4, 64, 64, 13>(1, 2, 7, 300);
  check<none, f16, usual, 4, 64, 64, 0, from_memory<0, false>>(1, 2, 1, 400, 255);
  check<none, f16, few, 4, 64, 64, 0, from_memory<0, false>>(3, 2, 4, 200, 130);
  check<none, f16, usual, 2, 64, 64, -1, from_memory<0, false>>(2, 1, 3, 200, 60);
  check<of_pairs, f16, many, 2, 64, 64, 0, from_memory<40, true>>(2, 2, 3, 300, 200);
  check<none, bf16, usual, 4, 64, 64, 0, from_memory<33, false>>(1, 2, 4, 500, 410);
  check<none, f16, few, 1, 64, 64, -1, order_kind<0, true, false>>(1, 2, 3, 90);
  check<none, f16, usual, 4, 64, 64, 0, from_memory<0, false>, true>(1, 2, 2, 100, 0);
  // One key, none.
  check<none, f16, usual, 4, 64>(1, 2, 1, 1);
  check<none, f16, few, 4, 64>(1, 1, 2, 0);
  // Rows that are no whole runs, addresses that are not aligned, room behind rows.
  check<full, f16, few, 2, 10, 7>(1, 2, 3, 70, 0, true);
  check<none, f16, usual, 2, 20, 36>(1, 2, 3, 70);
  check<none, f16, few, 2, 64>(1, 2, 3, 70, 0, true, 1);
  check<of_keys, bf16, usual, 1, 64>(1, 1, 9, 140, 0, false, 4, 8);
#endif
  check<none, f16, schedule<4, 16, 2, 4>, 4, 64, 64, 0, from_memory<0, false>>(1, 2, 1, 300, 256);
  check<hides, bf16, schedule<2, 32, 3, 2>, 2, 48>(1, 2, 3, 130, 0, true);
  return finish();
}
