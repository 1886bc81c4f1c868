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
// Weights: tiles of 16 outputs, 512 bytes each, along k first. Lane 4 * g + t owns bytes 16 * lane
// ...
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
  int n, k;
};

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

template <weights Kind, int Tokens, int Strips, int Parts, int Ahead> struct strip_kernel {
  static constexpr int threads = 32 * Strips * Parts, columns = Tokens <= 8 ? 1 : 2;
  using tile = tile_of<Kind>;
  TENON_FN static int x_bytes(int k) { return k / 16 * 32 * Tokens; }
  TENON_FN static int shared_bytes(int k) {
    return max_of(x_bytes(k), Parts > 1 ? Strips * Parts * columns * 512 : 0);
  }

  TENON_DEVICE static void run(const strip_arguments &a, unsigned char *shared) {
    ptx::griddepcontrol::launch_dependents();
    const int tiles = a.k / tile::depth, strip = block_x() * Strips + warp() / Parts,
              part = warp() % Parts;
    const int last = a.n / 16 - 1; // strips beyond compute the last one again
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
          multiply(sum, ahead[i], shared, at);
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
        if (token < Tokens)
          a.y[size_t(token) * a.n + 16 * strip + lane() / 4 + i / 2 * 8] = __float2half(sum[c][i]);
      }
    }
  }

  /// Rows to [k / 16][token][t] of b[0], b[1]: k 2 * t + {0, 1} and 8 more.
  TENON_DEVICE static void load_rows(const strip_arguments &a, unsigned char *shared) {
    unsigned *const to = reinterpret_cast<unsigned *>(shared);
    const int runs = a.k / 8;
    for (int i = thread(); i < runs * Tokens; i += threads) {
      const int token = i / runs, run = i % runs;
      const uint4 w = *reinterpret_cast<const uint4 *>(a.x + size_t(token) * a.k + 8 * run);
      unsigned *const at = to + (run / 2 * Tokens + token) * 8 + run % 2;
      at[0] = w.x, at[2] = w.y, at[4] = w.z, at[6] = w.w;
    }
  }

  TENON_DEVICE static void multiply(float (&sum)[columns][4], const tile &w,
                                    const unsigned char *shared, int at) {
    const uint2 *const rows =
        reinterpret_cast<const uint2 *>(shared) + size_t(at) * tile::steps * Tokens * 4 + lane();
    if constexpr (Kind == weights::fp16) {
      unsigned f[4];
      w.fragments(f, 0);
      TENON_UNROLL
      for (int c = 0; c < columns; ++c) {
        const uint2 b = row(rows, 0, c);
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
            const uint2 b = row(rows, 2 * block + s, c);
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
  TENON_DEVICE static uint2 row(const uint2 *rows, int step, int c) {
    uint2 b = make_uint2(0, 0);
    if (8 * c + lane() / 4 < Tokens)
      b = rows[step * Tokens * 4 + 32 * c];
    return b;
  }
};

template <weights Kind, int Tokens, int Strips, int Parts, int Ahead>
__global__ void __launch_bounds__(32 * Strips * Parts, 65536 / 64 / (32 * Strips * Parts))
    strip(const strip_arguments a) {
  extern __shared__ __align__(16) unsigned char shared[];
  strip_kernel<Kind, Tokens, Strips, Parts, Ahead>::run(a, shared);
}

} // namespace study
