// Defines `squeeze_excite` and `squeeze_excite_image`: the gates of a squeeze-and-excitation block
// in one kernel, and what they make of the image (sm_90 and up).
//
//   mean[n, c]   = scale * sum over pixels of x[n, pixels, c]
//   hidden[n, h] = activate(sum over c of w1[h, c] * mean[n, c], hidden_ins[n, h]...)
//   gate[n, e]   = excite(sum over h of w2[e, h] * hidden[n, h], gate_ins[n, e]...)
//   outs[n, e]   = gate[n, e], or outs[n, pixels, e] = body(gate[n, e], ins[n, pixels, e]...)
//
// Algorithm: a cluster of blocks has one image. Each block adds up some channels at some pixels,
// and multiplies what it has by its columns of w1: all of this is linear, so the blocks exchange
// nothing but their parts of the hidden units, once, every block to every other. Each adds the
// parts up in the same order and makes its share of the gates: some of them, or those of the
// channels that it then goes through once more. Deterministic. Weights come into shared memory
// before the dependency wait, where `staged`.
//
// Config: pixels (dims, one at least), images, channels, hidden, outputs. Schedule: threads,
// channel_parts, pixel_parts (their product, a power of two up to 8, is the cluster), staged.
// x over (n, pixels..., c), outs and ins likewise, gates over (n, e), hidden_ins over (n, h).
// Weights of fp16, bf16 or fp32: w1 [hidden][pitch], w2 [outputs][pitch], rows rounded up to 16
// bytes with zeros.
#ifndef TENON_RUNTIME_CUDA_SQUEEZE_EXCITE_KERNEL_CUH
#define TENON_RUNTIME_CUDA_SQUEEZE_EXCITE_KERNEL_CUH

#include "cuda/base/operands.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/elect.cuh"
#include "cuda/ptx/prefetch.cuh"

namespace tenon {
namespace cuda {

/// What becomes of the gates: they are stored, or meet an image.
template <class Outs> struct stored_gates {
  Outs outs;
  static constexpr bool is_image = false;
};
template <class Outs, class Ins, class Body> struct gated_image {
  Outs outs;
  Ins ins;
  Body body;
  static constexpr bool is_image = true;
};

template <class Config, class X, class W, class HiddenIns, class Activate, class GateIns,
          class Excite, class Finish>
struct squeeze_excite_kernel {
  Config cfg;
  X x;
  float scale;
  const W *w1, *w2;
  HiddenIns hidden_ins;
  Activate activate;
  GateIns gate_ins;
  Excite excite;
  Finish finish;

  static constexpr int threads = Config::threads, blocks_per_sm = 1;
  static constexpr int channels = Config::channels, hidden = Config::hidden,
                       outputs = Config::outputs;
  static constexpr int channel_parts = Config::channel_parts, pixel_parts = Config::pixel_parts;
  static constexpr int cluster_blocks = channel_parts * pixel_parts; // neighbours along x
  static constexpr int run_length = 16 / int(sizeof(W));
  /// Rows of weights in runs; a block's part of w1's rows; its outputs.
  static constexpr int runs1 = ceil_div(channels, run_length), runs2 = ceil_div(hidden, run_length);
  static constexpr int part_runs = ceil_div(runs1, channel_parts),
                       part_channels = part_runs * run_length;
  static constexpr int part_outputs =
      Finish::is_image ? part_channels : ceil_div(outputs, cluster_blocks);
  static constexpr int padded_hidden = runs2 * run_length; // whole words
  /// Threads that share a run of channels, each with some of the pixels; and how many of a
  /// channel's sums are then added up by as many threads.
  static constexpr int pixel_lanes = threads / part_runs;
  static constexpr int shares = min_of(pixel_lanes, max_of(1, threads / part_channels));
  static constexpr int ahead = threads > 512 ? 4 : 8; // loads under way
  static_assert(detail::is_power_of_two(cluster_blocks) && cluster_blocks <= 8,
                "a cluster has 8 blocks at most");
  static_assert(!Finish::is_image || outputs == channels, "a gate for every channel");
  static_assert(part_runs <= threads, "threads for every channel");

  // Shared memory, each part after the one before it.
  static constexpr int sums_at = 16, // behind the barrier
      shares_at = sums_at + pixel_lanes * part_channels * 4,
                       mean_at = shares_at + shares * part_channels * 4,
                       own_at = mean_at + part_channels * 4,
                       received_at = own_at + padded_hidden * 4,
                       hidden_at = received_at + cluster_blocks * padded_hidden * 4,
                       gates_at = hidden_at + padded_hidden * 4,
                       w1_at = gates_at + (Finish::is_image ? part_channels * 4 : 0),
                       w2_at = w1_at + (Config::staged ? hidden * part_runs * 16 : 0),
                       end = w2_at + (Config::staged ? part_outputs * runs2 * 16 : 0);

  static_assert(end <= 227 * 1024, "a block has no more shared memory");

  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 900; }
  int shared_bytes() const { return end; }
  grid blocks() const { return {index_t(cfg.images) * cluster_blocks, 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    const int runs = min_of(part_runs, runs1 - first_run()),
              rows = max_of(0, min_of(part_outputs, outputs - first_output()));
    fetch_rows(shared + w1_at, w1 + first_run() * run_length, runs1, hidden, part_runs, hidden,
               runs);
    fetch_rows(shared + w2_at, w2 + first_output() * runs2 * run_length, runs2, part_outputs, runs2,
               rows, runs2);
    ptx::cp_async_group::commit();
    if constexpr (cluster_blocks > 1) {
      const bool elected = uniform_warp() == 0 && ptx::elect::one();
      if (elected) {
        received(shared).init(1);
        ptx::mbarrier::fence_init();
      }
      ptx::cluster::arrive(); // its barrier is ready
      sync_block();
      if (elected)
        received(shared).arrive_expecting(cluster_blocks * padded_hidden * 4);
    }
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    add_pixels(floats(shared, sums_at));
    sync_block();
    take_mean(shared);
    ptx::cp_async_group::wait<0>();
    sync_block();
    float *const own = floats(shared, own_at);
    const W *const rows1 = Config::staged ? reinterpret_cast<const W *>(shared + w1_at)
                                          : w1 + first_run() * run_length;
    const int runs = min_of(part_runs, runs1 - first_run());
    multiply_rows<part_runs>(rows1, Config::staged ? part_runs : runs1, padded_hidden, hidden, runs,
                             floats(shared, mean_at), [&](int h, float sum) { own[h] = sum; });
    sync_block();
    exchange(shared);
    activate_hidden(shared);
    sync_block();
    const W *const rows2 = Config::staged ? reinterpret_cast<const W *>(shared + w2_at)
                                          : w2 + first_output() * runs2 * run_length;
    const int own_outputs = max_of(0, min_of(part_outputs, outputs - first_output()));
    multiply_rows<runs2>(rows2, runs2, own_outputs, own_outputs, runs2, floats(shared, hidden_at),
                         [&](int e, float sum) {
                           const int at[2] = {image(), first_output() + e};
                           operand_runs<1, GateIns> operands;
                           operands.template load<1>(gate_ins, at, 1);
                           const auto gate = operands.call(excite, 0, sum);
                           if constexpr (Finish::is_image)
                             floats(shared, gates_at)[e] = gate;
                           else
                             store(gate, at);
                         });
    if constexpr (Finish::is_image) {
      sync_block();
      apply(floats(shared, gates_at));
    }
  }

private:
  static constexpr int rank = decltype(Config::pixels)::rank + 2;
  TENON_DEVICE static int image() { return block_x() / cluster_blocks; }
  TENON_DEVICE static int part() { return block_x() % cluster_blocks; }
  TENON_DEVICE static int first_run() { return part() % channel_parts * part_runs; }
  TENON_DEVICE static int first_output() {
    return Finish::is_image ? first_run() * run_length : part() * part_outputs;
  }
  TENON_DEVICE static float *floats(unsigned char *shared, int at) {
    return reinterpret_cast<float *>(shared + at);
  }
  TENON_DEVICE static ptx::mbarrier &received(unsigned char *shared) {
    return *reinterpret_cast<ptx::mbarrier *>(shared);
  }

  /// Copies `rows` rows of `runs` runs into shared memory, those beyond as zeros up to
  /// `all_rows` rows of `all_runs`; or hints them into the cache. `pitch` in runs.
  TENON_DEVICE void fetch_rows(unsigned char *to, const W *from, int pitch, int all_rows,
                               int all_runs, int rows, int runs) const {
    if constexpr (Config::staged) {
      for (int i = thread(); i < all_rows * all_runs; i += threads) {
        const int row = i / all_runs, r = i % all_runs;
        const bool there = row < rows && r < runs;
        ptx::cp_async<16>::copy(to + i * 16, there ? from + (row * pitch + r) * run_length : from,
                                there);
      }
    } else {
      constexpr int line = ptx::prefetch_l2::line / 16;
      const int lines = ceil_div(runs, line);
      for (int i = thread(); i < rows * lines; i += threads)
        ptx::prefetch_l2::hint(from + (i / lines * pitch + i % lines * line) * run_length);
    }
  }

  /// each(at, counts) for the pixels of this thread, Ahead at a time: where the runs of its
  /// channels lie, and how many of them there are; none behind the last pixel.
  template <int Ahead, class Each> TENON_DEVICE void each_pixels(Each each) const {
    const int r = thread() % part_runs, my_lane = thread() / part_runs;
    if (my_lane >= pixel_lanes)
      return;
    const int first = (first_run() + r) * run_length;
    const int count = max_of(0, min_of(run_length, channels - first));
    const int pixels = int(volume(cfg.pixels)), p = part() / channel_parts;
    const int begin = int(index_t(pixels) * p / pixel_parts),
              pixels_end = int(index_t(pixels) * (p + 1) / pixel_parts);
    for (int from = begin + my_lane; from < pixels_end; from += Ahead * pixel_lanes) {
      int at[Ahead][rank];
      int counts[Ahead];
      TENON_UNROLL
      for (int i = 0; i < Ahead; ++i) {
        const int pixel = from + i * pixel_lanes;
        int inner[rank - 2];
        unravel<rank - 2>(cfg.pixels, pixel < pixels_end ? pixel : 0, inner);
        at[i][0] = image();
        TENON_UNROLL
        for (int d = 0; d < rank - 2; ++d)
          at[i][d + 1] = inner[d];
        at[i][rank - 1] = first;
        counts[i] = pixel < pixels_end ? count : 0;
      }
      each(at, counts);
    }
  }

  /// sums[lane][channel] of this block's channels, over every pixel_lanes-th of its pixels.
  TENON_DEVICE void add_pixels(float *sums) const {
    float sum[run_length] = {};
    each_pixels<ahead>([&](const int(&at)[ahead][rank], const int(&counts)[ahead]) {
      operand_runs<run_length, arguments<X>> read[ahead];
      TENON_UNROLL
      for (int i = 0; i < ahead; ++i)
        read[i].template load<rank - 1>(pack(x), at[i], counts[i]);
      TENON_UNROLL
      for (int i = 0; i < ahead; ++i) {
        TENON_UNROLL
        for (int c = 0; c < run_length; ++c)
          sum[c] += read[i].call(identity_body{}, c);
      }
    });
    if (thread() / part_runs < pixel_lanes)
      detail::store_words(
          sums + thread() / part_runs * part_channels + thread() % part_runs * run_length, sum);
  }

  /// The image that the gates of this block's channels make.
  TENON_DEVICE void apply(const float *gates) const {
    constexpr int at_once = ahead / 2;
    float gate[run_length];
    detail::load_words(gate, gates + thread() % part_runs * run_length);
    each_pixels<at_once>([&](const int(&at)[at_once][rank], const int(&counts)[at_once]) {
      operand_runs<run_length, decltype(finish.ins)> read[at_once];
      TENON_UNROLL
      for (int i = 0; i < at_once; ++i)
        read[i].template load<rank - 1>(finish.ins, at[i], counts[i]);
      TENON_UNROLL
      for (int i = 0; i < at_once; ++i) {
        result_runs<run_length, decltype(finish.outs)> stored;
        TENON_UNROLL
        for (int c = 0; c < run_length; ++c)
          stored.set(c, read[i].call(finish.body, c, gate[c]));
        if (counts[i] > 0)
          stored.template store<rank - 1>(finish.outs, at[i], counts[i]);
      }
    });
  }
  template <class Gate> TENON_DEVICE void store(const Gate &gate, const int (&at)[2]) const {
    result_runs<1, decltype(finish.outs)> stored;
    stored.set(0, gate);
    stored.template store<1>(finish.outs, at, 1);
  }

  /// The lanes' sums become means, as far as this block knows them.
  TENON_DEVICE void take_mean(unsigned char *shared) const {
    const float *const sums = floats(shared, sums_at);
    float *const some = floats(shared, shares_at);
    for (int i = thread(); i < part_channels * shares; i += threads) {
      float sum = 0;
      for (int l = i / part_channels; l < pixel_lanes; l += shares)
        sum += sums[l * part_channels + i % part_channels];
      some[i] = sum;
    }
    sync_block();
    for (int c = thread(); c < part_channels; c += threads) {
      float sum = some[c];
      TENON_UNROLL
      for (int i = 1; i < shares; ++i)
        sum += some[i * part_channels + c];
      floats(shared, mean_at)[c] = sum * scale;
    }
  }

  /// done(row, sum of weights[row] * values) for rows below `rows`, each by one thread; zero from
  /// `valid_rows` on. Rows have `runs` runs, MostRuns at most, and begin `pitch` runs apart.
  template <int MostRuns, class Done>
  TENON_DEVICE static void multiply_rows(const W *weights, int pitch, int rows, int valid_rows,
                                         int runs, const float *values, Done done) {
    constexpr int lanes = MostRuns > 16 ? 32 : MostRuns > 8 ? 16 : MostRuns > 4 ? 8 : 4;
    const int my_lane = thread() % lanes;
    // Lanes of a warp stay together: they add up their parts.
    for (int first = thread() / 32 * (32 / lanes); first < rows; first += threads / lanes) {
      const int row = first + thread() % 32 / lanes;
      float sum = 0;
      if (row < valid_rows)
        for (int r = my_lane; r < runs; r += lanes) {
          W w[run_length];
          detail::load_words(w, weights + (row * pitch + r) * run_length);
          float v[run_length];
          detail::load_words(v, values + r * run_length);
          TENON_UNROLL
          for (int i = 0; i < run_length; ++i)
            sum = mul_add(load_element(&w[i]), v[i], sum);
        }
      TENON_UNROLL
      for (int mask = lanes / 2; mask > 0; mask /= 2)
        sum += shuffle_xor(sum, mask);
      if (my_lane == 0 && row < rows)
        done(row, sum);
    }
  }

  /// Every block's part of the hidden units goes to all of its cluster.
  TENON_DEVICE void exchange(unsigned char *shared) const {
    if constexpr (cluster_blocks > 1) {
      ptx::cluster::wait(); // all have begun
      constexpr int words = padded_hidden / 4;
      const auto *const own = reinterpret_cast<const word16 *>(shared + own_at);
      auto *const there = reinterpret_cast<word16 *>(shared + received_at) + part() * words;
      for (int i = thread(); i < words * cluster_blocks; i += threads)
        ptx::cluster::send(there + i % words, received(shared), i / words, own[i % words]);
      received(shared).wait_for_cluster(0);
    }
  }
  TENON_DEVICE void activate_hidden(unsigned char *shared) const {
    const float *const parts = floats(shared, cluster_blocks > 1 ? received_at : own_at);
    for (int h = thread(); h < padded_hidden; h += threads) {
      float sum = parts[h];
      TENON_UNROLL
      for (int p = 1; p < cluster_blocks; ++p)
        sum += parts[p * padded_hidden + h];
      float value = 0;
      if (h < hidden) {
        const int at[2] = {image(), h};
        operand_runs<1, HiddenIns> operands;
        operands.template load<1>(hidden_ins, at, 1);
        value = operands.call(activate, 0, sum);
      }
      floats(shared, hidden_at)[h] = value;
    }
  }
};

template <class Config, class X, class W, class HiddenIns, class Activate, class GateIns,
          class Excite, class Outs>
squeeze_excite_kernel<Config, X, W, HiddenIns, Activate, GateIns, Excite, stored_gates<Outs>>
squeeze_excite(Config cfg, X x, float scale, const W *w1, HiddenIns hidden_ins, Activate activate,
               const W *w2, GateIns gate_ins, Excite excite, Outs outs) {
  return {cfg, x, scale, w1, w2, hidden_ins, activate, gate_ins, excite, {outs}};
}

template <class Config, class X, class W, class HiddenIns, class Activate, class GateIns,
          class Excite, class Outs, class Ins, class Body>
squeeze_excite_kernel<Config, X, W, HiddenIns, Activate, GateIns, Excite,
                      gated_image<Outs, Ins, Body>>
squeeze_excite_image(Config cfg, X x, float scale, const W *w1, HiddenIns hidden_ins,
                     Activate activate, const W *w2, GateIns gate_ins, Excite excite, Outs outs,
                     Ins ins, Body body) {
  return {cfg, x, scale, w1, w2, hidden_ins, activate, gate_ins, excite, {outs, ins, body}};
}

} // namespace cuda
} // namespace tenon

#endif
