// Architectures: 800 900
//
// Tests of decode_attention_sm80 and decode_attention_sm90.
#include "cuda/decode_attention/kernel.cuh"
#include "shared/attention_cases.h"

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
  counters.fill(0);
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
  expect_zero(counters);
  if constexpr (Schedule::splits <= 8)
    if (runs_clusters()) {
      name("decode_attention_sm90");
      check_attention<Kind, T, of, Order>(
          p, [](const auto &...with) { return cuda::decode_attention_sm90(with...); });
    }
}

/// Of rows that are normalised: what is made of an element, and of its weight.
struct weighted {
  template <class L> TENON_FN float operator()(L, float normed, float weight) const {
    return normed * weight;
  }
};
enum class norm_kind { none, root_mean_square, centered };

/// Columns [First, First + D / 2) of rows that `view` has from `base` on; normalised, weighted.
template <norm_kind Norm, class T, class View>
auto half_of(View rows, const T *base, const float *weights, index_t first) {
  if constexpr (Norm == norm_kind::none) {
    return rows(base + first);
  } else {
    using of_columns = dims<fixed<0>, fixed<0>, fixed<0>, fixed<0>, fixed<1>>;
    return cuda::make_computed_view<compute_t<T>, 5>(
        pack(cuda::make_normed_view(rows(base + first)), make_view(weights + first, of_columns{})),
        weighted{});
  }
}
/// Both halves of such rows, exchanged.
template <norm_kind Norm, int D, class T, class View>
auto exchanged_halves(View rows, const T *base, const float *weights, float epsilon) {
  const auto halves = cuda::make_joined_columns<D / 2>(half_of<Norm>(rows, base, weights, D / 2),
                                                       half_of<Norm>(rows, base, weights, 0));
  if constexpr (Norm == norm_kind::none)
    return halves;
  else
    return cuda::make_normed_columns<D, Norm == norm_kind::centered>(rows(base), epsilon, halves);
}

/// New rows behind a cache, of which those from `first` on hold nothing where it is given (then
/// each query stands at `first` and further); queries and new keys have their halves exchanged on
/// the way, normalised where there is a norm. Unless the cache moves, it has room for the new ones,
/// which alone are written.
template <class T, class Schedule, int Group, int D, bool HasFirst = false, int Window = 0,
          bool Early = true, bool Moves = true, norm_kind Norm = norm_kind::none,
          bool Whole = false>
void check_appended(index_t batch, index_t key_heads, index_t m, index_t old, index_t added,
                    index_t first = 0) {
  using of = decode_case<Schedule, Group, D, D, HasFirst ? 0 : -1, true>;
  const index_t heads = key_heads * Group, n = old + added, images = batch * key_heads;
  buffer<T> q(batch * heads * m * D), y(q.size()), k(images * old * D), v(k.size()),
      new_k(images * added * D), new_v(new_k.size()), all_k(images * n * D), all_v(all_k.size());
  for (buffer<T> *b : {&q, &k, &v, &new_k, &new_v})
    b->fill_random();
  const auto is_empty = [&](index_t j) { return HasFirst && j >= first + m; };
  for (index_t i = 0; i < images; ++i)
    for (index_t j = 0; j < old; ++j)
      for (index_t c = 0; c < D && is_empty(j); ++c) {
        k.set((i * old + j) * D + c, compute_t<T>(NAN));
        v.set((i * old + j) * D + c, compute_t<T>(NAN));
      }
  k.upload(), v.upload();
  buffer<float> weights(D);
  weights.fill_random();
  const float epsilon = 0.01f;
  // Element c of row `row` as it is multiplied, but for its place.
  const auto made = [&](const buffer<T> &of, index_t row, index_t c) {
    const double x = double(of.get(row * D + c));
    if (Norm == norm_kind::none)
      return x;
    double mean = 0, squares = 0;
    for (index_t i = 0; i < D && Norm == norm_kind::centered; ++i)
      mean += double(of.get(row * D + i)) / D;
    for (index_t i = 0; i < D; ++i)
      squares += (double(of.get(row * D + i)) - mean) * (double(of.get(row * D + i)) - mean) / D;
    const double y = (x - mean) / sqrt(squares + double(epsilon)) * double(weights.get(c));
    T rounded;
    store_element(&rounded, compute_t<T>(y));
    return double(load_element(&rounded));
  };
  const auto exchanged = [](index_t c) { return (c + D / 2) % D; };
  const auto key = [&](index_t b, index_t h, index_t j, index_t c) {
    const index_t i = b * key_heads + h;
    return double(j < old ? double(k.get((i * old + j) * D + c))
                          : made(new_k, i * added + j - old, exchanged(c)));
  };
  const auto value = [&](index_t b, index_t h, index_t j, index_t c) {
    const index_t i = b * key_heads + h;
    return double(j < old ? v.get((i * old + j) * D + c)
                          : new_v.get((i * added + j - old) * D + c));
  };
  const float scale = 2.5f / sqrtf(float(D));
  const auto want = attend(
      batch, heads, m, n, D,
      [&](index_t b, index_t h, index_t i, index_t j) {
        if (HasFirst && (j > first + i || is_empty(j) || (Window > 0 && j <= first + i - Window)))
          return -double(INFINITY);
        double sum = 0;
        for (index_t c = 0; c < D; ++c)
          sum += made(q, (b * heads + h) * m + i, exchanged(c)) * key(b, h / Group, j, c);
        return sum * double(scale);
      },
      [&](index_t b, index_t h, index_t j, index_t c) {
        return is_empty(j) ? 0 : value(b, h / Group, j, c);
      });
  buffer<int> origin(1), counters(ceil_div(Group * m, index_t(16)) * images);
  origin.set(0, int(first));
  origin.upload();
  counters.fill(0);
  constexpr cuda::decode_attention_geometry shape = {
      Schedule::warps, Schedule::keys, Schedule::stages, Schedule::splits, D, D, false};
  buffer<float> partials(shape.part_bytes(counters.size()) / 4 + 4);
  const auto run = [&](const char *kernel, auto make, auto... scratch) {
    name_case(
        "%s appends %ld to %ld%s, batch %ld heads %ld/%ld m%ld d%d first %ld window %d, splits %d",
        kernel, long(added), long(old), Moves ? "" : " in place", long(batch), long(heads),
        long(key_heads), long(m), D, long(first), Window, Schedule::splits);
    of cfg;
    cfg.set_batch(batch, key_heads, Group);
    cfg.m = m;
    cfg.n = n;
    const auto rows = [&](auto *base, index_t count) { // of keys
      return make_view(base, dims<dyn, dyn, fixed<0>, dyn, fixed<1>>(
                                 key_heads * count * D, count * D, fixed<0>{}, D, fixed<1>{}));
    };
    const auto queries = [&](auto *base) {
      return make_view(base, dims<dyn, dyn, dyn, dyn, fixed<1>>(heads * m * D, Group * m * D, m * D,
                                                                D, fixed<1>{}));
    };
    const T *const from = q.device(), *const from_k = new_k.device();
    const index_t start = Moves ? 0 : old * D; // of what is written
    for (index_t i = 0; i < all_k.size(); ++i) {
      const bool is_old = !Moves && i / D % n < old;
      const index_t at = (i / D / n * old + i / D % n) * D + i % D;
      all_k.set(i, is_old ? compute_t<T>(k.get(at)) : compute_t<T>(-7));
      all_v.set(i, is_old ? compute_t<T>(v.get(at)) : compute_t<T>(-7));
    }
    all_k.upload(), all_v.upload();
    const auto new_rows = [&](const T *base) { return rows(base, added); };
    const auto appended = cuda::make_appended_rows<Moves, Early, Whole>(
        dyn(old), exchanged_halves<Norm, D>(new_rows, from_k, weights.device(), epsilon),
        rows(static_cast<const T *>(new_v.device()), added), rows(all_k.device() + start, n),
        rows(all_v.device() + start, n));
    const T *const old_k = Moves ? k.device() : all_k.device(), *const old_v = Moves
                                                                                   ? v.device()
                                                                                   : all_v.device();
    const index_t pitch = Moves ? old : n;
    using zero = dims<fixed<0>, fixed<0>, fixed<0>, fixed<0>, fixed<0>>;
    const auto with = [&](const auto &order) {
      launch(make(cfg, scale, exchanged_halves<Norm, D>(queries, from, weights.device(), epsilon),
                  rows(old_k, pitch), rows(old_v, pitch), pack(), queries(y.device()), order,
                  appended, scratch...));
    };
    if constexpr (HasFirst)
      with(make_attention_order<Window, false>(
          pack(make_view(static_cast<const int *>(origin.device()), zero{})), 0.0f));
    else
      with(plain_order{});
    expect_close(y, want, 2 * rounding<T>());
    const auto row_of = [&](const auto &rows) {
      return [&](index_t at) {
        const index_t i = at / (n * D);
        return rows(i / key_heads, i % key_heads, at / D % n, at % D);
      };
    };
    if constexpr (Norm == norm_kind::none) {
      expect_same(all_k, row_of(key), "the keys are not what their rows are");
    } else {
      std::vector<double> keys(size_t(all_k.size()));
      for (index_t i = 0; i < all_k.size(); ++i)
        keys[size_t(i)] = row_of(key)(i);
      expect_close(all_k, keys, 2 * rounding<T>());
    }
    expect_same(all_v, row_of(value), "the values are not what their rows are");
  };
  run(
      "decode_attention_sm80",
      [](const auto &...with) { return cuda::decode_attention_sm80(with...); },
      cuda::split_scratch{partials.device(), counters.device()});
  if constexpr (Schedule::splits <= 8)
    if (runs_clusters())
      run("decode_attention_sm90",
          [](const auto &...with) { return cuda::decode_attention_sm90(with...); });
}

template <int Warps, int Keys, int Stages, int Splits>
using schedule = cuda::decode_attention_schedule<Warps, Keys, Stages, Splits>;
using usual = schedule<8, 16, 2, 8>;
using few = schedule<4, 32, 3, 3>;
using alone = schedule<1, 16, 4, 1>;
using many = schedule<2, 16, 2, 20>;

/// Behind a cache that stays where it is, of runs that are read as such, and of others.
template <class T, class Schedule, int Group, int D, norm_kind Norm = norm_kind::root_mean_square>
void check_normed(index_t batch, index_t key_heads, index_t m, index_t old, index_t added) {
  check_appended<T, Schedule, Group, D, true, 0, true, false, Norm, true>(batch, key_heads, m, old,
                                                                          added, old + added - m);
  check_appended<T, Schedule, Group, D, true, 0, false, true, Norm>(batch, key_heads, m, old, added,
                                                                    old + added - m);
}

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
  // New rows: behind a whole number of tiles, and not; several; a cache that is not full, of which
  // a window shows a part; several tiles of rows; none before.
  check_appended<f16, usual, 4, 64>(1, 2, 1, 256, 1);
  check_appended<f16, few, 4, 64, false, 0, false>(2, 2, 3, 133, 3);
  check_appended<bf16, many, 2, 64>(1, 3, 4, 77, 4);
  check_appended<f16, usual, 4, 64, true>(1, 2, 2, 200, 2, 120);
  check_appended<f16, usual, 4, 64, true, 50>(2, 1, 1, 200, 1, 200);
  check_appended<f16, few, 8, 64>(1, 2, 5, 60, 16);
  check_appended<f16, schedule<4, 16, 2, 2>, 1, 128>(1, 2, 1, 0, 1);
  check_appended<f16, few, 2, 80>(1, 1, 1, 19, 2);
  // The same of caches that stay where they are.
  check_appended<f16, usual, 4, 64, false, 0, true, false>(1, 2, 1, 256, 1);
  check_appended<f16, few, 4, 64, false, 0, false, false>(2, 2, 3, 133, 3);
  check_appended<f16, usual, 4, 64, true, 0, true, false>(1, 2, 2, 200, 2, 120);
  check_appended<f16, usual, 4, 64, true, 50, true, false>(2, 1, 1, 200, 1, 200);
  check_appended<bf16, few, 8, 64, true, 0, true, false>(1, 2, 5, 60, 16, 60);
  check_appended<f16, schedule<4, 16, 2, 2>, 1, 128, true, 0, true, false>(1, 2, 1, 0, 1, 0);
  // Heads that are normalised: of several sizes, more rows than are fetched at once, whole runs.
  check_normed<f16, few, 4, 64, norm_kind::centered>(2, 2, 4, 60, 4);
  check_normed<bf16, schedule<4, 16, 2, 2>, 8, 256>(1, 1, 3, 130, 9);
  check_normed<f16, many, 1, 48>(1, 2, 16, 40, 16);
#endif
  check_normed<f16, schedule<4, 16, 2, 4>, 4, 128>(1, 1, 2, 100, 2);
  check_appended<bf16, schedule<4, 16, 2, 4>, 4, 64, true>(1, 2, 1, 260, 1, 260);
  check_appended<f16, schedule<4, 16, 2, 4>, 4, 64, true, 0, true, false>(1, 2, 1, 260, 1, 260);
  check<none, f16, schedule<4, 16, 2, 4>, 4, 64, 64, 0, from_memory<0, false>>(1, 2, 1, 300, 256);
  check<hides, bf16, schedule<2, 32, 3, 2>, 2, 48>(1, 2, 3, 130, 0, true);
  return finish();
}
