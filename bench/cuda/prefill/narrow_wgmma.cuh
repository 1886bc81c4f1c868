// Defines `narrow_wgmma`: many rows times constant int4 weights by wgmma, from the same packed
// weights as the strips of few rows (../gemv/strip.cuh). A study; see README.md.
//
//   y[t, o] = sum over k of x[t, k] * w[o, k]
//
// Algorithm: the outputs are rows of A, the tokens columns of B: Yt = W * Xt. A lane's part of a
// packed tile is its fragment of A: masks and two instructions a pair make halves q * scale of it,
// in registers, while the multiplication before runs. B is a tile of x, brought by the copy engine.
// Within 32 columns, x lies in the order in which the weights have k: position 16 s + 8 r + 2 t + h
// holds k = 8 t + 4 s + 2 r + h. The sums go to y through shared memory, transposed.
//
// A block has 64 outputs a warpgroup, `Tokens` tokens, and one warp that fills the ring.
#pragma once

#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/named_barrier.cuh"
#include "cuda/ptx/setmaxnreg.cuh"
#include "cuda/ptx/tensor_copy.cuh"
#include "cuda/ptx/wgmma.cuh"
#include <cuda_fp16.h>

namespace study {

using namespace tenon;
using namespace tenon::cuda;

struct narrow_arguments {
  tensor_map x; // [tokens][k], boxes of 64 columns and as many tokens as a block has
  const unsigned char *w, *scale;
  __half *y; // [tokens][n]
  int n, k, tokens;
};

/// n is a multiple of 64 * Groups, k of 128.
template <int Groups, int Tokens, int Stages> struct narrow_wgmma {
  static constexpr int threads = 128 * (Groups + 1), outputs = 64 * Groups, depth = 64;
  static constexpr int strips = outputs / 16;
  static constexpr int x_bytes = Tokens * depth * 2, w_bytes = strips * 512,
                       scale_bytes = strips * 64,
                       stage_bytes = (x_bytes + w_bytes + scale_bytes + 1023) / 1024 * 1024;
  static constexpr int pitch = outputs + 8; // halves of a token's row of sums in shared memory
  struct barriers {
    ptx::mbarrier full[Stages], free[Stages];
  };
  static constexpr int ring_bytes =
      max_of(Stages * stage_bytes, (Tokens * pitch * 2 + 1023) / 1024 * 1024);
  static constexpr int shared_bytes = ring_bytes + int(sizeof(barriers)) + 1024;
  using multiplication = ptx::wgmma_registers<f16, Tokens>;

  TENON_DEVICE static void run(const narrow_arguments &a, unsigned char *memory) {
    unsigned char *const ring = memory + (0u - ptx::shared_address(memory)) % 1024;
    barriers &b = *reinterpret_cast<barriers *>(ring + ring_bytes);
    if (thread() == 0) {
      ptx::prefetch_tensor_map::hint(a.x);
      for (int i = 0; i < Stages; ++i)
        b.full[i].init(1), b.free[i].init(128 * Groups);
      ptx::mbarrier::fence_init();
    }
    sync_block();
    const int group = uniform_warp() / 4;
    if (group == Groups) {
      ptx::setmaxnreg<40>::release();
      if (thread() == 128 * Groups)
        produce(a, ring, b);
    } else {
      ptx::setmaxnreg<Groups == 2 ? 232 : 208>::acquire();
      consume(a, ring, b, group);
    }
  }

private:
  // Blocks that run together share tokens: weights are read from memory once.
  TENON_DEVICE static int first_token(const narrow_arguments &a) {
    return block_x() % ceil_div(a.tokens, Tokens) * Tokens;
  }
  TENON_DEVICE static int first_output(const narrow_arguments &a) {
    return block_x() / ceil_div(a.tokens, Tokens) * outputs;
  }

  TENON_DEVICE static void produce(const narrow_arguments &a, unsigned char *ring, barriers &b) {
    const int tiles = a.k / depth, token = first_token(a);
    const size_t strip = size_t(first_output(a) / 16);
    for (int i = 0; i < tiles; ++i) {
      const int stage = i % Stages;
      b.free[stage].wait((i / Stages & 1) ^ 1);
      b.full[stage].arrive_expecting(x_bytes + w_bytes + scale_bytes);
      unsigned char *const to = ring + stage * stage_bytes;
      ptx::tensor_copy_tiled::load(to, a.x, b.full[stage], {depth * i, token});
      for (int s = 0; s < strips; ++s) {
        const size_t tile = (strip + size_t(s)) * size_t(tiles) + size_t(i);
        bulk(to + x_bytes + s * 512, a.w + tile * 512, 512, b.full[stage]);
        bulk(to + x_bytes + w_bytes + s * 64, a.scale + tile * 64, 64, b.full[stage]);
      }
    }
  }
  TENON_DEVICE static void bulk(void *to, const void *from, int bytes, ptx::mbarrier &done) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(ptx::shared_address(to)),
                 "l"(from), "r"(bytes), "r"(ptx::shared_address(&done))
                 : "memory");
  }

  using fragments = unsigned[4][4]; // of steps of 16 k
  /// q * scale of a tile: q is exact, the product rounded once.
  TENON_DEVICE static void widen(fragments &f, const unsigned char *stage, int strip) {
    const uint4 words = reinterpret_cast<const uint4 *>(stage + x_bytes + strip * 512)[lane()];
    const uint2 scales =
        reinterpret_cast<const uint2 *>(stage + x_bytes + w_bytes + strip * 64)[lane() / 4];
    const unsigned word[4] = {words.x, words.y, words.z, words.w};
    TENON_UNROLL
    for (int s = 0; s < 4; ++s) {
      const unsigned both = s < 2 ? scales.x : scales.y, w = word[s], high = w >> 8;
      const __half2 by[2] = {half2_of(__byte_perm(both, 0u, 0x1010)),
                             half2_of(__byte_perm(both, 0u, 0x3232))};
      f[s][0] = bits_of(__hmul2(low(w), by[0]));
      f[s][1] = bits_of(__hmul2(upper(w), by[1]));
      f[s][2] = bits_of(__hmul2(low(high), by[0]));
      f[s][3] = bits_of(__hmul2(upper(high), by[1]));
    }
  }
  TENON_DEVICE static __half2 low(unsigned w) { // bits 0 to 3 and 16 to 19: 1024 + q + 8
    return __hsub2(half2_of((w & 0x000f000fu) | 0x64006400u), half2_of(0x64086408u));
  }
  TENON_DEVICE static __half2 upper(unsigned w) { // bits 4 to 7 and 20 to 23: 1024 + 16 (q + 8)
    return __hfma2(half2_of((w & 0x00f000f0u) | 0x64006400u), half2_of(0x2c002c00u),
                   half2_of(0xd480d480u));
  }
  TENON_DEVICE static __half2 half2_of(unsigned bits) {
    __half2 h;
    memcpy(&h, &bits, 4);
    return h;
  }
  TENON_DEVICE static unsigned bits_of(__half2 h) {
    unsigned bits;
    memcpy(&bits, &h, 4);
    return bits;
  }

  TENON_DEVICE static void multiply(float (&sum)[Tokens / 2], fragments &f,
                                    const unsigned char *stage, bool add) {
    const uint64_t x = ptx::wgmma_tile<128>::descriptor(stage);
    TENON_UNROLL
    for (int s = 0; s < 4; ++s)
      ptx::wgmma_group::pin(f[s]);
    ptx::wgmma_group::fence();
    TENON_UNROLL
    for (int s = 0; s < 4; ++s)
      multiplication::multiply(sum, f[s], ptx::wgmma_tile<128>::advance(x, 32 * s), add || s > 0);
    ptx::wgmma_group::commit();
  }

  TENON_DEVICE static void consume(const narrow_arguments &a, unsigned char *ring, barriers &b,
                                   int group) {
    const int tiles = a.k / depth, strip = 4 * group + warp() % 4;
    float sum[Tokens / 2];
    fragments even, odd;
    const auto stage_of = [&](int i) { return ring + i % Stages * stage_bytes; };
    const auto arrived = [&](int i) { b.full[i % Stages].wait(i / Stages & 1); };
    // All lanes arrive: each has read weights of its own.
    const auto release = [&](int i) { b.free[i % Stages].arrive(); };
    arrived(0);
    widen(even, stage_of(0), strip);
    for (int i = 0; i < tiles; i += 2) { // their number is even
      multiply(sum, even, stage_of(i), i > 0);
      arrived(i + 1);
      widen(odd, stage_of(i + 1), strip);
      ptx::wgmma_group::wait<0>();
      release(i);
      multiply(sum, odd, stage_of(i + 1), true);
      if (i + 2 < tiles) {
        arrived(i + 2);
        widen(even, stage_of(i + 2), strip);
      }
      ptx::wgmma_group::wait<0>();
      release(i + 1);
    }
    ptx::wgmma_group::pin(sum);
    ptx::named_barrier::sync(1, 128 * Groups); // the ring is read no more
    __half *const rows = reinterpret_cast<__half *>(ring);
    TENON_UNROLL
    for (int j = 0; j < Tokens / 8; j += 2) {
      // Four tiles of 8 x 8: outputs 0 to 7 and 8 to 15 of the warp, tokens 8 j and 8 j + 8.
      const int m = lane() / 8;
      store_transposed(rows + (8 * (j + m / 2) + lane() % 8) * pitch + 16 * strip + 8 * (m % 2),
                       pair(sum[4 * j], sum[4 * j + 1]), pair(sum[4 * j + 2], sum[4 * j + 3]),
                       pair(sum[4 * j + 4], sum[4 * j + 5]), pair(sum[4 * j + 6], sum[4 * j + 7]));
    }
    ptx::named_barrier::sync(1, 128 * Groups);
    constexpr int runs = outputs / 8;
    const int token = first_token(a), output = first_output(a);
    for (int i = thread(); i < Tokens * runs; i += 128 * Groups)
      if (token + i / runs < a.tokens)
        *reinterpret_cast<uint4 *>(a.y + size_t(token + i / runs) * size_t(a.n) + output +
                                   i % runs * 8) =
            *reinterpret_cast<const uint4 *>(rows + i / runs * pitch + i % runs * 8);
  }
  TENON_DEVICE static unsigned pair(float x, float y) { return bits_of(__floats2half2_rn(x, y)); }
  TENON_DEVICE static void store_transposed(void *to, unsigned a, unsigned b, unsigned c,
                                            unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     ptx::shared_address(to)),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, 1)
    narrow(const __grid_constant__ narrow_arguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  Kernel::run(a, shared);
}

} // namespace study
