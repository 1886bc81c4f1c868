// Defines depthwise_pairs: depthwise convolution of 8-bit integers, by pairs of 16-bit ones.
//
//   y[n, c, o] = body(sum over taps of (x[n, c, ...] - zero) * w[c, ...], ins...)
//
// One channel after the other is copied to a plane with its padding, where four neighbours are one
// word: widened to pairs, it meets up to four taps of a row in two instructions (common/pairs.h).
// Three taps serve two outputs. Cores that multiply no pairs take tap by tap. The zero point is
// taken off by what the sums begin with. Sums of a few rows lie in memory until the body takes
// them; so copying and multiplying have the registers for themselves, and each is one function for
// the layers of a network whatever their extents.
//
// Config: batch, in_h, in_w, out_h, out_w, channels, kernel_h, kernel_w, stride_h, stride_w,
//   pad_top, pad_left as in conv.h; kernel and strides fixed; no dilation, one filter a channel
//   weight_bits       as in conv_pairs.h, of bytes
//   turned            schedule: height and width change places in the plane, for images that are
//                     higher than wide; long rows cost less
//   plain             tap by tap, for cores that multiply no pairs
// x: view over (n, c, h, w). w: [channels][kernel_h][kernel_w], a row for each channel. zero: of x.
// plane: plane_bytes<Cfg>(cfg) bytes. outs, ins: packs of views over (n, c, 0, pixel).
#ifndef TENON_RUNTIME_CPU_DEPTHWISE_PAIRS_H
#define TENON_RUNTIME_CPU_DEPTHWISE_PAIRS_H

#include "common/pairs.h"
#include "common/weight_fields.h"
#include "cpu/conv.h"
#include "cpu/held_inputs.h"

namespace tenon {
namespace cpu {
namespace detail {

/// The problem with height and width in each other's place.
template <class Cfg> struct turned_problem {
  static constexpr auto in_h = Cfg::in_w;
  static constexpr auto in_w = Cfg::in_h;
  static constexpr auto out_h = Cfg::out_w;
  static constexpr auto out_w = Cfg::out_h;
  static constexpr auto kernel_h = Cfg::kernel_w;
  static constexpr auto kernel_w = Cfg::kernel_h;
  static constexpr auto stride_h = Cfg::stride_w;
  static constexpr auto stride_w = Cfg::stride_h;
  static constexpr auto pad_top = Cfg::pad_left;
  static constexpr auto pad_left = Cfg::pad_top;
  static constexpr int plain = Cfg::plain;
};
/// The problem as it lies in the plane.
template <class Cfg> constexpr auto plane_problem(const Cfg &cfg) {
  if constexpr (Cfg::turned != 0)
    return turned_problem<Cfg>{};
  else
    return cfg;
}

/// The pair of 1 and 1.
inline constexpr uint32_t ones = 0x00010001;

/// The taps of one channel by rows and words, and what each of its sums begins with.
template <int KernelH, int KernelW, int Stride> struct channel_taps {
  static constexpr int words = (KernelW + 3) / 4;
  static constexpr int columns = 1;           // outputs at once
  static constexpr index_t reach = 4 * words; // bytes of a row that they read
  uint32_t even[KernelH][words], odd[KernelH][words];
  int32_t start;

  /// weight(ky, kx): a tap. Gives their sum.
  template <class Weight> int32_t load(const Weight &weight) {
    int32_t sum = 0;
    for (index_t ky = 0; ky < KernelH; ++ky)
      unroll<words>([&](auto i) TENON_LAMBDA {
        constexpr int first = 4 * decltype(i)::value;
        const auto tap = [&](auto j) TENON_LAMBDA {
          constexpr int kx = first + decltype(j)::value;
          return kx < KernelW ? weight(ky, kx) : 0;
        };
        even[ky][i] = make_pair16(tap(counter<0>{}), tap(counter<2>{}));
        odd[ky][i] = make_pair16(tap(counter<1>{}), tap(counter<3>{}));
        sum = multiply_add(multiply_add(sum, even[ky][i], ones), odd[ky][i], ones);
      });
    return sum;
  }
  /// Of the output whose window begins at x.
  template <class T> TENON_FN void sum(const T *x, index_t width, int32_t *to) const {
    int32_t acc = start;
    unroll<KernelH>([&](auto ky) TENON_LAMBDA {
      unroll<words>([&](auto i) TENON_LAMBDA {
        const uint32_t bytes = load_word(x + int(ky) * width + 4 * int(i));
        acc = multiply_add(acc, widen<T>::even(bytes), even[ky][i]);
        acc = multiply_add(acc, widen<T>::odd(bytes), odd[ky][i]);
      });
    });
    to[0] = acc;
  }
};

/// Three taps in a row, for two outputs: taps 0 and 2 as a pair, tap 1 of two rows as another.
template <int KernelH, int Stride> struct three_taps {
  static constexpr int columns = 2;
  static constexpr index_t reach = 2 + 2 * Stride;
  uint32_t outer[KernelH], middle[(KernelH + 1) / 2];
  int32_t start;

  template <class Weight> int32_t load(const Weight &weight) {
    int32_t sum = 0;
    for (index_t ky = 0; ky < KernelH; ++ky) {
      outer[ky] = make_pair16(weight(ky, 0), weight(ky, 2));
      sum = multiply_add(sum, outer[ky], ones);
    }
    for (index_t ky = 0; ky < KernelH; ky += 2) {
      middle[ky / 2] = make_pair16(weight(ky, 1), ky + 1 < KernelH ? weight(ky + 1, 1) : 0);
      sum = multiply_add(sum, middle[ky / 2], ones);
    }
    return sum;
  }
  template <class T> TENON_FN void sum(const T *x, index_t width, int32_t *to) const {
    int32_t first = start, second = start;
    unroll<KernelH>([&](auto ky) TENON_LAMBDA {
      constexpr bool high = decltype(ky)::value % 2 != 0;
      const uint32_t taps = outer[ky], tap = middle[int(ky) / 2];
      const T *const row = x + int(ky) * width;
      const uint32_t bytes = load_word(row), even = widen<T>::even(bytes),
                     odd = widen<T>::odd(bytes);
      first = multiply_add(first, even, taps);
      first = multiply_add_halves<false, high>(first, odd, tap);
      if constexpr (Stride == 1) {
        second = multiply_add(second, odd, taps);
        second = multiply_add_halves<true, high>(second, even, tap);
      } else {
        second = multiply_add_halves<true, high>(second, odd, tap);
        second = multiply_add(second, widen<T>::even(load_word(row + 2)), taps);
      }
    });
    to[0] = first;
    to[1] = second;
  }
};
template <int KernelH> struct channel_taps<KernelH, 3, 1> : three_taps<KernelH, 1> {};
template <int KernelH> struct channel_taps<KernelH, 3, 2> : three_taps<KernelH, 2> {};

/// Taps as they are.
template <int KernelH, int KernelW> struct plain_taps {
  static constexpr int columns = 1;
  static constexpr index_t reach = KernelW;
  int32_t taps[KernelH][KernelW], start;

  template <class Weight> int32_t load(const Weight &weight) {
    int32_t sum = 0;
    for (index_t ky = 0; ky < KernelH; ++ky)
      for (index_t kx = 0; kx < KernelW; ++kx)
        sum += taps[ky][kx] = weight(ky, kx);
    return sum;
  }
  template <class T> TENON_FN void sum(const T *x, index_t width, int32_t *to) const {
    int32_t acc = start;
    unroll<KernelH>([&](auto ky) TENON_LAMBDA {
      unroll<KernelW>([&](auto kx) TENON_LAMBDA {
        acc += int32_t(x[int(ky) * width + int(kx)]) * taps[ky][kx];
      });
    });
    to[0] = acc;
  }
};

template <int KernelH, int KernelW, int Stride, bool Plain> struct taps_for {
  using type = channel_taps<KernelH, KernelW, Stride>;
};
template <int KernelH, int KernelW, int Stride> struct taps_for<KernelH, KernelW, Stride, true> {
  using type = plain_taps<KernelH, KernelW>;
};
/// Those of a problem.
template <class P>
using taps_of =
    typename taps_for<int(decltype(P::kernel_h)::value), int(decltype(P::kernel_w)::value),
                      int(decltype(P::stride_w)::value), P::plain != 0>::type;

/// Extents of the plane: what the windows read.
template <class P> constexpr index_t plane_width(const P &p) {
  constexpr index_t columns = taps_of<P>::columns;
  return (ceil_div(index_t(p.out_w), columns) - 1) * columns * index_t(p.stride_w) +
         taps_of<P>::reach;
}
template <class P> constexpr index_t plane_height(const P &p) {
  return (index_t(p.out_h) - 1) * index_t(p.stride_h) + index_t(p.kernel_h);
}

/// How many sums wait for the body at a time.
inline constexpr index_t waiting_sums = 48;

/// Copies the elements of one channel.
template <class T>
TENON_TILE void copy_plane(const T *from, index_t row, index_t column, index_t rows,
                           index_t columns, T *to, index_t width) {
  for (; rows > 0; --rows, from += row, to += width) {
    const T *x = from;
    T *y = to;
    for (index_t left = columns / 4; left > 0; --left, x += 4 * column, y += 4) {
      y[0] = x[0];
      y[1] = x[column];
      y[2] = x[2 * column];
      y[3] = x[3 * column];
    }
    if (columns & 2) {
      y[0] = x[0];
      y[1] = x[column];
      x += 2 * column;
      y += 2;
    }
    if (columns & 1)
      y[0] = x[0];
  }
}

/// The taps of a filter, whose rows in memory are the columns of a turned plane.
template <int KernelH, int KernelW, int Bits, bool Turned, class Taps>
TENON_TILE void load_taps(const int8_t *w, int32_t zero, Taps &taps) {
  taps.start = -zero * taps.load([&](index_t ky, index_t kx) TENON_LAMBDA {
    return weight_fields<Bits, 1>::at(w, Turned ? kx * KernelH + ky : ky * KernelW + kx);
  });
}

/// Sums of `columns` outputs in each of `rows` rows, one after the other; the last of a row may be
/// followed by another value.
template <int Stride, class Taps, class T>
TENON_TILE void depthwise_sums(const Taps &taps_, const T *x, index_t width, index_t step,
                               index_t rows, index_t columns, int32_t *sums) {
  const Taps taps = taps_; // a copy, which what is stored cannot change
  for (; rows > 0; --rows, x += step, sums += columns) {
    const T *window = x;
    int32_t *to = sums;
    const int32_t *const end = sums + columns;
    do {
      taps.sum(window, width, to);
      to += Taps::columns;
      window += Taps::columns * Stride;
    } while (to < end);
  }
}

} // namespace detail

template <class Cfg> constexpr index_t plane_bytes(const Cfg &cfg) {
  const auto p = detail::plane_problem(cfg);
  return detail::plane_width(p) * detail::plane_height(p);
}

template <class Cfg, class X, class Outs, class Ins, class Body>
void depthwise_pairs(const Cfg &cfg, const X &x, const int8_t *w, int32_t zero,
                     detail::bare<typename X::element> *plane, const Outs &outs_, const Ins &ins,
                     const Body &body) {
  using namespace detail;
  using T = bare<typename X::element>;
  using L = scalar_lanes;
  constexpr bool turned = Cfg::turned != 0;
  constexpr int row = turned ? 3 : 2, column = 5 - row; // of the plane, as dimensions of x
  const auto p = plane_problem(cfg);
  constexpr int kernel_h = int(decltype(p.kernel_h)::value),
                kernel_w = int(decltype(p.kernel_w)::value),
                stride_w = int(decltype(p.stride_w)::value), bits = Cfg::weight_bits;
  constexpr index_t filter_bytes = weight_fields<bits, 1>::row_bytes(index_t(kernel_h) * kernel_w);
  const index_t width = plane_width(p), height = plane_height(p), size = width * height;
  const index_t top = p.pad_top, left = p.pad_left;
  const index_t rows = height - top < index_t(p.in_h) ? height - top : index_t(p.in_h);
  const index_t columns = width - left < index_t(p.in_w) ? width - left : index_t(p.in_w);
  const index_t out_h = p.out_h, out_w = p.out_w, step = index_t(p.stride_h) * width;
  // Whole rows, or parts of one.
  const index_t some_columns = out_w < waiting_sums ? out_w : waiting_sums,
                some_rows = waiting_sums / some_columns;
  const Outs outs = outs_;           // a copy, which what is stored cannot change
  for (index_t i = 0; i < size; ++i) // the border stays for all channels
    plane[i] = T(zero);
  taps_of<bare<decltype(p)>> taps;
  int32_t sums[waiting_sums + taps.columns - 1];
  for (index_t n = 0; n < index_t(cfg.batch); ++n)
    for (index_t c = 0; c < index_t(cfg.channels); ++c) {
      index_t at[4] = {n, c, 0, 0};
      copy_plane<T>(x.data + x.offset(at), x.strides.template get<row>(),
                    x.strides.template get<column>(), rows, columns, plane + top * width + left,
                    width);
      load_taps<kernel_h, kernel_w, bits, turned>(w + c * filter_bytes, zero, taps);
      const auto held = hold_inputs<L, 1>(ins, at, fixed<1>{});
      for (index_t oh = 0; oh < out_h; oh += some_rows)
        for (index_t ow = 0; ow < out_w; ow += some_columns) {
          const index_t r = out_h - oh < some_rows ? out_h - oh : some_rows,
                        k = out_w - ow < some_columns ? out_w - ow : some_columns;
          depthwise_sums<stride_w>(taps, plane + oh * step + ow * stride_w, width, step, r, k,
                                   sums);
          if constexpr (turned) {
            for (index_t i = 0; i < r; ++i) {
              at[3] = ow * out_h + oh + i;
              for (index_t j = 0; j < k; ++j, at[3] += out_h)
                apply_body<L, 1>(body, outs, held, at, fixed<1>{}, sums[i * k + j]);
            }
          } else {
            for (index_t i = 0; i < r * k; ++i, ++at[3])
              apply_body<L, 1>(body, outs, held, at, fixed<1>{}, sums[i]);
          }
        }
    }
}

} // namespace cpu
} // namespace tenon

#endif
