// Defines `strip`: a matrix of constant weights times 1 to 16 rows, bound by reading the weights
// once, with the weights as A of mma.m16n8k16 and the rows as its B. A study; see README.md.
//
//   y[t, o] = sum over k of x[t, k] * w[o, k]
//
// Algorithm: 16 outputs are a strip. A block of `strips` * `parts` warps computes `strips` of them;
// warp (s, p) takes every parts-th tile of strip s, and the parts are added in their order through
// shared memory. A lane reads 16 bytes of each tile, `ahead` tiles before it multiplies them; the
// first ones before the dependency wait, since weights do not change. Rows lie in shared memory as
// fragments of B.
//
// Weights: tiles of 16 outputs, 512 bytes each, along k first. Lane 4 * g + t owns 16 bytes of a
// tile, from 16 * lane on:
//   fp16   16 x 16: registers a[0] ... a[3] of mma, word i
//   int8   16 x 32 (a block of one scale): bytes 2 * r + h of the eight of step s hold q + 128 of
//          row g + 8 * (r % 2), k 16 * s + 2 * t + 8 * (r / 2) + h
//   int4   16 x 64 (two blocks): bits 4 * p ... of word 2 * b + s, p = 4 * h + r, hold q + 8 of the
//          same row, k 32 * b + 16 * s + 2 * t + 8 * (r / 2) + h
// Scales: a plane of halves, [tile][g][block][row half].
#pragma once

#include "cuda/ptx/griddepcontrol.cuh"
#include "cuda/ptx/mma_sm80.cuh"
#include <cuda_fp16.h>

namespace study {

using namespace tenon;
using namespace tenon::cuda;

enum class weights { fp16, int8, int4 };

struct strip_arguments {
  const uint4 *w;
  const __half *scale;
  const __half *x; // [tokens][k]
  __half *y;       // [tokens][n]
  int n, k;        // packed weights are filled up with zeros to whole tiles
  int tokens;
};

/// Elements 8 * run ... of a row, zeros beyond its end.
TENON_DEVICE uint4 run_of(const strip_arguments &a, int token, int run) {
  const __half *const from = a.x + size_t(token) * a.k + 8 * run;
  uint4 w = make_uint4(0, 0, 0, 0);
  if (a.k % 8 == 0) {
    if (8 * run < a.k)
      w = *reinterpret_cast<const uint4 *>(from);
  } else {
    unsigned short h[8] = {};
    TENON_UNROLL
    for (int e = 0; e < 8; ++e)
      if (8 * run + e < a.k)
        h[e] = __half_as_ushort(from[e]);
    memcpy(&w, h, 16);
  }
  return w;
}

template <weights Kind> struct tile_of {
  static constexpr int depth = Kind == weights::fp16 ? 16 : Kind == weights::int8 ? 32 : 64;
  static constexpr int blocks = Kind == weights::fp16 ? 0 : depth / 32, steps = depth / 16;
  uint4 words;
  __half2 scale[blocks > 0 ? blocks : 1]; // of rows g and g + 8

  TENON_DEVICE void load(const strip_arguments &a, size_t tile) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(a.w + tile * 32 + lane()));
    if constexpr (blocks > 0) {
      const __half2 *from =
          reinterpret_cast<const __half2 *>(a.scale) + (tile * 8 + size_t(lane() / 4)) * blocks;
      if constexpr (blocks == 2) {
        uint2 both;
        asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];"
                     : "=r"(both.x), "=r"(both.y)
                     : "l"(from));
        memcpy(scale, &both, 8);
      } else {
        unsigned one;
        asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(one) : "l"(from));
        memcpy(scale, &one, 4);
      }
    }
  }
  TENON_DEVICE unsigned word(int i) const {
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
  }
  /// Fragments of A of one step of 16 k.
  TENON_DEVICE void fragments(unsigned (&f)[4], int step) const {
    if constexpr (Kind == weights::fp16) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i)
        f[i] = word(i);
    } else if constexpr (Kind == weights::int8) {
      TENON_UNROLL
      for (int r = 0; r < 4; ++r) { // 1024 + byte, less 1152
        const unsigned pair =
            __byte_perm(word(2 * step + r / 2), 0x64646464u, r % 2 ? 0x4342 : 0x4140);
        f[r] = subtract(pair, 0x64806480u);
      }
    } else {
      const unsigned w = word(step), high = w >> 8;
      f[0] = subtract((w & 0x000f000fu) | 0x64006400u, 0x64086408u);
      f[1] = multiply_add((w & 0x00f000f0u) | 0x64006400u);
      f[2] = subtract((high & 0x000f000fu) | 0x64006400u, 0x64086408u);
      f[3] = multiply_add((high & 0x00f000f0u) | 0x64006400u);
    }
  }

private:
  TENON_DEVICE static unsigned subtract(unsigned a, unsigned b) {
    unsigned d;
    asm("sub.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
  }
  /// (1024 + 16 * v) / 16 - 72 = v - 8.
  TENON_DEVICE static unsigned multiply_add(unsigned a) {
    unsigned d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(0x2c002c00u), "r"(0xd480d480u));
    return d;
  }
};

/// Columns: 1 for up to 8 rows, 2 for up to 16.
template <weights Kind, int Columns, int Strips, int Parts, int Ahead> struct strip_kernel {
  static constexpr int threads = 32 * Strips * Parts, columns = Columns, strips = Strips;
  static constexpr int registers = Ahead > 4 ? 128 : 64;
  static_assert(threads * registers <= 32768, "the next kernel's block finds no place");
  using tile = tile_of<Kind>;
  TENON_FN static int tiles_of(int k) { return ceil_div(k, tile::depth); }
  TENON_FN static int shared_bytes(int k, int tokens) {
    return max_of(tiles_of(k) * tile::depth * 2 * tokens,
                  Parts > 1 ? Strips * Parts * columns * 512 : 0);
  }

  TENON_DEVICE static void run(const strip_arguments &a, unsigned char *shared) {
    ptx::griddepcontrol::launch_dependents();
    const int tiles = tiles_of(a.k), strip = block_x() * Strips + warp() / Parts,
              part = warp() % Parts;
    const int last = ceil_div(a.n, 16) - 1; // strips beyond compute the last one again
    const size_t first = size_t(min_of(strip, last)) * tiles;
    tile ahead[Ahead];
    TENON_UNROLL
    for (int i = 0; i < Ahead; ++i)
      if (part + i * Parts < tiles)
        ahead[i].load(a, first + part + i * Parts);
    ptx::griddepcontrol::wait();
    load_rows(a, shared);
    sync_block();
    float sum[columns][4] = {};
    TENON_NO_UNROLL
    for (int base = part; base < tiles; base += Ahead * Parts) {
      TENON_UNROLL
      for (int i = 0; i < Ahead; ++i) {
        const int at = base + i * Parts;
        if (at < tiles) {
          multiply(sum, ahead[i], shared, at, a.tokens);
          const int next = at + Ahead * Parts;
          if (next < tiles)
            ahead[i].load(a, first + next);
        }
      }
    }
    if constexpr (Parts > 1) {
      sync_block();
      float4 *const sums = reinterpret_cast<float4 *>(shared);
      TENON_UNROLL
      for (int c = 0; c < columns; ++c)
        sums[(warp() * columns + c) * 32 + lane()] =
            make_float4(sum[c][0], sum[c][1], sum[c][2], sum[c][3]);
      sync_block();
      if (part > 0)
        return;
      TENON_UNROLL
      for (int p = 1; p < Parts; ++p) {
        TENON_UNROLL
        for (int c = 0; c < columns; ++c) {
          const float4 more = sums[((warp() + p) * columns + c) * 32 + lane()];
          sum[c][0] += more.x, sum[c][1] += more.y, sum[c][2] += more.z, sum[c][3] += more.w;
        }
      }
    }
    if (strip > last)
      return;
    TENON_UNROLL
    for (int c = 0; c < columns; ++c) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * c + 2 * (lane() % 4) + i % 2;
        const int output = 16 * strip + lane() / 4 + i / 2 * 8;
        if (token < a.tokens && output < a.n)
          a.y[size_t(token) * a.n + output] = __float2half(sum[c][i]);
      }
    }
  }

  /// Rows to [k / 16][token][t] of b[0], b[1]: k 2 * t + {0, 1} and 8 more.
  TENON_DEVICE static void load_rows(const strip_arguments &a, unsigned char *shared) {
    unsigned *const to = reinterpret_cast<unsigned *>(shared);
    const int runs = tiles_of(a.k) * tile::depth / 8;
    for (int i = thread(); i < runs * a.tokens; i += threads) {
      const int token = i / runs, run = i % runs;
      const uint4 w = run_of(a, token, run);
      unsigned *const at = to + (run / 2 * a.tokens + token) * 8 + run % 2;
      at[0] = w.x, at[2] = w.y, at[4] = w.z, at[6] = w.w;
    }
  }

  TENON_DEVICE static void multiply(float (&sum)[columns][4], const tile &w,
                                    const unsigned char *shared, int at, int tokens) {
    const uint2 *const rows =
        reinterpret_cast<const uint2 *>(shared) + at * tile::steps * tokens * 4 + lane();
    if constexpr (Kind == weights::fp16) {
      unsigned f[4];
      w.fragments(f, 0);
      TENON_UNROLL
      for (int c = 0; c < columns; ++c) {
        const uint2 b = row(rows, 0, c, tokens);
        ptx::mma_m16n8k16_f16::multiply(sum[c], f, b.x, b.y);
      }
    } else {
      TENON_UNROLL
      for (int block = 0; block < tile::blocks; ++block) {
        float of_block[columns][4] = {};
        TENON_UNROLL
        for (int s = 0; s < 2; ++s) {
          unsigned f[4];
          w.fragments(f, 2 * block + s);
          TENON_UNROLL
          for (int c = 0; c < columns; ++c) {
            const uint2 b = row(rows, 2 * block + s, c, tokens);
            ptx::mma_m16n8k16_f16::multiply(of_block[c], f, b.x, b.y);
          }
        }
        const float2 by = __half22float2(w.scale[block]);
        TENON_UNROLL
        for (int c = 0; c < columns; ++c) {
          TENON_UNROLL
          for (int i = 0; i < 4; ++i)
            sum[c][i] = fmaf(of_block[c][i], i < 2 ? by.x : by.y, sum[c][i]);
        }
      }
    }
  }
  TENON_DEVICE static uint2 row(const uint2 *rows, int step, int c, int tokens) {
    uint2 b = make_uint2(0, 0);
    if (8 * c + lane() / 4 < tokens)
      b = rows[step * tokens * 4 + 32 * c];
    return b;
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, 65536 / Kernel::registers / Kernel::threads)
    strip(const strip_arguments a) {
  extern __shared__ __align__(16) unsigned char shared[];
  Kernel::run(a, shared);
}

/// One row times fp16 weights [n][k rounded up to 8] on the vector units: a warp sums an output,
/// its lanes runs of 16 bytes, `Ahead` of them in flight; a warp goes on to the output a grid away.
template <int Ahead> struct vector_kernel {
  static constexpr int threads = 256, registers = Ahead > 4 ? 128 : 64;
  TENON_FN static int shared_bytes(int k) { return ceil_div(k, 8) * 16; }

  TENON_DEVICE static void load(uint4 (&to)[Ahead], const strip_arguments &a, int output, int run) {
    const int runs = ceil_div(a.k, 8);
    TENON_UNROLL
    for (int i = 0; i < Ahead; ++i) {
      to[i] = make_uint4(0, 0, 0, 0);
      if (output < a.n && run + 32 * i < runs)
        asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[i].x), "=r"(to[i].y), "=r"(to[i].z), "=r"(to[i].w)
                     : "l"(a.w + size_t(output) * runs + run + 32 * i));
    }
  }
  TENON_DEVICE static void run(const strip_arguments &a, unsigned char *shared) {
    ptx::griddepcontrol::launch_dependents();
    const int runs = ceil_div(a.k, 8), stride = grid_x() * (threads / 32);
    int output = block_x() * (threads / 32) + warp();
    uint4 w[Ahead];
    load(w, a, output, lane());
    ptx::griddepcontrol::wait();
    uint4 *const x = reinterpret_cast<uint4 *>(shared);
    for (int i = thread(); i < runs; i += threads) {
      x[i] = run_of(a, 0, i);
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
  TENON_DEVICE static void run(const strip_arguments &a, unsigned char *) {
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
                       : "l"(a.w + i + j * stride));
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

} // namespace study
