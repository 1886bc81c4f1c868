// Defines `strip`: matrices of constant weights times 1 to 16 rows, bound by reading the weights
// once, with the weights as A of mma.m16n8k16 and the rows as its B. A study; see README.md.
//
//   y[t, o] = sum over k of x[t, k] * w[o, k]
//
// Algorithm: 16 outputs are a strip; a block computes every grid-th strip. One thread copies the
// block's weights in their order into a ring of shared memory, as far ahead as the ring reaches:
// weights do not change, so it waits for free stages alone, not for the product before. A stage is
// a chunk of one strip, of which each warp multiplies `Tiles` tiles. A warp thus has the same part
// of k in all strips, and keeps that part of the rows in registers while `Strips` strips pass. Then
// the warps' sums are added in their order through shared memory.
//
// The blocks of a cluster may share each strip along k (`Split`): each sends its sums to the block
// that owns the outputs, by st.async, and that one adds them in their order.
//
// Around a product of one row lie a prologue and an epilogue. `rms_norm`: x is f32 times gamma, and
// the factor 1 / sqrt(mean of squares + epsilon) is applied to the results, so no block waits for
// the sum of squares before it multiplies: it travels with the warps' sums. `residual` adds to an
// f32 stream, `swiglu` takes pairs of outputs (gate, up), `argmax` sends (value, ~output) as
// ordered 64-bit keys to atomicMax.
//
// One product is a launch (by programmatic dependent launch, the ring is filled before the wait). A
// chain of products is one launch as well, of a block a multiprocessor: there a value of x is there
// once its bits are not 0xffff, which no product writes and the first x must not hold; the launch
// before has filled all results with these.
//
// Weights: tiles of 16 outputs, 512 bytes each, along k first. Lane 4 * g + t owns bytes 16 * lane
// ... Within 32 k, lane t of mma step s has k 8 * t + 4 * s + 2 * (r / 2) + h in register a[r],
// half h, row g + 8 * (r % 2): so its part of B is 16 bytes of a row as it lies.
//   fp16   16 x 16: registers a[0] ... a[3] of step (tile % 2), word i
//   int8   16 x 32 (a block of one scale): bytes 2 * r + h of the eight of step s hold q + 128
//   int4   16 x 64 (two blocks): bits 4 * p ... of word 2 * b + s, p = 4 * h + r, hold q + 8
// Scales: a plane of halves, [tile][g][block][row half]. k is filled up to two tiles
// (values 0, scales 0).
#pragma once

#include "../arrival.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/global_timer.cuh"
#include "cuda/ptx/griddepcontrol.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/named_barrier.cuh"
#include <cuda_fp16.h>

namespace study {

enum class weights { fp16, int8, int4 };
enum class prologue { none, rms_norm };
enum class epilogue { halves, residual, swiglu, argmax };
/// How a launch knows that its x is there: by the end of the grid before, or by its values.
enum class arrival { grid, values };

/// Nanoseconds of a block: it began, its wait ended, it ended.
struct stamps {
  unsigned long long begun, waited, ended;
};

/// x [rows][k], y [rows][n]; k is a multiple of 8.
struct product {
  const void *w, *scale;
  const __half *x;
  __half *y;
  int n, k;
};

struct strip_arguments {
  product one;
  int rows;
  // Of a chain: its products, each reading what the one before wrote. Of these and of launches that
  // know x by its values: results that a later launch gives, which this one fills with 0xffff.
  const product *chain;
  int count;
  uint4 *clear;
  long clear_words;
  bool late; // the next grid may start behind this one's wait, not at its beginning
  // Of rms_norm: x, instead of the product's, and its factors [k].
  const float *stream;
  const __half *gamma;
  float epsilon;
  const float *addend;      // of residual,
  float *sums;              // and where the sums go, instead of y; they may be the same
  unsigned long long *best; // of argmax; y may be null there
  stamps *times;            // of each block, or null
};

template <weights Kind> struct tile_of {
  static constexpr int depth = Kind == weights::fp16 ? 16 : Kind == weights::int8 ? 32 : 64;
  static constexpr int blocks = Kind == weights::fp16 ? 0 : depth / 32, steps = depth / 16;
  uint4 words;
  __half2 scale[blocks > 0 ? blocks : 1]; // of rows g and g + 8

  /// From shared memory: weights and scales of this lane.
  TENON_DEVICE void load(const unsigned char *from, const unsigned char *scales) {
    words = reinterpret_cast<const uint4 *>(from)[lane()];
    if constexpr (blocks == 2) {
      const uint2 both = reinterpret_cast<const uint2 *>(scales)[lane() / 4];
      memcpy(scale, &both, 8);
    } else if constexpr (blocks == 1) {
      memcpy(scale, &reinterpret_cast<const unsigned *>(scales)[lane() / 4], 4);
    }
  }
  TENON_DEVICE unsigned word(int i) const {
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
  }
  /// Fragments of A of one step of 16 k. Integers are subnormal halves, v times 2^-24 (int4: rows
  /// g + 8 times 2^-20), where v = q + bias: no more than a mask or a permutation makes them.
  TENON_DEVICE void fragments(unsigned (&f)[4], int step) const {
    if constexpr (Kind == weights::fp16) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i)
        f[i] = word(i);
    } else if constexpr (Kind == weights::int8) {
      TENON_UNROLL
      for (int r = 0; r < 4; ++r)
        f[r] = __byte_perm(word(2 * step + r / 2), 0u, r % 2 ? 0x4342 : 0x4140);
    } else {
      const unsigned w = word(step), high = w >> 8;
      f[0] = w & 0x000f000fu, f[1] = w & 0x00f000f0u;
      f[2] = high & 0x000f000fu, f[3] = high & 0x00f000f0u;
    }
  }
  static constexpr float bias = Kind == weights::int8 ? 128 : Kind == weights::int4 ? 8 : 0;
  /// By what the products of rows g and g + 8 are too small.
  static constexpr float low = Kind == weights::fp16 ? 1 : 16777216,
                         high = Kind == weights::int4 ? 1048576 : low;
};

/// Rows: 1, 8 or 16 at most. Depth: how many k of one row a block keeps in shared memory at once.
template <weights Kind, int Rows, int Warps, int Tiles, int Strips, int Stages, bool Chain = false,
          prologue In = prologue::none, epilogue Out = epilogue::halves, int Split = 1,
          int Depth = 8192, arrival By = Chain ? arrival::values : arrival::grid>
struct strip_kernel {
  using tile = tile_of<Kind>;
  using there = arrival_of_values;
  static constexpr int threads = 32 * (Warps + 1), blocks_of_sm = Chain ? 1 : 2;
  static constexpr int depth = Depth, strips = Strips;
  static constexpr int columns = ceil_div(Rows, 8);
  static constexpr int stage_tiles = Warps * Tiles, scale_bytes = 32 * tile::blocks;
  static constexpr int stage_bytes = stage_tiles * (512 + scale_bytes);
  static constexpr int runs = Tiles * tile::depth / 32; // of 16 bytes of x, by a lane in a stage
  static constexpr int most_products = 80;
  // Of one row, a warp's part of several chunks is fetched at once and kept in shared memory; of
  // more rows, the part of the next chunk is on its way there.
  static constexpr int staged = Rows > 1 ? columns *runs * 32 : Depth / 8 / Warps; // 16 bytes
  static constexpr int staged_tiles = Rows > 1 ? stage_tiles : staged *Warps * 8 / tile::depth;
  static constexpr bool normalizes = In == prologue::rms_norm,
                        plain = !normalizes && Out == epilogue::halves,
                        polls = By == arrival::values;
  static constexpr int each = Rows > 1 ? 1 : staged / 32; // runs of one row that a lane fetches
  static constexpr int values = Strips * columns * (Rows > 1 ? 128 : 16); // of a pass
  static constexpr int most_passes = 2; // of blocks that share strips: their sums have room
  static_assert(Tiles % 2 == 0, "a strip has pairs of tiles");
  static_assert(Rows > 1 || staged % 32 == 0, "lanes fetch whole runs");
  static_assert(plain || (Rows == 1 && !Chain), "chains and several rows have plain products");
  static_assert(Chain || !polls || Rows == 1, "launches of several rows wait for the grid before");
  static_assert(!Chain || (Split == 1 && polls), "blocks of a chain share no strips");
  static_assert(Out != epilogue::residual || Strips * 16 <= 8 * Warps,
                "a thread finishes one output of a pass");
  static_assert(Out == epilogue::halves || Out == epilogue::residual || Split == 1,
                "pairs and keys are finished by whole warps");

  // Of a pass: of one row 16 sums a strip and warp, of more the accumulators of all lanes.
  using sums_of_pass = float[Strips][columns][Warps][Rows > 1 ? 128 : 16];
  struct memory {
    unsigned char weights[Stages][stage_bytes];
    sums_of_pass sums[Rows > 1 ? 1 : 2]; // of one row by turns, so that one barrier is enough
    uint4 x[Warps][staged];
    float squares[Warps], squares_of[Split];
    unsigned long long keys[Warps];
    float parts[Split > 1 ? most_passes : 1][Split][Split > 1 ? values : 1];
    ptx::mbarrier full[Stages], free[Stages], done[most_passes];
    product chain[Chain ? most_products : 1];
  };
  static constexpr int shared_bytes = sizeof(memory);

  /// Where in the ring a thread is, and which block has the first strip of the next product: the
  /// one after that which had the last before.
  struct cursor {
    int stage = 0, turn = 0, block = 0, pass = 0;
    unsigned long long best = 0;
    TENON_DEVICE void next() {
      if (++stage == Stages)
        stage = 0, turn ^= 1;
    }
  };
  TENON_FN static int tiles_of(int k) { return 2 * ceil_div(k, 2 * tile::depth); }
  TENON_DEVICE static int rank() { return block_x() % Split; }
  TENON_DEVICE static int groups() { return grid_x() / Split; }
  /// The strips of this block: `count` of them from `first` on, as many groups of blocks apart;
  /// of each, `tiles` from tile `begin` on.
  struct share {
    int first, count, begin, tiles;
    TENON_DEVICE share(const product &p, cursor &at) {
      const int of_all = ceil_div(p.n, 16), all = tiles_of(p.k);
      first = block_x() / Split - at.block;
      first += first < 0 ? groups() : 0;
      count = first < of_all ? (of_all - first - 1) / groups() + 1 : 0;
      at.block = (at.block + of_all) % groups();
      const int part = 2 * ceil_div(all, 2 * Split);
      begin = rank() * part;
      tiles = max_of(0, min_of(part, all - begin));
    }
  };

  TENON_DEVICE static void run(const strip_arguments &a, memory &shared) {
    if constexpr (!Chain)
      if (!a.late)
        ptx::griddepcontrol::launch_dependents();
    stamp(a, &stamps::begun);
    if (thread() == 0) {
      for (int i = 0; i < Stages; ++i)
        shared.full[i].init(1), shared.free[i].init(32 * Warps);
      if constexpr (Split > 1) {
        for (int i = 0; i < most_passes; ++i)
          shared.done[i].init(1);
      }
      ptx::mbarrier::fence_init();
      if constexpr (Split > 1)
        expect(a.one, shared);
    }
    if constexpr (Chain) {
      for (int i = thread(); i < a.count * int(sizeof(product) / 8); i += threads)
        reinterpret_cast<uint64_t *>(shared.chain)[i] =
            reinterpret_cast<const uint64_t *>(a.chain)[i];
    }
    sync_block();
    if constexpr (Split > 1)
      ptx::cluster::arrive(); // the others have begun once all have: they may be written to
    if (warp() == Warps) {
      if (lane() == 0) {
        cursor at;
        for (int i = 0; i < a.count; ++i)
          copy(Chain ? shared.chain[i] : a.one, shared, at);
      }
      if constexpr (Split > 1)
        ptx::cluster::wait();
      return;
    }
    factors gamma;
    if constexpr (normalizes) {
      cursor at;
      load_factors(gamma, a, share(a.one, at));
    }
    if constexpr (Split > 1)
      ptx::cluster::wait();
    if constexpr (Chain) {
      for (long i = block_x() * 32L * Warps + thread(); i < a.clear_words;
           i += grid_x() * 32L * Warps)
        a.clear[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
    } else if constexpr (!polls) {
      ptx::griddepcontrol::wait();
      if (a.late)
        ptx::griddepcontrol::launch_dependents();
    }
    stamp(a, &stamps::waited);
    cursor at;
    for (int i = 0; i < a.count; ++i)
      multiply(Chain ? shared.chain[i] : a.one, a, gamma, shared, at);
    if constexpr (Out == epilogue::argmax)
      send_best(a, shared, at.best);
    stamp(a, &stamps::ended);
    if constexpr (!Chain && polls) {
      ptx::griddepcontrol::wait(); // so that grids end in their order
      for (int i = block_x() * 32 * Warps + thread(); i < a.clear_words; i += grid_x() * 32 * Warps)
        a.clear[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
    }
  }

private:
  /// Copies the stages of a product in the order in which they are multiplied.
  TENON_DEVICE static void copy(const product &p, memory &shared, cursor &at) {
    const share mine(p, at);
    const int strips = mine.count;
    const size_t pitch = size_t(tiles_of(p.k));
    for (int base = 0; base < strips; base += Strips)
      for (int first = 0; first < mine.tiles; first += stage_tiles)
        for (int i = base; i < min_of(strips, base + Strips); ++i) {
          const size_t from = (mine.first + i * groups()) * pitch + size_t(mine.begin + first);
          const int count = min_of(stage_tiles, mine.tiles - first);
          shared.free[at.stage].wait(at.turn ^ 1);
          shared.full[at.stage].arrive_expecting(count * (512 + scale_bytes));
          unsigned char *const to = shared.weights[at.stage];
          bulk(to, a_byte(p.w) + from * 512, count * 512, shared.full[at.stage]);
          if constexpr (scale_bytes > 0)
            bulk(to + stage_tiles * 512, a_byte(p.scale) + from * scale_bytes, count * scale_bytes,
                 shared.full[at.stage]);
          at.next();
        }
  }
  TENON_DEVICE static const unsigned char *a_byte(const void *p) {
    return static_cast<const unsigned char *>(p);
  }
  TENON_DEVICE static void bulk(void *to, const void *from, int bytes, ptx::mbarrier &done) {
    // The policy: evict first, for these are read once.
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(ptx::shared_address(to)),
                 "l"(from), "r"(bytes), "r"(ptx::shared_address(&done)), "l"(0x12f0000000000000ull)
                 : "memory");
  }

  using part = uint4[columns][runs]; // of x: row 8 * c + g, k 32 * i + 8 * t ... of the warp's part
  // Those of outputs g and g + 8 differ by a power of two: half of them are kept where registers
  // are few.
  static constexpr int sums_of_lane = Rows > 8 ? 2 : 4;
  using bases = float[columns][tile::blocks > 0 ? runs : 1][sums_of_lane];
  using factors = uint4[each]; // of rms_norm: those of the runs of x that a lane fetches
  TENON_DEVICE static void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                               const float (&c)[4]) {
    // Not volatile: it is moved among others, so that their latencies overlap.
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]),
          "f"(c[2]), "f"(c[3]));
  }
  /// What the sums of a block of 32 k start from: less bias times the sum of x.
  TENON_DEVICE static void start(bases &base, const part &x) {
    if constexpr (tile::blocks > 0) {
      const unsigned ones[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
      TENON_UNROLL
      for (int c = 0; c < columns; ++c) {
        TENON_UNROLL
        for (int i = 0; i < runs; ++i) {
          float sum[4] = {};
          mma(sum, ones, x[c][i].x, x[c][i].y, sum);
          mma(sum, ones, x[c][i].z, x[c][i].w, sum);
          TENON_UNROLL
          for (int j = 0; j < sums_of_lane; ++j)
            base[c][i][j] = sum[j] * (-tile::bias / (j < 2 ? tile::low : tile::high));
        }
      }
    }
  }
  TENON_DEVICE static void fetch(part &x, const product &p, const share &mine, int rows,
                                 int first) {
    const int begin = (mine.begin + first + warp() * Tiles) * tile::depth + 8 * (lane() % 4);
    TENON_UNROLL
    for (int c = 0; c < columns; ++c) {
      const int row = 8 * c + lane() / 4;
      TENON_UNROLL
      for (int i = 0; i < runs; ++i) {
        x[c][i] = make_uint4(0, 0, 0, 0);
        if (row < rows && begin + 32 * i < p.k)
          x[c][i] = there::load(p.x + size_t(row) * p.k + begin + 32 * i);
      }
    }
  }
  /// As fetch, to this lane's place in shared memory, and from there.
  TENON_DEVICE static void fetch_ahead(memory &shared, const product &p, const share &mine,
                                       int rows, int first) {
    const int begin = (mine.begin + first + warp() * Tiles) * tile::depth + 8 * (lane() % 4);
    TENON_UNROLL
    for (int c = 0; c < columns; ++c) {
      const int row = 8 * c + lane() / 4;
      TENON_UNROLL
      for (int i = 0; i < runs; ++i) {
        const bool there = row < rows && begin + 32 * i < p.k;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                         ptx::shared_address(&shared.x[warp()][(c * runs + i) * 32 + lane()])),
                     "l"(p.x + (there ? size_t(row) * p.k + begin + 32 * i : 0)),
                     "r"(there ? 16 : 0)
                     : "memory");
      }
    }
  }
  TENON_DEVICE static void take(part &x, const memory &shared) {
    asm volatile("cp.async.wait_all;" ::: "memory");
    TENON_UNROLL
    for (int c = 0; c < columns; ++c) {
      TENON_UNROLL
      for (int i = 0; i < runs; ++i)
        x[c][i] = shared.x[warp()][(c * runs + i) * 32 + lane()];
    }
  }
  /// One row: the k at which run i of this lane begins, of the warp's parts of the chunks from tile
  /// `first` on; or a large one, where the block has none.
  TENON_DEVICE static int run_of(const product &p, const share &mine, int first, int i) {
    constexpr int runs_of_chunk = Tiles * tile::depth / 8;
    const int run = lane() + 32 * i;
    const int at = (first + run / runs_of_chunk * stage_tiles + warp() * Tiles) * tile::depth +
                   run % runs_of_chunk * 8;
    const int k = mine.begin * tile::depth + at;
    return at < mine.tiles * tile::depth && k < p.k ? k : 1 << 30;
  }
  TENON_DEVICE static void load_factors(factors &to, const strip_arguments &a, const share &mine) {
    TENON_UNROLL
    for (int i = 0; i < each; ++i) {
      const int k = run_of(a.one, mine, 0, i);
      to[i] = make_uint4(0, 0, 0, 0);
      if (k < a.one.k)
        to[i] = *reinterpret_cast<const uint4 *>(a.gamma + k);
    }
  }
  /// Those parts, to shared memory; of rms_norm x * gamma, and the sum of the warp's squares.
  TENON_DEVICE static void stage(const product &p, const strip_arguments &a, const share &mine,
                                 const factors &gamma, memory &shared, int first) {
    uint4 w[each];
    int k[each];
    float squares = 0;
    TENON_UNROLL
    for (int i = 0; i < each; ++i) {
      k[i] = run_of(p, mine, first, i);
      w[i] = make_uint4(0, 0, 0, 0);
      if (k[i] < p.k) {
        if constexpr (normalizes)
          w[i] = scaled(eight_of(a.stream + k[i]), gamma[i], squares);
        else
          w[i] = there::load(p.x + k[i]);
      }
    }
    sync_warp();
    TENON_UNROLL
    for (int i = 0; i < each; ++i) {
      if constexpr (polls && !normalizes)
        there::await_halves(w[i], p.x + k[i]);
      shared.x[warp()][lane() + 32 * i] = w[i];
    }
    if constexpr (normalizes) {
      TENON_UNROLL
      for (int by = 16; by > 0; by /= 2)
        squares += __shfl_xor_sync(~0u, squares, by);
      if (lane() == 0)
        shared.squares[warp()] = squares;
    }
    sync_warp();
  }
  struct eight {
    float v[8];
  };
  TENON_DEVICE static eight eight_of(const float *from) {
    uint4 low = there::load(from), high = there::load(from + 4);
    if constexpr (polls)
      there::await_floats(low, from), there::await_floats(high, from + 4);
    eight x;
    memcpy(x.v, &low, 16), memcpy(x.v + 4, &high, 16);
    return x;
  }
  /// Eight values of the stream times their factors.
  TENON_DEVICE static uint4 scaled(const eight &x, const uint4 &gamma, float &squares) {
    __half2 by[4], out[4];
    memcpy(by, &gamma, 16);
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float2 f = __half22float2(by[i]);
      squares = fmaf(x.v[2 * i], x.v[2 * i], squares);
      squares = fmaf(x.v[2 * i + 1], x.v[2 * i + 1], squares);
      out[i] = __floats2half2_rn(x.v[2 * i] * f.x, x.v[2 * i + 1] * f.y);
    }
    uint4 w;
    memcpy(&w, out, 16);
    return w;
  }
  TENON_DEVICE static void from_stage(part &x, const memory &shared, int chunk) {
    TENON_UNROLL
    for (int i = 0; i < runs; ++i) {
      x[0][i] = make_uint4(0, 0, 0, 0);
      if (lane() < 4)
        x[0][i] = shared.x[warp()][(chunk * runs + i) * 4 + lane()];
    }
  }
  /// Fetches again what has not been there: the first run until it is, then all others that are
  /// missing at a time, for each way to memory and back takes long.
  TENON_DEVICE static void complete(part &x, const product &p, int first) {
    if constexpr (Chain) { // which has whole strips
      const int begin = (first + warp() * Tiles) * tile::depth + 8 * (lane() % 4);
      TENON_UNROLL
      for (int c = 0; c < columns; ++c) {
        const __half *const from = p.x + size_t(8 * c + lane() / 4) * p.k + begin;
        there::await_halves(x[c][0], from);
        for (int left = runs > 1; left > 0;) {
          bool again[runs];
          left = 0;
          TENON_UNROLL
          for (int i = 1; i < runs; ++i)
            again[i] = there::lacks_halves(x[c][i]), left += again[i];
          TENON_UNROLL
          for (int i = 1; i < runs; ++i)
            if (again[i])
              x[c][i] = there::load(from + 32 * i);
        }
      }
      sync_warp();
    }
  }
  TENON_DEVICE static void multiply(const product &p, const strip_arguments &a,
                                    const factors &gamma, memory &shared, cursor &at) {
    const share mine(p, at);
    const int tiles = mine.tiles, strips = mine.count, rows = a.rows;
    if (strips == 0)
      return;
    part x;
    bases base_of;
    const bool restage = tiles > staged_tiles;
    if constexpr (Rows > 1) {
      fetch(x, p, mine, rows, 0);
      complete(x, p, 0);
    } else {
      stage(p, a, mine, gamma, shared, 0);
      from_stage(x, shared, 0);
    }
    start(base_of, x);
    for (int base = 0; base < strips; base += Strips) {
      const int count = min_of(Strips, strips - base);
      float sum[Strips][columns][4] = {};
      for (int first = 0; first < tiles; first += stage_tiles) {
        const bool more = tiles > stage_tiles;
        const int then = first + stage_tiles < tiles ? first + stage_tiles : 0;
        if constexpr (Rows > 1) {
          if (more)
            fetch_ahead(shared, p, mine, rows, then);
        }
        TENON_UNROLL
        for (int i = 0; i < Strips; ++i) {
          if (i < count) {
            const unsigned char *const from = shared.weights[at.stage];
            shared.full[at.stage].wait(at.turn);
            tile w[Tiles];
            TENON_UNROLL
            for (int j = 0; j < Tiles; ++j) {
              const int tile = warp() * Tiles + j;
              w[j].load(from + tile * 512, from + stage_tiles * 512 + tile * scale_bytes);
            }
            shared.free[at.stage].arrive();
            at.next();
            TENON_UNROLL
            for (int j = 0; j < Tiles; j += 2)
              if (first + warp() * Tiles + j < tiles) {
                multiply(sum[i], w[j], x, base_of, j);
                multiply(sum[i], w[j + 1], x, base_of, j + 1);
              }
          }
        }
        if (more) {
          if constexpr (Rows > 1) {
            take(x, shared);
            complete(x, p, then);
          } else {
            if (restage && then % staged_tiles == 0)
              stage(p, a, mine, gamma, shared, then);
            from_stage(x, shared, then % staged_tiles / stage_tiles);
          }
          start(base_of, x);
        }
      }
      join(sum, p, a, shared, at, mine.first + base * groups(), count);
    }
  }

  TENON_DEVICE static void multiply(float (&sum)[columns][4], const tile &w, const part &x,
                                    const bases &base, int at) {
    if constexpr (Kind == weights::fp16) {
      unsigned f[4];
      w.fragments(f, 0);
      TENON_UNROLL
      for (int c = 0; c < columns; ++c) {
        const uint4 &of = x[c][at / 2];
        mma(sum[c], f, at % 2 ? of.z : of.x, at % 2 ? of.w : of.y, sum[c]);
      }
    } else {
      TENON_UNROLL
      for (int block = 0; block < tile::blocks; ++block) {
        unsigned f[2][4];
        w.fragments(f[0], 2 * block);
        w.fragments(f[1], 2 * block + 1);
        const int run = at * tile::blocks + block;
        const float2 by = __half22float2(w.scale[block]);
        TENON_UNROLL
        for (int c = 0; c < columns; ++c) {
          float d[4];
          float from[4];
          TENON_UNROLL
          for (int i = 0; i < 4; ++i)
            from[i] =
                base[c][run][i % sums_of_lane] * (i < sums_of_lane ? 1 : tile::low / tile::high);
          mma(d, f[0], x[c][run].x, x[c][run].y, from);
          mma(d, f[1], x[c][run].z, x[c][run].w, d);
          TENON_UNROLL
          for (int i = 0; i<4; i += Rows> 1 ? 1 : 2)
            sum[c][i] = fmaf(d[i], i < 2 ? by.x : by.y, sum[c][i]);
        }
      }
    }
  }

  /// Adds the warps' sums of `count` strips, `first` and those a number of groups apart, in the
  /// order of four threads each, and finishes them.
  TENON_DEVICE static void join(const float (&sum)[Strips][columns][4], const product &p,
                                const strip_arguments &a, memory &shared, cursor &at, int first,
                                int count) {
    const int turn = at.pass;
    sums_of_pass &sums = shared.sums[Rows > 1 ? 0 : turn];
    at.pass ^= 1;
    if constexpr (Rows > 1)
      ptx::named_barrier::sync(1, 32 * Warps); // those before have been read
    TENON_UNROLL
    for (int s = 0; s < Strips; ++s) {
      if (s < count) {
        if constexpr (Rows == 1) {
          if (lane() % 4 == 0) {
            sums[s][0][warp()][lane() / 4] = sum[s][0][0] * tile::low;
            sums[s][0][warp()][lane() / 4 + 8] = sum[s][0][2] * tile::high;
          }
        } else {
          TENON_UNROLL
          for (int c = 0; c < columns; ++c)
            reinterpret_cast<float4 *>(sums[s][c][warp()])[lane()] =
                make_float4(sum[s][c][0] * tile::low, sum[s][c][1] * tile::low,
                            sum[s][c][2] * tile::high, sum[s][c][3] * tile::high);
        }
      }
    }
    const int quarter = lane() / 8; // of the warps' sums
    // What residual adds to is fetched while the warps meet.
    const int mine = Split > 1 ? owned(thread()) : 8 * warp() + lane() % 8;
    float before = 0;
    if constexpr (Out == epilogue::residual) {
      const place at_mine(mine, first);
      if (mine < 16 * count && at_mine.output < p.n && (Split > 1 || quarter == 0))
        before = polls ? there::await_float(a.addend + at_mine.output)
                       : __ldcg(a.addend + at_mine.output);
    }
    ptx::named_barrier::sync(1, 32 * Warps);
    float factor = 1;
    if constexpr (normalizes) {
      float squares = 0;
      TENON_UNROLL
      for (int w = 0; w < Warps; ++w)
        squares += shared.squares[w];
      if constexpr (Split > 1) {
        if (turn == 0 && thread() < Split)
          send(&shared.squares_of[rank()], shared.done[0], thread(), squares);
      }
      factor = rsqrtf(squares / float(p.k) + a.epsilon);
    }
    const auto finish = [&](int v, float value, float residual) {
      if constexpr (Split > 1)
        send(&shared.parts[turn][rank()][v], shared.done[turn], v / 8 % Split, value);
      else
        store(p, a, place(v, first), value * factor, residual, at);
    };
    if constexpr (Rows == 1) {
      for (int e = 8 * warp() + lane() % 8; e < count * 16; e += 8 * Warps) {
        float all = 0;
        TENON_UNROLL
        for (int w = 0; w < Warps; w += 4)
          all += sums[e / 16][0][w + quarter][e % 16];
        all += __shfl_xor_sync(~0u, all, 8);
        all += __shfl_xor_sync(~0u, all, 16);
        if constexpr (Out == epilogue::swiglu) {
          all *= factor;
          const float other = __shfl_xor_sync(~0u, all, 1);
          if (quarter == 0 && lane() % 2 == 0)
            store_gated(p, place(e, first), all, other);
        } else if (quarter == 0) {
          finish(e, all, before);
        }
      }
    } else {
      for (int e = 8 * warp() + lane() % 8; e < count * columns * 32; e += 8 * Warps) {
        const int s = e / 32 / columns, c = e / 32 % columns, of = e % 32;
        float4 all = make_float4(0, 0, 0, 0);
        TENON_UNROLL
        for (int w = 0; w < Warps; w += 4) {
          const float4 more = reinterpret_cast<const float4 *>(sums[s][c][w + quarter])[of];
          all.x += more.x, all.y += more.y, all.z += more.z, all.w += more.w;
        }
        // Each of the four threads ends up with one of the four sums.
        const bool upper = quarter >= 2, odd = quarter % 2;
        float low = upper ? all.z : all.x, high = upper ? all.w : all.y;
        low += __shfl_xor_sync(~0u, upper ? all.x : all.z, 16);
        high += __shfl_xor_sync(~0u, upper ? all.y : all.w, 16);
        finish(4 * e + 2 * upper + odd,
               (odd ? high : low) + __shfl_xor_sync(~0u, odd ? low : high, 8), 0);
      }
    }
    if constexpr (Split > 1)
      join_parts(p, a, shared, at, turn, first, count, before);
  }

  /// Which output of which row value v of a pass is.
  struct place {
    int output, row;
    TENON_DEVICE place(int v, int first) {
      const int of = v / 4 % 32;
      output = Rows > 1 ? 16 * (first + v / 128 / columns * groups()) + of / 4 + 8 * (v % 4 / 2)
                        : 16 * (first + v / 16 * groups()) + v % 16;
      row = Rows > 1 ? 8 * (v / 128 % columns) + of % 4 * 2 + v % 2 : 0;
    }
  };
  /// Blocks that share strips own runs of eight values of a pass in turn: this block's i-th.
  TENON_DEVICE static int owned(int i) { return (i / 8 * Split + rank()) * 8 + i % 8; }
  TENON_DEVICE static void send(float *p, ptx::mbarrier &done, int to, float value) {
    asm volatile("{\n"
                 ".reg .b32 a, b;\n"
                 "mapa.shared::cluster.u32 a, %0, %2;\n"
                 "mapa.shared::cluster.u32 b, %1, %2;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [a], %3, [b];\n"
                 "}" ::"r"(ptx::shared_address(p)),
                 "r"(ptx::shared_address(&done)), "r"(to), "r"(__float_as_uint(value))
                 : "memory");
  }
  /// Tells the barrier of each pass what the blocks of the cluster will send.
  TENON_DEVICE static void expect(const product &p, memory &shared) {
    cursor at;
    const int strips = share(p, at).count;
    for (int i = 0; i < most_passes; ++i) {
      const int of_pass = max_of(0, min_of(Strips, strips - i * Strips)) * (values / Strips);
      const int runs_of_eight = (of_pass / 8 - rank() + Split - 1) / Split;
      const bool has_squares = normalizes && i == 0 && of_pass > 0;
      shared.done[i].arrive_expecting(Split * (32 * runs_of_eight + (has_squares ? 4 : 0)));
    }
  }
  /// Adds what the blocks of the cluster have sent of the values that this one owns.
  TENON_DEVICE static void join_parts(const product &p, const strip_arguments &a, memory &shared,
                                      cursor &at, int turn, int first, int count, float before) {
    const int all = count * (values / Strips);
    if (owned(32 * warp()) >= all && warp() > 0)
      return;
    shared.done[turn].wait_for_cluster(0);
    float factor = 1;
    if constexpr (normalizes) {
      shared.done[0].wait_for_cluster(0);
      float squares = 0;
      TENON_UNROLL
      for (int r = 0; r < Split; ++r)
        squares += shared.squares_of[r];
      factor = rsqrtf(squares / float(p.k) + a.epsilon);
    }
    for (int i = thread(); owned(i) < all; i += 32 * Warps) {
      float value = 0;
      TENON_UNROLL
      for (int r = 0; r < Split; ++r)
        value += shared.parts[turn][r][owned(i)];
      store(p, a, place(owned(i), first), value * factor, before, at);
    }
  }

  TENON_DEVICE static void store(const product &p, const strip_arguments &a, const place &to,
                                 float value, float before, cursor &at) {
    if (to.output >= p.n || to.row >= a.rows)
      return;
    if constexpr (Out == epilogue::residual) {
      there::store(a.sums + to.output, before + value);
      return;
    }
    if constexpr (Out == epilogue::argmax) {
      const unsigned bits = __float_as_uint(value);
      const unsigned ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
      const unsigned long long key = (unsigned long long)(ordered) << 32 | ~unsigned(to.output);
      at.best = max_of(at.best, key);
      if (!p.y)
        return;
    }
    there::store(p.y + size_t(to.row) * p.n + to.output, value);
  }
  TENON_DEVICE static void store_gated(const product &p, const place &to, float gate, float up) {
    if (to.output < p.n)
      there::store(p.y + to.output / 2, gate / (1 + __expf(-gate)) * up);
  }
  TENON_DEVICE static void send_best(const strip_arguments &a, memory &shared,
                                     unsigned long long best) {
    TENON_UNROLL
    for (int by = 16; by > 0; by /= 2)
      best = max_of(best, __shfl_xor_sync(~0u, best, by));
    if (lane() == 0)
      shared.keys[warp()] = best;
    ptx::named_barrier::sync(1, 32 * Warps);
    if (thread() == 0) {
      for (int w = 1; w < Warps; ++w)
        best = max_of(best, shared.keys[w]);
      atomicMax(a.best, best);
    }
  }
  TENON_DEVICE static void stamp(const strip_arguments &a, unsigned long long stamps::*what) {
    if (a.times && thread() == 0)
      a.times[block_x()].*what = ptx::global_timer::read();
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::blocks_of_sm)
    strip(const __grid_constant__ strip_arguments a) {
  extern __shared__ __align__(128) unsigned char shared[];
  Kernel::run(a, *reinterpret_cast<typename Kernel::memory *>(shared));
}

/// One row times fp16 weights [n][k rounded up to 8] on the vector units: a warp sums an output,
/// its lanes runs of 16 bytes, `Ahead` of them in flight; a warp goes on to the output a grid away.
template <int Ahead> struct vector_kernel {
  static constexpr int threads = 256, registers = Ahead > 4 ? 128 : 64;
  TENON_FN static int shared_bytes(int k) { return ceil_div(k, 8) * 16; }

  TENON_DEVICE static void load(uint4 (&to)[Ahead], const product &a, int output, int run) {
    const int runs = ceil_div(a.k, 8);
    TENON_UNROLL
    for (int i = 0; i < Ahead; ++i) {
      to[i] = make_uint4(0, 0, 0, 0);
      if (output < a.n && run + 32 * i < runs)
        asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[i].x), "=r"(to[i].y), "=r"(to[i].z), "=r"(to[i].w)
                     : "l"(static_cast<const uint4 *>(a.w) + size_t(output) * runs + run + 32 * i));
    }
  }
  TENON_DEVICE static void run(const product &a, unsigned char *shared) {
    ptx::griddepcontrol::launch_dependents();
    const int runs = ceil_div(a.k, 8), stride = grid_x() * (threads / 32);
    int output = block_x() * (threads / 32) + warp();
    uint4 w[Ahead];
    load(w, a, output, lane());
    ptx::griddepcontrol::wait();
    uint4 *const x = reinterpret_cast<uint4 *>(shared);
    for (int i = thread(); i < runs; i += threads) {
      x[i] = reinterpret_cast<const uint4 *>(a.x)[i];
    }
    sync_block();
    for (; output < a.n; output += stride) {
      float sum = 0;
      for (int run = lane(); run < runs + lane(); run += 32 * Ahead) {
        TENON_UNROLL
        for (int i = 0; i < Ahead; ++i)
          if (run + 32 * i < runs)
            sum = add_products(sum, w[i], x[run + 32 * i]);
        const bool more = run + 32 * Ahead < runs + lane();
        load(w, a, more ? output : output + stride, more ? run + 32 * Ahead : lane());
      }
      TENON_UNROLL
      for (int by = 16; by > 0; by /= 2)
        sum += __shfl_xor_sync(~0u, sum, by);
      if (lane() == 0)
        a.y[output] = __float2half(sum);
    }
  }
  TENON_DEVICE static float add_products(float sum, uint4 w, uint4 x) {
    __half2 a[4], b[4];
    memcpy(a, &w, 16), memcpy(b, &x, 16);
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float2 p = __half22float2(a[i]), q = __half22float2(b[i]);
      sum = fmaf(p.x, q.x, sum), sum = fmaf(p.y, q.y, sum);
    }
    return sum;
  }
};

/// Reads n * k / 8 runs of 16 bytes and nothing else: the ceiling. y is written if they are all
/// ones.
template <int Ahead> struct read_kernel {
  static constexpr int threads = 512, registers = 64;
  TENON_DEVICE static void run(const product &a, unsigned char *) {
    ptx::griddepcontrol::launch_dependents();
    const size_t runs = size_t(a.n) * a.k / 8, stride = size_t(grid_x()) * threads;
    unsigned all = ~0u;
    bool waited = false;
    for (size_t i = size_t(block_x()) * threads + thread(); i < runs; i += stride * Ahead) {
      uint4 w[Ahead];
      TENON_UNROLL
      for (int j = 0; j < Ahead; ++j) {
        w[j] = make_uint4(~0u, ~0u, ~0u, ~0u);
        if (i + j * stride < runs)
          asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(w[j].x), "=r"(w[j].y), "=r"(w[j].z), "=r"(w[j].w)
                       : "l"(static_cast<const uint4 *>(a.w) + i + j * stride));
      }
      if (!waited)
        ptx::griddepcontrol::wait(), waited = true;
      TENON_UNROLL
      for (int j = 0; j < Ahead; ++j)
        all &= w[j].x & w[j].y & w[j].z & w[j].w;
    }
    if (!waited)
      ptx::griddepcontrol::wait();
    if (all == ~0u && runs > stride)
      a.y[0] = __float2half(1);
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, 65536 / Kernel::registers / Kernel::threads)
    plain(const product a) {
  extern __shared__ __align__(128) unsigned char shared[];
  Kernel::run(a, shared);
}

} // namespace study
