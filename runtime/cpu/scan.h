// Defines scan: running folds along the last dimension of a space.
//
//   fold(i) = combine(... combine(x[..., 0], x[..., 1]) ..., x[..., i])
//   outs[..., i] = body(fold(i), ins[..., i]...)
//
//   scan(cfg, space, x, combine, outs, ins, body, workers)
//
// cfg: exclusive (fold(i) leaves out x[..., i] itself), reverse (the fold begins at the end).
// space: dims<...> whose last dimension is scanned; x, outs, ins: views over it; a result may be
// written over x where both lie alike. combine: associative up to rounding, a functor with
//   template <class L> auto identity(L) const;
//   template <class L> auto operator()(L, before, value) const;
//
// When x is contiguous along the scanned dimension and that fills a vector, the lanes of a vector
// are scanned by log2(width) shifts, which wait for nothing, and what came before is combined with
// the outcome: one step of the chain for a whole vector. Else lanes run along the last other
// dimension, four vectors of lines side by side, so that four chains run at once.
#ifndef TENON_RUNTIME_CPU_SCAN_H
#define TENON_RUNTIME_CPU_SCAN_H

#include "cpu/reduce.h"

namespace tenon {
namespace cpu {
namespace detail {

/// Lanes moved `By` places on in the order of the scan; the first ones come from `fill`.
template <int By, bool Reverse, class V, int... I> TENON_FN V lanes_on(indices<I...>, V v, V fill) {
  constexpr int width = int(sizeof...(I));
#if defined(__clang__) || __GNUC__ >= 12
  if constexpr (Reverse)
    return __builtin_shufflevector(v, fill, I + By...);
  else
    return __builtin_shufflevector(fill, v, width + I - By...);
#else
  V moved = fill;
  for (int i = By; i < width; ++i)
    moved[Reverse ? width - 1 - i : i] = v[Reverse ? width - 1 - i + By : i - By];
  return moved;
#endif
}

/// Each lane combined with those before it, from `By` lanes on.
template <class L, int By, bool Reverse, class Combine, class V>
TENON_FN V scan_lanes(const Combine &combine, V v, V identity) {
  if constexpr (By >= L::width) {
    return v;
  } else {
    const V before = lanes_on<By, Reverse>(indices_to<L::width>{}, v, identity);
    return scan_lanes<L, 2 * By, Reverse>(combine, V(combine(L{}, before, v)), identity);
  }
}

/// One line, lanes along it.
template <class Config, class L, int Axis, class X, class Combine, class Outs, class Ins,
          class Body>
TENON_FN void scan_line(index_t n, index_t *at, const X &x, const Combine &combine,
                        const Outs &outs, const Ins &ins, const Body &body) {
  constexpr bool exclusive = Config::exclusive, reverse = Config::reverse;
  using T = decltype(combine.identity(scalar_lanes{}));
  using V = decltype(combine.identity(L{}));
  const V identity = combine.identity(L{});
  V before = identity; // every lane
  index_t done = 0;
  if constexpr (L::width > 1) {
    constexpr int last = reverse ? 0 : L::width - 1;
    for (; done + L::width <= n; done += L::width) {
      at[Axis] = reverse ? n - done - L::width : done;
      const V own = scan_lanes<L, 1, reverse>(
          combine, V(load_at<L, Axis>(x, at, fixed<L::width>{})), identity);
      V y;
      if constexpr (exclusive)
        y = combine(L{}, before, lanes_on<1, reverse>(indices_to<L::width>{}, own, identity));
      else
        y = combine(L{}, before, own);
      before = combine(L{}, before, V(broadcast<L, T>(T(own[last]))));
      apply_body<L, Axis>(body, outs, ins, at, fixed<L::width>{}, y);
    }
  }
  T sofar;
  if constexpr (L::width > 1)
    sofar = T(before[0]);
  else
    sofar = before;
  for (; done < n; ++done) {
    at[Axis] = reverse ? n - 1 - done : done;
    const T with =
        combine(scalar_lanes{}, sofar, T(load_at<scalar_lanes, Axis>(x, at, fixed<1>{})));
    apply_body<scalar_lanes, Axis>(body, outs, ins, at, fixed<1>{}, exclusive ? sofar : with);
    sofar = with;
  }
}

/// `Many` vectors of lines side by side from `first` on, lanes along dimension Across.
template <class Config, class L, int Across, int Many, class X, class Combine, class Outs,
          class Ins, class Body, class Count>
TENON_FN void scan_lines(index_t n, index_t *at, index_t first, Count count, const X &x,
                         const Combine &combine, const Outs &outs, const Ins &ins,
                         const Body &body) {
  constexpr int last = X::rank - 1;
  using V = decltype(combine.identity(L{}));
  V before[Many];
  unroll<Many>([&](auto v) TENON_LAMBDA { before[v] = combine.identity(L{}); });
  for (index_t i = 0; i < n; ++i) {
    at[last] = Config::reverse ? n - 1 - i : i;
    unroll<Many>([&](auto v) TENON_LAMBDA {
      at[Across] = first + int(v) * L::width;
      const V with = combine(L{}, before[v], V(load_at<L, Across>(x, at, count)));
      apply_body<L, Across>(body, outs, ins, at, count, Config::exclusive ? before[v] : with);
      before[v] = with;
    });
  }
}

} // namespace detail

template <class Config, class Space, class X, class Combine, class Outs, class Ins, class Body>
void scan(Config, const Space &space, const X &x, const Combine &combine, const Outs &outs,
          const Ins &ins, const Body &body, pool &workers) {
  using namespace detail;
  constexpr int rank = Space::rank;
  static_assert(rank > 0, "scan needs a dimension");
  using L = view_lanes<Outs, arguments<X>>;
  const auto axis = space.template get<rank - 1>();
  constexpr bool along_axis = rank == 1 || (lane_fit<rank - 1, X>::value == 1 &&
                                            !shorter_than<bare<decltype(axis)>>(L::width));
  constexpr int block = along_axis ? 1 : 4 * L::width;
  odometer<rank> outer;
  fill_extents<0>(space, outer.extents);
  outer.extents[rank - 1] = 1;
  index_t lines = 1;
  if constexpr (!along_axis) {
    lines = outer.extents[rank - 2];
    outer.extents[rank - 2] = ceil_div(lines, block);
  }
  // Elements that share a byte are written by one thread.
  constexpr bool together = any_packed(static_cast<const Outs *>(nullptr));
  workers.parallel_for(
      outer.size(), together ? outer.size() : 1 + 16384 / (index_t(axis) * block + 1),
      [&](index_t begin, index_t end) {
        odometer<rank> it = outer;
        it.seek(begin);
        for (index_t u = begin; u < end; ++u, it.step()) {
          index_t at[rank];
          for (int d = 0; d < rank; ++d)
            at[d] = it.at[d];
          if constexpr (along_axis) {
            // A line that lies apart is taken one element at a time.
            using Along =
                typename choose_type<lane_fit<rank - 1, X>::value == 1, L, scalar_lanes>::type;
            scan_line<Config, Along, rank - 1>(axis, at, x, combine, outs, ins, body);
          } else {
            constexpr int across = rank - 2;
            const index_t first = at[across] * block, left = lines - first;
            const auto some = [&](auto many, index_t from, auto count) TENON_LAMBDA {
              scan_lines<Config, L, across, decltype(many)::value>(axis, at, from, count, x,
                                                                   combine, outs, ins, body);
            };
            if (left >= block) {
              some(counter<4>{}, first, fixed<L::width>{});
              continue;
            }
            index_t i = 0;
            for (; i + L::width <= left; i += L::width)
              some(counter<1>{}, first + i, fixed<L::width>{});
            if (i < left)
              some(counter<1>{}, first + i, left - i);
          }
        }
      });
}

} // namespace cpu
} // namespace tenon

#endif
