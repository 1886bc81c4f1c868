// Defines `map_interleaved`: a map whose results are contiguous along a short last dimension and
// the one before it, while operands are contiguous along the latter alone (pixel shuffle, images of
// few channels to NHWC).
//
// Algorithm: a thread computes `vector` neighbours along the dimension before the last for each
// element of the last: of an operand it reads as many runs, whose elements it stores in turn, as
// one run. Nothing goes through shared memory.
// Config: space (dims; the last is fixed), vector, large (optional).
#ifndef TENON_RUNTIME_CUDA_MAP_INTERLEAVED_CUH
#define TENON_RUNTIME_CUDA_MAP_INTERLEAVED_CUH

#include "cuda/map/run.cuh"

namespace tenon {
namespace cuda {

template <class Config, class Outs, class Ins, class Body> struct map_interleaved_kernel {
  Config cfg;
  Outs outs;
  Ins ins;
  Body body;

  using index = index_of<Config>;
  static constexpr int rank = decltype(Config::space)::rank;
  static constexpr int last = rank - 1, along = rank - 2;
  static constexpr int vector = Config::vector;
  using last_extent = detail::bare<decltype(decltype(Config::space){}.template get<last>())>;
  static constexpr int runs = int(last_extent::value);
  static constexpr int threads = 256, blocks_per_sm = 1;
  using own_runs = runs_along<along, vector, threads>;
  static_assert(rank > 1, "runs and what they are interleaved along are two dimensions");

  grid blocks() const { return own_runs::blocks(cfg.space, volume(cfg.space) / runs); }

  TENON_DEVICE void run(unsigned char *) const {
    index at[rank];
    const int count = own_runs::own(cfg.space, at);
    if (count == 0)
      return;
    operand_runs<vector, Ins> operands[runs];
    TENON_UNROLL
    for (int j = 0; j < runs; ++j) {
      at[last] = j;
      operands[j].template load<along>(ins, at, count);
    }
    // Element i of run j is number i * runs + j of what is stored.
    TENON_UNROLL
    for (int first = 0; first < runs * vector; first += vector) {
      result_runs<vector, Outs> stored;
      TENON_UNROLL
      for (int i = 0; i < vector; ++i)
        stored.set(i, operands[(first + i) % runs].call(body, (first + i) / runs));
      at[last] = first;
      stored.template store<last>(outs, at, min_of(max_of(count * runs - first, 0), vector));
    }
  }
};

template <class Config, class Outs, class Ins, class Body>
map_interleaved_kernel<Config, Outs, Ins, Body> map_interleaved(Config cfg, Outs outs, Ins ins,
                                                                Body body) {
  return {cfg, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
