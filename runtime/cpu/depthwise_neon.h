// Defines neon_row: one output row of depthwise_bytes for up to eight channels, on aarch64.
//
// Inputs are widened to 16 bits less the zero point, so that what lies outside the image is 0, and
// meet each tap in two instructions (smlal). A column of a row of the window is widened once for
// all outputs of a tile that it meets.
#ifndef TENON_RUNTIME_CPU_DEPTHWISE_NEON_H
#define TENON_RUNTIME_CPU_DEPTHWISE_NEON_H

#include "common/byte_products.h"
#include "cpu/depthwise.h"
#include "cpu/held_inputs.h"

#if TENON_NEON_PRODUCTS
#include <arm_neon.h>

namespace tenon {
namespace cpu {
namespace detail {

/// The first Count of eight bytes, `channel` elements apart, less the zero point.
template <class Count, class T, class Channel>
TENON_FN int16x8_t eight_inputs(const T *x, Channel channel, uint8x8_t zero) {
  uint8x8_t bytes;
  if constexpr (Count::value == 8 && is_same<Channel, fixed<1>>) {
    bytes = vld1_u8(reinterpret_cast<const uint8_t *>(x));
  } else {
    uint8_t some[8] = {};
    if constexpr (is_same<Channel, fixed<1>>)
      memcpy(some, x, size_t(Count::value));
    else
      for (index_t c = 0; c < Count::value; ++c)
        some[c] = uint8_t(x[c * index_t(channel)]);
    bytes = vld1_u8(some);
  }
  if constexpr (is_signed<T>)
    return vsubl_s8(vreinterpret_s8_u8(bytes), vreinterpret_s8_u8(zero));
  else
    return vreinterpretq_s16_u16(vsubl_u8(bytes, zero));
}

/// The body for Count channels of each of `columns` outputs.
template <class Count, class Outs, class Ins, class Body>
TENON_FN void neon_results(const int32_t (*results)[8], index_t columns, index_t ow,
                           const index_t *at_, Count, const Outs &outs, const Ins &ins,
                           const Body &body) {
  using L = native_lanes;
  unroll<int(ceil_div(Count::value, L::width))>([&](auto v) TENON_LAMBDA {
    constexpr index_t first = int(decltype(v)::value) * L::width, left = Count::value - first;
    constexpr fixed<(left < L::width ? left : L::width)> some{};
    index_t at[4] = {at_[0], at_[1] + first, at_[2], ow};
    const auto held = hold_inputs<L, 1>(ins, at, some);
    for (index_t r = 0; r < columns; ++r, ++at[3])
      apply_body<L, 1>(body, outs, held, at, some, load<L>(results[r] + first));
  });
}

/// The row for Count channels at at[1], whose window starts at row ih.
template <class Cfg, class X, class Count, class Outs, class Ins, class Body, class Zeros>
TENON_TILE void neon_row(const Cfg &cfg, const X &x, const int8_t *w, int32_t zero, index_t ih,
                         const index_t *at, Count count, const Outs &outs, const Ins &ins,
                         const Body &body, const Zeros &zero_of) {
  using T = bare<typename X::element>;
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
  const uint8x8_t zeros = vdup_n_u8(uint8_t(zero));
  const bool rows_inside = ih >= 0 && ih + (kernel_h - 1) * dilation_h < in_h;
  const index_t point[4] = {at[0], at[1], 0, 0};
  const T *first_row = x.data + x.offset(point) + ih * index_t(x.strides.template get<2>());
  int16x8_t weights[kernel_h * kernel_w];
  unroll<kernel_h * kernel_w>([&](auto i)
                                  TENON_LAMBDA { weights[i] = vmovl_s8(vld1_s8(w + 8 * int(i))); });
  if constexpr (Zeros::any) {
    const auto negated = [&](index_t channel) TENON_LAMBDA {
      return vmovn_s32((int32x4_t)zero_of.apply(i32<native_lanes>{}, channel, 1));
    };
    const int16x8_t less = vcombine_s16(negated(at[1]), negated(at[1] + 4));
    unroll<kernel_h * kernel_w>([&](auto i)
                                    TENON_LAMBDA { weights[i] = vaddq_s16(weights[i], less); });
  }

  alignas(16) int32_t results[mr][8];
  // One tile; Checked when an input may lie outside the image.
  const auto tile = [&](index_t ow, auto checked) TENON_LAMBDA {
    constexpr bool is_checked = decltype(checked)::value != 0;
    const index_t iw = ow * stride - index_t(cfg.pad_left);
    const T *corner = first_row + iw * index_t(column);
    int32x4_t low[mr], high[mr];
    unroll<mr>([&](auto r) TENON_LAMBDA { low[r] = high[r] = vdupq_n_s32(0); });
    unroll<kernel_h>([&](auto ky) TENON_LAMBDA {
      const index_t h = ih + int(ky) * dilation_h;
      if (is_checked && !rows_inside && (h < 0 || h >= in_h))
        return;
      unroll<span>([&](auto j) TENON_LAMBDA {
        if (is_checked && (iw + int(j) < 0 || iw + int(j) >= in_w))
          return;
        const int16x8_t value =
            eight_inputs<Count>(corner + int(ky) * row + int(j) * index_t(column), channel, zeros);
        // Column j meets output r through tap kx where r*stride + kx*dilation = j.
        unroll<kernel_w>([&](auto kx) TENON_LAMBDA {
          constexpr int distance = decltype(j)::value - decltype(kx)::value * dilation;
          if constexpr (distance >= 0 && distance % stride == 0 && distance / stride < mr) {
            constexpr int r = distance / stride;
            const int16x8_t tap = weights[int(ky) * kernel_w + int(kx)];
            low[r] = vmlal_s16(low[r], vget_low_s16(value), vget_low_s16(tap));
            high[r] = vmlal_high_s16(high[r], value, tap);
          }
        });
      });
    });
    unroll<mr>([&](auto r) TENON_LAMBDA {
      vst1q_s32(results[r], low[r]);
      vst1q_s32(results[r] + 4, high[r]);
    });
  };
  const Outs to = outs; // what a store of bytes cannot change
  for (index_t ow = 0; ow < out_w; ow += mr) {
    const index_t iw = ow * stride - index_t(cfg.pad_left);
    if (rows_inside && iw >= 0 && iw + span <= in_w)
      tile(ow, counter<0>{});
    else
      tile(ow, counter<1>{});
    neon_results(results, out_w - ow < mr ? out_w - ow : mr, ow, at, count, to, ins, body);
  }
}

} // namespace detail
} // namespace cpu
} // namespace tenon
#endif

#endif
