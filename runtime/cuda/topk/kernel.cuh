// Defines `topk`: the k largest (or smallest) elements along one dimension, in order, with their
// indices. Equal elements keep the lower index first; NaN counts as largest.
//
//   outs[p, r] = body(x[p, i], i, ins[p, r]...) where i is the index of the r-th element
//
// Algorithm: one thread per element counts the elements of its row that come before it; those with
// fewer than k know their place. Elements are loaded a batch at a time, so that the loads wait
// together.
// Config: space (dims: others..., n), k, largest (bool). x over space; outs, ins over (others...,
// k).
#ifndef TENON_RUNTIME_CUDA_TOPK_KERNEL_CUH
#define TENON_RUNTIME_CUDA_TOPK_KERNEL_CUH

#include "cuda/base/computed.cuh"

namespace tenon {
namespace cuda {

/// Elements of a row; rows.
template <class Config> TENON_FN int topk_length(const Config &cfg) {
  constexpr int rank = decltype(Config::space)::rank;
  return int(index_t(cfg.space.template get<rank - 1>()));
}
template <class Config> TENON_FN int topk_row_count(const Config &cfg) {
  return topk_length(cfg) > 0 ? int(volume(cfg.space)) / topk_length(cfg) : 0;
}

/// Element `from` of the row at `at` comes at place `to` of its results.
template <int Last, int Rank, class X, class Outs, class Ins, class Body>
TENON_DEVICE void write_topk(const X &x, const Outs &outs, const Ins &ins, const Body &body,
                             int (&at)[Rank], int from, int to) {
  at[Last] = from;
  const compute_t<typename X::element> value[1] = {load_one(x, at)};
  const int64_t index[1] = {from};
  at[Last] = to;
  apply_body<Last>(body, outs, ins, at, 1, value, index);
}

template <class Config, class X, class Outs, class Ins, class Body> struct topk_kernel {
  Config cfg;
  X x;
  Outs outs;
  Ins ins;
  Body body;

  using value = compute_t<typename X::element>;
  static constexpr int rank = decltype(Config::space)::rank, last = rank - 1;
  static constexpr int threads = 128, blocks_per_sm = 1;

  grid blocks() const { return {ceil_div(volume(cfg.space), index_t(threads)), 1, 1}; }

  TENON_DEVICE void run(unsigned char *) const {
    int at[rank];
    unravel<rank>(cfg.space, block_x() * threads + thread(), at);
    if (at[0] >= int(index_t(cfg.space.template get<0>())))
      return;
    const int mine = at[last], n = topk_length(cfg);
    const value own[1] = {load_one(x, at)};
    const int before = count(at, 0, mine, [&](value other) { return !precedes(own[0], other); }) +
                       count(at, mine + 1, n, [&](value other) { return precedes(other, own[0]); });
    if (before >= int(index_t(cfg.k)))
      return;
    at[last] = before;
    const int64_t index[1] = {mine};
    apply_body<last>(body, outs, ins, at, 1, own, index);
  }

private:
  static constexpr int batch = 8;

  TENON_DEVICE value element(int (&at)[rank], int i) const {
    at[last] = i;
    return load_one(x, at);
  }
  /// How many of the elements first...end - 1 of a row are `such`.
  template <class Such>
  TENON_DEVICE int count(int (&at)[rank], int first, int end, Such such) const {
    int n = 0, i = first;
    for (; i + batch <= end; i += batch) {
      value others[batch];
      TENON_UNROLL
      for (int j = 0; j < batch; ++j)
        others[j] = element(at, i + j);
      TENON_UNROLL
      for (int j = 0; j < batch; ++j)
        n += such(others[j]);
    }
    for (; i < end; ++i)
      n += such(element(at, i));
    return n;
  }
  /// Among floats NaN is the largest, and equal to NaN.
  TENON_DEVICE static bool precedes(value a, value b) {
    if constexpr (Config::largest)
      return b == b && !(a <= b);
    else
      return a == a && !(a >= b);
  }
};

template <class Config, class X, class Outs, class Ins, class Body>
topk_kernel<Config, X, Outs, Ins, Body> topk(Config cfg, X x, Outs outs, Ins ins, Body body) {
  return {cfg, x, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
