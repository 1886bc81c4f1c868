// Defines `decode`: attention of one query of each head over cached keys, the keys split over
// blocks. A study; see README.md.
//
// A block takes one head of keys, the up to 8 query heads that share it (rows of an mma tile), and
// a chunk of keys; its warps take every `Warps`-th 16 of them. Keys and values go from memory to
// the fragments of mma.m16n8k16 by loads of 16 bytes, without shared memory: a product's columns
// may be in any order if both operands have the same one, so lane (g, t) takes for scores 16 bytes
// of keys g and g + 8, and for values 16 bytes of columns 8 g ... of the four keys whose weights it
// has. The next 16 keys are loaded as soon as the registers of these are free, the first before the
// dependency wait.
//
// The join: the blocks of a head are a cluster. Each adds its warps' sums and sends them to the
// blocks that own the results (an even share each); after one barrier these add what they were
// sent.
//
// `Append`: the queries and one more key are turned by the row `length` of the rotary tables, that
// key and its value are written to the cache behind the others, and attended to. The first old
// keys are read before the dependency wait. The last warp of the last block has the new one, from
// registers.
#pragma once

#include "../arrival.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/global_timer.cuh"
#include "cuda/ptx/griddepcontrol.cuh"
#include "cuda/ptx/mma_sm80.cuh"
#include <cuda_fp16.h>

namespace study {

struct decode_arguments {
  const __half *q;     // [heads][d]
  const __half *k, *v; // [heads / group][capacity][d]
  __half *y;           // [heads][d]
  const int *length;   // valid keys, in memory
  int group, capacity;
  float scale; // of scores, times log2(e)
  // Of Append: [heads / group][d], and tables [capacity][d / 2]. k and v are written to.
  const __half *new_k, *new_v;
  const float *cos, *sin;
  bool late; // the next grid may start behind this one's wait
  // Of Polls: results that a later launch gives, which this one fills with 0xffff.
  uint4 *clear;
  int clear_words;
  unsigned long long *times; // of each block: it began, its wait ended, it ended; or null
};

template <int D, int Warps, int Cluster, bool Append = false, bool Polls = false>
struct decode_kernel {
  static constexpr int threads = 32 * Warps, chunks = D / 32, halves = D / 64;
  static constexpr int row = D + 4; // floats of a row of sums
  static constexpr float least = -1e30f;

  /// Of the scores of a row: the largest, and the sum of the weights relative to it.
  struct extreme {
    float most, sum;
  };
  struct memory {
    float values[Warps][8][row]; // sums of a warp
    extreme of_warp[Warps][8];
    float received[Cluster][8 * D / Cluster]; // sums of each block of the cluster
    extreme of_block[Cluster][8];
  };

  struct keys {
    uint4 k[2][chunks], v[4][halves];
  };
  TENON_DEVICE static uint4 fresh(const __half *from) {
    uint4 w = arrival_of_values::load(from);
    if constexpr (Polls)
      arrival_of_values::await_halves(w, from);
    return w;
  }
  /// Fresh: the grid before has written it.
  template <bool Fresh> TENON_DEVICE static uint4 load(const __half *from, bool valid) {
    uint4 w = make_uint4(0, 0, 0, 0);
    if (Fresh && valid)
      w = fresh(from);
    else if (valid)
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                   : "l"(from));
    return w;
  }
  template <bool Fresh = false>
  TENON_DEVICE static void load_k(keys &to, const __half *k, int first, int end) {
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int key = first + 8 * i + lane() / 4;
      TENON_UNROLL
      for (int c = 0; c < chunks; ++c)
        to.k[i][c] = load<Fresh>(k + size_t(key) * D + 8 * (lane() % 4 + 4 * c), key < end);
    }
  }
  template <bool Fresh = false>
  TENON_DEVICE static void load_v(keys &to, const __half *v, int first, int end) {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int key = first + 2 * (lane() % 4) + i % 2 + i / 2 * 8;
      TENON_UNROLL
      for (int h = 0; h < halves; ++h)
        to.v[i][h] = load<Fresh>(v + size_t(key) * D + 64 * h + 8 * (lane() / 4), key < end);
    }
  }
  TENON_DEVICE static unsigned word(const uint4 &w, int i) {
    return i == 0 ? w.x : i == 1 ? w.y : i == 2 ? w.z : w.w;
  }

  TENON_DEVICE static void run(const decode_arguments &a, memory &shared) {
    if (!a.late)
      ptx::griddepcontrol::launch_dependents();
    stamp(a, 0);
    if constexpr (Cluster > 1)
      ptx::cluster::arrive(); // the others have begun once all have: they may be written to
    const int head = int(blockIdx.y), split = block_x();
    const int length = *reinterpret_cast<const volatile int *>(a.length);
    const int chunk = ceil_div(ceil_div(length, Cluster), 16) * 16;
    const int begin = split * chunk, end = min_of(length, begin + chunk);
    const __half *const k = a.k + size_t(head) * a.capacity * D;
    const __half *const v = a.v + size_t(head) * a.capacity * D;
    keys next;
    int first = begin + 16 * warp();
    load_k(next, k, first, end);
    load_v(next, v, first, end);
    rotation turn;
    if constexpr (Append)
      turn.load(a, length);
    if constexpr (!Polls)
      ptx::griddepcontrol::wait();
    if (!Polls && a.late)
      ptx::griddepcontrol::launch_dependents();
    stamp(a, 1);

    unsigned q[chunks][2][2]; // of row g: those of rows 8 to 15 are zeros
    const int g = lane() / 4, t = lane() % 4;
    const __half *const q_of_row = a.q + (size_t(head) * a.group + g) * D;
    const bool of_new = Append && split == Cluster - 1 && warp() == Warps - 1;
    uint4 w[chunks];
    TENON_UNROLL
    for (int c = 0; c < chunks; ++c) {
      w[c] = make_uint4(0, 0, 0, 0);
      if (g < a.group)
        w[c] = fresh(q_of_row + 8 * (t + 4 * c));
    }
    if constexpr (Append)
      turn.apply(w);
    TENON_UNROLL
    for (int c = 0; c < chunks; ++c)
      q[c][0][0] = w[c].x, q[c][0][1] = w[c].y, q[c][1][0] = w[c].z, q[c][1][1] = w[c].w;
    running r;
    for (; first < end; first += 16 * Warps) {
      float s[2][4] = {};
      score(s, q, next);
      load_k(next, k, first + 16 * Warps, end);
      unsigned p[4];
      const float by = weights_of(p, s, r, first, end, a.scale);
      add(r, p, by, next);
      load_v(next, v, first + 16 * Warps, end);
    }
    if constexpr (Append) {
      if (of_new) {
        load_k<true>(next, a.new_k + size_t(head) * D, 0, 1);
        load_v<true>(next, a.new_v + size_t(head) * D, 0, 1);
        turn.apply(next.k[0]);
        append(a, next, head, length);
        float s[2][4] = {};
        score(s, q, next);
        unsigned p[4];
        const float by = weights_of(p, s, r, 0, 1, a.scale);
        add(r, p, by, next);
      }
    }
    auto &o = r.o;
    float &most = r.most, &sum = r.sum;
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    // Column 2 t + i of tile j is column 8 (2 t + i) + j.
    float *const mine = shared.values[warp()][g];
    TENON_UNROLL
    for (int h = 0; h < halves; ++h) {
      TENON_UNROLL
      for (int j = 0; j < 8; j += 4) {
        TENON_UNROLL
        for (int i = 0; i < 2; ++i)
          *reinterpret_cast<float4 *>(mine + 64 * h + 16 * t + 8 * i + j) =
              make_float4(o[h][j][i], o[h][j + 1][i], o[h][j + 2][i], o[h][j + 3][i]);
      }
    }
    if (t == 0)
      shared.of_warp[warp()][g] = {most, sum};
    if constexpr (Cluster > 1)
      ptx::cluster::wait();
    sync_block();
    join_warps(a, shared);
    if constexpr (Cluster > 1)
      meet();
    else
      sync_block();
    join_blocks(a, shared, head);
    stamp(a, 2);
    if constexpr (Polls) {
      ptx::griddepcontrol::wait(); // so that grids end in their order
      const int at = (block_x() + Cluster * int(blockIdx.y)) * threads + thread();
      for (int i = at; i < a.clear_words; i += grid_x() * int(gridDim.y) * threads)
        a.clear[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
    }
  }

private:
  TENON_DEVICE static void stamp(const decode_arguments &a, int what) {
    if (a.times && thread() == 0)
      a.times[3 * (block_x() + Cluster * int(blockIdx.y)) + what] = ptx::global_timer::read();
  }

  /// Sums of a warp: of row g, columns as the fragments have them.
  struct running {
    float o[halves][8][4] = {}, most = least, sum = 0;
  };
  TENON_DEVICE static void score(float (&s)[2][4], const unsigned (&q)[chunks][2][2],
                                 const keys &of) {
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) {
      TENON_UNROLL
      for (int c = 0; c < chunks; ++c) {
        TENON_UNROLL
        for (int h = 0; h < 2; ++h) {
          const unsigned f[4] = {q[c][h][0], 0, q[c][h][1], 0};
          ptx::mma_m16n8k16_f16::multiply(s[i], f, word(of.k[i][c], 2 * h),
                                          word(of.k[i][c], 2 * h + 1));
        }
      }
    }
  }
  /// Weights of the 16 keys from `first` on, as fragments; returns by what older sums shrink.
  TENON_DEVICE static float weights_of(unsigned (&p)[4], float (&s)[2][4], running &r, int first,
                                       int end, float scale) {
    float now = r.most;
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      float &of = s[i / 2][i % 2];
      const int key = first + 8 * (i / 2) + 2 * (lane() % 4) + i % 2;
      of = key < end ? of * scale : least;
      now = fmaxf(now, of);
    }
    now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
    now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
    const float by = exp2f(r.most - now);
    r.most = now, r.sum *= by;
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      float &of = s[i / 2][i % 2];
      of = exp2f(of - now);
      r.sum += of;
    }
    p[0] = pair_of(s[0][0], s[0][1]), p[1] = 0, p[2] = pair_of(s[1][0], s[1][1]), p[3] = 0;
    return by;
  }
  TENON_DEVICE static void add(running &r, const unsigned (&p)[4], float by, const keys &of) {
    TENON_UNROLL
    for (int h = 0; h < halves; ++h) {
      TENON_UNROLL
      for (int j = 0; j < 8; ++j) {
        r.o[h][j][0] *= by, r.o[h][j][1] *= by;
        const unsigned pick = j % 2 ? 0x7632 : 0x5410;
        const unsigned b0 = __byte_perm(word(of.v[0][h], j / 2), word(of.v[1][h], j / 2), pick);
        const unsigned b1 = __byte_perm(word(of.v[2][h], j / 2), word(of.v[3][h], j / 2), pick);
        ptx::mma_m16n8k16_f16::multiply(r.o[h][j], p, b0, b1);
      }
    }
  }

  /// A row of the rotary tables, as far as a lane's columns go: 8 (t + 4 c) ... and D / 2 further.
  struct rotation {
    float4 cos[chunks / 2][2], sin[chunks / 2][2];
    TENON_DEVICE void load(const decode_arguments &a, int row) {
      TENON_UNROLL
      for (int c = 0; c < chunks / 2; ++c) {
        TENON_UNROLL
        for (int i = 0; i < 2; ++i) {
          const size_t at = size_t(row) * (D / 2) + 8 * (lane() % 4 + 4 * c) + 4 * i;
          cos[c][i] = *reinterpret_cast<const float4 *>(a.cos + at);
          sin[c][i] = *reinterpret_cast<const float4 *>(a.sin + at);
        }
      }
    }
    TENON_DEVICE void apply(uint4 (&w)[chunks]) const {
      TENON_UNROLL
      for (int c = 0; c < chunks / 2; ++c) {
        __half2 low[4], high[4];
        memcpy(low, &w[c], 16), memcpy(high, &w[c + chunks / 2], 16);
        TENON_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float4 co = cos[c][i / 2], si = sin[c][i / 2];
          const float2 by = i % 2 ? make_float2(co.z, co.w) : make_float2(co.x, co.y);
          const float2 to = i % 2 ? make_float2(si.z, si.w) : make_float2(si.x, si.y);
          const float2 x = __half22float2(low[i]), y = __half22float2(high[i]);
          low[i] = __floats2half2_rn(x.x * by.x - y.x * to.x, x.y * by.y - y.y * to.y);
          high[i] = __floats2half2_rn(y.x * by.x + x.x * to.x, y.y * by.y + x.y * to.y);
        }
        memcpy(&w[c], low, 16), memcpy(&w[c + chunks / 2], high, 16);
      }
    }
  };
  /// Stores the new key, which the lanes of row 0 have, and its value, which those of key 0 have.
  TENON_DEVICE static void append(const decode_arguments &a, const keys &fresh, int head,
                                  int length) {
    if (length >= a.capacity)
      return;
    const size_t row = (size_t(head) * a.capacity + length) * D;
    if (lane() / 4 == 0) {
      TENON_UNROLL
      for (int c = 0; c < chunks; ++c)
        *reinterpret_cast<uint4 *>(const_cast<__half *>(a.k) + row + 8 * (lane() + 4 * c)) =
            fresh.k[0][c];
    }
    if (lane() % 4 == 0) {
      TENON_UNROLL
      for (int h = 0; h < halves; ++h)
        *reinterpret_cast<uint4 *>(const_cast<__half *>(a.v) + row + 64 * h + 8 * (lane() / 4)) =
            fresh.v[0][h];
    }
  }
  /// Adds the warps' sums; each result goes to the block that owns it.
  TENON_DEVICE static void join_warps(const decode_arguments &a, memory &shared) {
    const int owned = a.group * (D / Cluster);
    const int rank = block_x();
    for (int i = 4 * thread(); i < a.group * D; i += 4 * threads) {
      const int r = i / D, column = i % D;
      float by[Warps];
      weigh(by, &shared.of_warp[0][r], 8);
      float4 sum = make_float4(0, 0, 0, 0);
      TENON_UNROLL
      for (int w = 0; w < Warps; ++w) {
        const float4 v = *reinterpret_cast<const float4 *>(&shared.values[w][r][column]);
        sum.x = fmaf(by[w], v.x, sum.x), sum.y = fmaf(by[w], v.y, sum.y);
        sum.z = fmaf(by[w], v.z, sum.z), sum.w = fmaf(by[w], v.w, sum.w);
      }
      send(&shared.received[rank][i % owned], unsigned(i / owned), sum);
    }
    for (int i = thread(); i < 8 * Cluster; i += threads) {
      float by[Warps];
      const extreme all = weigh(by, &shared.of_warp[0][i % 8], 8);
      send(&shared.of_block[rank][i % 8], unsigned(i / 8), all);
    }
  }
  /// Adds what the blocks of the cluster have sent.
  TENON_DEVICE static void join_blocks(const decode_arguments &a, const memory &shared, int head) {
    const int owned = a.group * (D / Cluster), rank = block_x();
    for (int i = thread(); i < owned; i += threads) {
      const int result = rank * owned + i;
      float by[Cluster], sum = 0;
      const extreme all = weigh(by, &shared.of_block[0][result / D], 8);
      TENON_UNROLL
      for (int b = 0; b < Cluster; ++b)
        sum = fmaf(by[b], shared.received[b][i], sum);
      arrival_of_values::store(a.y + size_t(head) * a.group * D + result, sum / all.sum);
    }
  }

  /// The factors by which sums relative to `of` are added, and what they are relative to then.
  template <int Count>
  TENON_DEVICE static extreme weigh(float (&by)[Count], const extreme *of, int stride) {
    extreme all{least, 0};
    TENON_UNROLL
    for (int i = 0; i < Count; ++i)
      all.most = fmaxf(all.most, of[i * stride].most);
    TENON_UNROLL
    for (int i = 0; i < Count; ++i) {
      by[i] = exp2f(of[i * stride].most - all.most);
      all.sum = fmaf(by[i], of[i * stride].sum, all.sum);
    }
    return all;
  }
  /// Stores where `p` lies in the shared memory of block `rank` of the cluster.
  template <class T> TENON_DEVICE static void send(void *p, unsigned rank, const T &value) {
    if constexpr (Cluster == 1) {
      *static_cast<T *>(p) = value;
      return;
    }
    unsigned to;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(ptx::shared_address(p)), "r"(rank));
    unsigned w[sizeof(T) / 4];
    memcpy(w, &value, sizeof(T));
    if constexpr (sizeof(T) == 16)
      asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(w[0]),
                   "r"(w[1]), "r"(w[2]), "r"(w[3])
                   : "memory");
    else
      asm volatile("st.shared::cluster.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(w[0]), "r"(w[1])
                   : "memory");
  }
  /// Waits for the blocks of the cluster and what they have sent.
  TENON_DEVICE static void meet() {
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
  }
  TENON_DEVICE static unsigned pair_of(float a, float b) {
    const __half2 h = __floats2half2_rn(a, b);
    unsigned bits;
    memcpy(&bits, &h, 4);
    return bits;
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads)
    decode(const __grid_constant__ decode_arguments a) {
  __shared__ __align__(16) typename Kernel::memory shared;
  Kernel::run(a, shared);
}

} // namespace study
