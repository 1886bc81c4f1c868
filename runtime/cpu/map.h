// Defines map: outs[i] = body(ins[i]...) over a space of up to eight dimensions. Pointwise
// functions, broadcasts, transposes, slices, pads and concatenated pieces are all this kernel: they
// differ in the strides of the views only.
//
//   map(dims<fixed<6>, dyn, fixed<64>>{...}, outs, ins, body, workers)
//
// Lanes run along the last dimension, so the emitter puts first the dimensions in which the output
// is coarse, last the one in which it is contiguous, and merges neighbours that all views cross
// evenly: a plain pointwise map has one dimension. When an input is contiguous along another
// dimension (a transpose), both are walked in square blocks, so that each cache line is used whole;
// as many vectors as they have lanes are loaded along that dimension and transposed in registers.
//
// outs: pack of views of the space's rank. ins: views, padded_views, index_views or gathered_views
// (so Gather is a map, too). A result may be written over an input that has the same strides.
// The lanes fit the widest element among the views; when a body computes in wider ones (a cast to
// double inside), name them: map<simd<8>>(...).
#ifndef TENON_RUNTIME_CPU_MAP_H
#define TENON_RUNTIME_CPU_MAP_H

#include "cpu/epilogue.h"
#include "cpu/odometer.h"
#include "cpu/pool.h"
#include "cpu/transpose_lanes.h"
#include "cpu/unroll.h"

namespace tenon {
namespace cpu {
namespace detail {

template <class... Vs> constexpr int widest_element(const arguments<Vs...> *) {
  return widest<bits_t<bare<typename Vs::element>>...>();
}
template <class Args>
inline constexpr int widest_of = widest_element(static_cast<const Args *>(nullptr));
/// The default lanes of a kernel over these views.
template <class Outs, class Ins>
using view_lanes = typename lanes_of_bytes<(
    widest_of<Outs> > widest_of<Ins> ? widest_of<Outs> : widest_of<Ins>)>::type;

template <class... Vs> constexpr bool any_packed(const arguments<Vs...> *) {
  return ((packed_bits<typename Vs::element> > 0) || ... || false);
}

template <int D, class Space> TENON_FN void fill_extents(const Space &space, index_t *extents) {
  if constexpr (D < Space::rank) {
    extents[D] = space.template get<D>();
    fill_extents<D + 1>(space, extents);
  }
}

/// The dimension, other than the last, along which the view is contiguous; -1 if it need not be
/// crossed.
template <int D, class View> constexpr int contiguous_dim() {
  using Last = decltype(View{}.strides.template get<View::rank - 1>());
  if constexpr (D + 1 >= View::rank || is_same<Last, fixed<0>> || is_same<Last, fixed<1>>)
    return -1;
  else if constexpr (is_same<decltype(View{}.strides.template get<D>()), fixed<1>>)
    return D;
  else
    return contiguous_dim<D + 1, View>();
}
template <class V> struct crossing_of { static constexpr int value = -1; };
template <class T, class S> struct crossing_of<view<T, S>> {
  static constexpr int value = contiguous_dim<0, view<T, S>>();
};
template <class... Vs> constexpr int crossing(const arguments<Vs...> *) {
  int found = -1;
  const int each[] = {crossing_of<Vs>::value..., -1};
  for (int d : each)
    found = d > found ? d : found;
  return found;
}

/// A square of a view that is contiguous along dimension Cross, lanes along the last one: one
/// vector for each index of Cross from `first` on.
template <int Cross, class V> struct crossed_square {
  const V *rows;
  index_t first;
};
template <class L, int Axis, int Cross, class V, class Count>
TENON_FN V load_at(const crossed_square<Cross, V> &square, const index_t *at, Count) {
  return square.rows[at[Cross] - square.first];
}
template <class L, int Cross, class View> struct square_of {
  struct room {};
  static TENON_FN const View &load(const View &v, const index_t *, room &) { return v; }
};
template <class L, int Cross, class T, class S> struct square_of<L, Cross, view<T, S>> {
  using View = view<T, S>;
  using V = typename L::template of<bare<T>>;
  static constexpr bool crosses = packed_bits<bare<T>> == 0 && contiguous_dim<0, View>() == Cross;
  struct room {
    V rows[crosses ? L::width : 1];
    TENON_FN room() {} // left as it is until load() fills it
  };
  /// The view, or its square at `at` in `to`.
  static TENON_FN auto load(const View &v, const index_t *at, room &to) {
    if constexpr (!crosses) {
      return v;
    } else {
      const index_t step = v.strides.template get<View::rank - 1>();
      const T *from = v.data + v.offset(at);
      unroll<L::width>(
          [&](auto i) TENON_LAMBDA { to.rows[i] = tenon::load<L, bare<T>>(from + int(i) * step); });
      transpose_lanes<L::width>(to.rows);
      return crossed_square<Cross, V>{to.rows, at[Cross]};
    }
  }
};

/// All points from `at` on, L::width along dimensions Cross and the last; `rooms` hold the squares.
template <class L, int Rank, int Cross, class Outs, class... Vs, class Body, int... I,
          class... Rooms>
TENON_FN void map_square(indices<I...>, index_t *at, const Outs &outs, const arguments<Vs...> &ins,
                         const Body &body, Rooms &&...rooms) {
  const auto squares = pack(square_of<L, Cross, Vs>::load(ins.template get<I>(), at, rooms)...);
  const index_t first = at[Cross];
  for (; at[Cross] < first + L::width; ++at[Cross])
    apply_body<L, Rank - 1>(body, outs, squares, at, fixed<L::width>{});
  at[Cross] = first;
}
template <class L, int Rank, int Cross, class Outs, class... Vs, class Body>
TENON_FN void map_square(index_t *at, const Outs &outs, const arguments<Vs...> &ins,
                         const Body &body) {
  map_square<L, Rank, Cross>(indices_to<int(sizeof...(Vs))>{}, at, outs, ins, body,
                             typename square_of<L, Cross, Vs>::room()...);
}

/// One run of `n` points along the last dimension.
template <class L, int Rank, class N, class Outs, class Ins, class Body>
TENON_FN void map_run(index_t *at, N n, const Outs &outs, const Ins &ins, const Body &body) {
  const index_t first = at[Rank - 1];
  index_t i = 0;
  for (; i + L::width <= index_t(n); i += L::width) {
    at[Rank - 1] = first + i;
    apply_body<L, Rank - 1>(body, outs, ins, at, fixed<L::width>{});
  }
  if (i < index_t(n)) {
    at[Rank - 1] = first + i;
    if constexpr (N::is_fixed)
      apply_body<L, Rank - 1>(body, outs, ins, at, fixed<N::value % L::width>{});
    else
      apply_body<L, Rank - 1>(body, outs, ins, at, index_t(n) % L::width);
  }
  at[Rank - 1] = first;
}
} // namespace detail

template <class Lanes = void, class Space, class Outs, class Ins, class Body>
void map(const Space &space, const Outs &outs, const Ins &ins, const Body &body, pool &workers) {
  using namespace detail;
  constexpr int rank = Space::rank;
  if constexpr (rank == 0) {
    apply_body<scalar_lanes, -1>(body, outs, ins, static_cast<const index_t *>(nullptr),
                                 fixed<1>{});
  } else {
    using Chosen = view_lanes<Outs, Ins>;
    using L = typename choose_type<is_same<Lanes, void>, Chosen, Lanes>::type;
    constexpr int cross = crossing(static_cast<const Ins *>(nullptr));
    // Rows are cut so that one long row can be shared; a crossed dimension into narrow blocks.
    constexpr index_t run_length = cross < 0 ? 4096 : 64, block = 16;
    const auto row = space.template get<rank - 1>();
    odometer<rank> it;
    fill_extents<0>(space, it.extents);
    it.extents[rank - 1] = ceil_div(row, run_length);
    index_t crossed = 1;
    if constexpr (cross >= 0) {
      crossed = it.extents[cross];
      it.extents[cross] = ceil_div(crossed, block);
    }
    // Elements that share a byte are written by one thread.
    constexpr bool together = any_packed(static_cast<const Outs *>(nullptr));
    workers.parallel_for(
        it.size(), together ? it.size() : 1 + 16384 / (row < run_length ? row + 1 : run_length),
        [&](index_t begin, index_t end) {
          odometer<rank> point = it;
          point.seek(begin);
          for (index_t u = begin; u < end; ++u, point.step()) {
            index_t at[rank];
            for (int d = 0; d < rank; ++d)
              at[d] = point.at[d];
            at[rank - 1] *= run_length;
            const index_t left = index_t(row) - at[rank - 1];
            const auto one_run = [&] {
              if constexpr (decltype(row)::is_fixed) {
                if constexpr (decltype(row)::value <= run_length)
                  return map_run<L, rank>(at, row, outs, ins, body);
              }
              map_run<L, rank>(at, dyn(left < run_length ? left : run_length), outs, ins, body);
            };
            if constexpr (cross < 0) {
              one_run();
            } else {
              at[cross] *= block;
              const index_t stop = at[cross] + block < crossed ? at[cross] + block : crossed;
              if constexpr (L::width > 1 && L::width <= block) {
                const index_t first = at[rank - 1], length = left < run_length ? left : run_length,
                              squares = length / L::width * L::width;
                for (; at[cross] + L::width <= stop; at[cross] += L::width) {
                  for (at[rank - 1] = first; at[rank - 1] < first + squares;
                       at[rank - 1] += L::width)
                    map_square<L, rank, cross>(at, outs, ins, body);
                  for (index_t i = 0; squares < length && i < L::width; ++i) {
                    at[cross] += i;
                    map_run<L, rank>(at, dyn(length - squares), outs, ins, body);
                    at[cross] -= i;
                  }
                }
                at[rank - 1] = first;
              }
              for (; at[cross] < stop; ++at[cross])
                one_run();
            }
          }
        });
  }
}

} // namespace cpu
} // namespace tenon

#endif
