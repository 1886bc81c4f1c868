// Defines `decode`: attention of one query of each head over cached keys, the keys split over
// blocks. A study; see README.md.
//
// A block takes one head of keys, the up to 8 query heads that share it (rows of an mma tile), and
// a chunk of keys; its warps take every `Warps`-th 16 of them. Keys and values go from memory to
// the fragments of mma.m16n8k16 by loads of 16 bytes, without shared memory: a product's columns
// may be in any order if both operands have the same one, so lane (g, t) takes for scores 16 bytes
// of keys g and g + 8, and for values 16 bytes of columns 8 g ... of the four keys whose weights it
// has. The next 16 keys are loaded as soon as the registers of these are free, the first before the
// dependency wait. The last block of a head joins the chunks in their order.
#pragma once

#include "cuda/ptx/griddepcontrol.cuh"
#include "cuda/ptx/mma_sm80.cuh"
#include <cuda_fp16.h>

namespace study {

using namespace tenon;
using namespace tenon::cuda;

struct decode_arguments {
  const __half *q;     // [heads][d]
  const __half *k, *v; // [heads / group][capacity][d]
  __half *y;           // [heads][d]
  const int *length;   // valid keys, in memory
  float *parts;        // [heads / group][splits][8][d + 2]: sums, then maximum and sum of weights
  unsigned *arrived;   // [heads / group], zeros before and after
  int group, capacity;
  float scale; // of scores, times log2(e)
};

template <int D, int Warps> struct decode_kernel {
  static constexpr int threads = 32 * Warps, chunks = D / 32, halves = D / 64;
  static constexpr int row = D + 2; // floats of a row of sums
  static constexpr float least = -1e30f;

  struct keys {
    uint4 k[2][chunks], v[4][halves];
  };
  TENON_DEVICE static uint4 load(const __half *from, bool valid) {
    uint4 w = make_uint4(0, 0, 0, 0);
    if (valid)
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                   : "l"(from));
    return w;
  }
  TENON_DEVICE static void load_k(keys &to, const __half *k, int first, int end) {
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int key = first + 8 * i + lane() / 4;
      TENON_UNROLL
      for (int c = 0; c < chunks; ++c)
        to.k[i][c] = load(k + size_t(key) * D + 8 * (lane() % 4 + 4 * c), key < end);
    }
  }
  TENON_DEVICE static void load_v(keys &to, const __half *v, int first, int end) {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int key = first + 2 * (lane() % 4) + i % 2 + i / 2 * 8;
      TENON_UNROLL
      for (int h = 0; h < halves; ++h)
        to.v[i][h] = load(v + size_t(key) * D + 64 * h + 8 * (lane() / 4), key < end);
    }
  }
  TENON_DEVICE static unsigned word(const uint4 &w, int i) {
    return i == 0 ? w.x : i == 1 ? w.y : i == 2 ? w.z : w.w;
  }

  TENON_DEVICE static void run(const decode_arguments &a, float *shared, unsigned &last) {
    ptx::griddepcontrol::launch_dependents();
    const int head = int(blockIdx.y), split = block_x(), splits = grid_x();
    const int length = *reinterpret_cast<const volatile int *>(a.length);
    const int chunk = ceil_div(ceil_div(length, splits), 16) * 16;
    const int begin = split * chunk, end = min_of(length, begin + chunk);
    const __half *const k = a.k + size_t(head) * a.capacity * D;
    const __half *const v = a.v + size_t(head) * a.capacity * D;
    keys next;
    int first = begin + 16 * warp();
    load_k(next, k, first, end);
    load_v(next, v, first, end);
    ptx::griddepcontrol::wait();

    unsigned q[chunks][2][2]; // of row g: those of rows 8 to 15 are zeros
    const int g = lane() / 4, t = lane() % 4;
    TENON_UNROLL
    for (int c = 0; c < chunks; ++c) {
      uint4 w = make_uint4(0, 0, 0, 0);
      if (g < a.group)
        w = *reinterpret_cast<const uint4 *>(a.q + (size_t(head) * a.group + g) * D +
                                             8 * (t + 4 * c));
      q[c][0][0] = w.x, q[c][0][1] = w.y, q[c][1][0] = w.z, q[c][1][1] = w.w;
    }
    float o[halves][8][4] = {}, most = least, sum = 0;
    for (; first < end; first += 16 * Warps) {
      float s[2][4] = {};
      TENON_UNROLL
      for (int i = 0; i < 2; ++i) {
        TENON_UNROLL
        for (int c = 0; c < chunks; ++c) {
          TENON_UNROLL
          for (int h = 0; h < 2; ++h) {
            const unsigned f[4] = {q[c][h][0], 0, q[c][h][1], 0};
            ptx::mma_m16n8k16_f16::multiply(s[i], f, word(next.k[i][c], 2 * h),
                                            word(next.k[i][c], 2 * h + 1));
          }
        }
      }
      load_k(next, k, first + 16 * Warps, end);
      float now = most;
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) {
        float &score = s[i / 2][i % 2];
        const int key = first + 8 * (i / 2) + 2 * t + i % 2;
        score = key < end ? score * a.scale : least;
        now = fmaxf(now, score);
      }
      now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
      now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
      const float by = exp2f(most - now);
      most = now, sum *= by;
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) {
        float &score = s[i / 2][i % 2];
        score = exp2f(score - most);
        sum += score;
      }
      const unsigned p[4] = {pair_of(s[0][0], s[0][1]), 0, pair_of(s[1][0], s[1][1]), 0};
      TENON_UNROLL
      for (int h = 0; h < halves; ++h) {
        TENON_UNROLL
        for (int j = 0; j < 8; ++j) {
          o[h][j][0] *= by, o[h][j][1] *= by;
          const unsigned pick = j % 2 ? 0x7632 : 0x5410;
          const unsigned b0 =
              __byte_perm(word(next.v[0][h], j / 2), word(next.v[1][h], j / 2), pick);
          const unsigned b1 =
              __byte_perm(word(next.v[2][h], j / 2), word(next.v[3][h], j / 2), pick);
          ptx::mma_m16n8k16_f16::multiply(o[h][j], p, b0, b1);
        }
      }
      load_v(next, v, first + 16 * Warps, end);
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    // Column 2 t + i of tile j is column 8 (2 t + i) + j.
    float *const mine = shared + (warp() * 8 + g) * row;
    TENON_UNROLL
    for (int h = 0; h < halves; ++h) {
      TENON_UNROLL
      for (int j = 0; j < 8; ++j) {
        mine[64 * h + 16 * t + j] = o[h][j][0];
        mine[64 * h + 16 * t + 8 + j] = o[h][j][1];
      }
    }
    if (t == 0)
      mine[D] = most, mine[D + 1] = sum;
    sync_block();
    float *const parts = a.parts + size_t(head) * splits * 8 * row;
    for (int i = thread(); i < a.group * D; i += threads) {
      const int r = i / D, column = i % D;
      const joined j = join(shared + r * row, Warps, 8 * row, column);
      if (splits == 1) {
        a.y[size_t(head) * a.group * D + i] = __float2half(j.value / j.sum);
        continue;
      }
      float *const to = parts + (split * 8 + r) * row;
      to[column] = j.value;
      if (column == 0)
        to[D] = j.most, to[D + 1] = j.sum;
    }
    if (splits == 1)
      return;
    __threadfence();
    sync_block();
    if (thread() == 0)
      last = atomicAdd(a.arrived + head, 1u) == unsigned(splits - 1);
    sync_block();
    if (!last)
      return;
    __threadfence();
    for (int i = thread(); i < a.group * D; i += threads) {
      const joined j = join(parts + i / D * row, splits, 8 * row, i % D);
      a.y[size_t(head) * a.group * D + i] = __float2half(j.value / j.sum);
    }
    if (thread() == 0)
      a.arrived[head] = 0;
  }

private:
  struct joined {
    float value, most, sum;
  };
  TENON_DEVICE static joined join(const float *from, int count, int stride, int column) {
    joined j{0, least, 0};
    for (int i = 0; i < count; ++i)
      j.most = fmaxf(j.most, from[i * stride + D]);
    for (int i = 0; i < count; ++i) {
      const float by = exp2f(from[i * stride + D] - j.most);
      j.value = fmaf(by, from[i * stride + column], j.value);
      j.sum = fmaf(by, from[i * stride + D + 1], j.sum);
    }
    return j;
  }
  TENON_DEVICE static unsigned pair_of(float a, float b) {
    const __half2 h = __floats2half2_rn(a, b);
    unsigned bits;
    memcpy(&bits, &h, 4);
    return bits;
  }
};

template <class Kernel, int Warps>
__global__ void __launch_bounds__(Kernel::threads) decode(const decode_arguments a) {
  __shared__ float shared[Warps * 8 * Kernel::row];
  __shared__ unsigned last;
  Kernel::run(a, shared, last);
}

} // namespace study
