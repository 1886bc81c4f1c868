// Defines `reduce`: folds some dimensions of an iteration space away.
//
//   outs[kept] = post(fold over reduced of combine(accumulators, pre(ins[kept, reduced]...)),
//                     post_ins[kept]...)
//
// combine: a functor with  template <class L> auto identity(L) const  (one value, or pack of
// several) and  operator()(L, acc..., value...)  of the same shape, associative and commutative up
// to rounding. `pre` gives values of the accumulators' types.
//
// Algorithm: lane_group; deterministic. A thread fetches several elements before it folds the first
// of them, since little else hides the way to memory when results are few.
// Config: kept, reduced (dims; both of rank 1 at least). Schedule: threads, lanes (threads per
// result, a power of two up to `threads`), across (neighbouring threads take neighbouring results).
// ins: over kept dimensions, then reduced ones; outs, post_ins: over the kept ones.
#ifndef TENON_RUNTIME_CUDA_REDUCE_KERNEL_CUH
#define TENON_RUNTIME_CUDA_REDUCE_KERNEL_CUH

#include "cuda/base/lane_group.cuh"

namespace tenon {
namespace cuda {
namespace detail {

template <class T> struct tuple_of {
  using type = arguments<T>;
  TENON_DEVICE static type make(const T &v) { return pack(v); }
};
template <class... Ts> struct tuple_of<arguments<Ts...>> {
  using type = arguments<Ts...>;
  TENON_DEVICE static type make(const type &v) { return v; }
};
/// One value or a pack of several, as a pack.
template <class T> TENON_DEVICE typename tuple_of<bare<T>>::type as_tuple(const T &v) {
  return tuple_of<bare<T>>::make(v);
}
template <class Combine, class Tuple, int... I>
TENON_DEVICE Tuple fold_tuples(indices<I...>, const Combine &combine, const Tuple &a,
                               const Tuple &b) {
  return as_tuple(combine(scalar_lanes{}, a.template get<I>()..., b.template get<I>()...));
}
} // namespace detail

template <class Config, class Ins, class Pre, class Combine, class Outs, class PostIns, class Post>
struct reduce_kernel {
  Config cfg;
  Ins ins;
  Pre pre;
  Combine combine;
  Outs outs;
  PostIns post_ins;
  Post post;

  using index = index_of<Config>;
  static constexpr int threads = Config::threads, blocks_per_sm = 1;
  static constexpr int ahead = 8; // elements fetched at a time
  static constexpr int kept_rank = decltype(Config::kept)::rank,
                       reduced_rank = decltype(Config::reduced)::rank;
  static constexpr int rank = kept_rank + reduced_rank;
  static_assert(kept_rank > 0 && reduced_rank > 0, "absent dimensions have the extent 1");
  using group = lane_group<threads, Config::lanes, Config::across>;
  using tuple = typename detail::tuple_of<decltype(Combine{}.identity(scalar_lanes{}))>::type;
  using members = indices_to<tuple::count>;

  TENON_FN static constexpr bool runs_on(target) { return true; }
  int shared_bytes() const { return group::template shared_bytes<tuple>(); }
  grid blocks() const { return {ceil_div(volume(cfg.kept), index_t(group::results)), 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *) const {}
  TENON_DEVICE void run(unsigned char *shared) const {
    const index results = index(volume(cfg.kept)), elements = index(volume(cfg.reduced));
    const index result = index(block_x()) * group::results + group::result();
    index at[rank] = {};
    tuple sum = detail::as_tuple(combine.identity(scalar_lanes{}));
    if (result < results) {
      unravel<kept_rank>(cfg.kept, result, at);
      for (index first = group::lane(); first < elements; first += ahead * Config::lanes) {
        operand_runs<1, Ins> operands[ahead];
        TENON_UNROLL
        for (int i = 0; i < ahead; ++i) {
          const index e = first + i * Config::lanes;
          index inner[reduced_rank];
          unravel<reduced_rank>(cfg.reduced, e < elements ? e : 0, inner);
          TENON_UNROLL
          for (int d = 0; d < reduced_rank; ++d)
            at[kept_rank + d] = inner[d];
          operands[i].template load<rank - 1>(ins, at, 1);
        }
        TENON_UNROLL
        for (int i = 0; i < ahead; ++i)
          if (first + i * Config::lanes < elements)
            sum = detail::fold_tuples(members{}, combine, sum,
                                      detail::as_tuple(operands[i].call(pre, 0)));
      }
    }
    sum = group::combine(sum, shared, [&](const tuple &a, const tuple &b) {
      return detail::fold_tuples(members{}, combine, a, b);
    });
    if (result < results && group::lane() == 0) {
      index point[kept_rank];
      TENON_UNROLL
      for (int d = 0; d < kept_rank; ++d)
        point[d] = at[d];
      finish(members{}, sum, point);
    }
  }

private:
  template <int... I>
  TENON_DEVICE void finish(indices<I...>, const tuple &sum, const index (&point)[kept_rank]) const {
    operand_runs<1, PostIns> operands;
    operands.template load<kept_rank - 1>(post_ins, point, 1);
    result_runs<1, Outs> stored;
    stored.set(0, operands.call(post, 0, sum.template get<I>()...));
    stored.template store<kept_rank - 1>(outs, point, 1);
  }
};

template <class Config, class Ins, class Pre, class Combine, class Outs, class PostIns, class Post>
reduce_kernel<Config, Ins, Pre, Combine, Outs, PostIns, Post>
reduce(Config cfg, Ins ins, Pre pre, Combine combine, Outs outs, PostIns post_ins, Post post) {
  return {cfg, ins, pre, combine, outs, post_ins, post};
}

} // namespace cuda
} // namespace tenon

#endif
