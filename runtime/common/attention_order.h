// Defines `attention_order`: where the queries of an attention stand among its keys, how far back
// they see, and what bounds their scores.
#ifndef TENON_RUNTIME_COMMON_ATTENTION_ORDER_H
#define TENON_RUNTIME_COMMON_ATTENTION_ORDER_H

#include "common/base.h"

namespace tenon {

/// Query m stands at position p = origin + m, where `first` (pack(), or pack(view over (batch...,
/// m, d) of integers, whose strides along m and d are 0)) holds the origin of each batch entry,
/// else 0. Where there is an origin, keys from origin + count of queries on are hidden. Window > 0:
/// so are keys up to p - Window. Capped: scores become cap * tanh(score / cap).
template <int Window, bool Capped, class First> struct attention_order {
  First first;
  float cap;

  static constexpr bool has_first = First::count > 0, has_window = Window > 0, is_capped = Capped;

  /// How many keys the queries before m see, of n: all before `causal` keys behind the position of
  /// the last of them (causal < 0: no bound). `queries`: how many there are.
  template <int Causal, class Index>
  TENON_FN static Index visible_keys(Index origin, Index m, Index queries, Index n) {
    if (has_first && origin + queries < n)
      n = origin + queries;
    return Causal >= 0 && origin + m + Index(Causal) < n ? origin + m + Index(Causal) : n;
  }
  /// The first key that query m sees; it may lie behind the last.
  template <class Index> TENON_FN static Index first_key(Index origin, Index m) {
    const Index first = has_window ? origin + m + Index(1 - Window) : Index(0);
    return first < 0 ? Index(0) : first;
  }
};

/// Queries from the first key on, no window, no bound.
using plain_order = attention_order<0, false, arguments<>>;

template <int Window, bool Capped, class First>
TENON_FN attention_order<Window, Capped, First> make_attention_order(First first, float cap) {
  return {first, cap};
}

} // namespace tenon

#endif
