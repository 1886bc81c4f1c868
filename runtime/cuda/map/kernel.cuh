// Defines `map`: outs[p] = body(ins[p]...) at every point p of an iteration space. It serves
// pointwise groups, broadcasts, and every movement that is a strided copy (slices, concatenation in
// place, padding through padded_view).
//
// Algorithm: one thread computes `vector` neighbours along the last dimension; a run that hits the
// end of that dimension is cut. Operands with stride fixed<1> there move whole words.
// Config: space (dims), vector (elements per thread: 16 bytes of the widest operand is best),
// large (optional).
#ifndef TENON_RUNTIME_CUDA_MAP_KERNEL_CUH
#define TENON_RUNTIME_CUDA_MAP_KERNEL_CUH

#include "cuda/map/run.cuh"

namespace tenon {
namespace cuda {

template <class Config, class Outs, class Ins, class Body> struct map_kernel {
  Config cfg;
  Outs outs;
  Ins ins;
  Body body;

  using index = index_of<Config>;
  static constexpr int rank = decltype(Config::space)::rank;
  static constexpr int last = rank - 1;
  static constexpr int vector = Config::vector;
  static constexpr int threads = 256, blocks_per_sm = 1;
  using own_runs = runs_along<last, vector, threads>;
  static_assert(rank > 0, "a map over a scalar has the space extents<1>");

  grid blocks() const { return own_runs::blocks(cfg.space, volume(cfg.space)); }

  TENON_DEVICE void run(unsigned char *) const {
    index at[rank];
    if (const int count = own_runs::own(cfg.space, at))
      apply_body<last, vector>(body, outs, ins, at, count);
  }
};

template <class Config, class Outs, class Ins, class Body>
map_kernel<Config, Outs, Ins, Body> map(Config cfg, Outs outs, Ins ins, Body body) {
  return {cfg, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
