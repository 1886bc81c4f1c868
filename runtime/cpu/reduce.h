// Defines reduce: folds some dimensions of an iteration space away.
//
//   acc...     = fold over reduced of combine(acc..., pre(ins[kept, reduced]...))
//   outs[kept] = post(acc..., post_ins[kept]...)
//
//   reduce(kept, reduced, ins, pre, combine, outs, post_ins, post, workers)
//
// kept, reduced: dims<...>; ins are views (index_views, ...) over the kept dimensions followed by
// the reduced ones, outs and post_ins over the kept ones. The emitter orders and merges dimensions
// as for map.h. combine: a functor with
//   template <class L> auto identity(L) const;                      one value, or pack of several
//   template <class L> auto operator()(L, acc..., value...) const;     the same shape
// associative and commutative up to rounding, since partial results are combined with it too; `pre`
// gives values of the accumulators' types. Sum, mean (post divides), max, ArgMax (value and index).
//
// Lanes run along the last kept dimension when all inputs are contiguous (or constant) along it,
// four vectors at once; else along the last reduced dimension, in four independent accumulators
// that are combined at the end; else along the kept one with strided loads, since `post` may be
// costly. A dimension shorter than a vector carries no lanes. Name the lanes (reduce<simd<8>>) when
// the fold computes in elements wider than the views'.
#ifndef TENON_RUNTIME_CPU_REDUCE_H
#define TENON_RUNTIME_CPU_REDUCE_H

#include "cpu/loops.h"
#include "cpu/map.h"

namespace tenon {
namespace cpu {
namespace detail {

template <class V> TENON_FN arguments<V> as_tuple(V v) { return pack(v); }
template <class... Vs> TENON_FN arguments<Vs...> as_tuple(arguments<Vs...> v) { return v; }

template <class L, class Combine, class Tuple, int... I>
TENON_FN Tuple fold_tuples(indices<I...>, const Combine &combine, const Tuple &acc,
                           const Tuple &value) {
  return as_tuple(combine(L{}, acc.template get<I>()..., value.template get<I>()...));
}
template <class L, class Combine, class Tuple>
TENON_FN Tuple fold_tuples(const Combine &combine, const Tuple &acc, const Tuple &value) {
  return fold_tuples<L>(indices_to<Tuple::count>{}, combine, acc, value);
}

/// One lane of each member; a mask's lane converts to bool.
template <class Scalars, class Tuple, int... I>
TENON_FN Scalars lane_of(indices<I...>, const Tuple &t, int lane) {
  return pack(bare<decltype(Scalars{}.template get<I>())>(t.template get<I>()[lane])...);
}

#if TENON_SIMD_WIDTH > 1
/// The lower or upper half of a vector's lanes.
template <int Upper, class V> TENON_FN auto half_of(V v) {
  constexpr int count = traits<V>::count / 2;
  typename vector_of<element_t<V>, count>::type half[2];
  memcpy(half, &v, sizeof(v));
  return half[Upper];
}
template <int Upper, class Tuple, int... I> TENON_FN auto halves_of(indices<I...>, const Tuple &t) {
  return pack(half_of<Upper>(t.template get<I>())...);
}

/// What `combine` makes of all lanes: by halves, of the last four one after the other.
template <class Scalars, int Width, class Combine, class Tuple>
TENON_FN Scalars combine_lanes(const Combine &combine, const Tuple &t) {
  constexpr auto members = indices_to<Tuple::count>{};
  if constexpr (Width > 4) {
    return combine_lanes<Scalars, Width / 2>(
        combine,
        fold_tuples<simd<Width / 2>>(combine, halves_of<0>(members, t), halves_of<1>(members, t)));
  } else {
    Scalars total = lane_of<Scalars>(members, t, 0);
    for (int lane = 1; lane < Width; ++lane)
      total = fold_tuples<scalar_lanes>(combine, total, lane_of<Scalars>(members, t, lane));
    return total;
  }
}
#endif

template <class L, int Axis, class Pre, class Ins, class Count, int... I>
TENON_FN auto load_values(indices<I...>, const Pre &pre, const Ins &ins,
                          [[maybe_unused]] const index_t *at, [[maybe_unused]] Count count) {
  return as_tuple(pre(L{}, load_at<L, Axis>(ins.template get<I>(), at, count)...));
}

template <class L, int Axis, class Post, class Outs, class Ins, class Count, class Tuple, int... I>
TENON_FN void finish_reduction(indices<I...>, const Post &post, const Outs &outs, const Ins &ins,
                               const index_t *at, Count count, const Tuple &acc) {
  apply_body<L, Axis>(post, outs, ins, at, count, acc.template get<I>()...);
}

/// Whether lanes may run along `Axis`: 1 contiguous, 0 constant, -1 neither.
template <int Axis, class V> struct lane_fit {
  static constexpr int value = 1; // padded and index views load lane by lane
};
template <int Axis, class T, class S> struct lane_fit<Axis, view<T, S>> {
  using Stride = bare<decltype(S{}.template get<Axis>())>;
  static constexpr int value = is_same<Stride, fixed<1>> ? 1 : is_same<Stride, fixed<0>> ? 0 : -1;
};
template <int Axis, class... Vs> constexpr bool lanes_fit(const arguments<Vs...> *) {
  if constexpr (Axis < 0) {
    return false;
  } else {
    int contiguous = 0;
    const int each[] = {lane_fit<Axis, Vs>::value..., 0};
    for (int fit : each) {
      if (fit < 0)
        return false;
      contiguous += fit;
    }
    return contiguous > 0;
  }
}
template <class D> constexpr bool shorter_than(index_t n) {
  if constexpr (D::is_fixed)
    return D::value < n;
  else
    return false;
}

/// Whether the last dimension of a space is at least one vector long, as far as is known.
template <class Space, int Width> constexpr bool last_fills() {
  if constexpr (Space::rank == 0)
    return false;
  else
    return !shorter_than<bare<decltype(Space{}.template get<Space::rank - 1>())>>(Width);
}
template <class Space, int Width> inline constexpr bool fills = last_fills<Space, Width>();

} // namespace detail

template <class Lanes = void, class Kept, class Reduced, class Ins, class Pre, class Combine,
          class Outs, class PostIns, class Post>
void reduce(const Kept &kept, const Reduced &reduced, const Ins &ins, const Pre &pre,
            const Combine &combine, const Outs &outs, const PostIns &post_ins, const Post &post,
            pool &workers) {
  using namespace detail;
  constexpr int kept_rank = Kept::rank, reduced_rank = Reduced::rank,
                rank = kept_rank + reduced_rank;
  using Chosen = view_lanes<Outs, Ins>;
  using Wide = typename choose_type<is_same<Lanes, void>, Chosen, Lanes>::type;
  constexpr bool kept_fits =
      lanes_fit<kept_rank - 1>(static_cast<const Ins *>(nullptr)) && fills<Kept, Wide::width>;
  constexpr bool along_reduced = !kept_fits && reduced_rank > 0 && fills<Reduced, Wide::width> &&
                                 lanes_fit<rank - 1>(static_cast<const Ins *>(nullptr));
  constexpr bool along_kept = kept_fits || (!along_reduced && fills<Kept, Wide::width>);
  using Scalars = decltype(as_tuple(combine.identity(scalar_lanes{})));
  constexpr auto inputs = indices_to<Ins::count>{};
  constexpr auto members = indices_to<Scalars::count>{};

  odometer<kept_rank> space;
  fill_extents<0>(kept, space.extents);
  // g++ 12.2 makes wrong sums of four scalar accumulators where it vectorises loops (-O2 and up):
  // code for hosts without vectors has one. Freestanding code is built without such loops.
  constexpr int together = Wide::width > 1 || !__STDC_HOSTED__ ? 4 : 1;
  constexpr int block = along_kept ? together * Wide::width : 1;
  index_t row = 1;
  if constexpr (kept_rank > 0) {
    row = space.extents[kept_rank - 1];
    space.extents[kept_rank - 1] = ceil_div(row, block);
  }
  index_t folded = 1;
  odometer<reduced_rank> all;
  fill_extents<0>(reduced, all.extents);
  folded = all.size();

  workers.parallel_for(space.size(), 1 + 16384 / (folded + 1), [&](index_t begin, index_t end) {
    odometer<kept_rank> it = space;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      index_t at[rank > 0 ? rank : 1] = {};
      for (int d = 0; d < kept_rank; ++d)
        at[d] = it.at[d];
      if constexpr (along_kept) {
        constexpr int axis = kept_rank - 1;
        const index_t first = it.at[axis] * block, left = row - first;
        const auto vectors = [&](auto many, index_t from, auto count) TENON_LAMBDA {
          constexpr int n = decltype(many)::value;
          using Tuple = decltype(as_tuple(combine.identity(Wide{})));
          Tuple acc[n];
          unroll<n>([&](auto v) TENON_LAMBDA { acc[v] = as_tuple(combine.identity(Wide{})); });
          for_each_point<kept_rank, 0, reduced_rank>(reduced, at, [&]() TENON_LAMBDA {
            unroll<n>([&](auto v) TENON_LAMBDA {
              at[axis] = from + int(v) * Wide::width;
              acc[v] = fold_tuples<Wide>(combine, acc[v],
                                         load_values<Wide, axis>(inputs, pre, ins, at, count));
            });
          });
          unroll<n>([&](auto v) TENON_LAMBDA {
            at[axis] = from + int(v) * Wide::width;
            finish_reduction<Wide, axis>(members, post, outs, post_ins, at, count, acc[v]);
          });
        };
        if (left >= block) {
          vectors(counter<together>{}, first, fixed<Wide::width>{});
        } else {
          index_t i = 0;
          for (; i + Wide::width <= left; i += Wide::width)
            vectors(counter<1>{}, first + i, fixed<Wide::width>{});
          if (i < left)
            vectors(counter<1>{}, first + i, left - i);
        }
      } else {
        Scalars total = as_tuple(combine.identity(scalar_lanes{}));
        const auto one = [&]() TENON_LAMBDA {
          total = fold_tuples<scalar_lanes>(
              combine, total,
              Scalars(load_values<scalar_lanes, rank - 1>(inputs, pre, ins, at, fixed<1>{})));
        };
        if constexpr (along_reduced && Wide::width > 1) {
          constexpr int axis = rank - 1;
          using Tuple = decltype(as_tuple(combine.identity(Wide{})));
          Tuple acc[4];
          unroll<4>([&](auto v) TENON_LAMBDA { acc[v] = as_tuple(combine.identity(Wide{})); });
          const index_t n = reduced.template get<reduced_rank - 1>();
          for_each_point<kept_rank, 0, reduced_rank - 1>(reduced, at, [&]() TENON_LAMBDA {
            index_t i = 0;
            const auto step = [&](auto v) TENON_LAMBDA {
              at[axis] = i + int(v) * Wide::width;
              acc[v] = fold_tuples<Wide>(
                  combine, acc[v],
                  load_values<Wide, axis>(inputs, pre, ins, at, fixed<Wide::width>{}));
            };
            for (; i + 4 * Wide::width <= n; i += 4 * Wide::width)
              unroll<4>(step);
            for (; i + Wide::width <= n; i += Wide::width)
              step(counter<0>{});
            for (; i < n; ++i) {
              at[axis] = i;
              one();
            }
          });
          unroll<3>([&](auto v)
                        TENON_LAMBDA { acc[0] = fold_tuples<Wide>(combine, acc[0], acc[v + 1]); });
#if TENON_SIMD_WIDTH > 1
          total = fold_tuples<scalar_lanes>(combine, total,
                                            combine_lanes<Scalars, Wide::width>(combine, acc[0]));
#endif
        } else {
          for_each_point<kept_rank, 0, reduced_rank>(reduced, at, one);
        }
        finish_reduction<scalar_lanes, kept_rank - 1>(members, post, outs, post_ins, at, fixed<1>{},
                                                      total);
      }
    }
  });
}

} // namespace cpu
} // namespace tenon

#endif
