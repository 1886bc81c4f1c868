// Defines `topk`: the k largest (or smallest) elements along one dimension, in order, with their
// indices. Equal elements keep the lower index first; NaN counts as largest.
//
//   outs[p, r] = body(x[p, i], i, ins[p, r]...) where i is the index of the r-th element
//
// Algorithm: one thread per element counts the elements of its row that come before it; those with
// fewer than k know their place.
// Config: space (dims: others..., n), k, largest (bool). x over space; outs, ins over (others...,
// k).
#ifndef TENON_RUNTIME_CUDA_TOPK_CUH
#define TENON_RUNTIME_CUDA_TOPK_CUH

#include "cuda/computed.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class Outs, class Ins, class Body> struct topk_kernel {
  Config cfg;
  X x;
  Outs outs;
  Ins ins;
  Body body;

  using value = compute_t<typename X::element>;
  static constexpr int rank = decltype(Config::space)::rank, last = rank - 1;
  static constexpr int threads = 128, blocks_per_sm = 1;

  TENON_FN static constexpr bool runs_on(target) { return true; }
  int shared_bytes() const { return 0; }
  grid blocks() const { return {ceil_div(volume(cfg.space), index_t(threads)), 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *) const {}
  TENON_DEVICE void run(unsigned char *) const {
    int at[rank];
    unravel<rank>(cfg.space, block_x() * threads + thread(), at);
    if (at[0] >= int(index_t(cfg.space.template get<0>())))
      return;
    const int mine = at[last], n = int(index_t(cfg.space.template get<last>()));
    const value own[1] = {load_one(x, at)};
    int before = 0;
    for (int i = 0; i < n; ++i) {
      at[last] = i;
      const value other = load_one(x, at);
      before += precedes(other, own[0]) || (i < mine && !precedes(own[0], other));
    }
    if (before >= int(index_t(cfg.k)))
      return;
    at[last] = before;
    const int64_t index[1] = {mine};
    apply_body<last>(body, outs, ins, at, 1, own, index);
  }

private:
  TENON_DEVICE static bool precedes(value a, value b) {
    const bool a_nan = a != a, b_nan = b != b;
    if constexpr (Config::largest)
      return a_nan ? !b_nan : a > b;
    else
      return b_nan ? !a_nan : a < b;
  }
};

template <class Config, class X, class Outs, class Ins, class Body>
topk_kernel<Config, X, Outs, Ins, Body> topk(Config cfg, X x, Outs outs, Ins ins, Body body) {
  return {cfg, x, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
