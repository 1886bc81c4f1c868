// Defines conv_shared and depthwise_shared: sums of products of 8-bit integers whose extents are
// numbers in memory, so that the layers of a network share their code (--optimize=size).
//
//   y[n, k, o] = body(sum over taps and channels of (x[...] - zero) * w[k, ...], ins...)
//
// conv_shared widens the patches of MR neighbouring outputs to pairs of 16-bit integers, less the
// zero point, and multiplies each filter with all of them, two products an instruction where the
// core has such (common/pairs.h). depthwise_shared takes the taps that lie inside the image one by
// one. Outputs are numbered along height and width as one dimension. Sums go to the body through a
// function pointer: only that function is there once for each kind of body.
//
// Bits: of weights, 8 or less where they are fields of words, those of depthwise_shared of bytes
// (common/weight_fields.h).
//
// x: the first element of its image.
// w: [filters][kernel_h][kernel_w][channels], a row for each filter.
// patches: 2 * MR * ceil(depth / 4) words, aligned to 8 bytes, where depth is the product of
// kernel_h, kernel_w and channels. MR: 1 where there is one output only, else 4.
#ifndef TENON_RUNTIME_CPU_CONV_SHARED_H
#define TENON_RUNTIME_CPU_CONV_SHARED_H

#include "cpu/conv_pairs.h"

namespace tenon {
namespace cpu {

/// Extents of one layer. Depthwise: `filters` channels, one filter each.
struct window_shape {
  int16_t batch, in_h, in_w, out_h, out_w, filters, channels, kernel_h, kernel_w;
  int16_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, zero;
  int32_t x_strides[4]; // over (n, c, h, w)
};

namespace detail {

/// What becomes of the sum at (n, k, 0, pixel).
struct shared_finish {
  void (*run)(const shared_finish &self, const index_t *at, int32_t sum);
};

/// A view over (n, k, 0, pixel) as what differs between layers: an address, and strides unless it
/// has one element for each filter.
template <class T, class N, class K, class Pixel> struct shared_operand {
  T *data;
  int32_t n, k, pixel;
  template <class View>
  TENON_FN explicit shared_operand(const View &v)
      : data(v.data), n(int32_t(v.strides.template get<0>())),
        k(int32_t(v.strides.template get<1>())), pixel(int32_t(v.strides.template get<3>())) {}
  TENON_FN T *at(const index_t *i) const { return data + (i[0] * n + i[1] * k + i[3] * pixel); }
};
template <class T> struct shared_operand<T, fixed<0>, fixed<1>, fixed<0>> {
  T *data;
  template <class View> TENON_FN explicit shared_operand(const View &v) : data(v.data) {}
  TENON_FN T *at(const index_t *i) const { return data + i[1]; }
};
template <class View>
using shared_operand_of =
    shared_operand<typename View::element, bare<decltype(View{}.strides.template get<0>())>,
                   bare<decltype(View{}.strides.template get<1>())>,
                   bare<decltype(View{}.strides.template get<3>())>>;

template <class T, class V> TENON_FN void store_one(T *to, V x) {
  store_strided<scalar_lanes, T>(to, fixed<1>{}, x, 1);
}
template <class T> TENON_FN auto load_one(const T *from) {
  return load_strided<scalar_lanes, bare<T>>(from, fixed<1>{}, 1);
}

/// A body of one result with its operands.
template <class Out, class Body, class... Ins> struct shared_body : shared_finish {
  const Body &body;
  shared_operand_of<Out> out;
  arguments<shared_operand_of<Ins>...> ins;
  template <class... Views>
  TENON_FN shared_body(const Body &b, const Out &o, const Views &...i)
      : shared_finish{apply}, body(b), out(o), ins(pack(shared_operand_of<Views>(i)...)) {}
  static void apply(const shared_finish &self, const index_t *at, int32_t sum) {
    const shared_body &s = static_cast<const shared_body &>(self);
    s.store(indices_to<int(sizeof...(Ins))>{}, at, sum);
  }
  template <int... I> TENON_FN void store(indices<I...>, const index_t *at, int32_t sum) const {
    store_one(out.at(at), body(scalar_lanes{}, sum, load_one(ins.template get<I>().at(at))...));
  }
};

/// Takes values one by one and writes groups of four as two words, `step` words apart.
struct group_writer {
  uint32_t *to;
  index_t step;
  int32_t four[4];
  int filled;
  TENON_FN void put(int32_t value) {
    four[filled] = value;
    if (++filled == 4) {
      to[0] = make_pair16(four[0], four[2]);
      to[1] = make_pair16(four[1], four[3]);
      to += step;
      filled = 0;
    }
  }
};

/// The patch of the output whose window starts at row ih, column iw.
template <class T>
void widen_shared(const window_shape &s, const T *x, index_t ih, index_t iw, index_t step,
                  uint32_t *to) {
  const uint32_t minus_zero = make_pair16(-s.zero, -s.zero);
  const index_t channel = s.x_strides[1], channels = s.channels;
  const bool in_place = channel == 1 && channels % 4 == 0;
  group_writer values{to, step, {}, 0};
  for (index_t ky = 0, h = ih; ky < s.kernel_h; ++ky, h += s.dilation_h)
    for (index_t kx = 0, v = iw; kx < s.kernel_w; ++kx, v += s.dilation_w) {
      const bool inside = h >= 0 && h < s.in_h && v >= 0 && v < s.in_w;
      const T *from = x + (inside ? h * s.x_strides[2] + v * s.x_strides[3] : 0);
      if (in_place && inside) {
        for (index_t c = 0; c < channels; c += 4, values.to += step) {
          const uint32_t bytes = load_word(from + c);
          values.to[0] = widen<T>::even(minus_zero, bytes);
          values.to[1] = widen<T>::odd(minus_zero, bytes);
        }
        continue;
      }
      for (index_t c = 0; c < channels; ++c)
        values.put(inside ? int32_t(from[c * channel]) - s.zero : 0);
    }
  while (values.filled)
    values.put(0);
}

/// acc[r] = the product of one filter with patch r of MR. Gives the next filter.
template <int MR, int Bits>
TENON_FN const int8_t *multiply_shared(const int8_t *w, const uint32_t *x, index_t depth,
                                       int32_t (&sums)[MR]) {
  using fields = weight_fields<Bits, 4>;
  int32_t acc[1][MR] = {};
  if constexpr (Bits < 8)
    for (; depth > 0; w += 4) {
      uint32_t word = load_word(w);
      for (int g = 0; g < fields::groups && depth > 0; ++g, depth -= 4, x += 2 * MR) {
        multiply_group<MR, 1, 0>([&](auto) TENON_LAMBDA { return fields::group(word, 0); }, x, acc);
        word <<= Bits;
      }
    }
  for (; depth >= 4; depth -= 4, w += 4, x += 2 * MR)
    multiply_group<MR, 1, 0>([&](auto) TENON_LAMBDA { return load_word(w); }, x, acc);
  if (depth > 0) {
    uint32_t last = 0;
    for (index_t i = 0; i < depth; ++i)
      last |= uint32_t(uint8_t(w[i])) << 8 * i;
    multiply_group<MR, 1, 0>([&](auto) TENON_LAMBDA { return last; }, x, acc);
    w += depth;
  }
  unroll<MR>([&](auto r) TENON_LAMBDA { sums[r] = fields::descale(acc[0][r]); });
  return w;
}

template <int MR, int Bits, class T>
void conv_sums(const window_shape &s, const T *x, const int8_t *w, uint32_t *patches,
               const shared_finish &finish) {
  const index_t pixels = index_t(s.out_h) * s.out_w;
  const index_t depth = index_t(s.kernel_h) * s.kernel_w * s.channels;
  for (index_t n = 0; n < s.batch; ++n, x += s.x_strides[0]) {
    index_t oh = 0, ow = 0;
    for (index_t pixel = 0; pixel < pixels; pixel += MR) {
      const index_t count = pixels - pixel < MR ? pixels - pixel : MR;
      for (int r = 0; r < MR; ++r) { // those beyond the last output take its patch
        widen_shared(s, x, oh * s.stride_h - s.pad_top, ow * s.stride_w - s.pad_left, 2 * MR,
                     patches + 2 * r);
        if (r + 1 < count && ++ow == s.out_w) {
          ow = 0;
          ++oh;
        }
      }
      if (++ow == s.out_w) {
        ow = 0;
        ++oh;
      }
      const int8_t *filter = w;
      for (index_t k = 0; k < s.filters; ++k) {
        int32_t sums[MR];
        filter = multiply_shared<MR, Bits>(filter, patches, depth, sums);
        for (index_t r = 0; r < count; ++r) {
          const index_t at[4] = {n, k, 0, pixel + r};
          finish.run(finish, at, sums[r]);
        }
      }
    }
  }
}

template <int Bits, class T>
void depthwise_sums(const window_shape &s, const T *x, const int8_t *w,
                    const shared_finish &finish) {
  const auto first = [](index_t start, index_t dilation) { // the first tap that is not before 0
    return start < 0 ? ceil_div(-start, dilation) : 0;
  };
  const auto end = [](index_t start, index_t dilation, index_t extent, index_t taps) {
    const index_t inside = extent > start ? ceil_div(extent - start, dilation) : 0;
    return inside < taps ? inside : taps;
  };
  using fields = weight_fields<Bits, 1>;
  const index_t kernel_w = s.kernel_w, zero = s.zero;
  const index_t filter_bytes = fields::row_bytes(s.kernel_h * kernel_w);
  const index_t row = index_t(s.dilation_h) * s.x_strides[2],
                column = index_t(s.dilation_w) * s.x_strides[3];
  for (index_t n = 0; n < s.batch; ++n, x += s.x_strides[0]) {
    index_t at[4] = {n, 0, 0, 0};
    for (index_t oh = 0; oh < s.out_h; ++oh)
      for (index_t ow = 0; ow < s.out_w; ++ow, ++at[3]) {
        const index_t ih = oh * s.stride_h - s.pad_top, iw = ow * s.stride_w - s.pad_left;
        const index_t top = first(ih, s.dilation_h), left = first(iw, s.dilation_w),
                      bottom = end(ih, s.dilation_h, s.in_h, s.kernel_h),
                      right = end(iw, s.dilation_w, s.in_w, kernel_w);
        const index_t start = ih * s.x_strides[2] + iw * s.x_strides[3] + left * column;
        const int8_t *taps = w;
        for (at[1] = 0; at[1] < s.filters; ++at[1], taps += filter_bytes) {
          int32_t acc = 0;
          for (index_t ky = top; ky < bottom; ++ky) {
            const T *from = x + start + at[1] * s.x_strides[1] + ky * row;
            for (index_t kx = left; kx < right; ++kx, from += column)
              acc += (from[0] - zero) * fields::at(taps, ky * kernel_w + kx);
          }
          finish.run(finish, at, acc);
        }
      }
  }
}

} // namespace detail

/// `body` outlives the call. Views over (n, k, 0, pixel): of the result, then of what it reads.
template <int MR, int Bits, class T, class Body, class Out, class... Ins>
TENON_FN void conv_shared(const window_shape &s, const T *x, const int8_t *w, uint32_t *patches,
                          const Body &body, const Out &out, const Ins &...ins) {
  detail::conv_sums<MR, Bits>(s, x, w, patches,
                              detail::shared_body<Out, Body, Ins...>(body, out, ins...));
}

template <int Bits, class T, class Body, class Out, class... Ins>
TENON_FN void depthwise_shared(const window_shape &s, const T *x, const int8_t *w, const Body &body,
                               const Out &out, const Ins &...ins) {
  detail::depthwise_sums<Bits>(s, x, w, detail::shared_body<Out, Body, Ins...>(body, out, ins...));
}

} // namespace cpu
} // namespace tenon

#endif
