// Defines matmul: batched product with a packed, constant right operand.
//
//   y[b0, b1, m, n] = body(sum over k of a[b0, b1, m, k] * b[k, n], ins...)
//
// It is the pointwise case of conv.h: rows of `a` are the pixels, columns of `b` the filters;
// schedule, prologue (indexed by k) and register tile are those described there. One row (m = 1)
// wants mr = 1 and nr = 8 registers: the product is then bound by reading b, and eight sums hide
// the latency of adding.
//
// Config (derive from matmul_defaults; `fixed` or `dyn` unless noted):
//   batch0, batch1, m, n, k       extents; k fixed
//   b_stride0, b_stride1          elements of packed b from one batch to the next, 0 when shared
//   mr, nr, filters_outer, pack_input, lanes, accumulator   as in conv.h
// a: view over (b0, b1, m, k); direct reads need `fixed` strides of m and k.
// b: [ceil(n / nr)][k][nr], zeros in missing columns; any storage type.
// outs, ins: packs of views over (b0, b1, m, n); prologue_ins: pack of views over (k).
#ifndef TENON_RUNTIME_CPU_MATMUL_H
#define TENON_RUNTIME_CPU_MATMUL_H

#include "cpu/conv.h"

namespace tenon {
namespace cpu {

struct matmul_defaults {
  static constexpr fixed<1> batch0{}, batch1{};
  static constexpr fixed<0> b_stride0{}, b_stride1{};
  static constexpr bool filters_outer = true;
  static constexpr bool pack_input = false;
  using lanes = native_lanes;
};

namespace detail {

/// The convolution that a product is; Shared tells whether all batches use the same b.
template <class Cfg, bool Shared> struct matmul_conv : conv_defaults {
  template <class D> using batched = typename choose_type<Shared, bare<D>, fixed<1>>::type;
  batched<decltype(Cfg::batch0)> batch;
  batched<decltype(Cfg::batch1)> out_h, in_h;
  bare<decltype(Cfg::m)> out_w, in_w;
  bare<decltype(Cfg::n)> filters;
  bare<decltype(Cfg::k)> channels;
  static constexpr fixed<1> kernel_h{}, kernel_w{};
  static constexpr int mr = Cfg::mr, nr = Cfg::nr;
  static constexpr bool filters_outer = Cfg::filters_outer, pack_input = Cfg::pack_input;
  using lanes = typename Cfg::lanes;
  using accumulator = typename Cfg::accumulator;
  explicit matmul_conv(const Cfg &c) : out_w(c.m), in_w(c.m), filters(c.n), channels(c.k) {
    if constexpr (Shared) {
      batch = c.batch0;
      out_h = in_h = c.batch1;
    }
  }
};

/// A view over (b0, b1, m, n), moved to one batch, as one over (n, k, h, w).
template <class T, class S0, class S1, class S2, class S3>
TENON_FN auto as_pixels(const view<T, dims<S0, S1, S2, S3>> &v, const index_t *at) {
  return make_view(v.data + v.offset(at),
                   dims<S0, S3, S1, S2>(v.strides.template get<0>(), v.strides.template get<3>(),
                                        v.strides.template get<1>(), v.strides.template get<2>()));
}
template <class T, int D> TENON_FN auto as_pixels(const index_view<T, D> &, const index_t *) {
  return index_view < T, D == 0 ? 0 : D == 3 ? 1 : D + 1 > {};
}
template <class Args, int... I>
TENON_FN auto all_as_pixels(indices<I...>, const Args &args, const index_t *at) {
  (void)at;
  return pack(as_pixels(args.template get<I>(), at)...);
}
template <class Args> TENON_FN auto all_as_pixels(const Args &args, const index_t *at) {
  return all_as_pixels(indices_to<Args::count>{}, args, at);
}

/// call(config, a, b, outs, ins): the convolution that the product is, or that of each batch where
/// these have their own b.
template <class Cfg, class X, class W, class Outs, class Ins, class Call>
TENON_FN void matmul_by(const Cfg &cfg, const X &a, const W *b, const Outs &outs, const Ins &ins,
                        const Call &call) {
  constexpr bool shared = is_same<bare<decltype(cfg.b_stride0)>, fixed<0>> &&
                          is_same<bare<decltype(cfg.b_stride1)>, fixed<0>>;
  const matmul_conv<Cfg, shared> inner(cfg);
  index_t at[4] = {0, 0, 0, 0};
  if constexpr (shared) {
    call(inner, as_pixels(a, at), b, all_as_pixels(outs, at), all_as_pixels(ins, at));
  } else {
    for (at[0] = 0; at[0] < index_t(cfg.batch0); ++at[0])
      for (at[1] = 0; at[1] < index_t(cfg.batch1); ++at[1])
        call(inner, as_pixels(a, at),
             b + at[0] * index_t(cfg.b_stride0) + at[1] * index_t(cfg.b_stride1),
             all_as_pixels(outs, at), all_as_pixels(ins, at));
  }
}

} // namespace detail

template <class Cfg, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
void matmul(const Cfg &cfg, const X &a, const W *b, const Outs &outs, const Ins &ins,
            const Body &body, pool &workers, const Prologue &prologue = {},
            const PrologueIns &prologue_ins = {}) {
  detail::matmul_by(cfg, a, b, outs, ins,
                    [&](const auto &inner, const auto &pixels, const W *w, const auto &results,
                        const auto &others) {
                      conv(inner, pixels, w, results, others, body, workers, prologue,
                           prologue_ins);
                    });
}

} // namespace cpu
} // namespace tenon

#endif
