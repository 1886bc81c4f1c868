// Defines conv_winograd_f4: a convolution (cpu/conv.h) of 3 x 3 taps at stride 1 with a quarter of
// the multiplications, by Winograd's F(4x4, 3x3).
//
// A tile of 4 x 4 outputs is A^T [(B^T d B) * U] A, where d are the 6 x 6 elements that it reads, U
// the transformed filter, and * multiplies element by element. So each of the 36 places is a matrix
// product of its own over the channels: tiles by channels with channels by filters. A unit of work
// is tiles() tiles and a block of nr filters. The transformed elements of the tiles stay on the
// stack for all blocks of filters; the 36 products follow each other, so that weights are read in
// the order in which they lie, and their sums stay in the second cache until the outputs are made
// of them.
//
// The polynomials are taken at 0, 5/8, -5/8, 3/2, -3/2 and infinity, whose reciprocals and powers
// are closer to each other than those of the textbook's 0, 1, -1, 2, -2: the largest error, in
// units of the largest output, is some ten times that of a direct sum in fp32. Sums are of floats;
// an element that is not finite meets every output of its tiles.
//
// Config: as for cpu/conv.h, with groups, strides and dilations of 1 and `filters` fixed; planes of
//   a volume add up like channels. mr x nr is the register tile of the products; `tile_rows` such
//   tiles one below the other are a unit's. The stack holds
//   36 * mr * tile_rows * (kernel_d * channels, rounded up to lanes, + nr) floats.
// x, outs, ins, prologue, prologue_ins: as for cpu/conv.h.
// w: [ceil(filters/nr)][6][6][kernel_d][channels][nr], zeros in missing filters.
#ifndef TENON_RUNTIME_CPU_CONV_WINOGRAD_F4_H
#define TENON_RUNTIME_CPU_CONV_WINOGRAD_F4_H

#include "cpu/conv.h"

namespace tenon {
namespace cpu {
namespace detail {

constexpr int winograd_side = 6, winograd_step = 4, winograd_places = 36;
/// The points but 0 and infinity are these and their negatives.
constexpr float winograd_a = 0.625f, winograd_b = 1.5f;

/// to[i*stride] = (B^T d)[i] for six values.
template <class L, class V> TENON_FN void winograd_forward(const V *d, V *to, index_t stride) {
  constexpr float a = winograd_a, b = winograd_b;
  const auto number = [](float x) TENON_LAMBDA { return broadcast<L, float>(x); };
  const V both = number(-(a * a + b * b)), product = number(a * a * b * b);
  const V even = mul_add(number(-b * b), d[2], d[4]),
          odd = number(a) * mul_add(number(-b * b), d[1], d[3]),
          even_b = mul_add(number(-a * a), d[2], d[4]),
          odd_b = number(b) * mul_add(number(-a * a), d[1], d[3]);
  to[0] = mul_add(product, d[0], mul_add(both, d[2], d[4]));
  to[stride] = even + odd;
  to[2 * stride] = even - odd;
  to[3 * stride] = even_b + odd_b;
  to[4 * stride] = even_b - odd_b;
  to[5 * stride] = mul_add(product, d[1], mul_add(both, d[3], d[5]));
}

/// to[i*stride] = (A^T m)[i], four values of six.
template <class L, class V> TENON_FN void winograd_back(const V *m, V *to, index_t stride) {
  constexpr float a = winograd_a, b = winograd_b;
  const auto number = [](float x) TENON_LAMBDA { return broadcast<L, float>(x); };
  const V sum = m[1] + m[2], difference = m[1] - m[2], sum_b = m[3] + m[4],
          difference_b = m[3] - m[4];
  to[0] = m[0] + sum + sum_b;
  to[stride] = mul_add(number(b), difference_b, number(a) * difference);
  to[2 * stride] = mul_add(number(b * b), sum_b, number(a * a) * sum);
  to[3 * stride] =
      mul_add(number(b * b * b), difference_b, mul_add(number(a * a * a), difference, m[5]));
}

/// Where the elements of a tile lie: row y and column x inside [begin, end) at data[y*row +
/// x*column], zeros outside.
template <class T, class Channel> struct winograd_source {
  const T *data;
  index_t row, column;
  Channel channel;
  index_t y_begin, y_end, x_begin, x_end;
};

/// B^T d B of `count` neighbouring channels, place p at to[p*plane]; missing lanes are zeros.
template <class L, class Source, class Count, class Load>
TENON_FN void winograd_transform(const Source &source, index_t c, Count count, float *to,
                                 index_t plane, const Load &load_channels) {
  using V = typename L::template of<float>;
  constexpr int n = winograd_side;
  V half[n][n], d[n];
  for (int x = 0; x < n; ++x) {
    const bool inside = source.x_begin <= x && x < source.x_end;
    for (int y = 0; y < n; ++y)
      d[y] = inside && source.y_begin <= y && y < source.y_end
                 ? load_channels(source.data + y * source.row + x * source.column +
                                     c * index_t(source.channel),
                                 source.channel, c, count)
                 : V{};
    winograd_forward<L>(d, &half[0][x], n);
  }
  for (int y = 0; y < n; ++y) {
    winograd_forward<L>(half[y], d, 1);
    for (int x = 0; x < n; ++x)
      store<L, float>(to + (y * n + x) * plane, d[x]);
  }
}

/// All channels of one plane of a tile.
template <class L, index_t Channels, class Source, class Prologue, class PrologueIns, int... I>
TENON_TILE void winograd_tile(indices<I...>, const Source &source, float *to, index_t plane,
                              const Prologue &prologue, const PrologueIns &prologue_ins) {
  using V = typename L::template of<float>;
  const auto load_channels = [&](const auto *from, auto stride, index_t c, auto count)
                                 TENON_LAMBDA -> V {
    [[maybe_unused]] const index_t channel[1] = {c};
    const V v = convert<V>(load_strided<L>(from, stride, index_t(count)));
    return prologue(L{}, v, load_at<L, 0>(prologue_ins.template get<I>(), channel, count)...);
  };
  constexpr index_t whole = Channels / L::width * L::width;
  for (index_t c = 0; c < whole; c += L::width)
    winograd_transform<L>(source, c, fixed<L::width>{}, to + c, plane, load_channels);
  if constexpr (whole < Channels)
    winograd_transform<L>(source, whole, fixed<Channels - whole>{}, to + whole, plane,
                          load_channels);
}

/// MR rows of x, `depth` elements apart, times a panel of weights: Planes of Channels elements
/// each, which lie `Pitch` apart in x.
template <class L, int MR, int NV, index_t Planes, index_t Channels, index_t Pitch, class W>
TENON_TILE void winograd_products(const float *x, const W *w, float *sums) {
  using V = typename L::template of<float>;
  constexpr index_t depth = Planes * Pitch;
  V acc[MR][NV];
  unroll<MR>([&](auto r)
                 TENON_LAMBDA { unroll<NV>([&](auto v) TENON_LAMBDA { acc[r][v] = V{}; }); });
  for (index_t z = 0; z < Planes; ++z, x += Pitch)
    for (index_t c = 0; c < Channels; ++c, w += NV * L::width) {
      V weights[NV];
      unroll<NV>([&](auto v)
                     TENON_LAMBDA { weights[v] = convert<V>(load<L>(w + int(v) * L::width)); });
      unroll<MR>([&](auto r) TENON_LAMBDA {
        const V e = broadcast<L, float>(x[int(r) * depth + c]);
        unroll<NV>([&](auto v) TENON_LAMBDA { acc[r][v] = mul_add(e, weights[v], acc[r][v]); });
      });
    }
  unroll<MR>([&](auto r) TENON_LAMBDA {
    unroll<NV>([&](auto v) TENON_LAMBDA {
      store<L, float>(sums + (int(r) * NV + int(v)) * L::width, acc[r][v]);
    });
  });
}

/// Stores the outputs of one tile and a vector of filters, place p of the sums at sums[p*plane], at
/// those of the 4 x 4 points from `at` on that lie before `rows` and `columns`.
template <int Rank, class L, class Count, class Outs, class Ins, class Body>
TENON_TILE void winograd_outputs(const float *sums, index_t plane, const index_t *at, index_t rows,
                                 index_t columns, Count count, const Outs &outs, const Ins &ins,
                                 const Body &body) {
  using V = typename L::template of<float>;
  constexpr int n = winograd_side, step = winograd_step;
  V half[step][n], m[n], y[step];
  for (int x = 0; x < n; ++x) {
    for (int i = 0; i < n; ++i)
      m[i] = load<L, float>(sums + (i * n + x) * plane);
    winograd_back<L>(m, &half[0][x], n);
  }
  index_t point[Rank];
  for (int d = 0; d < Rank; ++d)
    point[d] = at[d];
  for (int i = 0; i < step && i < rows; ++i) {
    winograd_back<L>(half[i], y, 1);
    point[Rank - 2] = at[Rank - 2] + i;
    for (int j = 0; j < step && j < columns; ++j) {
      point[Rank - 1] = at[Rank - 1] + j;
      apply_body<L, 1>(body, outs, ins, point, count, y[j]);
    }
  }
}

/// Those of six elements from `first` on that lie in [0, extent).
TENON_FN tap_span winograd_inside(index_t first, index_t extent) {
  return conv_taps(first, winograd_side, 1, extent);
}

} // namespace detail

template <class Cfg, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
void conv_winograd_f4(const Cfg &cfg, const X &x, const W *w, const Outs &outs, const Ins &ins,
                      const Body &body, pool &workers, const Prologue &prologue = {},
                      const PrologueIns &prologue_ins = {}) {
  using namespace detail;
  using L = typename Cfg::lanes;
  constexpr int rank = X::rank, mr = Cfg::mr, nr = Cfg::nr, width = L::width, vectors = nr / width;
  static_assert(nr % width == 0, "nr is a whole number of vectors");
  constexpr index_t channels = decltype(cfg.channels)::value,
                    planes = decltype(cfg.kernel_d)::value,
                    pitch = ceil_div(channels, width) * width, depth = planes * pitch,
                    tiles = mr * Cfg::tile_rows, panel = planes * channels * nr;
  const index_t down = ceil_div(cfg.out_h, winograd_step),
                across = ceil_div(cfg.out_w, winograd_step);
  odometer<4> of_tile; // image, plane, row, column
  of_tile.extents[0] = cfg.batch;
  of_tile.extents[1] = rank == 5 ? index_t(cfg.out_d) : 1;
  of_tile.extents[2] = down;
  of_tile.extents[3] = across;
  const index_t all = of_tile.size(), blocks = ceil_div(cfg.filters, nr);
  odometer<2> space;
  space.extents[0] = ceil_div(all, tiles);
  space.extents[1] = blocks;

  const auto run = [&](index_t begin, index_t end) {
    const subnormals_as_zero guard;
    alignas(64) float elements[winograd_places * tiles * depth];
    alignas(64) float sums[winograd_places * tiles * nr];
    odometer<2> it = space;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      const index_t first = it.at[0] * tiles, count = all - first < tiles ? all - first : tiles,
                    rows = ceil_div(count, mr);
      odometer<4> tile = of_tile;
      if (u == begin || it.at[1] == 0) {
        tile.seek(first);
        for (index_t t = 0; t < rows * mr; ++t, tile.step()) {
          const index_t ih = tile.at[2] * winograd_step - index_t(cfg.pad_top),
                        iw = tile.at[3] * winograd_step - index_t(cfg.pad_left);
          for (index_t z = 0; z < planes; ++z) {
            const index_t id = rank == 5 ? tile.at[1] * index_t(cfg.stride_d) -
                                               index_t(cfg.pad_front) + z * index_t(cfg.dilation_d)
                                         : 0;
            tap_span ys = winograd_inside(ih, cfg.in_h);
            const tap_span xs = winograd_inside(iw, cfg.in_w);
            // Nothing of a tile that only fills a row of them, nor of a plane outside.
            if (t >= count || (rank == 5 && (id < 0 || id >= index_t(cfg.in_d))))
              ys = {0, 0};
            const conv_point<rank> corner(tile.at[0], 0, id, 0, 0);
            const auto column = x.strides.template get<rank - 1>();
            const index_t row = x.strides.template get<rank - 2>();
            const auto channel = x.strides.template get<1>();
            using T = bare<typename X::element>;
            const winograd_source<T, bare<decltype(channel)>> source{
                x.data + (x.offset(corner.at) + ih * row + iw * index_t(column)),
                row,
                column,
                channel,
                ys.begin,
                ys.end,
                xs.begin,
                xs.end};
            winograd_tile<L, channels>(indices_to<PrologueIns::count>{}, source,
                                       elements + t * depth + z * pitch, tiles * depth, prologue,
                                       prologue_ins);
          }
        }
      }
      const W *weights = w + it.at[1] * (winograd_places * panel);
      for (index_t p = 0; p < winograd_places; ++p, weights += panel)
        for (index_t r = 0; r < rows; ++r)
          winograd_products<L, mr, vectors, planes, channels, pitch>(
              elements + (p * tiles + r * mr) * depth, weights, sums + (p * tiles + r * mr) * nr);
      tile.seek(first);
      for (index_t t = 0; t < count; ++t, tile.step())
        for (index_t v = 0; v < vectors; ++v) {
          const index_t filter = it.at[1] * nr + v * width, left = index_t(cfg.filters) - filter;
          if (left <= 0)
            break;
          const index_t oh = tile.at[2] * winograd_step, ow = tile.at[3] * winograd_step;
          const conv_point<rank> at(tile.at[0], filter, tile.at[1], oh, ow);
          const float *from = sums + t * nr + v * width;
          const index_t height = index_t(cfg.out_h) - oh, wide = index_t(cfg.out_w) - ow;
          if (left >= width)
            winograd_outputs<rank, L>(from, tiles * nr, at.at, height, wide, fixed<width>{}, outs,
                                      ins, body);
          else
            winograd_outputs<rank, L>(from, tiles * nr, at.at, height, wide, left, outs, ins, body);
        }
    }
  };
  // A piece worth handing to another thread is about a quarter of a million multiply-adds.
  workers.parallel_for(space.size(), 1 + (index_t(1) << 18) / (winograd_places * tiles * panel),
                       run);
}

} // namespace cpu
} // namespace tenon

#endif
