// Defines `expand_depthwise_sm80`: a 1x1 convolution of few channels on Tensor Cores and the
// depthwise convolution of what it makes, which memory never holds (sm_80 and up). fp16 and bf16,
// fp32 sums. For the blocks of MobileNet and its kin, whose expanded images are most of what they
// move.
//
// Algorithm: a block computes tile_h x tile_w outputs of some channels. The pixels that their
// windows cover lie in shared memory; for `chunk` channels at a time they are multiplied by the
// first weights, `front` makes elements of T of the sums, zero beyond the border, and the windows
// read these; with `widened` as floats, where latency counts and not room or bytes. A thread has 4
// channels of `columns` neighbouring outputs. The next weights are on their way meanwhile. Pixels
// that windows of two blocks cover are expanded in both.
//
// Where images are few, `parts` blocks share a tile's channels.
//
// Shared memory: pixels [pixels, rounded up to 16][depth_pitch]; what is made of them
// [pixels][chunk_pitch]; widened filters [kernel_h * kernel_w][chunk]; twice: first weights
// [chunk][depth_pitch], filters as they are stored.
//
// Config: batch, in_h, in_w, out_h, out_w; static numbers: depth (channels of x, a multiple of 8),
// channels (expanded), kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left. aligned,
// aligned_results (contraction.cuh). Schedule: see expand_depthwise_schedule.
// x over (n, c, h, w), channels neighbours, pixels at multiples of 16 bytes where x is; outs and
// ins over (n, k, out_h, out_w). front's operands vary along k only. Weights: first
// [channels][depth], filters [kernel_h][kernel_w][channels].
#ifndef TENON_RUNTIME_CUDA_EXPAND_DEPTHWISE_KERNEL_CUH
#define TENON_RUNTIME_CUDA_EXPAND_DEPTHWISE_KERNEL_CUH

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/round_pair.cuh"
#include "cuda/tile/contraction.cuh"
#include "cuda/tile/tensor_cores_sm80.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from.
template <int TileH, int TileW, int Chunk, int Columns, int Parts, int Warps, bool Widened>
struct expand_depthwise_schedule {
  static constexpr int tile_h = TileH, tile_w = TileW, chunk = Chunk, columns = Columns;
  static constexpr int parts = Parts, warps = Warps;
  static constexpr bool widened = Widened;
};

template <class Config, class X, class T, class FrontIns, class Front, class Outs, class Ins,
          class Body>
struct expand_depthwise_sm80_kernel {
  Config cfg;
  X x;
  const T *expand;
  const T *filters;
  FrontIns front_ins;
  Front front;
  Outs outs;
  Ins ins;
  Body body;

  static constexpr int tile_h = Config::tile_h, tile_w = Config::tile_w, chunk = Config::chunk;
  static constexpr int columns = Config::columns, parts = Config::parts;
  static constexpr int warps = Config::warps, threads = 32 * warps;
  static constexpr int kernel_h = Config::kernel_h, kernel_w = Config::kernel_w;
  static constexpr int stride_h = Config::stride_h, stride_w = Config::stride_w;
  static constexpr int depth = Config::depth, channels = Config::channels;
  static constexpr int chunks = ceil_div(channels, chunk);
  static_assert(depth % 8 == 0 && chunk % 16 == 0 && tile_w % columns == 0, "whole runs");
  static_assert(parts <= chunks, "blocks that share a tile have channels");

  static constexpr int covered_h = (tile_h - 1) * stride_h + kernel_h,
                       covered_w = (tile_w - 1) * stride_w + kernel_w;
  static constexpr int pixels = covered_h * covered_w, row_blocks = ceil_div(pixels, 16);
  static constexpr int steps = ceil_div(depth, 16); // along K
  // Odd multiples of 16 bytes, and of 32: rows that are read and written together lie in different
  // banks.
  static constexpr int depth_pitch = 16 * steps + 8, chunk_pitch = chunk + 8;
  static constexpr int taps = kernel_h * kernel_w;
  static constexpr bool widened = Config::widened;
  using held = typename detail::choose_type<widened, float, T>::type;
  static constexpr int pixel_bytes = row_blocks * 16 * depth_pitch * 2,
                       made_bytes = row_blocks * 16 * chunk_pitch * int(sizeof(held)),
                       filter_bytes = widened ? taps * chunk * 4 : 0;
  static constexpr int expand_bytes = chunk * depth_pitch * 2,
                       stage_bytes = expand_bytes + taps * chunk * 2;
  static constexpr int stages_at = pixel_bytes + made_bytes + filter_bytes;
  static constexpr int bytes = stages_at + 2 * stage_bytes;
  static constexpr int blocks_per_sm =
      max_of(1, min_of(min_of(220 * 1024 / (bytes + 1024), 768 / threads), 8));
  static_assert(sizeof(T) == 2 && detail::is_same<T, detail::bare<typename X::element>>,
                "operands of one type");

  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 800; }
  int shared_bytes() const { return bytes; }
  grid blocks() const { return {index_t(cfg.batch) * (across() * down()) * parts, 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    bring_weights(shared, block_x() % parts, 0);
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    const corner at = corner_of_block();
    bring_pixels(shared, at);
    ptx::cp_async_group::commit();
    int stage = 0;
    TENON_NO_UNROLL
    for (int c = block_x() % parts; c < chunks; c += parts, stage ^= 1) {
      ptx::cp_async_group::wait<0>();
      sync_block(); // these weights are there, and all have read what the last ones made
      if constexpr (widened)
        widen_filters(shared, stage);
      make(shared, stage, at, c * chunk);
      if (c + parts < chunks)
        bring_weights(shared, c + parts, stage ^ 1);
      sync_block();
      fold(shared, stage, at, c * chunk);
    }
  }

private:
  using mma = tensor_cores_sm80;

  TENON_FN int across() const { return ceil_div(int(index_t(cfg.out_w)), tile_w); }
  TENON_FN int down() const { return ceil_div(int(index_t(cfg.out_h)), tile_h); }

  TENON_DEVICE static held *made_of(unsigned char *shared) {
    return reinterpret_cast<held *>(shared + pixel_bytes);
  }
  TENON_DEVICE static held *filters_of(unsigned char *shared, int stage) {
    if constexpr (widened)
      return reinterpret_cast<held *>(shared + pixel_bytes + made_bytes);
    else
      return stored_filters(shared, stage);
  }
  TENON_DEVICE static T *weights_of(unsigned char *shared, int stage) {
    return reinterpret_cast<T *>(shared + stages_at + stage * stage_bytes);
  }
  TENON_DEVICE static T *stored_filters(unsigned char *shared, int stage) {
    return weights_of(shared, stage) + expand_bytes / 2;
  }

  /// The first output of a block, and the first pixel that its windows cover.
  struct corner {
    int image, y, x, top, left;
  };
  TENON_DEVICE corner corner_of_block() const {
    const int tile = block_x() / parts, row = tile / across();
    const int y = row % down() * tile_h, column = (tile - row * across()) * tile_w;
    return {row / down(), y, column, y * stride_h - Config::pad_top,
            column * stride_w - Config::pad_left};
  }
  TENON_DEVICE bool is_inside(const corner &at, int pixel) const {
    return unsigned(at.top + pixel / covered_w) < unsigned(index_t(cfg.in_h)) &&
           unsigned(at.left + pixel % covered_w) < unsigned(index_t(cfg.in_w)) && pixel < pixels;
  }

  //===--- loads ------------------------------------------------------------===//

  TENON_DEVICE void bring_weights(unsigned char *shared, int c, int stage) const {
    constexpr int runs = 2 * steps, of_chunk = chunk / 8;
    const int n0 = c * chunk;
    T *const to = weights_of(shared, stage), *const taps_to = stored_filters(shared, stage);
    for (int i = thread(); i < chunk * runs; i += threads) {
      const int n = i / runs, run = i % runs;
      const bool there = n0 + n < channels && run * 8 < depth;
      ptx::cp_async<16>::copy(to + n * depth_pitch + run * 8,
                              expand + (there ? (n0 + n) * depth + run * 8 : 0), there);
    }
    if constexpr (channels % 8 == 0) {
      for (int i = thread(); i < taps * of_chunk; i += threads) {
        const int tap = i / of_chunk, n = i % of_chunk * 8;
        const bool there = n0 + n < channels;
        ptx::cp_async<16>::copy(taps_to + tap * chunk + n,
                                filters + (there ? tap * channels + n0 + n : 0), there);
      }
    } else {
      for (int i = thread(); i < taps * chunk; i += threads) {
        const int tap = i / chunk, n = n0 + i % chunk;
        taps_to[i] = n < channels ? filters[tap * channels + n] : T{};
      }
    }
    ptx::cp_async_group::commit();
  }

  TENON_DEVICE void bring_pixels(unsigned char *shared, const corner &at) const {
    constexpr int runs = 2 * steps;
    T *const to = reinterpret_cast<T *>(shared);
    const int down_image = int(index_t(x.strides.template get<2>())),
              across_image = int(index_t(x.strides.template get<3>()));
    const auto *const image = x.data + at.image * index_t(x.strides.template get<0>());
    const bool aligned = detail::starts_aligned<Config>(x.data);
    for (int i = thread(); i < row_blocks * 16 * runs; i += threads) {
      const int pixel = i / runs, run = i % runs;
      const bool there = run * 8 < depth && is_inside(at, pixel);
      const int from = there ? (at.top + pixel / covered_w) * down_image +
                                   (at.left + pixel % covered_w) * across_image + run * 8
                             : 0;
      T *const place = to + pixel * depth_pitch + run * 8;
      if (aligned) {
        ptx::cp_async<16>::copy(place, there ? image + from : x.data, there);
      } else {
        TENON_UNROLL
        for (int e = 0; e < 8; ++e)
          place[e] = there ? image[from + e] : T{};
      }
    }
  }

  //===--- the first convolution ---------------------------------------------===//

  TENON_DEVICE static void widen_filters(unsigned char *shared, int stage) {
    const T *const from = stored_filters(shared, stage);
    for (int i = thread(); i < taps * chunk; i += threads)
      filters_of(shared, stage)[i] = float(load_element(&from[i]));
  }

  /// `chunk` channels from n0 on of all pixels.
  TENON_DEVICE void make(unsigned char *shared, int stage, const corner &at, int n0) const {
    constexpr int blocks = chunk / 8;
    constexpr bool whole = detail::promises_results<Config>::value && channels % 8 == 0;
    operand_runs<2, FrontIns> operands[blocks];
    TENON_UNROLL
    for (int j = 0; j < blocks; ++j) {
      const int n = n0 + 8 * j + 2 * (lane() % 4), count = min_of(channels - n, 2);
      const int point[4] = {0, count > 0 ? n : 0, 0, 0};
      operands[j].template load<1, operand_part::all, whole>(front_ins, point, max_of(count, 0));
    }
    const T *const weights = weights_of(shared, stage) +
                             (lane() / 16 * 8 + lane() % 8) * depth_pitch + lane() / 8 % 2 * 8;
    TENON_NO_UNROLL
    for (int block = warp(); block < row_blocks; block += warps) {
      float sum[blocks][4] = {};
      const T *const rows = reinterpret_cast<const T *>(shared) +
                            (16 * block + lane() % 16) * depth_pitch + lane() / 16 * 8;
      TENON_UNROLL
      for (int s = 0; s < steps; ++s) {
        unsigned a[4];
        ptx::ldmatrix_x4::load(a, rows + 16 * s);
        TENON_UNROLL
        for (int j = 0; j < blocks; j += 2) {
          unsigned b[4];
          ptx::ldmatrix_x4::load(b, weights + 8 * j * depth_pitch + 16 * s);
          mma::multiply<T>(sum[j], a, b[0], b[1]);
          mma::multiply<T>(sum[j + 1], a, b[2], b[3]);
        }
      }
      TENON_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int pixel = 16 * block + 8 * half + lane() / 4;
        const bool inside = is_inside(at, pixel);
        held *const to = made_of(shared) + pixel * chunk_pitch + 2 * (lane() % 4);
        TENON_UNROLL
        for (int j = 0; j < blocks; ++j) {
          const unsigned rounded =
              ptx::round_pair<T>::of(float(operands[j].call(front, 0, sum[j][2 * half])),
                                     float(operands[j].call(front, 1, sum[j][2 * half + 1])));
          const unsigned pair = inside ? rounded : 0;
          if constexpr (widened) {
            T of[2];
            memcpy(static_cast<void *>(of), &pair, sizeof(pair));
            const float two[2] = {float(load_element(&of[0])), float(load_element(&of[1]))};
            detail::store_words(to + 8 * j, two);
          } else {
            *reinterpret_cast<unsigned *>(to + 8 * j) = pair;
          }
        }
      }
    }
  }

  //===--- the windows --------------------------------------------------------===//

  TENON_DEVICE void fold(unsigned char *shared, int stage, const corner &at, int n0) const {
    constexpr int fours = chunk / 4, strips_w = tile_w / columns, strips = tile_h * strips_w;
    constexpr int span = (columns - 1) * stride_w + kernel_w;
    constexpr bool whole = detail::promises_results<Config>::value && channels % 8 == 0;
    TENON_NO_UNROLL
    for (int i = thread(); i < strips * fours; i += threads) {
      const int n = i % fours * 4, strip = i / fours;
      const int y = strip / strips_w, x0 = strip % strips_w * columns;
      const int count = min_of(channels - n0 - n, 4);
      int point[4] = {at.image, n0 + n, at.y + y, at.x + x0};
      if (count <= 0 || point[2] >= int(index_t(cfg.out_h)) || point[3] >= int(index_t(cfg.out_w)))
        continue;
      operand_runs<4, Ins> operands;
      operands.template load<1, operand_part::fixed, whole>(ins, point, count);
      float sum[columns][4] = {};
      const held *const taps_from = filters_of(shared, stage) + n;
      const held *const from =
          made_of(shared) + (y * stride_h * covered_w + x0 * stride_w) * chunk_pitch + n;
      TENON_UNROLL
      for (int ky = 0; ky < kernel_h; ++ky) {
        held image[span][4], weights[kernel_w][4];
        TENON_UNROLL
        for (int j = 0; j < span; ++j)
          detail::load_words(image[j], from + (ky * covered_w + j) * chunk_pitch);
        TENON_UNROLL
        for (int kx = 0; kx < kernel_w; ++kx)
          detail::load_words(weights[kx], taps_from + (ky * kernel_w + kx) * chunk);
        TENON_UNROLL
        for (int kx = 0; kx < kernel_w; ++kx) {
          TENON_UNROLL
          for (int c = 0; c < columns; ++c) {
            TENON_UNROLL
            for (int v = 0; v < 4; ++v)
              sum[c][v] = mul_add(float(load_element(&image[c * stride_w + kx][v])),
                                  float(load_element(&weights[kx][v])), sum[c][v]);
          }
        }
      }
      TENON_UNROLL
      for (int c = 0; c < columns; ++c, ++point[3])
        if (point[3] < int(index_t(cfg.out_w))) {
          operands.template load<1, operand_part::moving, whole>(ins, point, count);
          apply_to_runs<1, whole>(body, outs, operands, point, count, sum[c]);
        }
    }
  }
};

template <class Config, class X, class T, class FrontIns, class Front, class Outs, class Ins,
          class Body>
expand_depthwise_sm80_kernel<Config, X, T, FrontIns, Front, Outs, Ins, Body>
expand_depthwise_sm80(Config cfg, X x, const T *expand, const T *filters, FrontIns front_ins,
                      Front front, Outs outs, Ins ins, Body body) {
  return {cfg, x, expand, filters, front_ins, front, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
