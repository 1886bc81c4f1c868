// Defines conv_bf16: convolution of bf16 with sums in f32.
//
//   y[n, k, oh, ow] = body(sum over taps and channels of x[...] * w[k, ...], ins...)
//
// The kernel is that of 8-bit integers (cpu/conv_bytes.h) with channels two to a word: two products
// a lane at a time (common/bf16_products.h), by the instruction that the machine has; where it has
// tile registers for bf16, those take larger tiles (cpu/conv_tiles.h).
//
// Config: as in cpu/conv_bytes.h.
// x: view over (n, c, h, w) of bf16, or of what prologue(L, x, ins...) makes f32 of, which is
// rounded; runs are then the channels of a tap. w: bf16 [ceil(filters / lanes)][runs]
// [ceil(run / 2)][lanes][2], zeros where something is missing. outs, ins: packs of views over
// (n, k, oh, ow); lanes run along k. prologue_ins: pack of views over (c).
#ifndef TENON_RUNTIME_CPU_CONV_BF16_H
#define TENON_RUNTIME_CPU_CONV_BF16_H

#include "common/bf16_products.h"
#include "cpu/conv_bytes.h"

namespace tenon {
namespace cpu {
namespace detail {

/// The configuration with elements of two bytes.
template <class Cfg> struct of_bf16 : Cfg {
  static constexpr int element_bytes = 2;
  explicit of_bf16(const Cfg &c) : Cfg(c) {}
};

/// Elements that prologue() computes of those of x, and that are rounded.
template <class X, class Prologue, class PrologueIns> struct computed_bf16 : X {
  using element = bf16;
  const Prologue &prologue;
  const PrologueIns &ins;
};

/// L::width elements from channel c on, `from` being where channel 0 lies.
template <class L, class X, class Prologue, class PrologueIns, class T, int... I>
TENON_FN void compute_channels(indices<I...>, const computed_bf16<X, Prologue, PrologueIns> &in,
                               const T *from, index_t c, bf16 *to) {
  const auto stride = in.strides.template get<1>();
  [[maybe_unused]] const index_t at[1] = {c};
  const f32<L> a = convert<f32<L>>(load_strided<L>(from + c * index_t(stride), stride));
  store<L>(to + c, f32<L>(in.prologue(
                       L{}, a, load_at<L, 0>(in.ins.template get<I>(), at, fixed<L::width>{})...)));
}

/// The patch of the output at `place` (cpu/conv_patches.h).
template <class Cfg, class X, class Prologue, class PrologueIns>
TENON_FN void gather_window(const Cfg &cfg, const computed_bf16<X, Prologue, PrologueIns> &in,
                            index_t n, const index_t (&place)[2], int32_t, uint8_t *to) {
  using R = byte_runs<Cfg>;
  using L = native_lanes;
  static_assert(!R::along_row, "runs are the channels of a tap");
  constexpr indices_to<PrologueIns::count> all{};
  for (index_t ky = 0; ky < R::kernel_h; ++ky)
    for (index_t kx = 0; kx < R::kernel_w; ++kx, to += ceil_div(R::bytes, 4) * 4) {
      const index_t h = place[0] * index_t(cfg.stride_h) - index_t(cfg.pad_top) +
                        ky * index_t(cfg.dilation_h),
                    v = place[1] * index_t(cfg.stride_w) - index_t(cfg.pad_left) +
                        kx * index_t(cfg.dilation_w);
      if (h < 0 || h >= index_t(cfg.in_h) || v < 0 || v >= index_t(cfg.in_w)) {
        memset(to, 0, R::bytes);
      } else {
        const index_t at[4] = {n, 0, h, v};
        const auto *from = in.data + in.offset(at);
        auto *tap = reinterpret_cast<bf16 *>(to);
        index_t c = 0;
        for (; c + L::width <= R::channels; c += L::width)
          compute_channels<L>(all, in, from, c, tap);
        for (; c < R::channels; ++c)
          compute_channels<scalar_lanes>(all, in, from, c, tap);
      }
      clear_tail<R>(to);
    }
}
#if TENON_TILE_PRODUCTS
/// Patches of what is computed never lie in memory.
template <class Cfg, class X, class Prologue, class PrologueIns>
struct reads_in_place<Cfg, computed_bf16<X, Prologue, PrologueIns>> {
  static constexpr bool value = false;
};
#endif

/// What conv_bytes reads: x as it lies, or what is computed of it.
template <class X, class Prologue, class PrologueIns>
TENON_FN auto bf16_input(const X &x, const Prologue &prologue, const PrologueIns &ins) {
  if constexpr (is_same<Prologue, no_prologue> && is_same<bare<typename X::element>, bf16>)
    return x;
  else
    return computed_bf16<X, Prologue, PrologueIns>{x, prologue, ins};
}

} // namespace detail

template <class Cfg, class X, class Outs, class Ins, class Body, class Prologue = no_prologue,
          class PrologueIns = arguments<>>
void conv_bf16(const Cfg &given, const X &x_, const bf16 *w_, const Outs &outs, const Ins &ins,
               const Body &body, pool &workers, const Prologue &prologue = {},
               const PrologueIns &prologue_ins = {}) {
  using namespace detail;
  const of_bf16<Cfg> cfg(given);
  const auto x = bf16_input(x_, prologue, prologue_ins);
  const auto *w = reinterpret_cast<const int8_t *>(w_);
#if TENON_TILE_PRODUCTS
  if constexpr (fits_tiles<of_bf16<Cfg>>)
    if (has_bf16_tiles)
      return conv_bytes_by_tiles(cfg, x, w, nullptr, 0, outs, ins, body, workers);
#endif
#if TENON_DOT_PAIRS
  if (has_dot_pairs)
    return conv_bytes_by<dot_pairs>(cfg, x, w, nullptr, 0, outs, ins, body, workers);
#endif
  conv_bytes_by<widened_pairs>(cfg, x, w, nullptr, 0, outs, ins, body, workers);
}

} // namespace cpu
} // namespace tenon

#endif
