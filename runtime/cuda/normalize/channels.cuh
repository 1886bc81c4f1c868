// Defines `normalize_channels_parts` and `normalize_channels`: group norms of images whose pixels
// have their channels side by side, so that a group's elements lie in short pieces.
//
//   y[n, p, c] = body((x[n, p, c] - mean) / sqrt(mean of squared deviations + epsilon), ins...)
//
// with means over all pixels p and the `width` channels of the group that c belongs to.
//
// Algorithm: two launches over the same parts. A block has some channels of some pixels of an
// image: `columns` threads lie along channels, a run of `vector` each, the others along pixels. The
// first launch goes over the pixels once; each thread sums up deviations of its channels from their
// first values, whose squares do not cancel, and the block merges what belongs to a group. The
// second merges what the blocks of an image gave, in the same order in each of them. Config:
// images, pixels, channels (dims of one extent each), width (channels of a group), centered (false:
// the mean is taken as 0). Schedule: threads, columns (times vector: a multiple of width that
// divides the channels), vector, ahead (runs that a thread fetches together), blocks (of an image's
// pixels), whole (runs that are unit stride are aligned). x, outs, ins: over image, pixel and
// channel. Computed in f32, f64 for f64. parts: as many as there are images times groups times
// blocks. A result may be written over x where both lie alike.
#ifndef TENON_RUNTIME_CUDA_NORMALIZE_CHANNELS_CUH
#define TENON_RUNTIME_CUDA_NORMALIZE_CHANNELS_CUH

#include "cuda/normalize/moments.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class Outs, class Ins, class Body, bool Joins>
struct normalize_channels_kernel {
  using index = index_of<Config>;
  using T = compute_t<typename X::element>;
  using moments = joined_moments<T, Config::centered>;

  Config cfg;
  T epsilon;
  X x;
  Outs outs;
  Ins ins;
  Body body;
  moments *parts;

  static constexpr int threads = Config::threads, blocks_per_sm = 1;
  static constexpr int columns = Config::columns, vector = Config::vector, width = Config::width;
  static constexpr int own = columns * vector, groups = own / width; // of a block
  static constexpr int lanes = threads / columns;                    // along pixels
  static constexpr int ahead = Config::ahead;
  static_assert(own % width == 0 && lanes > 0, "a block has whole groups");

  TENON_FN static constexpr bool runs_on(target) { return true; }
  int shared_bytes() const {
    return Joins ? groups * 2 * int(sizeof(T)) : lanes * own * 2 * int(sizeof(T));
  }
  grid blocks() const { return {Config::blocks, volume(cfg.channels) / own, volume(cfg.images)}; }

  TENON_DEVICE void prefetch(unsigned char *) const {}
  TENON_DEVICE void run(unsigned char *shared) const {
    T *const values = reinterpret_cast<T *>(shared);
    if constexpr (Joins)
      apply(values);
    else
      sum_up(values);
  }

private:
  TENON_DEVICE static int column() { return thread() % columns; }
  TENON_DEVICE static int lane_of_pixel() { return thread() / columns; }
  TENON_DEVICE static index first_channel() { return index(block_y()) * own + column() * vector; }
  TENON_DEVICE index pixels() const { return index(volume(cfg.pixels)); }
  TENON_DEVICE index all_groups() const { return index(volume(cfg.channels)) / width; }
  TENON_DEVICE index part() const { return (pixels() + Config::blocks - 1) / Config::blocks; }
  TENON_DEVICE index begin(int block) const { return min_of(index(block) * part(), pixels()); }
  TENON_DEVICE index end(int block) const { return min_of(begin(block) + part(), pixels()); }
  TENON_DEVICE moments *part_of(int group, int block) const {
    const index of_all = index(block_z()) * all_groups() + index(block_y()) * groups + group;
    return parts + of_all * Config::blocks + block;
  }

  /// f(run, its pixel) for the runs of this thread in its block's part.
  template <class F> TENON_DEVICE void each_run(F f) const {
    if (lane_of_pixel() >= lanes)
      return;
    const index last = end(block_x());
    for (index base = begin(block_x()) + lane_of_pixel(); base < last; base += ahead * lanes) {
      fetched_run<vector, X> runs[ahead];
      TENON_UNROLL
      for (int r = 0; r < ahead; ++r) {
        const index pixel = base + index(r) * lanes;
        const index at[3] = {index(block_z()), pixel < last ? pixel : base, first_channel()};
        runs[r].template fetch<2, Config::whole>(x, at, vector);
      }
      TENON_UNROLL
      for (int r = 0; r < ahead; ++r)
        if (base + index(r) * lanes < last)
          f(runs[r], base + index(r) * lanes);
    }
  }

  /// How many pixels a lane has of a part of so many.
  TENON_DEVICE static index share(index of, int lane) { return (of - lane + lanes - 1) / lanes; }

  TENON_DEVICE void sum_up(T *values) const {
    T pivot[vector], sum[vector], squares[vector];
    TENON_UNROLL
    for (int i = 0; i < vector; ++i)
      pivot[i] = sum[i] = squares[i] = 0;
    bool first = Config::centered;
    each_run([&](const auto &run, index) {
      TENON_UNROLL
      for (int i = 0; i < vector; ++i) {
        const T v = T(run[i]);
        pivot[i] = first ? v : pivot[i];
        const T apart = v - pivot[i];
        sum[i] += apart;
        squares[i] += apart * apart;
      }
      first = false;
    });
    const index mine = end(block_x()) - begin(block_x());
    if (lane_of_pixel() < lanes) {
      const T count = T(max_of(index(1), share(mine, lane_of_pixel())));
      T *const means = values + lane_of_pixel() * own + column() * vector;
      TENON_UNROLL
      for (int i = 0; i < vector; ++i) {
        const T off = Config::centered ? sum[i] / count : T(0);
        means[i] = pivot[i] + off;
        means[lanes * own + i] = squares[i] - off * sum[i];
      }
    }
    sync_block();
    // A warp has a group; its lanes take the group's channels of the threads above, in turns.
    for (int group = warp(); group < groups; group += threads / 32) {
      moments m = moments::none();
      for (int e = lane(); e < lanes * width; e += 32) {
        const int from = e / width;
        const T *const mean = values + from * own + group * width + e % width;
        const index count = share(mine, from);
        if (count > 0)
          m = m.joined(moments{{T(count), mean[0], mean[lanes * own]}});
      }
      m = across_warp(m);
      if (lane() == 0)
        *part_of(group, block_x()) = m;
    }
  }

  TENON_DEVICE void apply(T *values) const {
    for (int group = warp(); group < groups; group += threads / 32) {
      moments m = moments::none();
      for (int b = lane(); b < Config::blocks; b += 32)
        m = m.joined(*part_of(group, b));
      m = across_warp(m);
      if (lane() == 0) {
        values[group] = m.mean;
        values[groups + group] = T(1) / sqrt<scalar_lanes>(m.squares / m.count + epsilon);
      }
    }
    sync_block();
    T mean[vector], factor[vector];
    TENON_UNROLL
    for (int i = 0; i < vector; ++i) {
      const int group = (column() * vector + i) / width;
      mean[i] = values[group];
      factor[i] = values[groups + group];
    }
    operand_runs<vector, Ins> fixed;
    const index start[3] = {index(block_z()), 0, first_channel()};
    fixed.template load<2, operand_part::fixed, Config::whole>(ins, start, vector);
    each_run([&](const auto &run, index pixel) {
      T y[vector];
      TENON_UNROLL
      for (int i = 0; i < vector; ++i)
        y[i] = (T(run[i]) - mean[i]) * factor[i];
      const index at[3] = {index(block_z()), pixel, first_channel()};
      operand_runs<vector, Ins> operands;
      operands.template load<2, operand_part::moving, Config::whole>(ins, at, vector);
      operands.template take_fixed<2>(fixed);
      apply_to_runs<2, Config::whole>(body, outs, operands, at, vector, y);
    });
  }

  TENON_DEVICE static moments across_warp(moments m) {
    TENON_UNROLL
    for (int mask = 16; mask > 0; mask /= 2) {
      const moments other = {
          {shuffle_xor(m.count, mask), shuffle_xor(m.mean, mask), shuffle_xor(m.squares, mask)}};
      // The same order on both sides, for the same bits.
      m = lane() & mask ? other.joined(m) : m.joined(other);
    }
    return m;
  }
};

/// `parts`: scratch of sizeof(row_moments<T>) for each block of each group of each image.
template <class Config, class X> auto normalize_channels_parts(Config cfg, X x, void *parts) {
  using kernel =
      normalize_channels_kernel<Config, X, arguments<>, arguments<>, identity_body, false>;
  return kernel{cfg, 0, x, {}, {}, {}, static_cast<typename kernel::moments *>(parts)};
}
template <class Config, class T, class X, class Outs, class Ins, class Body>
auto normalize_channels(Config cfg, T epsilon, X x, Outs outs, Ins ins, Body body, void *parts) {
  using kernel = normalize_channels_kernel<Config, X, Outs, Ins, Body, true>;
  return kernel{cfg, epsilon, x, outs, ins, body, static_cast<typename kernel::moments *>(parts)};
}

} // namespace cuda
} // namespace tenon

#endif
