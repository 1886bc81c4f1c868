// Defines depthwise_bytes: depthwise convolution of 8-bit integers with exact 32-bit sums.
//
//   y[n, c, oh, ow] = body(sum over ky, kx of (x[...] - zero) * w[c, ky, kx], ins...)
//
// Lanes run along the channels. The bytes of a column in up to four rows of the window are put into
// one word a lane, once for all outputs of a tile that it meets, and multiplied with the weights of
// these four taps at a time (common/byte_products.h). Outside the image x is the zero point. Sums
// that cannot subtract the zero point start at minus its product with the sum of the weights.
// aarch64 has a way of its own (cpu/depthwise_neon.h), of eight channels and single taps.
//
// Config: as of depthwise.h, without multiplier; channels and kernel fixed
//   mr                 schedule: output columns of a tile
//   short_words, fits_signs    as of conv_bytes.h; at most 1, of all words
// x: view over (n, c, h, w) of int8_t or uint8_t; c stride fixed<1> for vector loads.
// w: int8_t [ceil(channels / lanes)][ceil(kernel_h / 4)][kernel_w][lanes][4], zeros where something
// is missing; on aarch64 [ceil(channels / 8)][kernel_h][kernel_w][8]. sums: of each channel's
// weights, [ceil(channels / lanes) * lanes]. zero: of x. outs, ins: packs of views over (n, c, oh,
// ow). zeros: of the weights (cpu/byte_sums.h); where there are some, x are summed up beside the
// products, and on aarch64 they are taken from the weights as these are widened.
#ifndef TENON_RUNTIME_CPU_DEPTHWISE_BYTES_H
#define TENON_RUNTIME_CPU_DEPTHWISE_BYTES_H

#include "cpu/byte_sums.h"
#include "cpu/depthwise_neon.h"

namespace tenon {
namespace cpu {
namespace detail {

/// One output row for the lanes at channel at[1], whose window starts at row ih.
template <class How, class Cfg, class X, class Count, class Outs, class Ins, class Body,
          class Zeros>
TENON_TILE void bytes_row(const Cfg &cfg, const X &x, const int8_t *w, const int32_t *sums,
                          int32_t zero, index_t ih, index_t *at, Count count, const Outs &outs,
                          const Ins &ins, const Body &body, const Zeros &zero_of) {
  using T = bare<typename X::element>;
  using L = native_lanes;
  using V = i32<L>;
  constexpr int mr = Cfg::mr;
  constexpr int kernel_h = int(decltype(cfg.kernel_h)::value),
                kernel_w = int(decltype(cfg.kernel_w)::value),
                stride = int(decltype(cfg.stride_w)::value),
                dilation = int(decltype(cfg.dilation_w)::value);
  constexpr int span = (mr - 1) * stride + (kernel_w - 1) * dilation + 1;
  const index_t out_w = cfg.out_w, in_w = cfg.in_w, in_h = cfg.in_h;
  const auto column = x.strides.template get<3>();
  const auto channel = x.strides.template get<1>();
  const index_t dilation_h = cfg.dilation_h;
  const index_t row = index_t(x.strides.template get<2>()) * dilation_h;
  const V zeros = broadcast<L, int32_t>(int32_t(uint8_t(zero)));
  const bool rows_inside = ih >= 0 && ih + (kernel_h - 1) * dilation_h < in_h;
  V first = V{};
  if constexpr (!How::subtracts_zero)
    first = load<L>(sums) * -(zero + How::template offset<T>);
  const V no_window = broadcast<L, int32_t>(
      How::subtracts_zero ? 0 : -(zero + How::template offset<T>)*kernel_h * kernel_w);

  alignas(64) int32_t results[mr][L::width];
  // One tile; Checked when an input may lie outside the image.
  const auto tile = [&](index_t ow, auto checked) TENON_LAMBDA {
    constexpr bool is_checked = decltype(checked)::value != 0;
    const index_t iw = ow * stride - index_t(cfg.pad_left);
    V acc[mr], windows[Zeros::any ? mr : 1];
    unroll<mr>([&](auto r) TENON_LAMBDA { acc[r] = first; });
    if constexpr (Zeros::any)
      unroll<mr>([&](auto r) TENON_LAMBDA { windows[r] = no_window; });
    const index_t point[4] = {at[0], at[1], 0, 0};
    const T *corner =
        x.data + x.offset(point) + ih * index_t(x.strides.template get<2>()) + iw * index_t(column);
    const int8_t *panel = w;
    unroll<(kernel_h + 3) / 4>([&](auto group) TENON_LAMBDA {
      constexpr int ky = 4 * decltype(group)::value, rows = kernel_h - ky < 4 ? kernel_h - ky : 4;
      V weights[How::halves][kernel_w];
      unroll<kernel_w>([&](auto kx) TENON_LAMBDA {
        V four;
        memcpy(&four, panel + int(kx) * 4 * L::width, sizeof(four));
        unroll<How::halves>([&](auto half) TENON_LAMBDA {
          weights[half][kx] = How::template weights<L, decltype(half)::value>(four);
        });
      });
      panel += kernel_w * 4 * L::width;
      unroll<span>([&](auto j) TENON_LAMBDA {
        const bool column_inside = !is_checked || (iw + int(j) >= 0 && iw + int(j) < in_w);
        V four = V{};
        unroll<rows>([&](auto i) TENON_LAMBDA {
          const index_t h = ih + (ky + int(i)) * dilation_h;
          V byte = zeros;
          if (!is_checked || (column_inside && (rows_inside || (h >= 0 && h < in_h))))
            byte = convert<i32<L>>(
                load_strided<L>(reinterpret_cast<const uint8_t *>(corner + (ky + int(i)) * row +
                                                                  int(j) * index_t(column)),
                                channel, index_t(count)));
          four = four | (byte << (8 * int(i)));
        });
        // Column j meets output r through tap kx where r*stride + kx*dilation = j.
        const auto each = [&](const auto &of) TENON_LAMBDA {
          unroll<kernel_w>([&](auto kx) TENON_LAMBDA {
            constexpr int distance = decltype(j)::value - decltype(kx)::value * dilation;
            if constexpr (distance >= 0 && distance % stride == 0 && distance / stride < mr)
              of(counter<distance / stride>{}, kx);
          });
        };
        const auto sum = [&](auto half, V value) TENON_LAMBDA {
          if constexpr (Zeros::any)
            each([&](auto r, auto) TENON_LAMBDA {
              windows[r] = add_bytes<How, decltype(half)::value>(
                  windows[r], value, broadcast<L, int32_t>(0x01010101 >> (8 * (4 - rows))));
            });
        };
        if constexpr (How::has_signs) {
          V value = How::template from_bytes<L, T, 0>(four, zero),
            magnitude = How::template from_bytes<L, T, 1>(four, zero);
          hold(value);
          hold(magnitude);
          each([&](auto r, auto kx) TENON_LAMBDA {
            acc[r] = How::template multiply_add<L>(acc[r], value, magnitude, weights[0][kx]);
          });
          sum(counter<0>{}, value);
        } else {
          unroll<How::halves>([&](auto half) TENON_LAMBDA {
            V value = How::template from_bytes<L, T, decltype(half)::value>(four, zero);
            hold(value);
            each([&](auto r, auto kx) TENON_LAMBDA {
              acc[r] = How::template multiply_add<L>(acc[r], value, weights[half][kx]);
            });
            sum(half, value);
          });
        }
      });
    });
    unroll<mr>([&](auto r) TENON_LAMBDA {
      store<L>(results[r], zero_of.apply(acc[r], at[1], windows[Zeros::any ? int(r) : 0]));
    });
  };
  const Outs to = outs; // what a store of bytes cannot change
  const auto held = hold_inputs<L, 1>(ins, at, count);
  for (index_t ow = 0; ow < out_w; ow += mr) {
    const index_t iw = ow * stride - index_t(cfg.pad_left);
    if (rows_inside && iw >= 0 && iw + span <= in_w)
      tile(ow, counter<0>{});
    else
      tile(ow, counter<1>{});
    // Through memory, so that the body stands in the code but once.
    for (index_t r = 0; r < mr && ow + r < out_w; ++r) {
      at[3] = ow + r;
      apply_body<L, 1>(body, to, held, at, count, load<L>(results[r]));
    }
  }
}

/// How many channels a row takes at once, and bytes of their weights.
template <class How, class Cfg> struct depthwise_block {
  static constexpr index_t kernel_h = decltype(Cfg::kernel_h)::value,
                           kernel_w = decltype(Cfg::kernel_w)::value;
  static constexpr index_t lanes = native_lanes::width,
                           bytes = ceil_div(kernel_h, 4) * kernel_w * lanes * 4;
};
#if TENON_NEON_PRODUCTS
template <class Cfg> struct depthwise_block<tap_products, Cfg> {
  static constexpr index_t lanes = 8, bytes = decltype(Cfg::kernel_h)::value *
                                              decltype(Cfg::kernel_w)::value * lanes;
};
#endif

/// depthwise_bytes with the products How.
template <class How, class Cfg, class X, class Outs, class Ins, class Body,
          class Zeros = no_weight_zeros>
void depthwise_bytes_by(const Cfg &cfg, const X &x, const int8_t *w, const int32_t *sums,
                        int32_t zero, const Outs &outs, const Ins &ins, const Body &body,
                        pool &workers, const Zeros &zeros = {}) {
  constexpr index_t width = depthwise_block<How, Cfg>::lanes,
                    panel = depthwise_block<How, Cfg>::bytes;
  constexpr index_t channels = decltype(cfg.channels)::value, blocks = ceil_div(channels, width),
                    kernel_h = decltype(cfg.kernel_h)::value,
                    kernel_w = decltype(cfg.kernel_w)::value;
  odometer<3> space;
  space.extents[0] = cfg.batch;
  space.extents[1] = cfg.out_h;
  space.extents[2] = blocks;
  const index_t row_work = index_t(cfg.out_w) * kernel_h * kernel_w;
  workers.parallel_for(space.size(), 1 + 16384 / (row_work + 1), [&](index_t begin, index_t end) {
    const subnormals_as_zero guard;
    odometer<3> it = space;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      const index_t block = it.at[2];
      index_t at[4] = {it.at[0], block * width, it.at[1], 0};
      const index_t ih = it.at[1] * index_t(cfg.stride_h) - index_t(cfg.pad_top);
      const auto some = [&](auto count) TENON_LAMBDA {
#if TENON_NEON_PRODUCTS
        if constexpr (is_same<How, tap_products>)
          return neon_row(cfg, x, w + block * panel, zero, ih, at, count, outs, ins, body, zeros);
        else
#endif
          bytes_row<How>(cfg, x, w + block * panel, sums + block * width, zero, ih, at, count, outs,
                         ins, body, zeros);
      };
      if constexpr (channels >= width)
        if (block < channels / width)
          some(fixed<width>{});
      if constexpr (channels % width != 0)
        if (block == channels / width)
          some(fixed<channels % width>{});
    }
  });
}

} // namespace detail

template <class Cfg, class X, class Outs, class Ins, class Body, class Zeros = no_weight_zeros>
void depthwise_bytes(const Cfg &cfg, const X &x, const int8_t *w, const int32_t *sums, int32_t zero,
                     const Outs &outs, const Ins &ins, const Body &body, pool &workers,
                     const Zeros &zeros = {}) {
#if TENON_NEON_PRODUCTS
  detail::depthwise_bytes_by<tap_products>(cfg, x, w, sums, zero, outs, ins, body, workers, zeros);
#else
  detail::by_byte_products<Cfg>([&](auto how) TENON_LAMBDA {
    detail::depthwise_bytes_by<decltype(how)>(cfg, x, w, sums, zero, outs, ins, body, workers,
                                              zeros);
  });
#endif
}

} // namespace cpu
} // namespace tenon

#endif
