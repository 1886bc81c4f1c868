// Defines `depthwise_mma_sm80`: 2-d depthwise convolution at stride 1 on Tensor Cores, fp16 and
// bf16 with fp32 sums (sm_80 and up). For wide windows, whose multiplications bound `depthwise`.
//
// Algorithm: along a row of the image a filter is a band matrix: 8 neighbouring outputs are 16
// neighbouring inputs times a matrix of 16 x 8 that has the filter's row in every column, one place
// further down in each. A warp multiplies so 16 rows of pixels of one channel, for all rows of the
// filter. The pixels come into shared memory turned, columns innermost in planes of a channel, so
// that ldmatrix finds 8 neighbouring columns of 8 rows; the sums go back through it to channels
// innermost.
//
// The zeros of the matrix meet pixels that the window does not cover. Where these are infinite the
// sum is no number: sums that are not finite are computed again, product by product.
//
// A block has 32 channels of 16 x 16 pixels, a warp 8 of them. Their filters are on their way
// before the dependency wait. Shared memory: filters [32][kernel_h][kernel_w + 1] of pairs; planes
// [32][chunks of 8 columns of a row], chunks exchanged for the banks; then, in the place of these,
// the sums [pixel][32 and one].
//
// Config (derive from window_defaults): batch, in_h, in_w, out_h, out_w, channels, kernel_h and
// kernel_w (fixed, kernel_w up to 9), pad_top, pad_left. whole_runs: all that the body reads and
// writes are whole runs (apply_to_runs). x over (n, c, h, w): channels are neighbours, a multiple
// of 8, and pixels start at 16 bytes. outs and ins over (n, c, oh, ow). Weights:
// [channels][kernel_h][kernel_w + 1][2], each element with the one before it; the first and the
// last pair have a zero.
#ifndef TENON_RUNTIME_CUDA_DEPTHWISE_MMA_CUH
#define TENON_RUNTIME_CUDA_DEPTHWISE_MMA_CUH

#include "cuda/base/window.cuh"
#include "cuda/ptx/byte_permute.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/tile/tensor_cores_sm80.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class T, class Outs, class Ins, class Body>
struct depthwise_mma_sm80_kernel {
  Config cfg;
  X x;
  const T *w;
  Outs outs;
  Ins ins;
  Body body;

  static constexpr int tile = 16;
  static constexpr int own = 8, warps = 4, channels = own * warps; // channels of a warp, a block
  static constexpr int threads = 32 * warps, blocks_per_sm = 4;
  static constexpr int kernel_h = int(decltype(Config::kernel_h)::value),
                       kernel_w = int(decltype(Config::kernel_w)::value);
  static_assert(kernel_w <= 9, "8 outputs read 16 columns");
  static_assert(sizeof(T) == 2 && detail::is_same<T, detail::bare<typename X::element>>,
                "operands of one type");
  static_assert(int(decltype(Config::stride_h)::value) == 1 &&
                    int(decltype(Config::stride_w)::value) == 1 &&
                    int(decltype(Config::dilation_h)::value) == 1 &&
                    int(decltype(Config::dilation_w)::value) == 1 &&
                    int(decltype(Config::multiplier)::value) == 1,
                "windows of neighbours");

  // A plane: an odd number of chunks to a row, so that those of 8 rows lie in different banks.
  static constexpr int rows = tile + kernel_h - 1, row_chunks = 3, chunks = rows * row_chunks;
  static constexpr int plane = ceil_div(chunks, 8) * 8 * 4;            // words of two columns
  static constexpr int pitch = channels + 1;                           // of sums
  static constexpr int filter = kernel_h * (kernel_w + 1);             // words of a channel's
  static constexpr int filters = ceil_div(channels * filter, 32) * 32; // whole banks

  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 800; }
  int shared_bytes() const { return 4 * (filters + max_of(channels * plane, 256 * pitch)); }
  grid blocks() const {
    return {index_t(channel_blocks()) * (across() * down()) * index_t(cfg.batch), 1, 1};
  }

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    // Of whole runs of 8 channels: the words are whole runs, too.
    const int c0 = block_x() % channel_blocks() * channels,
              count = min_of(int(index_t(cfg.channels)) - c0, channels);
    for (int i = thread(); i < count * filter / 4; i += threads)
      ptx::cp_async<16>::copy(shared + 16 * i, w + (c0 * filter + 4 * i) * 2, true);
    ptx::cp_async_group::commit();
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    const corner at = corner_of_block();
    unsigned *const planes = reinterpret_cast<unsigned *>(shared) + filters;
    fill(planes, at);
    ptx::cp_async_group::wait<0>();
    sync_block();
    sums sum = {};
    multiply(sum, reinterpret_cast<const unsigned *>(shared), planes);
    sync_block();
    float *const turned = reinterpret_cast<float *>(planes);
    put(turned, sum);
    sync_block();
    finish(turned, at);
  }

private:
  using sums = float[own][2][4]; // of 8 columns, then of the next

  TENON_FN int channel_blocks() const { return ceil_div(int(index_t(cfg.channels)), channels); }
  TENON_FN int across() const { return ceil_div(int(index_t(cfg.out_w)), tile); }
  TENON_FN int down() const { return ceil_div(int(index_t(cfg.out_h)), tile); }

  /// The first output of a block, and its first channel.
  struct corner {
    int image, channel, y, x;
  };
  TENON_DEVICE corner corner_of_block() const {
    const int index = block_x() / channel_blocks(), row = index / across();
    return {row / down(), (block_x() - index * channel_blocks()) * channels, row % down() * tile,
            (index - row * across()) * tile};
  }
  /// Where a chunk lies in the planes of a run of channels.
  TENON_DEVICE static int place(int chunk, int run_of_channels) {
    return chunk ^ 2 * run_of_channels;
  }

  /// A warp takes two chunks of 32 channels at a time: each lane two pixels of 8 channels,
  /// neighbouring lanes a pixel's channels. All its loads are under way together.
  TENON_DEVICE void fill(unsigned *planes, const corner &at) const {
    constexpr int tasks = ceil_div(chunks, 2), mine = ceil_div(tasks, warps);
    const int r = lane() % warps, word = lane() / warps % 4, channel = at.channel + own * r;
    const int down_image = int(index_t(x.strides.template get<2>())),
              across_image = int(index_t(x.strides.template get<3>()));
    const bool has_channel = channel < int(index_t(cfg.channels));
    const auto *const image =
        x.data + at.image * index_t(x.strides.template get<0>()) + (has_channel ? channel : 0);
    unsigned pixel[mine][2][4];
    TENON_UNROLL
    for (int i = 0; i < mine; ++i) {
      const int chunk = 2 * (warp() + i * warps) + lane() / 16, row = chunk / row_chunks;
      const int y = at.y - int(index_t(cfg.pad_top)) + row,
                column =
                    at.x - int(index_t(cfg.pad_left)) + 2 * word + (chunk - row * row_chunks) * 8;
      const bool inside =
          has_channel && chunk < chunks && unsigned(y) < unsigned(index_t(cfg.in_h));
      TENON_UNROLL
      for (int p = 0; p < 2; ++p) {
        const bool is = inside && unsigned(column + p) < unsigned(index_t(cfg.in_w));
        const word16 eight = ptx::global_words::load_if(
            is, image + (is ? y * down_image + (column + p) * across_image : 0));
        memcpy(pixel[i][p], &eight, 16);
      }
    }
    unsigned *const to = planes + own * r * plane + word;
    TENON_UNROLL
    for (int i = 0; i < mine; ++i) {
      const int chunk = 2 * (warp() + i * warps) + lane() / 16;
      if (chunk >= chunks)
        continue;
      unsigned *const at_chunk = to + place(chunk, r) * 4;
      TENON_UNROLL
      for (int e = 0; e < 4; ++e) { // two channels
        const unsigned left = pixel[i][0][e], right = pixel[i][1][e];
        at_chunk[2 * e * plane] = ptx::byte_permute::low_halves(left, right);
        at_chunk[(2 * e + 1) * plane] = ptx::byte_permute::high_halves(left, right);
      }
    }
  }

  TENON_DEVICE static void multiply(sums &sum, const unsigned *pairs, const unsigned *planes) {
    using mma = tensor_cores_sm80;
    const int r = warp();
    // What this lane has of the band matrix: pairs of the filter's row, or zeros.
    const int pair = 2 * (lane() % 4) - lane() / 4 + 1;
    const bool has_low = unsigned(pair) <= unsigned(kernel_w),
               has_high = unsigned(pair + 8) <= unsigned(kernel_w);
    const ptx::shared_place mine(planes + own * r * plane);
    TENON_UNROLL
    for (int c = 0; c < own; c += 2) { // two channels, so that more sums are under way
      unsigned low[2][kernel_h], high[2][kernel_h];
      TENON_UNROLL
      for (int s = 0; s < 2; ++s) {
        const unsigned *row = pairs + (own * r + c + s) * filter + pair;
        TENON_UNROLL
        for (int ky = 0; ky < kernel_h; ++ky, row += kernel_w + 1) {
          low[s][ky] = has_low ? row[0] : 0;
          high[s][ky] = has_high ? row[8] : 0;
        }
      }
      TENON_UNROLL
      for (int ky = 0; ky < kernel_h; ++ky) {
        const int chunk = row_chunks * (lane() % 16 + ky),
                  four = 16 * place(chunk + lane() / 16, r), two = 16 * place(chunk + 2, r);
        TENON_UNROLL
        for (int s = 0; s < 2; ++s) {
          unsigned left[4], last[2];
          ptx::ldmatrix_x4::load(left, mine + four + 4 * (c + s) * plane);
          ptx::ldmatrix_x2::load(last, mine + two + 4 * (c + s) * plane);
          const unsigned right[4] = {left[2], left[3], last[0], last[1]};
          mma::multiply<T>(sum[c + s][0], left, low[s][ky], high[s][ky]);
          mma::multiply<T>(sum[c + s][1], right, low[s][ky], high[s][ky]);
        }
      }
    }
  }

  /// The i-th sums of all lanes lie together, those of neighbouring lanes in different banks.
  TENON_DEVICE static void put(float *turned, const sums &sum) {
    float *const to = turned + lane() * pitch + warp() * own;
    TENON_UNROLL
    for (int i = 0; i < 8; ++i) {
      TENON_UNROLL
      for (int c = 0; c < own; ++c)
        to[i * 32 * pitch + c] = sum[c][i / 4][i % 4];
    }
  }

  /// Neighbouring threads take a pixel's channels: each 8 of the i-th sums of one lane.
  TENON_DEVICE void finish(const float *turned, const corner &at) const {
    const int of_lane = thread() / warps, channel = at.channel + thread() % warps * own;
    if (channel >= int(index_t(cfg.channels)))
      return;
    int point[4] = {at.image, channel, 0, 0};
    operand_runs<own, Ins> operands;
    operands.template load<1, operand_part::fixed, Config::whole_runs>(ins, point, own);
    const float *const from = turned + of_lane * pitch + thread() % warps * own;
    TENON_UNROLL
    for (int i = 0; i < 8; ++i) {
      point[2] = at.y + of_lane / 4 + i % 4 / 2 * 8;
      point[3] = at.x + 8 * (i / 4) + of_lane % 4 * 2 + i % 2;
      float eight[own], nothing = 0;
      TENON_UNROLL
      for (int c = 0; c < own; ++c) {
        eight[c] = from[i * 32 * pitch + c];
        nothing = mul_add(eight[c], 0.0f, nothing);
      }
      if (point[2] >= int(index_t(cfg.out_h)) || point[3] >= int(index_t(cfg.out_w)))
        continue;
      if (nothing != 0)
        multiply_one_by_one(eight, point);
      operands.template load<1, operand_part::moving, Config::whole_runs>(ins, point, own);
      apply_to_runs<1, Config::whole_runs>(body, outs, operands, point, own, eight);
    }
  }

  /// The sums of a pixel product by product.
  TENON_DEVICE void multiply_one_by_one(float (&sum)[own], const int (&point)[4]) const {
    TENON_UNROLL
    for (int c = 0; c < own; ++c)
      sum[c] = 0;
    const auto *image = x.data + point[0] * index_t(x.strides.template get<0>()) + point[1];
    const T *filters_of_run = w + point[1] * filter * 2;
    const int y0 = point[2] - int(index_t(cfg.pad_top)), x0 = point[3] - int(index_t(cfg.pad_left));
    TENON_NO_UNROLL
    for (int tap = 0; tap < kernel_h * kernel_w; ++tap) {
      const int ky = tap / kernel_w, kx = tap - ky * kernel_w, row = y0 + ky, column = x0 + kx;
      if (unsigned(row) >= unsigned(index_t(cfg.in_h)) ||
          unsigned(column) >= unsigned(index_t(cfg.in_w)))
        continue;
      T raw[own];
      detail::load_words(raw, image + row * int(index_t(x.strides.template get<2>())) +
                                  column * int(index_t(x.strides.template get<3>())));
      TENON_UNROLL
      for (int c = 0; c < own; ++c)
        sum[c] = mul_add(load_element(&raw[c]),
                         load_element(&filters_of_run[(c * filter + tap + ky + 1) * 2]), sum[c]);
    }
  }
};

template <class Config, class X, class T, class Outs, class Ins, class Body>
depthwise_mma_sm80_kernel<Config, X, T, Outs, Ins, Body>
depthwise_mma_sm80(Config cfg, X x, const T *w, Outs outs, Ins ins, Body body) {
  return {cfg, x, w, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
