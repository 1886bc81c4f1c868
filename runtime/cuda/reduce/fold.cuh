// Defines `fold`: a reduction whose combiner takes elements, not partial results, so that they must
// come one after the other.
//
//   acc...     = fold over reduced of combine(acc..., pre(ins[kept, reduced]...))
//   outs[kept] = post(acc..., post_ins[kept]...)
//
// Algorithm: one thread per result.
// Config: kept, reduced (dims; both of rank 1 at least). Operands as for kernel.cuh.
#ifndef TENON_RUNTIME_CUDA_REDUCE_FOLD_CUH
#define TENON_RUNTIME_CUDA_REDUCE_FOLD_CUH

#include "cuda/reduce/kernel.cuh"

namespace tenon {
namespace cuda {

template <class Config, class Ins, class Pre, class Combine, class Outs, class PostIns, class Post>
struct fold_kernel {
  Config cfg;
  Ins ins;
  Pre pre;
  Combine combine;
  Outs outs;
  PostIns post_ins;
  Post post;

  using index = index_of<Config>;
  static constexpr int threads = 128, blocks_per_sm = 1;
  static constexpr int kept_rank = decltype(Config::kept)::rank,
                       reduced_rank = decltype(Config::reduced)::rank;
  static constexpr int rank = kept_rank + reduced_rank;
  using tuple = typename detail::tuple_of<decltype(Combine{}.identity(scalar_lanes{}))>::type;

  grid blocks() const { return {ceil_div(volume(cfg.kept), index_t(threads)), 1, 1}; }

  TENON_DEVICE void run(unsigned char *) const {
    const index result = index(block_x()) * threads + thread();
    if (result >= index(volume(cfg.kept)))
      return;
    index at[rank] = {}, point[kept_rank];
    unravel<kept_rank>(cfg.kept, result, at);
    unravel<kept_rank>(cfg.kept, result, point);
    tuple sum = detail::as_tuple(combine.identity(scalar_lanes{}));
    const index elements = index(volume(cfg.reduced));
    for (index e = 0; e < elements; ++e) {
      index inner[reduced_rank];
      unravel<reduced_rank>(cfg.reduced, e, inner);
      TENON_UNROLL
      for (int d = 0; d < reduced_rank; ++d)
        at[kept_rank + d] = inner[d];
      operand_runs<1, Ins> operands;
      operands.template load<rank - 1>(ins, at, 1);
      sum = step(indices_to<tuple::count>{}, sum, detail::as_tuple(operands.call(pre, 0)));
    }
    finish(indices_to<tuple::count>{}, sum, point);
  }

private:
  template <int... I, class Values>
  TENON_DEVICE tuple step(indices<I...> own, const tuple &sum, const Values &values) const {
    return step(own, indices_to<Values::count>{}, sum, values);
  }
  template <int... I, int... J, class Values>
  TENON_DEVICE tuple step(indices<I...>, indices<J...>, const tuple &sum,
                          const Values &values) const {
    return detail::as_tuple(
        combine(scalar_lanes{}, sum.template get<I>()..., values.template get<J>()...));
  }
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
fold_kernel<Config, Ins, Pre, Combine, Outs, PostIns, Post>
fold(Config cfg, Ins ins, Pre pre, Combine combine, Outs outs, PostIns post_ins, Post post) {
  return {cfg, ins, pre, combine, outs, post_ins, post};
}

} // namespace cuda
} // namespace tenon

#endif
