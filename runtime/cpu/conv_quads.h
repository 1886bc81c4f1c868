// Defines conv_quads and depthwise_quads: sums of products of 8-bit integers on cores with MVE
// (common/quads.h), with bodies on four filters at once.
//
//   y[n, k, oh, ow] = body(sum over taps and channels of (x[...] - zero) * w[k, ...], ins...)
//
// conv_quads: the window of an output is one run of bytes, where x lies (1x1) or in a patch, whose
// border holds the zero point. It meets four filters at a time, 16 products an instruction.
//
// depthwise_quads: four channels at a time, tap by tap, where x lies or in a patch at the border.
//
// Both multiply x as it is; sums[k], -zero times the sum of filter k, takes the zero point off.
//
// Config: as conv.h's, one group; channels and kernel fixed. Of depthwise_quads: channels with one
// filter each.
//   vector_body       conv_quads: whether quads.h has all functions of the body
//   weight_bits       conv_quads: 8, or less where weights are fields of 16 bytes
//                     (common/weight_fields.h)
//
// x: view over (n, c, h, w) of int8_t; depthwise_quads: c stride fixed<1>, w stride fixed.
//
// w: [filters][kernel_h][kernel_w][channels], a row for each filter; depthwise, whose channels are
// a multiple of 4: int8_t [channels / 4][kernel_h][kernel_w][4].
//
// patch: kernel_h * kernel_w * channels bytes (null for pixels whose channels lie side by side).
// sums: a word for each filter (null for a single output). outs, ins: packs of views over (n, k,
// oh, ow).
#ifndef TENON_RUNTIME_CPU_CONV_QUADS_H
#define TENON_RUNTIME_CPU_CONV_QUADS_H

#include "cpu/conv.h"
#include "cpu/quad_products.h"

namespace tenon {
namespace cpu {
namespace detail {

TENON_FN quad<int32_t> make_quad(const int32_t (&x)[4]) {
#if defined(__ARM_FEATURE_MVE)
  int32x4_t v; // compilers go through memory
  __asm__("vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4"
          : "=&t"(v)
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]));
  return {v};
#else
  return {{{x[0], x[1], x[2], x[3]}}};
#endif
}

/// Copies bytes without a call.
TENON_FN void copy_run(const int8_t *from, index_t count, int8_t *to) {
#if defined(__ARM_FEATURE_MVE)
  for (; count > 0; count -= 16, from += 16, to += 16) {
    const mve_pred16_t some = vctp8q(uint32_t(count));
    vstrbq_p_s8(to, vldrbq_z_s8(from, some), some);
  }
#else
  for (index_t i = 0; i < count; ++i)
    to[i] = from[i];
#endif
}
/// The same for a number known at compile time.
template <index_t Count> TENON_FN void copy_run(const int8_t *from, int8_t *to) {
#if defined(__ARM_FEATURE_MVE)
  if constexpr (Count <= 112) {
    unroll<int(Count / 16)>(
        [&](auto i) TENON_LAMBDA { vstrbq_s8(to + 16 * int(i), vldrbq_s8(from + 16 * int(i))); });
    constexpr index_t rest = Count % 16, whole = Count - rest;
    if constexpr (rest != 0) {
      const mve_pred16_t some = vctp8q(uint32_t(rest));
      vstrbq_p_s8(to + whole, vldrbq_z_s8(from + whole, some), some);
    }
    return;
  }
#endif
  copy_run(from, Count, to);
}
TENON_FN void fill_run(int8_t value, index_t count, int8_t *to) {
#if defined(__ARM_FEATURE_MVE)
  for (; count > 0; count -= 16, to += 16)
    vstrbq_p_s8(to, vdupq_n_s8(value), vctp8q(uint32_t(count)));
#else
  for (index_t i = 0; i < count; ++i)
    to[i] = value;
#endif
}

/// Whether a window is one pixel, whose channels lie side by side.
template <class Cfg, class X>
inline constexpr bool
    window_in_place = decltype(Cfg::kernel_h)::value == 1 && decltype(Cfg::kernel_w)::value == 1 &&
                      (decltype(Cfg::channels)::value == 1 ||
                       is_same<bare<decltype(X{}.strides.template get<1>())>, fixed<1>>);

/// 16 bytes: `count` of those at `from`, or as many `zero` where that is null.
template <bool Whole>
TENON_FN void copy_16(const int8_t *from, index_t count, int8_t zero, int8_t *to) {
#if defined(__ARM_FEATURE_MVE)
  if (!from)
    vstrbq_s8(to, vdupq_n_s8(zero));
  else if constexpr (Whole)
    vstrbq_s8(to, vldrbq_s8(from));
  else
    vstrbq_s8(to, vldrbq_z_s8(from, vctp8q(uint32_t(count))));
#else
  for (index_t i = 0; i < (Whole || !from ? 16 : count); ++i)
    to[i] = from ? from[i] : zero;
#endif
}

/// The window whose first input is (ih, iw), zero points where it lies outside the image.
template <class Cfg, class X>
TENON_TILE void copy_window(const Cfg &cfg, const X &x, index_t n, index_t ih, index_t iw,
                            int8_t zero, int8_t *patch) {
  constexpr index_t channels = decltype(cfg.channels)::value,
                    kernel_w = decltype(cfg.kernel_w)::value, row = kernel_w * channels;
  using Column = bare<decltype(x.strides.template get<3>())>;
  constexpr bool adjacent =
      channels == 1 || is_same<bare<decltype(x.strides.template get<1>())>, fixed<1>>;
  constexpr bool runs =
      adjacent && decltype(cfg.dilation_w)::value == 1 && is_same<Column, fixed<channels>>;
  for (index_t ky = 0; ky < index_t(cfg.kernel_h); ++ky, patch += row) {
    const index_t h = ih + ky * index_t(cfg.dilation_h), in_w = cfg.in_w;
    if (h < 0 || h >= index_t(cfg.in_h)) {
      fill_run(zero, row, patch);
      continue;
    }
    if constexpr (runs) {
      const index_t first = iw < 0 ? -iw : 0, last = in_w - iw < kernel_w ? in_w - iw : kernel_w;
      const index_t at[4] = {n, 0, h, iw + first};
      const int8_t *from = x.data + x.offset(at);
      if (last - first == kernel_w) {
        copy_run<row>(from, patch);
        continue;
      }
      fill_run(zero, first * channels, patch);
      copy_run(from, (last - first) * channels, patch + first * channels);
      fill_run(zero, (kernel_w - last) * channels, patch + last * channels);
    } else {
      if constexpr (!adjacent && row <= 32 && decltype(cfg.dilation_w)::value == 1)
        if (iw >= 0 && iw + kernel_w <= in_w) { // a few bytes, each from a place of its own
          const index_t at[4] = {n, 0, h, iw};
          const int8_t *from = x.data + x.offset(at);
          unroll<int(row)>([&](auto i) TENON_LAMBDA {
            patch[int(i)] = from[int(i) % channels * index_t(x.strides.template get<1>()) +
                                 int(i) / channels * index_t(x.strides.template get<3>())];
          });
          continue;
        }
      for (index_t kx = 0; kx < kernel_w; ++kx) {
        const index_t at[4] = {n, 0, h, iw + kx * index_t(cfg.dilation_w)};
        const int8_t *from = x.data + x.offset(at);
        if (at[3] < 0 || at[3] >= in_w)
          fill_run(zero, channels, patch + kx * channels);
        else if constexpr (adjacent)
          copy_run(from, channels, patch + kx * channels);
        else
          for (index_t c = 0; c < channels; ++c)
            patch[kx * channels + c] = from[c * index_t(x.strides.template get<1>())];
      }
    }
  }
}

/// Whether sums of filters are kept: where there is one output only, each is needed once.
template <class Cfg>
inline constexpr bool keeps_sums =
    decltype(Cfg::batch)::value *decltype(Cfg::out_h)::value *decltype(Cfg::out_w)::value != 1;

/// All filters of an output.
template <class Cfg, class Outs, class Ins, class Body>
TENON_TILE void quads_output(const Cfg &cfg, const int8_t *x, const int8_t *w, const int32_t *sums,
                             int32_t zero, index_t n, index_t oh, index_t ow, const Outs &outs_,
                             const Ins &ins_, const Body &body) {
  constexpr index_t filters = decltype(cfg.filters)::value, depth = decltype(cfg.kernel_h)::value *
                                                                    decltype(cfg.kernel_w)::value *
                                                                    decltype(cfg.channels)::value;
  const Outs outs = outs_; // copies, which what is stored cannot change
  const Ins ins = ins_;
  index_t at[4] = {n, 0, oh, ow};
  constexpr index_t row = filter_bytes<Cfg, depth>;
  for (; at[1] + 4 <= filters; at[1] += 4, w += 4 * row) {
    int32_t acc[4], own[4];
    dot_window<Cfg, 4, depth>(x, w, acc);
    const int32_t *sum_of = sums + at[1];
    if constexpr (!keeps_sums<Cfg>) {
      for (int f = 0; f < 4; ++f)
        own[f] = -zero * sum_filter<Cfg, depth>(w + f * row);
      sum_of = own;
    }
    if constexpr (Cfg::vector_body) {
      const quad<int32_t> sum = add<quads>(make_quad(acc), quads::load(sum_of));
      apply_body<quads, 1>(body, outs, ins, at, fixed<4>{}, sum);
    } else {
      unroll<4>([&](auto f) TENON_LAMBDA {
        const index_t one[4] = {n, at[1] + int(f), oh, ow};
        apply_body<scalar_lanes, 1>(body, outs, ins, one, fixed<1>{}, acc[f] + sum_of[int(f)]);
      });
    }
  }
  if constexpr (filters % 4 != 0)
    for (; at[1] < filters; ++at[1], w += row) {
      int32_t acc[1];
      dot_window<Cfg, 1, depth>(x, w, acc);
      const int32_t sum = keeps_sums<Cfg> ? sums[at[1]] : -zero * sum_filter<Cfg, depth>(w);
      apply_body<scalar_lanes, 1>(body, outs, ins, at, fixed<1>{}, acc[0] + sum);
    }
}

/// sums + the products of four channels of a window with w. `corner` is the middle of its first
/// row, from where all taps of a row are within reach of a load.
template <int KernelH, int KernelW, index_t Column>
TENON_FN quad<int32_t> window_quad(const int32_t *sums, const int8_t *corner, index_t row,
                                   const int8_t *w) {
  quad<int32_t> acc = quads::load(sums);
  unroll<KernelH>([&](auto ky) TENON_LAMBDA {
    unroll<KernelW>([&](auto kx) TENON_LAMBDA {
      constexpr index_t at_x = (decltype(kx)::value - KernelW / 2) * Column,
                        at_w = (decltype(ky)::value * KernelW + decltype(kx)::value) * 4;
      acc = tap_quad<at_x, at_w>(acc, corner + int(ky) * row, w);
    });
  });
  return acc;
}

/// An output whose window is inside the image.
template <class Cfg, class X, class Outs, class Ins, class Body>
TENON_TILE void depthwise_inside(const Cfg &cfg, const X &x, const int8_t *w, const int32_t *sums,
                                 index_t ih, index_t iw, index_t n, index_t oh, index_t ow,
                                 const Outs &outs_, const Ins &ins_, const Body &body) {
  constexpr index_t channels = decltype(cfg.channels)::value;
  constexpr int kernel_h = int(decltype(cfg.kernel_h)::value),
                kernel_w = int(decltype(cfg.kernel_w)::value);
  constexpr index_t column = decltype(product(cfg.dilation_w, x.strides.template get<3>()))::value;
  const Outs outs = outs_; // copies, which what is stored cannot change
  const Ins ins = ins_;
  index_t at[4] = {n, 0, oh, ow};
  const index_t point[4] = {n, 0, ih, iw};
  const int8_t *corner = x.data + x.offset(point) + kernel_w / 2 * column;
  const index_t row = index_t(cfg.dilation_h) * index_t(x.strides.template get<2>());
  for (; at[1] < channels; at[1] += 4, corner += 4, w += kernel_h * kernel_w * 4)
    apply_body<quads, 1>(body, outs, ins, at, fixed<4>{},
                         window_quad<kernel_h, kernel_w, column>(sums + at[1], corner, row, w));
}

/// An output whose window is partly outside: 16 channels of it are copied, with zero points there.
template <class Cfg, class X, class Outs, class Ins, class Body>
TENON_TILE void depthwise_border(const Cfg &cfg, const X &x, const int8_t *w, const int32_t *sums,
                                 int32_t zero, index_t ih, index_t iw, index_t n, index_t oh,
                                 index_t ow, const Outs &outs_, const Ins &ins_, const Body &body) {
  constexpr index_t channels = decltype(cfg.channels)::value, block = 16;
  constexpr int kernel_h = int(decltype(cfg.kernel_h)::value),
                kernel_w = int(decltype(cfg.kernel_w)::value);
  const Outs outs = outs_;
  const Ins ins = ins_;
  index_t at[4] = {n, 0, oh, ow};
  alignas(16) int8_t patch[kernel_h * kernel_w * block];
  while (at[1] < channels) {
    const index_t count = channels - at[1] < block ? channels - at[1] : block;
    const index_t column = x.strides.template get<3>();
    int8_t *to = patch;
    for (index_t ky = 0; ky < kernel_h; ++ky, to += kernel_w * block) {
      const index_t h = ih + ky * index_t(cfg.dilation_h);
      const bool outside = h < 0 || h >= index_t(cfg.in_h);
      const index_t point[4] = {n, at[1], outside ? 0 : h, 0};
      const int8_t *row = x.data + x.offset(point);
      unroll<kernel_w>([&](auto kx) TENON_LAMBDA {
        const index_t v = iw + int(kx) * index_t(cfg.dilation_w);
        copy_16<channels % block == 0>(
            outside || v < 0 || v >= index_t(cfg.in_w) ? nullptr : row + v * column, count,
            int8_t(zero), to + int(kx) * block);
      });
    }
    const int8_t *corner = patch + kernel_w / 2 * block;
    for (const index_t end = at[1] + count; at[1] < end;
         at[1] += 4, corner += 4, w += kernel_h * kernel_w * 4)
      apply_body<quads, 1>(
          body, outs, ins, at, fixed<4>{},
          window_quad<kernel_h, kernel_w, block>(sums + at[1], corner, kernel_w * block, w));
  }
}

} // namespace detail

template <class Cfg, class X, class Outs, class Ins, class Body>
void conv_quads(const Cfg &cfg, const X &x, const int8_t *w, int32_t zero, int8_t *patch,
                int32_t *sums, const Outs &outs, const Ins &ins, const Body &body) {
  using namespace detail;
  constexpr index_t kernel_h = decltype(cfg.kernel_h)::value,
                    kernel_w = decltype(cfg.kernel_w)::value,
                    depth = kernel_h * kernel_w * decltype(cfg.channels)::value;
  if constexpr (keeps_sums<Cfg>)
    for (index_t k = 0; k < index_t(cfg.filters); ++k)
      sums[k] = -zero * sum_filter<Cfg, depth>(w + k * filter_bytes<Cfg, depth>);
  for (index_t n = 0; n < index_t(cfg.batch); ++n)
    for (index_t oh = 0; oh < index_t(cfg.out_h); ++oh)
      for (index_t ow = 0; ow < index_t(cfg.out_w); ++ow) {
        const index_t ih = oh * index_t(cfg.stride_h) - index_t(cfg.pad_top),
                      iw = ow * index_t(cfg.stride_w) - index_t(cfg.pad_left);
        const int8_t *window = patch;
        if constexpr (window_in_place<Cfg, X>) {
          const index_t at[4] = {n, 0, ih, iw};
          window = x.data + x.offset(at);
        } else {
          copy_window(cfg, x, n, ih, iw, int8_t(zero), patch);
        }
        quads_output(cfg, window, w, sums, zero, n, oh, ow, outs, ins, body);
      }
}

template <class Cfg, class X, class Outs, class Ins, class Body>
void depthwise_quads(const Cfg &cfg, const X &x, const int8_t *w, int32_t zero, int32_t *sums,
                     const Outs &outs, const Ins &ins, const Body &body) {
  using namespace detail;
  constexpr index_t channels = decltype(cfg.channels)::value,
                    kernel_h = decltype(cfg.kernel_h)::value,
                    kernel_w = decltype(cfg.kernel_w)::value,
                    dilation_w = decltype(cfg.dilation_w)::value;
  constexpr index_t taps = kernel_h * kernel_w;
  for (index_t c = 0; c < channels; c += 4) {
    quad<int32_t> sum = quads::broadcast(int32_t(0));
    for (index_t t = 0; t < taps; ++t)
      sum = add<quads>(sum, quads::load_wide(w + c * taps + 4 * t));
    quads::store(sums + c, mul<quads>(sum, quads::broadcast(-zero)));
  }
  for (index_t n = 0; n < index_t(cfg.batch); ++n)
    for (index_t oh = 0; oh < index_t(cfg.out_h); ++oh)
      for (index_t ow = 0; ow < index_t(cfg.out_w); ++ow) {
        const index_t ih = oh * index_t(cfg.stride_h) - index_t(cfg.pad_top),
                      iw = ow * index_t(cfg.stride_w) - index_t(cfg.pad_left);
        const bool inside = ih >= 0 &&
                            ih + (kernel_h - 1) * index_t(cfg.dilation_h) < index_t(cfg.in_h) &&
                            iw >= 0 && iw + (kernel_w - 1) * dilation_w < index_t(cfg.in_w);
        if (inside)
          depthwise_inside(cfg, x, w, sums, ih, iw, n, oh, ow, outs, ins, body);
        else
          depthwise_border(cfg, x, w, sums, zero, ih, iw, n, oh, ow, outs, ins, body);
      }
}

} // namespace cpu
} // namespace tenon

#endif
