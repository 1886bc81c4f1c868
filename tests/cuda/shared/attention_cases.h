// Defines what tests of attention share: attention in double, and the check of one case against it.
#pragma once

#include "common/attention_order.h"
#include "common/attention_part.h"
#include "shared/harness.h"

#include <float.h>

#include <type_traits>

namespace test {

/// What is added to the scores.
enum bias_kind {
  none,
  full,       // a number for each score
  narrow,     // the same, of the type of queries
  of_keys,    // the same for all heads and queries
  of_pairs,   // the same for all heads
  hides,      // of_pairs; -infinity hides some keys, and all of them from every third query
  hides_most, // of_pairs; the lowest float hides some keys, and all of them from every third query
};

template <class Schedule, int D, int E, int Causal, bool ZeroUndefined>
struct attention_case : Schedule {
  dims<dyn, dyn, dyn> batch; // heads of a group are neighbours
  dyn m, n;
  static constexpr fixed<D> d{};
  static constexpr fixed<E> e{};
  static constexpr int causal = Causal;
  static constexpr bool zero_undefined = ZeroUndefined;
  void set_batch(index_t images, index_t key_heads, index_t group) {
    batch = dims<dyn, dyn, dyn>(images, key_heads, group);
  }
};

/// What an attention_order says beside the causal attribute.
template <int Window, bool Capped, bool HasFirst> struct order_kind {
  static constexpr int window = Window;
  static constexpr bool capped = Capped, has_first = HasFirst;
};
using no_order = order_kind<0, false, false>;

/// Parts beside the bias: keys are places of an image of Rows x Columns, each with two numbers of
/// every query's. 0: there are none.
template <int Rows, int Columns> struct places {
  static constexpr int rows = Rows, columns = Columns;
};
using no_parts = places<0, 0>;

struct attention_problem {
  index_t batch, heads, m, n;
  bool beside = false;   // heads lie side by side
  index_t skew = 0;      // moves tensors from their 16-byte boundaries
  index_t gap = 0;       // elements behind each row, which are NaN
  index_t key_heads = 0; // each for heads / key_heads neighbours; 0: as many as heads
  float scale = 2.5f;    // times 1 / sqrt(d)
  index_t first = 0;     // of order_kind: where queries begin; later batch entries one further each
};

/// Attention in double. score(b, h, i, j) and value(b, h, j, c) for `keys` keys; NaN where every
/// key is hidden.
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

/// Rows of [batch][heads][rows][width], or [batch][rows][heads][width] where heads lie side by
/// side, with a gap behind each.
struct rows_of_heads {
  index_t heads, rows, width, gap;
  bool beside;
  index_t pitch() const { return width + gap; }
  index_t row() const { return beside ? heads * pitch() : pitch(); }
  index_t head() const { return beside ? pitch() : rows * pitch(); }
  index_t image() const { return heads * rows * pitch(); }
  index_t at(index_t b, index_t h, index_t i, index_t c) const {
    return b * image() + h * head() + i * row() + c;
  }
  /// Over (batch, heads / group, group, rows, width).
  dims<dyn, dyn, dyn, dyn, fixed<1>> strides(index_t group) const {
    return {image(), group * head(), head(), row(), fixed<1>{}};
  }
  /// The same where each is for all of its group.
  dims<dyn, dyn, fixed<0>, dyn, fixed<1>> shared_strides() const {
    return {image(), head(), fixed<0>{}, row(), fixed<1>{}};
  }
  /// Random, but for the gaps.
  template <class T> void fill(buffer<T> &to) const {
    to.fill_random();
    for (index_t i = 0; i < to.size(); ++i)
      if (i % pitch() >= width)
        to.set(i, compute_t<T>(NAN));
    to.upload();
  }
};

/// `make(cfg, scale, q, k, v, bias, y)` gives the kernel, with an order behind them where there is
/// one. It runs twice and has to give the same bits.
template <bias_kind kind, class T, class Case, class Order = no_order, class Parts = no_parts,
          class Make>
void check_attention(const attention_problem &p, Make make) {
  constexpr index_t d = decltype(Case::d)::value, e = decltype(Case::e)::value;
  constexpr int causal = Case::causal;
  const index_t key_heads = p.key_heads ? p.key_heads : p.heads, group = p.heads / key_heads;
  name_case("%s: %s %ldx%ld/%ld m%ld n%ld d%ld e%ld bias %d causal %d%s%s gap %ld%s",
            current.c_str(), detail::is_same<T, bf16> ? "bf16" : "f16", long(p.batch),
            long(p.heads), long(key_heads), long(p.m), long(p.n), long(d), long(e), int(kind),
            causal, p.beside ? " side by side" : "", p.skew ? " skewed" : "", long(p.gap),
            Case::zero_undefined ? " defined" : "");
  if constexpr (!detail::is_same<Order, no_order>)
    name_case("%s first %ld window %d%s", current.c_str(), long(Order::has_first ? p.first : 0),
              Order::window, Order::capped ? " capped" : "");
  constexpr bool has_parts = Parts::rows > 0;
  if constexpr (has_parts)
    name_case("%s places %dx%d", current.c_str(), Parts::rows, Parts::columns);
  Case cfg;
  cfg.set_batch(p.batch, key_heads, group);
  cfg.m = p.m;
  cfg.n = p.n;
  const rows_of_heads of_q{p.heads, p.m, d, p.gap, p.beside},
      of_k{key_heads, p.n, d, p.gap, p.beside}, of_v{key_heads, p.n, e, p.gap, p.beside},
      of_y{p.heads, p.m, e, 0, p.beside};
  buffer<T> q(p.batch * of_q.image(), p.skew), k(p.batch * of_k.image(), p.skew),
      v(p.batch * of_v.image(), p.skew), y(p.batch * of_y.image(), p.skew);
  of_q.fill(q);
  of_k.fill(k);
  of_v.fill(v);
  constexpr float cap = 1.5f;
  buffer<int64_t> first(p.batch);
  for (index_t b = 0; b < p.batch; ++b)
    first.set(b, p.first + b);
  first.upload();
  const auto origin = [&](index_t b) { return Order::has_first ? p.first + b : 0; };
  if constexpr (Order::has_first) { // rows that hold nothing yet
    for (index_t b = 0; b < p.batch; ++b)
      for (index_t h = 0; h < key_heads; ++h)
        for (index_t j = origin(b) + p.m; j < p.n; ++j) {
          for (index_t c = 0; c < d; ++c)
            k.set(of_k.at(b, h, j, c), compute_t<T>(NAN));
          for (index_t c = 0; c < e; ++c)
            v.set(of_v.at(b, h, j, c), compute_t<T>(NAN));
        }
    k.upload();
    v.upload();
  }
  // Strides of the bias over (batch, heads, m, n).
  constexpr bool whole = kind == full || kind == narrow;
  using added = std::conditional_t<kind == narrow, T, float>;
  const index_t s0 = whole             ? p.heads * p.m * p.n
                     : kind == of_keys ? p.n
                                       : 0,
                s1 = whole ? p.m * p.n : 0, s2 = kind == of_keys ? 0 : p.n;
  buffer<added> bias(whole             ? p.batch * p.heads * p.m * p.n
                     : kind == of_keys ? p.batch * p.n
                                       : p.m * p.n);
  bias.fill_random();
  if (kind == hides || kind == hides_most) {
    for (index_t i = 0; i < p.m; ++i)
      for (index_t j = 0; j < p.n; ++j)
        if (i % 3 == 0 || (i + j) % 5 == 0)
          bias.set(i * p.n + j, kind == hides ? -float(INFINITY) : -FLT_MAX);
    bias.upload();
  }
  buffer<T> of_rows(p.batch * p.heads * p.m * Parts::rows + 1),
      of_columns(p.batch * p.heads * p.m * Parts::columns + 1);
  of_rows.fill_random();
  of_columns.fill_random();
  const auto of_place = [&](index_t b, index_t h, index_t i, index_t j) {
    constexpr index_t columns = has_parts ? Parts::columns : 1;
    const index_t query = (b * p.heads + h) * p.m + i;
    return has_parts ? double(of_rows.get(query * Parts::rows + j / columns)) +
                           double(of_columns.get(query * columns + j % columns))
                     : 0;
  };
  const float scale = p.scale / sqrtf(float(d));
  std::vector<double> want = attend(
      p.batch, p.heads, p.m, p.n, e,
      [&](index_t b, index_t h, index_t i, index_t j) {
        const index_t at = origin(b) + i;
        if ((causal >= 0 && j > at + causal) || (Order::window > 0 && j <= at - Order::window) ||
            (Order::has_first && j >= origin(b) + p.m))
          return -double(INFINITY);
        double sum = 0;
        for (index_t c = 0; c < d; ++c)
          sum += double(q.get(of_q.at(b, h, i, c))) * double(k.get(of_k.at(b, h / group, j, c)));
        double score = sum * double(scale);
        if (Order::capped)
          score = double(cap) * ::tanh(score / double(cap));
        // As floats are: nothing of a score is left beside the lowest of them.
        score += of_place(b, h, i, j);
        return kind == none ? score
                            : double(float(score + double(bias.get(b * s0 + h * s1 + i * s2 + j))));
      },
      [&](index_t b, index_t h, index_t j, index_t c) {
        return Order::has_first && j >= origin(b) + p.m
                   ? 0
                   : double(v.get(of_v.at(b, h / group, j, c)));
      });
  // In the order of y's memory.
  std::vector<double> placed(want.size());
  for (index_t i = 0, n = 0; i < p.batch * p.heads; ++i)
    for (index_t r = 0; r < p.m; ++r)
      for (index_t c = 0; c < e; ++c, ++n)
        placed[size_t(of_y.at(i / p.heads, i % p.heads, r, c))] = want[size_t(n)];
  const auto places_of = [&](buffer<T> &of, auto extent) {
    return make_view<const T>(of.device(), dims<dyn, dyn, dyn, decltype(extent), fixed<1>>(
                                               p.heads * p.m * extent, group * p.m * extent,
                                               p.m * extent, extent, fixed<1>{}));
  };
  const auto added_to = [&](auto... view) {
    if constexpr (has_parts)
      return pack(
          view...,
          make_attention_part<Parts::columns, Parts::rows>(
              places_of(of_rows, fixed<Parts::rows>{})),
          make_attention_part<1, Parts::columns>(places_of(of_columns, fixed<Parts::columns>{})));
    else
      return pack(view...);
  };
  const auto views = [&](const auto &operand) {
    const auto run = [&](const auto &...more) {
      launch(make(cfg, scale, make_view<const T>(q.device(), of_q.strides(group)),
                  make_view<const T>(k.device(), of_k.shared_strides()),
                  make_view<const T>(v.device(), of_v.shared_strides()), operand,
                  make_view(y.device(), of_y.strides(group)), more...));
    };
    if constexpr (detail::is_same<Order, no_order>)
      run();
    else if constexpr (Order::has_first)
      run(make_attention_order<Order::window, Order::capped>(
          pack(make_view<const int64_t>(
              first.device(), dims<fixed<1>, fixed<0>, fixed<0>, fixed<0>, fixed<0>>(
                                  fixed<1>{}, fixed<0>{}, fixed<0>{}, fixed<0>{}, fixed<0>{}))),
          cap));
    else
      run(make_attention_order<Order::window, Order::capped>(pack(), cap));
  };
  const auto run_all = [&] {
    if constexpr (kind == none)
      views(added_to());
    else if constexpr (kind == of_keys)
      views(added_to(make_view<const added>(
          bias.device(),
          dims<dyn, dyn, dyn, fixed<0>, fixed<1>>(s0, s1 * group, s1, fixed<0>{}, fixed<1>{}))));
    else
      views(added_to(make_view<const added>(
          bias.device(), dims<dyn, dyn, dyn, dyn, fixed<1>>(s0, s1 * group, s1, s2, fixed<1>{}))));
  };
  run_all();
  y.download();
  std::vector<T> bits(size_t(y.size()));
  for (index_t i = 0; i < y.size(); ++i)
    store_element(&bits[size_t(i)], y.get(i));
  run_all();
  // Where every key is hidden, 0 or NaN, which compares with nothing.
  y.download();
  bool undefined = true, same = true;
  for (index_t i = 0; i < y.size(); ++i) {
    T again;
    store_element(&again, y.get(i));
    same &= memcmp(static_cast<const void *>(&again), static_cast<const void *>(&bits[size_t(i)]),
                   sizeof(T)) == 0;
    if (placed[size_t(i)] != placed[size_t(i)]) {
      const float value = float(y.get(i));
      undefined &= Case::zero_undefined ? value == 0 : value != value;
      y.set(i, 0);
      placed[size_t(i)] = 0;
    }
  }
  record(same, "the second run gives other bits");
  y.upload();
  if (kind == hides)
    record(undefined, "a query from which every key is hidden gives neither NaN nor, asked for, 0");
  expect_close(y, placed, 2 * rounding<T>());
}

} // namespace test
