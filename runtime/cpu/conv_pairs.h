// Defines conv_pairs: convolution and matrix product of 8-bit integers, by pairs of 16-bit ones.
//
//   y[n, k, o] = body(sum over taps and channels of (x[...] - zero) * w[k, ...], ins...)
//
// The patches of `mr` neighbouring outputs are widened once to 16 bits, less the zero point, so
// that padding is 0 and the zero point costs nothing. Then the weights of `nr` filters are widened
// in registers and multiplied with all mr patches, two products an instruction (common/pairs.h).
// Outputs are numbered along height and width as one dimension.
//
// Config: batch, in_h, in_w, out_h, out_w, filters, channels, kernel_h, kernel_w, stride_h,
//   stride_w, dilation_h, dilation_w, pad_top, pad_left as in conv.h, without groups; filters,
//   channels and kernel fixed
//   mr, nr            schedule: outputs and filters at a time
//   weight_bits       8, or less where weights are fields of words (common/weight_fields.h)
//   joined            pairs of filters in a row of weights (common/joined_weights.h), whose filters
//                     are nr; 0: a row for each filter
// x: view over (n, c, h, w) with taps and channels of a row as one run (c stride fixed<1> and w
// stride fixed<channels>, or one channel and w stride fixed<1>), or channels alone (dilation_w >
// 1). w: [filters][kernel_h][kernel_w][channels], a row for each filter. zero: of x. patches:
// patch_words<Cfg> words, aligned to 8 bytes; null where reads_bytes<Cfg, X>. outs, ins: packs of
// views over (n, k, 0, pixel).
#ifndef TENON_RUNTIME_CPU_CONV_PAIRS_H
#define TENON_RUNTIME_CPU_CONV_PAIRS_H

#include "cpu/conv.h"
#include "cpu/pair_products.h"

namespace tenon {
namespace cpu {
namespace detail {

template <class Cfg>
inline constexpr index_t patch_depth =
    decltype(Cfg::kernel_h)::value *decltype(Cfg::kernel_w)::value *decltype(Cfg::channels)::value;

/// Whether an extent is known to be a multiple of N.
template <index_t N, class D> inline constexpr bool divides = false;
template <index_t N, index_t E> inline constexpr bool divides<N, fixed<E>> = E % N == 0;

/// Widens `count` bytes to pairs, less `zero`; a last group that is not full is filled up with 0.
/// The words of each group of four lie `Step` words behind those before, its odd pair `Odd` words
/// behind its even one.
template <int Step, int Odd, class T>
TENON_FN uint32_t *widen_bytes(const T *from, index_t count, uint32_t minus_zero, uint32_t *to) {
  for (; count >= 4; count -= 4, from += 4, to += Step) {
    const uint32_t bytes = load_word(from);
    to[0] = widen<T>::even(minus_zero, bytes);
    to[Odd] = widen<T>::odd(minus_zero, bytes);
  }
  if (count > 0) {
    const int32_t zero = low16(minus_zero);
    to[0] = make_pair16(from[0] + zero, count > 2 ? from[2] + zero : 0);
    to[Odd] = make_pair16(count > 1 ? from[1] + zero : 0, 0);
    to += Step;
  }
  return to;
}

/// `count` groups of zeros.
template <int Step, int Odd> TENON_FN uint32_t *clear_groups(index_t count, uint32_t *to) {
  for (; count > 0; --count, to += Step)
    to[0] = to[Odd] = 0;
  return to;
}

/// Copies Count bytes, from any address to any other.
template <index_t Count, class T> TENON_FN void copy_run(const T *from, T *to) {
#pragma GCC unroll 4
  for (index_t i = 0; i < Count / 4; ++i)
    store_word(to + 4 * i, load_word(from + 4 * i));
  for (index_t i = Count / 4 * 4; i < Count; ++i)
    to[i] = from[i];
}

/// The patch of one output, whose window starts at row ih, column iw.
template <class Cfg, class X>
TENON_TILE void widen_patch(const Cfg &cfg, const X &x, index_t n, index_t ih, index_t iw,
                            int32_t zero, uint32_t *to) {
  using T = bare<typename X::element>;
  constexpr index_t channels = decltype(cfg.channels)::value,
                    kernel_h = decltype(cfg.kernel_h)::value,
                    kernel_w = decltype(cfg.kernel_w)::value,
                    dilation_w = decltype(cfg.dilation_w)::value;
  const auto channel = x.strides.template get<1>();
  const auto column = x.strides.template get<3>();
  // Runs of memory: the channels of a tap, and perhaps all taps of a row. Groups of four must not
  // cross their ends: else bytes are collected first.
  constexpr bool run_of_channels = channels == 1 || is_same<bare<decltype(channel)>, fixed<1>>;
  constexpr bool run_of_taps = run_of_channels && dilation_w == 1 &&
                               (kernel_w == 1 || is_same<bare<decltype(column)>, fixed<channels>>);
  constexpr bool in_place = run_of_channels && channels % 4 == 0;
  constexpr index_t columns = run_of_taps || (!in_place && dilation_w == 1) ? kernel_w : 1;
  constexpr bool copies = run_of_taps || columns * channels <= 16; // in little code
  constexpr index_t depth = patch_depth<Cfg>;
  constexpr int step = 2 * Cfg::mr, odd = Cfg::joined ? Cfg::mr : 1;
  const uint32_t minus_zero = make_pair16(-zero, -zero);
  if constexpr (kernel_h == 1 && kernel_w == 1 && run_of_channels) {
    const index_t at[4] = {n, 0, ih, iw};
    widen_bytes<step, odd>(x.data + x.offset(at), channels, minus_zero, to);
  } else {
    T bytes[in_place ? 1 : depth];
    [[maybe_unused]] T *byte = bytes;
    for (index_t ky = 0; ky < kernel_h; ++ky) {
      const index_t h = ih + ky * index_t(cfg.dilation_h);
      for (index_t kx = 0; kx < kernel_w; kx += columns) {
        const index_t w0 = iw + kx * dilation_w, in_w = cfg.in_w;
        // Those of the columns that are inside the image.
        index_t first = w0 < 0 ? (-w0 < columns ? -w0 : columns) : 0;
        index_t last = in_w - w0 < columns ? in_w - w0 : columns;
        if (h < 0 || h >= index_t(cfg.in_h) || last <= first)
          first = last = 0;
        const index_t at[4] = {n, 0, h, w0 + first};
        const T *from = first < last ? x.data + x.offset(at) : x.data;
        if constexpr (in_place) {
          to = clear_groups<step, odd>(first * channels / 4, to);
          to = widen_bytes<step, odd>(from, (last - first) * channels, minus_zero, to);
          to = clear_groups<step, odd>((columns - last) * channels / 4, to);
        } else if (copies && last - first == columns) { // inside, as nearly all are
          if constexpr (run_of_taps)
            copy_run<columns * channels>(from, byte);
          else if constexpr (copies)
            unroll<int(channels)>([&](auto c) TENON_LAMBDA {
              unroll<int(columns)>([&](auto i) TENON_LAMBDA {
                byte[int(i) * channels + int(c)] =
                    from[int(c) * index_t(channel) + int(i) * index_t(column)];
              });
            });
          byte += columns * channels;
        } else {
          for (index_t i = 0; i < first * channels; ++i)
            *byte++ = T(zero);
          for (index_t i = first; i < last; ++i, from += index_t(column))
            for (index_t c = 0; c < channels; ++c)
              *byte++ = from[c * index_t(channel)];
          for (index_t i = last * channels; i < columns * channels; ++i)
            *byte++ = T(zero);
        }
      }
    }
    if constexpr (!in_place)
      widen_bytes<step, odd>(bytes, depth, minus_zero, to);
  }
}

/// The bodies of MR neighbouring outputs of one filter; all are computed before any is stored, so
/// that what they share is loaded once.
template <int MR, int... I, int... O, class Outs, class Ins, class Body>
TENON_FN void finish_outputs(indices<I...>, indices<O...>, const int32_t (&acc)[MR],
                             const index_t *at, const Outs &outs, const Ins &ins,
                             const Body &body) {
  using L = scalar_lanes;
  using R = decltype(body(L{}, acc[0], load_at<L, 1>(ins.template get<I>(), at, fixed<1>{})...));
  R results[MR];
  unroll<MR>([&](auto r) TENON_LAMBDA {
    [[maybe_unused]] const index_t point[4] = {at[0], at[1], at[2], at[3] + int(r)};
    results[r] = body(L{}, acc[r], load_at<L, 1>(ins.template get<I>(), point, fixed<1>{})...);
  });
  unroll<MR>([&](auto r) TENON_LAMBDA {
    const index_t point[4] = {at[0], at[1], at[2], at[3] + int(r)};
    store_results<L, 1>(indices<O...>{}, outs, point, results[r], fixed<1>{});
  });
}

/// MR outputs of all filters, NR at a time.
template <int MR, class Cfg, class Source, class Outs, class Ins, class Body>
TENON_TILE void filter_patches(const Cfg &cfg, const int8_t *w, Source patches, index_t n,
                               index_t pixel, const Outs &outs_, const Ins &ins_,
                               const Body &body) {
  constexpr int nr = Cfg::nr, step = 2 * Cfg::mr;
  constexpr bool joined = Cfg::joined != 0;
  static_assert(!joined || nr == 2 * Cfg::joined, "a row has the filters of a step");
  constexpr index_t filters = decltype(cfg.filters)::value, depth = patch_depth<Cfg>;
  const Outs outs = outs_; // copies, which what is stored cannot change
  const Ins ins = ins_;
  index_t at[4] = {n, 0, 0, pixel};
  const auto some = [&](auto count) TENON_LAMBDA {
    constexpr int NR = decltype(count)::value;
    int32_t acc[joined ? nr : NR][MR] = {};
    if constexpr (joined)
      multiply_joined_patches<MR, Cfg::joined, step, depth>(w, patches, acc);
    else
      multiply_patches<MR, NR, step, depth, Cfg::weight_bits>(w, patches, acc);
    unroll<NR>([&](auto k) TENON_LAMBDA {
      finish_outputs<MR>(indices_to<Ins::count>{}, indices_to<Outs::count>{}, acc[k], at, outs, ins,
                         body);
      ++at[1];
    });
    w += joined ? joined_weights<Cfg::joined>::row_bytes(depth)
                : NR * weight_fields<Cfg::weight_bits, 4>::row_bytes(depth);
  };
  for (index_t k = 0; k < filters / nr; ++k)
    some(fixed<nr>{});
  if constexpr (filters % nr != 0)
    some(fixed<filters % nr>{});
}

/// Whether outputs are computed one at a time from bytes as they lie: windows of one tap, whose
/// channels are a run of whole groups.
template <class Cfg, class X>
inline constexpr bool reads_bytes =
    Cfg::mr == 1 &&
    patch_depth<Cfg> == decltype(Cfg::channels)::value &&decltype(Cfg::channels)::value % 4 == 0 &&
    decltype(Cfg::pad_top)::value == 0 && decltype(Cfg::pad_left)::value == 0 &&
    is_same<bare<decltype(X{}.strides.template get<1>())>, fixed<1>>;

} // namespace detail

/// Words of all patches.
template <class Cfg>
inline constexpr index_t patch_words = 2 * Cfg::mr *ceil_div(detail::patch_depth<Cfg>, 4);

template <class Cfg, class X, class Outs, class Ins, class Body>
void conv_pairs(const Cfg &cfg, const X &x, const int8_t *w, int32_t zero, uint32_t *patches,
                const Outs &outs, const Ins &ins, const Body &body) {
  using namespace detail;
  constexpr int mr = Cfg::mr, next = Cfg::joined ? 1 : 2; // words from patch to patch
  const uint32_t *const tile = patches;
  const index_t out_w = cfg.out_w, pixels = index_t(cfg.out_h) * out_w;
  using Area = decltype(product(cfg.out_h, cfg.out_w));
  constexpr bool whole = divides<mr, Area>; // no tile is partly outside
  if constexpr (reads_bytes<Cfg, X>) {
    using T = bare<typename X::element>;
    for (index_t n = 0; n < index_t(cfg.batch); ++n)
      for (index_t pixel = 0; pixel < pixels; ++pixel) {
        const index_t at[4] = {n, 0, pixel / out_w * index_t(cfg.stride_h),
                               pixel % out_w * index_t(cfg.stride_w)};
        const byte_patch<T> patch{x.data + x.offset(at), make_pair16(-zero, -zero)};
        filter_patches<1>(cfg, w, patch, n, pixel, outs, ins, body);
      }
    return;
  }
  for (index_t n = 0; n < index_t(cfg.batch); ++n) {
    index_t oh = 0, ow = 0;
    for (index_t pixel = 0; pixel < pixels; pixel += mr) {
      const index_t count = pixels - pixel < mr ? pixels - pixel : mr;
      for (index_t r = 0; r < count; ++r) {
        widen_patch(cfg, x, n, oh * index_t(cfg.stride_h) - index_t(cfg.pad_top),
                    ow * index_t(cfg.stride_w) - index_t(cfg.pad_left), zero, patches + next * r);
        if (++ow == out_w) {
          ow = 0;
          ++oh;
        }
      }
      if (whole || count == mr)
        filter_patches<mr>(cfg, w, tile, n, pixel, outs, ins, body);
      if constexpr (!whole) // the last few, one by one
        for (index_t r = 0; count < mr && r < count; ++r)
          filter_patches<1>(cfg, w, tile + next * r, n, pixel + r, outs, ins, body);
    }
  }
}

} // namespace cpu
} // namespace tenon

#endif
