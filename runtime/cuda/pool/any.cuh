// Defines `pooling_any`: pools over any number of spatial dimensions, one thread per window.
//
// Config: space (dims: n, c, spatial...), in (dims: spatial...), kernel, strides, dilations, pads,
//   pads_end (extents over the spatial dimensions), kind, accumulator as for kernel.cuh.
// x, outs, ins over their own dimensions.
#ifndef TENON_RUNTIME_CUDA_POOL_ANY_CUH
#define TENON_RUNTIME_CUDA_POOL_ANY_CUH

#include "cuda/base/computed.cuh"
#include "cuda/pool/kernel.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class Outs, class Ins, class Body> struct pooling_any_kernel {
  Config cfg;
  X x;
  Outs outs;
  Ins ins;
  Body body;

  using kind = typename Config::kind;
  using value = typename Config::accumulator;
  static constexpr int rank = decltype(Config::space)::rank, spatial = rank - 2;
  static constexpr int threads = 128, blocks_per_sm = 1;

  grid blocks() const { return {ceil_div(volume(cfg.space), index_t(threads)), 1, 1}; }

  TENON_DEVICE void run(unsigned char *) const {
    int at[rank];
    unravel<rank>(cfg.space, block_x() * threads + thread(), at);
    if (at[0] >= int(index_t(cfg.space.template get<0>())))
      return;
    window w;
    w.point[0] = at[0];
    w.point[1] = at[1];
    w.sum = kind::template start<value>();
    walk<0>(at, w, true);
    const value result[1] = {kind::finish(w.sum, w.inside, w.padded)};
    apply_body<1>(body, outs, ins, at, 1, result);
  }

private:
  struct window {
    int point[rank];
    value sum;
    int inside = 0, padded = 0;
  };

  template <int D> TENON_DEVICE void walk(const int (&at)[rank], window &w, bool is_inside) const {
    if constexpr (D == spatial) {
      ++w.padded;
      if (is_inside) {
        ++w.inside;
        w.sum = kind::fold(w.sum, value(load_one(x, w.point)));
      }
    } else {
      const int extent = int(index_t(cfg.in.template get<D>()));
      const int first = at[2 + D] * int(index_t(cfg.strides.template get<D>())) -
                        int(index_t(cfg.pads.template get<D>()));
      for (int tap = 0; tap < int(index_t(cfg.kernel.template get<D>())); ++tap) {
        const int i = first + tap * int(index_t(cfg.dilations.template get<D>()));
        if (i >= extent + int(index_t(cfg.pads_end.template get<D>())))
          break; // beyond the padding: only there with ceil
        w.point[2 + D] = i;
        walk<D + 1>(at, w, is_inside && unsigned(i) < unsigned(extent));
      }
    }
  }
};

template <class Config, class X, class Outs, class Ins, class Body>
pooling_any_kernel<Config, X, Outs, Ins, Body> pooling_any(Config cfg, X x, Outs outs, Ins ins,
                                                           Body body) {
  return {cfg, x, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
