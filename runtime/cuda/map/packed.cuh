// Defines `map_packed`: a map (kernel.cuh) some of whose results have elements that share bytes.
//
// Algorithm: a thread computes `together` neighbours in row-major order, which fill whole bytes
// where the results lie in that order; 0: one thread computes all, for any strides. Config: space
// (dims), together, large (optional).
#ifndef TENON_RUNTIME_CUDA_MAP_PACKED_CUH
#define TENON_RUNTIME_CUDA_MAP_PACKED_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

template <class Config, class Outs, class Ins, class Body> struct map_packed_kernel {
  Config cfg;
  Outs outs;
  Ins ins;
  Body body;

  using index = index_of<Config>;
  static constexpr int rank = decltype(Config::space)::rank;
  static constexpr int threads = 128, blocks_per_sm = 1;
  static_assert(rank > 0, "a map over a scalar has the space extents<1>");

  grid blocks() const {
    if (Config::together == 0)
      return {volume(cfg.space) > 0 ? 1 : 0, 1, 1};
    return {ceil_div(volume(cfg.space), index_t(Config::together) * threads), 1, 1};
  }

  TENON_DEVICE void run(unsigned char *) const {
    const index points = index(volume(cfg.space));
    const index each = Config::together ? index(Config::together) : points;
    const index first = (index(block_x()) * threads + thread()) * each;
    index at[rank];
    for (index n = first; n < min_of(first + each, points); ++n) {
      unravel<rank>(cfg.space, n, at);
      apply_body<rank - 1, 1>(body, outs, ins, at, 1);
    }
  }
};

template <class Config, class Outs, class Ins, class Body>
map_packed_kernel<Config, Outs, Ins, Body> map_packed(Config cfg, Outs outs, Ins ins, Body body) {
  return {cfg, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
