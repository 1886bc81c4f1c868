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

#include "cuda/ptx/griddepcontrol.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/named_barrier.cuh"
#include <cuda_fp16.h>

namespace study {

using namespace tenon;
using namespace tenon::cuda;

enum class weights { fp16, int8, int4 };

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
  // Of a chain: its products, each reading what the one before wrote, and the results of the
  // next launch, which this one fills with 0xffff.
  const product *chain;
  int count;
  uint4 *clear;
  long clear_words;
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

/// Rows: 1, 8 or 16 at most.
template <weights Kind, int Rows, int Warps, int Tiles, int Strips, int Stages, bool Chain>
struct strip_kernel {
  using tile = tile_of<Kind>;
  static constexpr int threads = 32 * (Warps + 1), blocks_of_sm = Chain ? 1 : 2;
  static constexpr int columns = ceil_div(Rows, 8);
  static constexpr int stage_tiles = Warps * Tiles, scale_bytes = 32 * tile::blocks;
  static constexpr int stage_bytes = stage_tiles * (512 + scale_bytes);
  static constexpr int runs = Tiles * tile::depth / 32; // of 16 bytes of x, by a lane in a stage
  static constexpr int most_products = 80;
  // Of one row, a warp's part of several chunks is fetched at once and kept in shared memory; of
  // more rows, the part of the next chunk is on its way there.
  static constexpr int staged = Rows > 1 ? columns *runs * 32 : 1024 / Warps; // 16 bytes
  static constexpr int staged_tiles = Rows > 1 ? stage_tiles : staged *Warps * 8 / tile::depth;
  static_assert(Tiles % 2 == 0, "a strip has pairs of tiles");

  // Of a pass: of one row 16 sums a strip and warp, of more the accumulators of all lanes.
  using sums_of_pass = float[Strips][columns][Warps][Rows > 1 ? 128 : 16];
  struct memory {
    unsigned char weights[Stages][stage_bytes];
    sums_of_pass sums[Rows > 1 ? 1 : 2]; // of one row by turns, so that one barrier is enough
    uint4 x[Warps][staged];
    ptx::mbarrier full[Stages], free[Stages];
    product chain[Chain ? most_products : 1];
  };
  static constexpr int shared_bytes = sizeof(memory);

  /// Where in the ring a thread is, and which block has the first strip of the next product: the
  /// one after that which had the last before.
  struct cursor {
    int stage = 0, turn = 0, block = 0, pass = 0;
    TENON_DEVICE void next() {
      if (++stage == Stages)
        stage = 0, turn ^= 1;
    }
  };
  TENON_FN static int tiles_of(int k) { return 2 * ceil_div(k, 2 * tile::depth); }
  /// The strips of this block: `count` of them from `first` on, a grid apart.
  struct share {
    int first, count;
    TENON_DEVICE share(const product &p, cursor &at) {
      const int strips = ceil_div(p.n, 16), blocks = grid_x();
      first = block_x() - at.block;
      first += first < 0 ? blocks : 0;
      count = first < strips ? (strips - first - 1) / blocks + 1 : 0;
      at.block = (at.block + strips) % blocks;
    }
  };

  TENON_DEVICE static void run(const strip_arguments &a, memory &shared) {
    if constexpr (!Chain)
      ptx::griddepcontrol::launch_dependents();
    if (thread() == 0) {
      for (int i = 0; i < Stages; ++i)
        shared.full[i].init(1), shared.free[i].init(32 * Warps);
      ptx::mbarrier::fence_init();
    }
    if constexpr (Chain) {
      for (int i = thread(); i < a.count * int(sizeof(product) / 8); i += threads)
        reinterpret_cast<uint64_t *>(shared.chain)[i] =
            reinterpret_cast<const uint64_t *>(a.chain)[i];
    }
    sync_block();
    if (warp() == Warps) {
      if (lane() == 0) {
        cursor at;
        for (int i = 0; i < a.count; ++i)
          copy(Chain ? shared.chain[i] : a.one, shared, at);
      }
      return;
    }
    if constexpr (Chain) {
      for (long i = block_x() * 32L * Warps + thread(); i < a.clear_words;
           i += grid_x() * 32L * Warps)
        a.clear[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
    } else {
      ptx::griddepcontrol::wait();
    }
    cursor at;
    for (int i = 0; i < a.count; ++i)
      multiply(Chain ? shared.chain[i] : a.one, a.rows, shared, at);
  }

private:
  /// Copies the stages of a product in the order in which they are multiplied.
  TENON_DEVICE static void copy(const product &p, memory &shared, cursor &at) {
    const share mine(p, at);
    const int tiles = tiles_of(p.k), strips = mine.count;
    for (int base = 0; base < strips; base += Strips)
      for (int first = 0; first < tiles; first += stage_tiles)
        for (int i = base; i < min_of(strips, base + Strips); ++i) {
          const size_t from = size_t(mine.first + i * grid_x()) * tiles + first;
          const int count = min_of(stage_tiles, tiles - first);
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
  using bases = float[columns][tile::blocks > 0 ? runs : 1][4];
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
          for (int j = 0; j < 4; ++j)
            base[c][i][j] = sum[j] * (-tile::bias / (j < 2 ? tile::low : tile::high));
        }
      }
    }
  }
  TENON_DEVICE static void fetch(part &x, const product &p, int rows, int first) {
    const int begin = (first + warp() * Tiles) * tile::depth + 8 * (lane() % 4);
    TENON_UNROLL
    for (int c = 0; c < columns; ++c) {
      const int row = 8 * c + lane() / 4;
      TENON_UNROLL
      for (int i = 0; i < runs; ++i) {
        x[c][i] = make_uint4(0, 0, 0, 0);
        if (row < rows && begin + 32 * i < p.k)
          x[c][i] = load(p.x + size_t(row) * p.k + begin + 32 * i);
      }
    }
  }
  /// As fetch, to this lane's place in shared memory, and from there.
  TENON_DEVICE static void fetch_ahead(memory &shared, const product &p, int rows, int first) {
    const int begin = (first + warp() * Tiles) * tile::depth + 8 * (lane() % 4);
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
  TENON_DEVICE static uint4 load(const __half *from) {
    uint4 w;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                 : "l"(from)
                 : "memory");
    return w;
  }
  /// One row: the warp's parts of the chunks from tile `first` on, to shared memory.
  TENON_DEVICE static void stage(const product &p, memory &shared, int first) {
    constexpr int runs_of_chunk = Tiles * tile::depth / 8, each = staged / 32;
    uint4 w[each];
    int k[each];
    TENON_UNROLL
    for (int i = 0; i < each; ++i) {
      const int run = lane() + 32 * i;
      k[i] = (first + run / runs_of_chunk * stage_tiles + warp() * Tiles) * tile::depth +
             run % runs_of_chunk * 8;
      w[i] = make_uint4(0, 0, 0, 0);
      if (k[i] < p.k)
        w[i] = load(p.x + k[i]);
    }
    sync_warp();
    TENON_UNROLL
    for (int i = 0; i < each; ++i) {
      if constexpr (Chain)
        until_there(w[i], p.x + k[i]);
      shared.x[warp()][lane() + 32 * i] = w[i];
    }
    sync_warp();
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
    if constexpr (Chain) {
      const int begin = (first + warp() * Tiles) * tile::depth + 8 * (lane() % 4);
      TENON_UNROLL
      for (int c = 0; c < columns; ++c) {
        const __half *const from = p.x + size_t(8 * c + lane() / 4) * p.k + begin;
        until_there(x[c][0], from);
        for (int left = runs > 1; left > 0;) {
          bool again[runs];
          left = 0;
          TENON_UNROLL
          for (int i = 1; i < runs; ++i)
            again[i] = missing(x[c][i]), left += again[i];
          TENON_UNROLL
          for (int i = 1; i < runs; ++i)
            if (again[i])
              x[c][i] = load(from + 32 * i);
        }
      }
      sync_warp();
    }
  }
  /// Loads `w` again until it is there.
  TENON_DEVICE static void until_there(uint4 &w, const __half *at) {
    for (int tries = 0; missing(w); ++tries) {
      w = load(at);
      if (tries > 1 << 22)
        trap(); // the chain was given what is no chain
    }
  }
  TENON_DEVICE static bool missing(const uint4 &w) {
    return (ones(w.x) | ones(w.y) | ones(w.z) | ones(w.w)) != 0;
  }
  /// Not zero if one half of `w` is 0xffff.
  TENON_DEVICE static unsigned ones(unsigned w) { return (~w - 0x00010001u) & w & 0x80008000u; }

  TENON_DEVICE static void multiply(const product &p, int rows, memory &shared, cursor &at) {
    const share mine(p, at);
    const int tiles = tiles_of(p.k), strips = mine.count;
    if (strips == 0)
      return;
    part x;
    bases base_of;
    const bool restage = tiles > staged_tiles;
    if constexpr (Rows > 1) {
      fetch(x, p, rows, 0);
      complete(x, p, 0);
    } else {
      stage(p, shared, 0);
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
            fetch_ahead(shared, p, rows, then);
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
              stage(p, shared, then);
            from_stage(x, shared, then % staged_tiles / stage_tiles);
          }
          start(base_of, x);
        }
      }
      join(sum, p, rows, shared, at, mine.first + base * grid_x(), count);
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
          mma(d, f[0], x[c][run].x, x[c][run].y, base[c][run]);
          mma(d, f[1], x[c][run].z, x[c][run].w, d);
          TENON_UNROLL
          for (int i = 0; i<4; i += Rows> 1 ? 1 : 2)
            sum[c][i] = fmaf(d[i], i < 2 ? by.x : by.y, sum[c][i]);
        }
      }
    }
  }

  /// Adds the warps' sums of `count` strips, `first` and those a grid apart, in the order of four
  /// threads each, and stores them.
  TENON_DEVICE static void join(const float (&sum)[Strips][columns][4], const product &p, int rows,
                                memory &shared, cursor &at, int first, int count) {
    sums_of_pass &sums = shared.sums[Rows > 1 ? 0 : at.pass];
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
    ptx::named_barrier::sync(1, 32 * Warps);
    const int quarter = lane() / 8; // of the warps' sums
    if constexpr (Rows == 1) {
      for (int e = 8 * warp() + lane() % 8; e < count * 16; e += 8 * Warps) {
        float all = 0;
        TENON_UNROLL
        for (int w = 0; w < Warps; w += 4)
          all += sums[e / 16][0][w + quarter][e % 16];
        all += __shfl_xor_sync(~0u, all, 8);
        all += __shfl_xor_sync(~0u, all, 16);
        if (quarter == 0)
          store(p, 16 * (first + e / 16 * grid_x()) + e % 16, 0, rows, all);
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
        const float mine = (odd ? high : low) + __shfl_xor_sync(~0u, odd ? low : high, 8);
        store(p, 16 * (first + s * grid_x()) + of / 4 + 8 * upper, 8 * c + of % 4 * 2 + odd, rows,
              mine);
      }
    }
  }
  TENON_DEVICE static void store(const product &p, int output, int row, int rows, float value) {
    if (output < p.n && row < rows)
      asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(p.y + size_t(row) * p.n + output),
                   "h"(__half_as_ushort(__float2half(value)))
                   : "memory");
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::blocks_of_sm)
    strip(const strip_arguments a) {
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
