// Defines depthwise_pairs: depthwise convolution of 8-bit integers, by pairs of 16-bit ones.
//
//   y[n, c, o] = body(sum over taps of (x[n, c, ...] - zero) * w[c, ...], ins...)
//
// One channel after the other is copied to a plane with its padding, where four neighbours are one
// word: widened to pairs, it meets up to four taps of a row in two instructions (common/pairs.h).
// With three taps and a stride of 1 it serves two outputs.
//
// Config: batch, in_h, in_w, out_h, out_w, channels, kernel_h, kernel_w, stride_h, stride_w,
//   pad_top, pad_left as in conv.h; kernel and strides fixed; no dilation, one filter a channel
//   weight_bits       as in conv_pairs.h, of bytes
// x: view over (n, c, h, w). w: [channels][kernel_h][kernel_w], a row for each channel. zero: of x.
// plane: plane_bytes<Cfg>(cfg) bytes. outs, ins: packs of views over (n, c, 0, pixel).
#ifndef TENON_RUNTIME_CPU_DEPTHWISE_PAIRS_H
#define TENON_RUNTIME_CPU_DEPTHWISE_PAIRS_H

#include "cpu/conv_pairs.h"

namespace tenon {
namespace cpu {
namespace detail {

/// Whether two neighbouring outputs are computed at once.
template <class Cfg>
inline constexpr bool two_columns =
    decltype(Cfg::kernel_w)::value == 3 && decltype(Cfg::stride_w)::value == 1;

/// Words that the taps of a row take.
template <class Cfg>
inline constexpr index_t row_words = ceil_div(decltype(Cfg::kernel_w)::value, 4);

/// Extents of the plane: what the windows read, words to their end.
template <class Cfg> constexpr index_t plane_width(const Cfg &cfg) {
  return (index_t(cfg.out_w) - 1 + (two_columns<Cfg> ? 1 : 0)) * index_t(cfg.stride_w) +
         4 * row_words<Cfg>;
}
template <class Cfg> constexpr index_t plane_height(const Cfg &cfg) {
  return (index_t(cfg.out_h) - 1) * index_t(cfg.stride_h) + index_t(cfg.kernel_h);
}

/// Four taps: those at even places, and those at odd ones.
struct tap_pairs {
  uint32_t even, odd;
};

template <class Cfg>
TENON_FN void load_taps(const int8_t *w,
                        tap_pairs (&taps)[decltype(Cfg::kernel_h)::value][row_words<Cfg>]) {
  constexpr index_t kernel_w = decltype(Cfg::kernel_w)::value;
  for (index_t ky = 0; ky < decltype(Cfg::kernel_h)::value; ++ky)
    for (index_t i = 0; i < row_words<Cfg>; ++i) {
      int32_t t[4];
      for (index_t j = 0; j < 4; ++j)
        t[j] = 4 * i + j < kernel_w
                   ? weight_fields<Cfg::weight_bits, 1>::at(w, ky * kernel_w + 4 * i + j)
                   : 0;
      taps[ky][i] = {make_pair16(t[0], t[2]), make_pair16(t[1], t[3])};
    }
}

/// All outputs of one channel, whose plane is filled.
template <class Cfg, class T, class Outs, class Ins, class Body>
TENON_TILE void depthwise_channel(const Cfg &cfg, const T *plane, const int8_t *w, int32_t zero,
                                  index_t n, index_t c, const Outs &outs_, const Ins &ins_,
                                  const Body &body) {
  constexpr int kernel_h = int(decltype(cfg.kernel_h)::value), words = int(row_words<Cfg>);
  constexpr index_t stride_w = decltype(cfg.stride_w)::value;
  constexpr int columns = two_columns<Cfg> ? 2 : 1;
  const index_t width = plane_width(cfg), out_w = cfg.out_w;
  const Outs outs = outs_; // copies, which what is stored cannot change
  const Ins ins = ins_;
  index_t at[4] = {n, c, 0, 0};
  const uint32_t minus_zero = make_pair16(-zero, -zero);
  tap_pairs taps[kernel_h][words];
  load_taps<Cfg>(w, taps);
  for (index_t oh = 0; oh < index_t(cfg.out_h); ++oh) {
    const T *row = plane + oh * index_t(cfg.stride_h) * width;
    for (index_t ow = 0; ow < out_w; ow += columns, row += columns * stride_w) {
      int32_t acc[columns] = {};
      unroll<kernel_h>([&](auto ky) TENON_LAMBDA {
        unroll<words>([&](auto i) TENON_LAMBDA {
          const tap_pairs &tap = taps[ky][i];
          const uint32_t bytes = load_word(row + int(ky) * width + 4 * int(i));
          const uint32_t even = widen<T>::even(minus_zero, bytes),
                         odd = widen<T>::odd(minus_zero, bytes);
          if constexpr (two_columns<Cfg>) { // taps 0, 1, 2 of columns 0, 1, 2 and of 1, 2, 3
            const int32_t middle = low16(tap.odd);
            acc[0] = multiply_add(acc[0], even, tap.even) + low16(odd) * middle;
            acc[1] = multiply_add(acc[1], odd, tap.even) + high16(even) * middle;
          } else {
            acc[0] = multiply_add(acc[0], even, tap.even);
            acc[0] = multiply_add(acc[0], odd, tap.odd);
          }
        });
      });
      if (columns == 1 || ow + 1 < out_w) {
        finish_outputs<columns>(indices_to<Ins::count>{}, indices_to<Outs::count>{}, acc, at, outs,
                                ins, body);
        at[3] += columns;
      } else {
        const int32_t last[1] = {acc[0]};
        finish_outputs<1>(indices_to<Ins::count>{}, indices_to<Outs::count>{}, last, at, outs, ins,
                          body);
        ++at[3];
      }
    }
  }
}

} // namespace detail

template <class Cfg> constexpr index_t plane_bytes(const Cfg &cfg) {
  return detail::plane_width(cfg) * detail::plane_height(cfg);
}

template <class Cfg, class X, class Outs, class Ins, class Body>
void depthwise_pairs(const Cfg &cfg, const X &x, const int8_t *w, int32_t zero,
                     detail::bare<typename X::element> *plane, const Outs &outs, const Ins &ins,
                     const Body &body) {
  using namespace detail;
  using T = bare<typename X::element>;
  constexpr index_t filter_bytes = weight_fields<Cfg::weight_bits, 1>::row_bytes(
      decltype(cfg.kernel_h)::value * decltype(cfg.kernel_w)::value);
  const index_t width = plane_width(cfg), height = plane_height(cfg), size = width * height;
  const index_t top = cfg.pad_top, left = cfg.pad_left;
  const index_t rows = height - top < index_t(cfg.in_h) ? height - top : index_t(cfg.in_h);
  const index_t columns = width - left < index_t(cfg.in_w) ? width - left : index_t(cfg.in_w);
  for (index_t i = 0; i < size; ++i) // the border stays for all channels
    plane[i] = T(zero);
  const auto step = x.strides.template get<3>();
  for (index_t n = 0; n < index_t(cfg.batch); ++n)
    for (index_t c = 0; c < index_t(cfg.channels); ++c) {
      for (index_t h = 0; h < rows; ++h) {
        const index_t from[4] = {n, c, h, 0};
        const T *source = x.data + x.offset(from);
        T *to = plane + (top + h) * width + left;
#pragma GCC unroll 4
        for (index_t i = 0; i < columns; ++i)
          to[i] = source[i * index_t(step)];
      }
      depthwise_channel(cfg, plane, w + c * filter_bytes, zero, n, c, outs, ins, body);
    }
}

} // namespace cpu
} // namespace tenon

#endif
