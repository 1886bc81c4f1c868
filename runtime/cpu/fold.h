// Defines fold: the reduction of reduce.h for combiners that cannot merge partial results. It takes
// one element after the other, in the order of the reduced dimensions.
//
//   acc...     = combine(acc..., pre(ins[kept, reduced]...)...) for each reduced
//   outs[kept] = post(acc..., post_ins[kept]...)
//
// Arguments as in reduce.h, but combine takes the accumulators and then the results of `pre`, of
// whatever number and types.
#ifndef TENON_RUNTIME_CPU_FOLD_H
#define TENON_RUNTIME_CPU_FOLD_H

#include "cpu/reduce.h"

namespace tenon {
namespace cpu {
namespace detail {

template <class Combine, class Tuple, class Values, int... I, int... J>
TENON_FN Tuple fold_values(indices<I...>, indices<J...>, const Combine &combine, const Tuple &acc,
                           const Values &values) {
  return as_tuple(combine(scalar_lanes{}, acc.template get<I>()..., values.template get<J>()...));
}

} // namespace detail

template <class Kept, class Reduced, class Ins, class Pre, class Combine, class Outs, class PostIns,
          class Post>
void fold(const Kept &kept, const Reduced &reduced, const Ins &ins, const Pre &pre,
          const Combine &combine, const Outs &outs, const PostIns &post_ins, const Post &post,
          pool &workers) {
  using namespace detail;
  constexpr int kept_rank = Kept::rank, reduced_rank = Reduced::rank,
                rank = kept_rank + reduced_rank;
  using Scalars = decltype(as_tuple(combine.identity(scalar_lanes{})));
  odometer<kept_rank> space;
  fill_extents<0>(kept, space.extents);
  workers.parallel_for(space.size(), 64, [&](index_t begin, index_t end) {
    odometer<kept_rank> it = space;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      index_t at[rank > 0 ? rank : 1] = {};
      for (int d = 0; d < kept_rank; ++d)
        at[d] = it.at[d];
      Scalars acc = as_tuple(combine.identity(scalar_lanes{}));
      for_each_point<kept_rank, 0, reduced_rank>(reduced, at, [&] {
        const auto values =
            load_values<scalar_lanes, rank - 1>(indices_to<Ins::count>{}, pre, ins, at, fixed<1>{});
        acc = fold_values(indices_to<Scalars::count>{}, indices_to<decltype(values)::count>{},
                          combine, acc, values);
      });
      finish_reduction<scalar_lanes, kept_rank - 1>(indices_to<Scalars::count>{}, post, outs,
                                                    post_ins, at, fixed<1>{}, acc);
    }
  });
}

} // namespace cpu
} // namespace tenon

#endif
