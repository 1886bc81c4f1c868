// Defines `reduce`: folds some dimensions of an iteration space away.
//
//   outs[kept] = post(fold over reduced of combine(accumulators, pre(ins[kept, reduced]...)),
//                     post_ins[kept]...)
//
// combine: a functor with  template <class L> auto identity(L) const  (one value, or pack of
// several) and  operator()(L, acc..., value...)  of the same shape, associative and commutative up
// to rounding. `pre` gives values of the accumulators' types.
//
// Algorithm: lane_group; deterministic. A thread fetches several runs of elements before it folds
// the first of them, since little else hides the way to memory when results are few. Fewer still
// are shared by several blocks, a contiguous part of the elements for each; the last of them to
// finish folds what the parts gave, in a fixed order. Config: kept, reduced (dims; both of rank 1
// at least). Schedule: threads, lanes (threads per result, a power of two up to `threads`), across
// (neighbouring threads take neighbouring results), vector (elements of a run along the last
// reduced dimension, which it divides where that is not the only one), whole (runs have `vector`
// elements or none, and those of unit stride are aligned), blocks (of a result; with several: part,
// bytes of what one of them gives, a multiple of 16). ins: over kept dimensions, then reduced ones;
// outs, post_ins: over the kept ones. scratch: room for as many parts as there are results times
// blocks, and a counter, zero before and after, for each `blocks` blocks.
#ifndef TENON_RUNTIME_CUDA_REDUCE_KERNEL_CUH
#define TENON_RUNTIME_CUDA_REDUCE_KERNEL_CUH

#include "cuda/base/lane_group.cuh"
#include "cuda/base/last_to_come.cuh"

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

struct reduce_scratch {
  unsigned char *parts = nullptr;
  int *counters = nullptr;
};

template <class Config, class Ins, class Pre, class Combine, class Outs, class PostIns, class Post>
struct reduce_kernel {
  Config cfg;
  Ins ins;
  Pre pre;
  Combine combine;
  Outs outs;
  PostIns post_ins;
  Post post;
  reduce_scratch scratch;

  using index = index_of<Config>;
  static constexpr int threads = Config::threads, blocks_per_sm = 1, vector = Config::vector;
  static constexpr int ahead = vector > 2 ? 4 : 8; // runs fetched at a time
  static constexpr int kept_rank = decltype(Config::kept)::rank,
                       reduced_rank = decltype(Config::reduced)::rank;
  static constexpr int rank = kept_rank + reduced_rank;
  static_assert(kept_rank > 0 && reduced_rank > 0, "absent dimensions have the extent 1");
  using group = lane_group<threads, Config::lanes, Config::across>;
  using tuple = typename detail::tuple_of<decltype(Combine{}.identity(scalar_lanes{}))>::type;
  using members = indices_to<tuple::count>;

  int shared_bytes() const {
    return group::template shared_bytes<tuple>() + (Config::blocks > 1 ? 16 : 0);
  }
  grid blocks() const {
    return {ceil_div(volume(cfg.kept), index_t(group::results)) * Config::blocks, 1, 1};
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    const index results = index(volume(cfg.kept)), elements = index(volume(cfg.reduced));
    const index result = index(block_x() / Config::blocks) * group::results + group::result();
    index begin = 0, end = elements;
    if constexpr (Config::blocks > 1) {
      constexpr int turn = Config::lanes * vector;
      const index part = (elements - 1) / (Config::blocks * turn) * turn + turn;
      begin = min_of(index(block_x() % Config::blocks) * part, elements);
      end = min_of(begin + part, elements);
    }
    index at[rank] = {};
    tuple sum = detail::as_tuple(combine.identity(scalar_lanes{}));
    if (result < results) {
      unravel<kept_rank>(cfg.kept, result, at);
      sum = fold_part(at, begin, end);
    }
    const auto joined = [&](const tuple &a, const tuple &b) {
      return detail::fold_tuples(members{}, combine, a, b);
    };
    unsigned char *values = shared + (Config::blocks > 1 ? 16 : 0);
    sum = group::combine(sum, values, joined);
    if constexpr (Config::blocks > 1) {
      if (!is_last(result < results && group::lane() == 0, result, sum, shared))
        return;
      sum = detail::as_tuple(combine.identity(scalar_lanes{}));
      if (result < results)
        for (int b = group::lane(); b < Config::blocks; b += Config::lanes)
          sum = joined(sum, part_of(result, b));
      sum = group::combine(sum, values, joined);
    }
    if (result < results && group::lane() == 0) {
      index point[kept_rank];
      TENON_UNROLL
      for (int d = 0; d < kept_rank; ++d)
        point[d] = at[d];
      finish(members{}, sum, point);
    }
  }

private:
  /// Elements [begin, end) of the result at `at`, those of this lane.
  TENON_DEVICE tuple fold_part(index (&at)[rank], index begin, index end) const {
    tuple sum = detail::as_tuple(combine.identity(scalar_lanes{}));
    for (index first = begin + group::lane() * vector; first < end;
         first += ahead * Config::lanes * vector) {
      operand_runs<vector, Ins> operands[ahead];
      TENON_UNROLL
      for (int r = 0; r < ahead; ++r) {
        const index e = first + r * Config::lanes * vector;
        index inner[reduced_rank];
        unravel<reduced_rank>(cfg.reduced, e < end ? e : 0, inner);
        TENON_UNROLL
        for (int d = 0; d < reduced_rank; ++d)
          at[kept_rank + d] = inner[d];
        operands[r].template load<rank - 1, operand_part::all, Config::whole>(ins, at,
                                                                              count_of(e, end));
      }
      TENON_UNROLL
      for (int r = 0; r < ahead; ++r) {
        const int count = count_of(first + r * Config::lanes * vector, end);
        TENON_UNROLL
        for (int i = 0; i < vector; ++i)
          if (i < count)
            sum = detail::fold_tuples(members{}, combine, sum,
                                      detail::as_tuple(operands[r].call(pre, i)));
      }
    }
    return sum;
  }
  TENON_DEVICE static int count_of(index e, index end) {
    return int(max_of(index(0), min_of(end - e, index(vector))));
  }

  /// Where a part lies, in words.
  TENON_DEVICE word16 *place_of(index result, int part) const {
    static_assert(Config::part % 16 == 0 && sizeof(tuple) <= Config::part, "what a part gives");
    return reinterpret_cast<word16 *>(scratch.parts +
                                      (index_t(result) * Config::blocks + part) * Config::part);
  }
  static constexpr int part_words = (int(sizeof(tuple)) + 15) / 16;
  TENON_DEVICE tuple part_of(index result, int part) const {
    word16 words[part_words];
    TENON_UNROLL
    for (int i = 0; i < part_words; ++i)
      words[i] = load_uncached(place_of(result, part) + i);
    tuple t;
    memcpy(static_cast<void *>(&t), words, sizeof(tuple));
    return t;
  }
  /// Leaves what this block has of its results in memory; whether all that share them have.
  TENON_DEVICE bool is_last(bool writes, index result, const tuple &sum,
                            unsigned char *shared) const {
    if (writes) {
      word16 words[part_words] = {};
      memcpy(static_cast<void *>(words), &sum, sizeof(tuple));
      TENON_UNROLL
      for (int i = 0; i < part_words; ++i)
        place_of(result, block_x() % Config::blocks)[i] = words[i];
    }
    return comes_last(scratch.counters + block_x() / Config::blocks, Config::blocks,
                      reinterpret_cast<int *>(shared));
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
reduce_kernel<Config, Ins, Pre, Combine, Outs, PostIns, Post>
reduce(Config cfg, Ins ins, Pre pre, Combine combine, Outs outs, PostIns post_ins, Post post,
       reduce_scratch scratch = {}) {
  return {cfg, ins, pre, combine, outs, post_ins, post, scratch};
}

} // namespace cuda
} // namespace tenon

#endif
