// Defines `conv_winograd`: true fp32 convolutions of 3 x 3 taps at stride 1 on CUDA cores with 16
// multiplications for every 36, by Winograd's F(2x2, 3x3) [Lavin and Gray, 2016].
//
// Algorithm: of every 2 x 2 outputs (a patch) the 4 x 4 inputs d become V = B^T d B, 16 numbers per
// channel; the filters were stored as U = G g G^T. 16 independent products of patches times
// channels with channels times filters give M, and A^T M A is the outputs:
//
//         1  0 -1  0          1    0    0
//   B^T = 0  1  1  0     G = 1/2  1/2  1/2     A^T = 1  1  1  0
//         0 -1  1  0         1/2 -1/2  1/2           0  1 -1 -1
//         0  1  0 -1          0    0    1
//
// A block computes tile_t patches of tile_n filters. Tiles of U and V of tile_c channels pass
// through `stages` buffers of shared memory: U as it is stored, V by threads that load and
// transform patches a step ahead. A warp holds the sums of 16 / warps of the products, 4 x 8 lanes
// each; sums are transformed back through shared memory, 32 filters at a time.
//
// Error, with e = 2^-24 and C channels:
//   here                   at most (C + 12) e times the sum over the patch's A^T (|V| |U|) A
//   a direct convolution   at most 9 C e times the sum of its |x| |g|
// With random operands it is, relative to the root mean square of the outputs, 1.7e-7 for 16
// channels, 2.6e-7 for 64 and 9.5e-7 for 1024, where a direct sum in one order has 2.2e-7, 4.3e-7
// and 1.7e-6, because it rounds more often. A patch's largest input counts for all of its outputs,
// also for those whose window lacks it: an infinity among the 4 x 4 makes all four outputs NaN.
//
// Shared memory: V [stages][16][tile_c][tile_t + 4], U [stages][tile_c][16][tile_n], floats; then
// sums, [16][tile_t][36], in the same place. The four floats beyond a row keep both writers of a
// column and readers of 16 bytes apart. Lanes are numbered as in contract_simt/kernel.cuh.
//
// Config: conv_problem's with a kernel of 3 x 3, strides, dilations and groups of 1; any padding.
// Schedule: tile_t, tile_n, tile_c, warps, stages, splits, least_shared; see winograd_schedule and
// contract_simt/kernel.cuh. Weights: [ceil(filters/tile_n)][channels][16][tile_n], zero padded.
#ifndef TENON_RUNTIME_CUDA_WINOGRAD_KERNEL_CUH
#define TENON_RUNTIME_CUDA_WINOGRAD_KERNEL_CUH

#include "cuda/tile/split_k.cuh"
#include "cuda/tile/tile_pipeline.cuh"
#include "cuda/winograd/geometry.h"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from.
template <int TileT, int TileN, int TileC, int Warps, int Stages, int Splits = 1>
struct winograd_schedule {
  static constexpr int tile_t = TileT, tile_n = TileN, tile_c = TileC;
  static constexpr int warps = Warps, stages = Stages, splits = Splits;
  static constexpr int least_shared = 0;
};

namespace detail {

/// Where 2 x 2 outputs lie.
struct winograd_patch {
  int image, y, x;
  bool inside;
};
template <class Problem> TENON_DEVICE winograd_patch winograd_patch_of(const Problem &p, int t) {
  const int across = ceil_div(int(index_t(p.cfg.out_w)), 2),
            down = ceil_div(int(index_t(p.cfg.out_h)), 2), image = t / (across * down),
            rest = t - image * across * down;
  return {image, rest / across * 2, rest % across * 2, image < int(index_t(p.cfg.batch))};
}
template <class Problem> TENON_FN int winograd_patches(const Problem &p) {
  return int(index_t(p.cfg.batch)) * ceil_div(int(index_t(p.cfg.out_h)), 2) *
         ceil_div(int(index_t(p.cfg.out_w)), 2);
}

/// U as b_loader takes it: rows are channels times products.
template <class T, int TileN> struct winograd_filters {
  using element = T;
  static constexpr bool is_weights = true, k_major = false;
  const T *tile;
  int depth;

  template <int> TENON_FN static constexpr bool must_be_vector() { return true; }
  template <int N> TENON_DEVICE constexpr bool is_vector() const { return true; }
  template <int> TENON_FN static constexpr bool is_full() { return false; }
  TENON_DEVICE bool holds(int k, int) const { return k < depth; }
  TENON_DEVICE const T *address(int k, int n) const { return tile + k * TileN + n; }
  TENON_DEVICE index_t distance(int k, int n) const { return index_t(k) * TileN + n; }
  TENON_DEVICE const T *any() const { return tile; }
};

/// Brings tiles of V: a thread loads the patches of some channels and transforms them.
template <class Problem, class Config, class Prologue, class PrologueIns> class winograd_inputs {
  static constexpr int tile_t = Config::tile_t, tile_c = Config::tile_c;
  static constexpr winograd_geometry shape = {tile_t, Config::tile_n, tile_c, Config::warps,
                                              Config::stages};
  static constexpr int threads = shape.threads(), total = tile_t * tile_c;
  static constexpr int passes = ceil_div(total, threads);
  static_assert(tile_c % 8 == 0, "eight neighbouring channels are loaded together");

public:
  static constexpr int pitch = shape.v_pitch(), size = shape.v_size();
  TENON_DEVICE static int at(int product, int c, int t) {
    return (product * tile_c + c) * pitch + t;
  }

  TENON_DEVICE winograd_inputs(const Problem &p, const Prologue &prologue,
                               const PrologueIns &prologue_ins, int t0)
      : problem_(p), prologue_(prologue), prologue_ins_(prologue_ins) {
    TENON_UNROLL
    for (int i = 0; i < passes; ++i) {
      winograd_patch at = winograd_patch_of(p, t0 + patch(i));
      at.inside = at.inside && patch(i) < tile_t;
      const int y = at.y - int(index_t(p.cfg.pad_top)), x = at.x - int(index_t(p.cfg.pad_left));
      first_[i] = p.x.data + (at.inside ? at.image * stride<0>() + y * stride<2>() +
                                              x * stride<3>() + channel(i) * stride<1>()
                                        : 0);
      inside_[i] = 0;
      TENON_UNROLL
      for (int e = 0; e < 4; ++e) {
        const bool row = at.inside && unsigned(y + e) < unsigned(index_t(p.cfg.in_h)),
                   column = at.inside && unsigned(x + e) < unsigned(index_t(p.cfg.in_w));
        inside_[i] |= unsigned(row) << e | unsigned(column) << (4 + e);
      }
    }
  }

  TENON_DEVICE void issue(float *, int) const {}

  TENON_DEVICE void fetch(int step) {
    TENON_UNROLL
    for (int i = 0; i < passes; ++i) {
      const int c = step * tile_c + channel(i);
      const unsigned inside = c < int(index_t(problem_.cfg.channels)) ? inside_[i] : 0;
      const auto *from = first_[i] + step * tile_c * stride<1>();
      TENON_UNROLL
      for (int y = 0; y < 4; ++y) {
        TENON_UNROLL
        for (int x = 0; x < 4; ++x) {
          const bool valid = inside >> y & inside >> (4 + x) & 1;
          fetch_element(held_[i][4 * y + x], from + y * stride<2>() + x * stride<3>(), valid);
          if constexpr (!is_same<Prologue, no_prologue>)
            if (valid)
              held_[i][4 * y + x] =
                  apply_prologue(prologue_, prologue_ins_, held_[i][4 * y + x], c);
        }
      }
    }
  }

  TENON_DEVICE void put(float *tile, int) {
    TENON_UNROLL
    for (int i = 0; i < passes; ++i) {
      if (total % threads != 0 && patch(i) >= tile_t)
        break;
      float(&d)[16] = held_[i];
      TENON_UNROLL
      for (int x = 0; x < 4; ++x)
        transform(d[x], d[4 + x], d[8 + x], d[12 + x]);
      TENON_UNROLL
      for (int y = 0; y < 4; ++y)
        transform(d[4 * y], d[4 * y + 1], d[4 * y + 2], d[4 * y + 3]);
      TENON_UNROLL
      for (int e = 0; e < 16; ++e)
        tile[at(e, channel(i), patch(i))] = d[e];
    }
  }

private:
  /// B^T times a column.
  TENON_DEVICE static void transform(float &a, float &b, float &c, float &d) {
    const float first = a - c, second = b + c, third = c - b, fourth = b - d;
    a = first, b = second, c = third, d = fourth;
  }
  template <int D> TENON_DEVICE int stride() const {
    return int(index_t(problem_.x.strides.template get<D>()));
  }
  /// Eight lanes take neighbouring channels of a patch.
  TENON_DEVICE static int index(int pass) { return (pass * threads + thread()) / 8; }
  TENON_DEVICE static int patch(int pass) {
    return tile_c == 8 ? index(pass) : index(pass) % tile_t + index(pass) / (total / 8) * tile_t;
  }
  TENON_DEVICE static int channel(int pass) {
    return thread() % 8 + (tile_c == 8 ? 0 : index(pass) / tile_t % (tile_c / 8) * 8);
  }

  const Problem &problem_;
  Prologue prologue_;
  PrologueIns prologue_ins_;
  const typename Problem::element *first_[passes];
  unsigned inside_[passes]; // bit y: of row y, bit 4 + x: of column x
  float held_[passes][16];
};

} // namespace detail

template <class Config, class X, class T, class Outs, class Ins, class Body, class Prologue,
          class PrologueIns>
struct winograd_kernel {
  using problem_type = conv_problem<Config, X>;
  problem_type problem;
  packed_weights<T> w;
  Outs outs;
  Ins ins;
  Body body;
  Prologue prologue;
  PrologueIns prologue_ins;
  split_scratch scratch;

  static constexpr int tile_t = Config::tile_t, tile_n = Config::tile_n, tile_c = Config::tile_c;
  static constexpr int warps = Config::warps, stages = Config::stages, splits = Config::splits;
  static constexpr winograd_geometry shape = {tile_t, tile_n, tile_c, warps, stages};
  static constexpr int threads = shape.threads(), blocks_per_sm = 1;
  static constexpr int products = 16 / warps;                      // of a warp
  static constexpr int lanes_t = 4, lanes_n = 8;                   // of a warp
  static constexpr int runs_t = tile_t / 16, runs_n = tile_n / 32; // of four, of a lane
  static constexpr int sums = products * runs_t * 4 * runs_n * 4;  // of a lane
  static constexpr int back_pitch = shape.back_pitch;
  static_assert(16 % warps == 0 && tile_t % 16 == 0 && tile_n % 32 == 0,
                "warps hold whole products, lanes whole runs");
  static_assert(!problem_type::is_volume, "two spatial dimensions");
  static_assert(detail::is_same<compute_t<typename problem_type::element>, float> &&
                    detail::is_same<T, float>,
                "this kernel computes in fp32");

  using a_loader = detail::winograd_inputs<problem_type, Config, Prologue, PrologueIns>;
  using filters = detail::winograd_filters<T, tile_n>;
  using b_tile = detail::plain_tile<16 * tile_c, tile_n, 0, 4>;
  static_assert(a_loader::size == shape.v_size() && b_tile::size == shape.u_size(),
                "as the geometry has them");
  using b_loader_type = b_loader<filters, float, b_tile, threads>;

  int shared_bytes() const { return max_of(int(shape.shared_bytes()), Config::least_shared); }
  grid blocks() const {
    return {ceil_div(detail::winograd_patches(problem), tile_t),
            ceil_div(problem.columns(), tile_n), splits};
  }

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    const block_part part = part_of_this_block();
    const b_loader_type from(filters_of(part));
    prefetch_weights<stages>(from, part, [=](int s) { return tile_of_b(shared, s); });
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    const block_part part = part_of_this_block();
    a_loader from_a(problem, prologue, prologue_ins, part.m0);
    b_loader_type from_b(filters_of(part));
    float sum[sums] = {};
    pipeline<stages>(
        from_a, from_b, part, [=](int s) { return tile_of_a(shared, s); },
        [=](int s) { return tile_of_b(shared, s); },
        [&](int s, int) { multiply(sum, tile_of_a(shared, s), tile_of_b(shared, s)); });
    if constexpr (splits > 1)
      if (!combine_splits<splits, threads>(scratch, part.tile, part.split, sum, shared))
        return;
    TENON_UNROLL
    for (int j = 0; j < runs_n; ++j) {
      if (j > 0)
        sync_block();
      give_back(reinterpret_cast<float *>(shared), sum, j);
      sync_block();
      finish(reinterpret_cast<const float *>(shared), part, j);
    }
  }

private:
  TENON_DEVICE block_part part_of_this_block() const {
    const int steps = ceil_div(int(index_t(problem.cfg.channels)), tile_c),
              each = ceil_div(steps, splits),
              tiles_t = ceil_div(detail::winograd_patches(problem), tile_t);
    const int split = block_z();
    return {block_x() * tile_t,
            block_y() * tile_n,
            0,
            split,
            min_of(split * each, steps),
            min_of((split + 1) * each, steps),
            block_y() * tiles_t + block_x()};
  }
  TENON_DEVICE filters filters_of(const block_part &part) const {
    const int depth = 16 * int(index_t(problem.cfg.channels));
    return {w.data + index_t(part.n0) * depth, depth};
  }
  TENON_DEVICE static float *tile_of_a(unsigned char *shared, int stage) {
    return reinterpret_cast<float *>(shared) + stage * a_loader::size;
  }
  TENON_DEVICE static float *tile_of_b(unsigned char *shared, int stage) {
    return reinterpret_cast<float *>(shared) + stages * a_loader::size + stage * b_tile::size;
  }
  TENON_DEVICE static int lane_t() { return lane() / 2 % 2 + lane() / 16 * 2; }
  TENON_DEVICE static int lane_n() { return lane() % 2 + lane() / 4 % 4 * 2; }
  /// The place of a sum: product p of the warp, patch run i, element e, filter run j.
  TENON_DEVICE static constexpr int sum_at(int p, int i, int e, int j) {
    return ((p * runs_t + i) * 4 + e) * runs_n * 4 + 4 * j;
  }

  TENON_DEVICE static void multiply(float (&sum)[sums], const float *a, const float *b) {
    const int first = warp() * products;
    TENON_UNROLL
    for (int c = 0; c < tile_c; ++c) {
      TENON_UNROLL
      for (int p = 0; p < products; ++p) {
        float v[runs_t][4], u[runs_n][4];
        TENON_UNROLL
        for (int i = 0; i < runs_t; ++i)
          detail::load_words(v[i], a + a_loader::at(first + p, c, (lane_t() + i * lanes_t) * 4));
        TENON_UNROLL
        for (int j = 0; j < runs_n; ++j)
          detail::load_words(u[j], b + b_tile::at(c * 16 + first + p, lane_n() + j * lanes_n));
        TENON_UNROLL
        for (int i = 0; i < runs_t * 4; ++i) {
          TENON_UNROLL
          for (int j = 0; j < runs_n * 4; ++j) {
            float &s = sum[sum_at(p, i / 4, i % 4, 0) + j];
            s = mul_add(v[i / 4][i % 4], u[j / 4][j % 4], s);
          }
        }
      }
    }
  }

  /// Run j of everyone's sums into shared memory.
  TENON_DEVICE static void give_back(float *to, const float (&sum)[sums], int j) {
    TENON_UNROLL
    for (int p = 0; p < products; ++p) {
      TENON_UNROLL
      for (int i = 0; i < runs_t; ++i) {
        TENON_UNROLL
        for (int e = 0; e < 4; ++e) {
          const int t = (lane_t() + i * lanes_t) * 4 + e;
          float four[4];
          TENON_UNROLL
          for (int k = 0; k < 4; ++k)
            four[k] = sum[sum_at(p, i, e, j) + k];
          detail::store_words(
              to + ((warp() * products + p) * tile_t + t) * back_pitch + lane_n() * 4, four);
        }
      }
    }
  }

  /// A thread transforms one row of a patch of four filters.
  TENON_DEVICE void finish(const float *from, const block_part &part, int j) const {
    for (int item = thread(); item < tile_t * lanes_n * 2; item += threads) {
      const int run = item % lanes_n, row = item / lanes_n % 2, t = item / (2 * lanes_n);
      const int n = part.n0 + (j * lanes_n + run) * 4, count = min_of(problem.columns() - n, 4);
      const detail::winograd_patch at = detail::winograd_patch_of(problem, part.m0 + t);
      const int y = at.y + row;
      if (count <= 0 || !at.inside || y >= int(index_t(problem.cfg.out_h)))
        continue;
      // Row 0 is M0 + (M1 + M2), row 1 is M1 - (M2 + M3).
      const float sign = row == 0 ? 1.f : -1.f;
      float m[4][4]; // by column and filter
      TENON_UNROLL
      for (int x = 0; x < 4; ++x) {
        float three[3][4];
        TENON_UNROLL
        for (int r = 0; r < 3; ++r)
          detail::load_words(three[r],
                             from + (((row + r) * 4 + x) * tile_t + t) * back_pitch + run * 4);
        TENON_UNROLL
        for (int k = 0; k < 4; ++k)
          m[x][k] = mul_add(sign, three[1][k] + three[2][k], three[0][k]);
      }
      TENON_UNROLL
      for (int x = 0; x < 2; ++x) {
        if (at.x + x >= int(index_t(problem.cfg.out_w)))
          break;
        const int point[4] = {at.image, n, y, at.x + x};
        float four[4];
        TENON_UNROLL
        for (int k = 0; k < 4; ++k)
          four[k] = x == 0 ? m[0][k] + (m[1][k] + m[2][k]) : m[1][k] - (m[2][k] + m[3][k]);
        apply_body<problem_type::along>(body, outs, ins, point, count, four);
      }
    }
  }
};

template <class Config, class X, class T, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
winograd_kernel<Config, X, T, Outs, Ins, Body, Prologue, PrologueIns>
conv_winograd(Config cfg, X x, packed_weights<T> w, Outs outs, Ins ins, Body body,
              split_scratch scratch = {}, Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, prologue, prologue_ins, scratch};
}

} // namespace cuda
} // namespace tenon

#endif
