// Defines `softmax`, or with `log` its logarithm:
//
//   y[i..., j] = body(e^(x[i, j] - max) / sum over j of e^(x[i, j] - max), ins[i, j]...)
//
// Algorithm: lane_group, three passes over each row: maximum, sum of exponentials, results. The
// exponential is computed twice rather than stored, since a result may be written over x.
// Config: space (dims; the last is the normalised one, at least one before it), log (bool).
// Schedule: lanes (threads per row, a power of two up to 256), across (neighbouring threads take
// neighbouring rows). x, outs, ins: over space. Computed in f32, f64 for f64.
#ifndef TENON_RUNTIME_CUDA_SOFTMAX_KERNEL_CUH
#define TENON_RUNTIME_CUDA_SOFTMAX_KERNEL_CUH

#include "common/scalar.h"
#include "cuda/base/lane_group.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class Outs, class Ins, class Body> struct softmax_kernel {
  Config cfg;
  X x;
  Outs outs;
  Ins ins;
  Body body;

  using index = index_of<Config>;
  using value = compute_t<typename X::element>;
  static constexpr int threads = 256, blocks_per_sm = 1;
  static constexpr int rank = decltype(Config::space)::rank, last = rank - 1;
  static_assert(last > 0, "absent dimensions have the extent 1");
  using group = lane_group<threads, Config::lanes, Config::across>;

  TENON_FN static constexpr bool runs_on(target) { return true; }
  int shared_bytes() const { return group::template shared_bytes<value>(); }
  grid blocks() const { return {ceil_div(rows(), index_t(group::results)), 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *) const {}
  TENON_DEVICE void run(unsigned char *shared) const {
    using L = scalar_lanes;
    const index row = index(block_x()) * group::results + group::result();
    const bool mine = row < index(rows());
    const index n = mine ? index(index_t(cfg.space.template get<last>())) : 0;
    index at[rank] = {};
    if (mine)
      unravel<last>(cfg.space, row, at);

    value largest = -value(INFINITY);
    for (index i = group::lane(); i < n; i += Config::lanes)
      largest = max<L>(largest, element(at, i));
    largest = group::combine(largest, shared, [](value a, value b) { return max<L>(a, b); });

    value sum = 0;
    for (index i = group::lane(); i < n; i += Config::lanes)
      sum += exp<L>(element(at, i) - largest);
    sum = group::combine(sum, shared, [](value a, value b) { return a + b; });

    const value factor = Config::log ? log<L>(sum) : value(1) / sum;
    for (index i = group::lane(); i < n; i += Config::lanes) {
      const value shifted = element(at, i) - largest;
      const value result[1] = {Config::log ? shifted - factor : exp<L>(shifted) * factor};
      apply_body<last>(body, outs, ins, at, 1, result);
    }
  }

private:
  TENON_FN index_t rows() const {
    const index_t n = cfg.space.template get<last>();
    return n ? volume(cfg.space) / n : 0;
  }
  TENON_DEVICE value element(index (&at)[rank], index i) const {
    at[last] = i;
    value v[1];
    load_operand<last>(v, x, at, 1);
    return v[0];
  }
};

template <class Config, class X, class Outs, class Ins, class Body>
softmax_kernel<Config, X, Outs, Ins, Body> softmax(Config cfg, X x, Outs outs, Ins ins, Body body) {
  return {cfg, x, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
