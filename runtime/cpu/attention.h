// Defines attention: means of values, weighted by a softmax of products of queries and keys.
//
//   y[b.., m, e] = sum over n of weight[m, n] * v[b.., n, e], where weight[m, ...] is the softmax
//   of scale * (sum over d of q[b.., m, d] * k[b.., n, d]) + bias[b.., m, n]
//
//   attention(cfg, batch, scale, q, k, v, bias, y, workers, order = plain_order())
//
// batch: dims<...> of the leading dimensions; q, k, v, y: views over (batch..., m or n, d or e) in
// f32 or narrower floats; bias: a pack of what is added, views over (batch..., m, n) and
// attention_parts (common/attention_part.h); order: an attention_order (common/attention_order.h),
// by which position m becomes one among the keys. k and
// v are contiguous along their last dimension, other strides are arbitrary: heads need not be split
// or merged by a copy.
//
// Scores never reach memory beyond a tile. Keys are taken `tile` at a time; sums follow the largest
// score so far, and are scaled down when a larger one comes. Lanes run along the queries, of which
// `vectors` registers are worked on at once: the largest score, the sum of weights and the scaling
// are then vectors, no lane is ever added to another, and elements of k and v are broadcast from
// where they lie. Only queries and results are transposed, once. Where there are fewer queries than
// half a vector (decoding), lanes run along d and e instead, and each key and value is read once.
//
// Config (derive from attention_defaults): m, n (`fixed` or `dyn`); d, e (`fixed`);
//   vectors, rows   schedule: vectors * rows sums stay in registers, for `rows` keys, or elements
//                   of values, at a time: 3 and 4, or 2 and 6, with 16 registers
//   tile            schedule: keys at once; vectors * L::width * (d + e + tile) floats of stack
//   causal          keys n > m + causal are hidden from query m; -1: none are
//   zero_undefined  weights that are NaN (every key hidden) count as 0
#ifndef TENON_RUNTIME_CPU_ATTENTION_H
#define TENON_RUNTIME_CPU_ATTENTION_H

#include "common/attention_order.h"
#include "common/attention_part.h"
#include "common/scalar_math.h"
#include "cpu/map.h"
#include "cpu/odometer.h"
#include "cpu/pool.h"
#include "cpu/subnormals.h"
#include "cpu/sum_lanes.h"
#include "cpu/unroll.h"

namespace tenon {
namespace cpu {

struct attention_defaults {
  static constexpr int tile = 64;
  static constexpr index_t causal = -1;
  static constexpr bool zero_undefined = false;
  using lanes = native_lanes;
};

namespace detail {

/// Rows of k or v: `row(i)` is contiguous.
template <class T> struct attention_rows {
  const T *data;
  index_t stride;
  TENON_FN const T *row(index_t i) const { return data + i * stride; }
};

/// The running softmax of `L` rows of scores: their largest, and the sum of e^(score - largest).
template <class L> struct running_softmax {
  f32<L> largest = broadcast<L>(-float(INFINITY)), sum = {};

  /// What scores are relative to once `scores_largest` is among them: a number even where every
  /// score so far is -infinity. `factor` scales what was summed before.
  TENON_FN f32<L> raise(f32<L> scores_largest, f32<L> &factor) {
    const f32<L> raised = max<L>(largest, scores_largest);
    const f32<L> from = choose<L>(raised == -float(INFINITY), f32<L>{}, raised);
    factor = exp<L>(f32<L>(largest - from));
    largest = raised;
    sum = sum * factor;
    return from;
  }
  /// 1 / sum, which is NaN times what it scales where nothing was summed.
  template <bool ZeroUndefined> TENON_FN f32<L> scaled(f32<L> x, f32<L> inverse) const {
    const f32<L> y = x * inverse;
    if constexpr (ZeroUndefined)
      return choose<L>(sum > 0.0f, y, f32<L>{});
    else
      return y;
  }
};

/// scores[j][query] = sum over d of queries[d][query] * keys[j][d] for j < count. Writes whole
/// blocks of `rows` keys.
template <class Cfg, class T>
TENON_TILE void attention_scores(const float *queries, attention_rows<T> keys, index_t count,
                                 float *scores) {
  using L = typename Cfg::lanes;
  constexpr int nv = Cfg::vectors, nr = Cfg::rows, wide = nv * L::width;
  constexpr index_t depth = decltype(Cfg::d)::value;
  for (index_t j = 0; j < count; j += nr, scores += nr * wide) {
    const T *row[nr]; // beyond the last key: that one again, and nobody looks
    unroll<nr>([&](auto r) TENON_LAMBDA { row[r] = keys.row(j + r < count ? j + r : count - 1); });
    f32<L> acc[nr][nv];
    unroll<nr>([&](auto r) TENON_LAMBDA {
      unroll<nv>([&](auto v) TENON_LAMBDA { acc[r][v] = f32<L>{}; });
    });
    for (index_t i = 0; i < depth; ++i) {
      f32<L> q[nv];
      unroll<nv>([&](auto v) TENON_LAMBDA { q[v] = load<L>(queries + i * wide + v * L::width); });
      unroll<nr>([&](auto r) TENON_LAMBDA {
        const f32<L> x = broadcast<L, float>(load_element(row[r] + i));
        unroll<nv>([&](auto v) TENON_LAMBDA { acc[r][v] = mul_add(x, q[v], acc[r][v]); });
      });
    }
    unroll<nr>([&](auto r) TENON_LAMBDA {
      unroll<nv>([&](auto v)
                     TENON_LAMBDA { store<L>(scores + r * wide + v * L::width, acc[r][v]); });
    });
  }
}

/// sums[e][query] = sums[e][query] * factor[query] + sum over j of weights[j][query] *
/// values[j][e]. Touches whole blocks of `rows` elements.
template <class Cfg, class T>
TENON_TILE void attention_sums(const float *weights, attention_rows<T> values, index_t count,
                               const float *factor, float *sums) {
  using L = typename Cfg::lanes;
  constexpr int nv = Cfg::vectors, nr = Cfg::rows, wide = nv * L::width;
  constexpr index_t extent = decltype(Cfg::e)::value;
  for (index_t i = 0; i < extent; i += nr, sums += nr * wide) {
    index_t at[nr]; // beyond the last element: that one again, and nobody looks
    unroll<nr>([&](auto r) TENON_LAMBDA { at[r] = i + r < extent ? i + r : extent - 1; });
    f32<L> acc[nr][nv];
    unroll<nv>([&](auto v) TENON_LAMBDA {
      const f32<L> f = load<L>(factor + v * L::width);
      unroll<nr>([&](auto r)
                     TENON_LAMBDA { acc[r][v] = load<L>(sums + r * wide + v * L::width) * f; });
    });
    for (index_t j = 0; j < count; ++j) {
      const T *row = values.row(j);
      f32<L> w[nv];
      unroll<nv>([&](auto v) TENON_LAMBDA { w[v] = load<L>(weights + j * wide + v * L::width); });
      unroll<nr>([&](auto r) TENON_LAMBDA {
        const f32<L> x = broadcast<L, float>(load_element(row + at[r]));
        unroll<nv>([&](auto v) TENON_LAMBDA { acc[r][v] = mul_add(x, w[v], acc[r][v]); });
      });
    }
    unroll<nr>([&](auto r) TENON_LAMBDA {
      unroll<nv>([&](auto v) TENON_LAMBDA { store<L>(sums + r * wide + v * L::width, acc[r][v]); });
    });
  }
}

template <class L, int Rank>
TENON_FN void add_bias(const arguments<> &, const index_t *, index_t, index_t, index_t, float *,
                       index_t) {}
/// Adds the bias of keys n ... n + count - 1 to one vector of queries, at[Rank - 2] the first of
/// them; `scores` are `wide` apart.
template <class L, int Rank, class Bias, class... More>
TENON_FN void add_bias(const arguments<Bias, More...> &bias, const index_t *at, index_t queries,
                       index_t n, index_t count, float *scores, index_t wide) {
  using added = added_to_scores<Bias>;
  index_t point[Rank];
  for (int d = 0; d < Rank; ++d)
    point[d] = at[d];
  for (index_t j = 0; j < count; ++j) {
    point[Rank - 1] = added::column(n + j);
    const f32<L> b = load_at<L, Rank - 2>(added::view(bias.head), point, queries);
    store<L>(scores + j * wide, f32<L>(load<L>(scores + j * wide) + b));
  }
  add_bias<L, Rank>(bias.tail, at, queries, n, count, scores, wide);
}

template <class L, int Rank>
TENON_FN void add_bias_of_row(const arguments<> &, index_t *, index_t, index_t, float *) {}
/// The same of one query, at[Rank - 1] being free: `count` scores, and whatever behind them up to
/// a whole vector.
template <class L, int Rank, class Bias, class... More>
TENON_FN void add_bias_of_row(const arguments<Bias, More...> &bias, index_t *at, index_t n,
                              index_t count, float *scores) {
  using added = added_to_scores<Bias>;
  if constexpr (added::is_part) {
    for (index_t j = 0; j < count; ++j) {
      at[Rank - 1] = added::column(n + j);
      scores[j] += load_element(&bias.head.view.data[bias.head.view.offset(at)]);
    }
  } else {
    for (index_t j = 0; j < count; j += L::width) {
      at[Rank - 1] = n + j;
      const index_t lanes = count - j < L::width ? count - j : index_t(L::width);
      const f32<L> b = load_at<L, Rank - 1>(bias.head, at, lanes);
      store<L>(scores + j, f32<L>(load<L>(scores + j) + b));
    }
  }
  add_bias_of_row<L, Rank>(bias.tail, at, n, count, scores);
}

/// Where the queries of the batch entry `at` begin among the keys.
template <int Rank, class Order>
TENON_FN index_t origin_of([[maybe_unused]] const Order &order,
                           [[maybe_unused]] const index_t *at) {
  if constexpr (Order::has_first) {
    index_t point[Rank] = {};
    for (int d = 0; d < Rank - 2; ++d)
      point[d] = at[d];
    return index_t(order.first.head.data[order.first.head.offset(point)]);
  } else {
    return 0;
  }
}

/// Bounds so many scores, from one multiple of a vector on.
template <class L, class Order>
TENON_FN void bound_scores([[maybe_unused]] const Order &order, [[maybe_unused]] float *scores,
                           [[maybe_unused]] index_t count, [[maybe_unused]] index_t step) {
  if constexpr (Order::is_capped)
    for (index_t j = 0; j < count; ++j)
      store<L>(scores + j * step,
               f32<L>(tanh<L>(f32<L>(load<L>(scores + j * step) / order.cap)) * order.cap));
}

/// Of keys n ... n + count - 1, hides those that come too late for the `width` queries from m on.
template <class Cfg>
TENON_FN void hide_later_keys(index_t m, index_t width, index_t n, index_t count, float *scores,
                              index_t wide, index_t origin) {
  const index_t all = origin + m + Cfg::causal + 1 - n; // all queries see keys before
  for (index_t j = all > 0 ? all : 0; j < count; ++j)
    for (index_t i = 0; i < width && i < j - all + 1; ++i)
      scores[j * wide + i] = -float(INFINITY);
}

/// Of keys n ... n + count - 1, hides those that come too early for the `width` queries from m on.
template <class Order>
TENON_FN void hide_earlier_keys(index_t m, index_t width, index_t n, index_t count, float *scores,
                                index_t wide, index_t origin) {
  for (index_t j = 0; j < count; ++j)
    for (index_t i = width; i-- > 0 && Order::first_key(origin, m + i) > n + j;)
      scores[j * wide + i] = -float(INFINITY);
}

/// The keys and values at one point of the leading dimensions.
template <class View> TENON_FN auto attention_rows_at(const View &view, const index_t *at) {
  using T = bare<typename View::element>;
  constexpr int rank = View::rank;
  static_assert(is_same<bare<decltype(view.strides.template get<rank - 1>())>, fixed<1>>,
                "keys and values are contiguous along their last dimension");
  index_t first[rank];
  for (int d = 0; d < rank; ++d)
    first[d] = d < rank - 2 ? at[d] : 0;
  return attention_rows<T>{view.data + view.offset(first),
                           index_t(view.strides.template get<rank - 2>())};
}

/// `vectors` registers of queries from at[Rank - 2] on, of which `queries` exist.
template <class Cfg, int Rank, class Q, class K, class V, class Bias, class Y, class Order>
TENON_FN void attend_block(const Cfg &cfg, float scale, const Q &q, const K &k, const V &v,
                           const Bias &bias, const Y &y, const Order &order, index_t *at,
                           index_t queries) {
  using L = typename Cfg::lanes;
  constexpr int nv = Cfg::vectors, wide = nv * L::width, tile = Cfg::tile;
  constexpr index_t depth = decltype(Cfg::d)::value, extent = decltype(Cfg::e)::value;
  constexpr index_t padded = ceil_div(extent, Cfg::rows) * Cfg::rows;
  static_assert(tile % Cfg::rows == 0, "a tile is a whole number of blocks of keys");
  alignas(64) float columns[depth * wide], scores[tile * wide], sums[padded * wide], factor[wide];
  const index_t m0 = at[Rank - 2], origin = origin_of<Rank>(order, at);
  const index_t keys = Order::template visible_keys<Cfg::causal>(origin, m0 + queries,
                                                                 index_t(cfg.m), index_t(cfg.n));
  for (float &s : sums)
    s = 0;
  for (index_t i = 0; i < wide; ++i) {
    at[Rank - 2] = m0 + (i < queries ? i : 0);
    at[Rank - 1] = 0;
    const auto *row = q.data + q.offset(at);
    const index_t step = q.strides.template get<Rank - 1>();
    for (index_t d = 0; d < depth; ++d)
      columns[d * wide + i] = load_element(row + d * step) * scale;
  }
  const auto key_rows = attention_rows_at(k, at);
  const auto value_rows = attention_rows_at(v, at);
  running_softmax<L> softmax[nv];
  for (index_t n = Order::first_key(origin, m0); n < keys; n += tile) {
    const index_t count = keys - n < tile ? keys - n : index_t(tile);
    auto some = key_rows;
    some.data = key_rows.row(n);
    attention_scores<Cfg>(columns, some, count, scores);
    for (int u = 0; u < nv; ++u) {
      float *s = scores + u * L::width;
      const index_t left = queries - u * L::width;
      bound_scores<L>(order, s, count, wide);
      at[Rank - 2] = m0 + (left > 0 ? u * L::width : 0);
      if (left > 0)
        add_bias<L, Rank>(bias, at, left < L::width ? left : index_t(L::width), n, count, s, wide);
      if constexpr (Cfg::causal >= 0)
        hide_later_keys<Cfg>(m0 + u * L::width, L::width, n, count, s, wide, origin);
      if constexpr (Order::has_window)
        hide_earlier_keys<Order>(m0 + u * L::width, L::width, n, count, s, wide, origin);
      f32<L> largest = broadcast<L>(-float(INFINITY)), scaling;
      for (index_t j = 0; j < count; ++j)
        largest = max<L>(largest, load<L>(s + j * wide));
      const f32<L> from = softmax[u].raise(largest, scaling);
      store<L>(factor + u * L::width, scaling);
      f32<L> sum = softmax[u].sum;
      for (index_t j = 0; j < count; ++j) {
        const f32<L> weight = exp<L>(f32<L>(load<L>(s + j * wide) - from));
        sum = sum + weight;
        store<L>(s + j * wide, weight);
      }
      softmax[u].sum = sum;
    }
    auto same = value_rows;
    same.data = value_rows.row(n);
    attention_sums<Cfg>(scores, same, count, factor, sums);
  }
  for (int u = 0; u < nv; ++u) {
    const f32<L> inverse = 1.0f / (cfg.n > 0 ? softmax[u].sum : softmax[u].sum + 1.0f);
    for (index_t i = 0; i < extent; ++i) {
      float *s = sums + i * wide + u * L::width;
      store<L>(s, softmax[u].template scaled<Cfg::zero_undefined>(load<L>(s), inverse));
    }
  }
  for (index_t i = 0; i < queries; ++i) {
    at[Rank - 2] = m0 + i;
    at[Rank - 1] = 0;
    auto *row = y.data + y.offset(at);
    const index_t step = y.strides.template get<Rank - 1>();
    for (index_t j = 0; j < extent; ++j)
      store_element(row + j * step, sums[j * wide + i]);
  }
}

/// One query, lanes along d and e.
template <class Cfg, int Rank, class Q, class K, class V, class Bias, class Y, class Order>
TENON_FN void attend_row(const Cfg &cfg, float scale, const Q &q, const K &k, const V &v,
                         const Bias &bias, const Y &y, const Order &order, index_t *at) {
  using L = typename Cfg::lanes;
  constexpr int width = L::width, tile = ceil_div(Cfg::tile, width) * width;
  constexpr index_t depth = decltype(Cfg::d)::value, extent = decltype(Cfg::e)::value;
  constexpr int depth_vectors = int(ceil_div(depth, width)), vectors = int(ceil_div(extent, width));
  alignas(64) float query[depth_vectors * width] = {}, scores[tile] = {},
                                          sums[vectors * width] = {};
  const index_t origin = origin_of<Rank>(order, at);
  const index_t keys = Order::template visible_keys<Cfg::causal>(origin, at[Rank - 2] + 1,
                                                                 index_t(cfg.m), index_t(cfg.n));
  at[Rank - 1] = 0;
  const auto *from_query = q.data + q.offset(at);
  const index_t step = q.strides.template get<Rank - 1>();
  for (index_t d = 0; d < depth; ++d)
    query[d] = load_element(from_query + d * step) * scale;
  const auto key_rows = attention_rows_at(k, at);
  const auto value_rows = attention_rows_at(v, at);
  const auto lanes_of = [](index_t i, index_t n)
                            TENON_LAMBDA { return n - i < width ? n - i : index_t(width); };
  running_softmax<scalar_lanes> softmax;
  for (index_t n = Order::first_key(origin, at[Rank - 2]); n < keys; n += tile) {
    const index_t count = keys - n < tile ? keys - n : index_t(tile);
    for (index_t j = 0; j < count; ++j) {
      const auto *row = key_rows.row(n + j);
      f32<L> acc[2] = {};
      unroll<depth_vectors>([&](auto i) TENON_LAMBDA {
        constexpr index_t d = index_t(i) * width;
        const f32<L> x = load_strided<L>(row + d, fixed<1>{}, lanes_of(d, depth));
        acc[i % 2] = mul_add(x, load<L>(query + d), acc[i % 2]);
      });
      scores[j] = sum_lanes<float>(f32<L>(acc[0] + acc[1]));
    }
    bound_scores<L>(order, scores, ceil_div(count, width), width);
    for (index_t j = count; j < tile; ++j)
      scores[j] = -float(INFINITY);
    add_bias_of_row<L, Rank>(bias, at, n, count, scores);
    f32<L> most = broadcast<L>(-float(INFINITY)), total = {};
    for (index_t j = 0; j < count; j += width)
      most = max<L>(most, load<L>(scores + j));
    float lanes[width], largest = -float(INFINITY), scaling;
    store<L>(lanes, most);
    for (float lane : lanes)
      largest = max<scalar_lanes>(largest, lane);
    const float from = softmax.raise(largest, scaling);
    for (index_t j = 0; j < count; j += width) {
      const f32<L> weights = exp<L>(f32<L>(load<L>(scores + j) - from));
      total = total + weights;
      store<L>(scores + j, weights);
    }
    softmax.sum += sum_lanes<float>(total);
    for (float &s : sums)
      s *= scaling;
    constexpr int most_vectors = 8;
    unroll<ceil_div(vectors, most_vectors)>([&](auto block) TENON_LAMBDA {
      constexpr int first = block * most_vectors;
      constexpr int here = vectors - first < most_vectors ? vectors - first : most_vectors;
      f32<L> acc[here];
      unroll<here>([&](auto u) TENON_LAMBDA { acc[u] = load<L>(sums + (first + u) * width); });
      for (index_t j = 0; j < count; ++j) {
        const auto *row = value_rows.row(n + j);
        const f32<L> weight = broadcast<L>(scores[j]);
        unroll<here>([&](auto u) TENON_LAMBDA {
          constexpr index_t e = index_t(first + u) * width;
          const f32<L> x = load_strided<L>(row + e, fixed<1>{}, lanes_of(e, extent));
          acc[u] = mul_add(x, weight, acc[u]);
        });
      }
      unroll<here>([&](auto u) TENON_LAMBDA { store<L>(sums + (first + u) * width, acc[u]); });
    });
  }
  at[Rank - 1] = 0;
  auto *row = y.data + y.offset(at);
  const index_t to = y.strides.template get<Rank - 1>();
  const float inverse = 1.0f / (cfg.n > 0 ? softmax.sum : 1.0f);
  for (index_t e = 0; e < extent; ++e)
    store_element(row + e * to, softmax.template scaled<Cfg::zero_undefined>(sums[e], inverse));
}

} // namespace detail

template <class Cfg, class Batch, class Q, class K, class V, class Bias, class Y,
          class Order = plain_order>
void attention(const Cfg &cfg, const Batch &batch, float scale, const Q &q, const K &k, const V &v,
               const Bias &bias, const Y &y, pool &workers, const Order &order = Order()) {
  using namespace detail;
  using L = typename Cfg::lanes;
  constexpr int rank = Batch::rank + 2;
  constexpr index_t wide = Cfg::vectors * L::width;
  const index_t m = cfg.m;
  const bool by_row = 2 * m <= L::width;
  odometer<rank - 1> space;
  fill_extents<0>(batch, space.extents);
  space.extents[rank - 2] = by_row ? m : ceil_div(m, wide);
  const index_t work = index_t(cfg.n) * (cfg.d + cfg.e) * (by_row ? 1 : wide);
  workers.parallel_for(space.size(), 1 + (index_t(1) << 15) / (work + 1),
                       [&](index_t begin, index_t end) {
                         const subnormals_as_zero guard;
                         odometer<rank - 1> it = space;
                         it.seek(begin);
                         for (index_t u = begin; u < end; ++u, it.step()) {
                           index_t at[rank];
                           for (int d = 0; d < rank - 1; ++d)
                             at[d] = it.at[d];
                           if (by_row) {
                             attend_row<Cfg, rank>(cfg, scale, q, k, v, bias, y, order, at);
                           } else {
                             at[rank - 2] *= wide;
                             const index_t left = m - at[rank - 2];
                             attend_block<Cfg, rank>(cfg, scale, q, k, v, bias, y, order, at,
                                                     left < wide ? left : wide);
                           }
                         }
                       });
}

} // namespace cpu
} // namespace tenon

#endif
