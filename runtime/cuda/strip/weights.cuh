// Defines how strip kernels (cuda/strip/kernel.cuh) have weights: strip_matrices, packed in memory,
// and strip_tile, a lane's part of them, which becomes A of mma.m16n8k16.
//
// Weights: tiles of 16 outputs, 512 bytes each, along k first, filled with zeros of scale 0 up to
// whole strips and pairs of tiles. Lane 4 * g + t owns bytes 16 * lane ... Within 32 k, lane t of
// mma step s has k 8 * t + 4 * s + 2 * (r / 2) + h in register a[r], half h, row g + 8 * (r % 2):
// so its part of B is 16 bytes of a row as it lies.
//   16 bits  16 x 16: register a[i] of step (tile % 2) is word i
//   8 bits   16 x 32 (a block of one scale): bytes 2 * r + h of the eight of step s hold q + 128;
//            of f8e4m3 half h of word 2 * s + r / 2 has r's sign and other bits, r odd at 15 and 13
//            to 7, r even at 14 and 6 to 0
//   4 bits   16 x 64 (two blocks): bits 4 * p ... of word 2 * b + s, p = 4 * h + r, hold q + 8
// Scales: [tile][g][block of the tile][row half]; or one for each output, which its sum is
// multiplied by.
//
// Integers become halves by a mask or a permutation of bytes alone: they are subnormal halves,
// q + bias times 2^-24 (bf16, of 4 bits: 128 + q + 8). A block of 32 starts from less bias times
// the sum of x, which one multiplication by ones gives for all strips. The bits of f8e4m3 are a
// half 2^-8 times as large.
#ifndef TENON_RUNTIME_CUDA_STRIP_WEIGHTS_CUH
#define TENON_RUNTIME_CUDA_STRIP_WEIGHTS_CUH

#include "common/packed.h"
#include "common/scalar.h"
#include "cuda/base/operands.cuh"
#include "cuda/ptx/byte_permute.cuh"

namespace tenon {
namespace cuda {

/// One matrix: elements W, packed as above, to be multiplied as T, and their scales: null, T's of
/// blocks, or one `Each` of each output.
template <class W, class T, class Each = void> struct strip_weights {
  static constexpr bool scales_outputs = !detail::is_same<Each, void>;
  static constexpr bool scales_blocks = packed_bits<W> > 0 || (sizeof(W) == 1 && !scales_outputs);
  using scale_type = typename detail::choose_type<scales_outputs, Each, T>::type;
  const void *w;
  const scale_type *scale;
};
template <class W, class T, class Each = void, class S>
TENON_FN strip_weights<W, T, Each> make_strip_weights(const void *w, const S *scale) {
  return {w, scale};
}
template <class W, class T, class Each = void, class P, class S>
TENON_FN strip_weights<W, T, Each> make_strip_weights(packed_pointer<P> w, const S *scale) {
  return {w.bytes, scale}; // constants start with a byte
}
/// Matrices whose sums the body takes together.
template <int Count, class W, class T, class Each = void> struct strip_matrices {
  strip_weights<W, T, Each> of[Count];
};

namespace detail {

/// This lane's part of a tile of weights W that are multiplied as T, with scales of blocks or not.
template <class W, class T, bool Scaled> struct strip_tile {
  static constexpr int bits = packed_bits<W> > 0 ? packed_bits<W> : 8 * int(sizeof(W));
  static constexpr int depth = 256 / bits, steps = depth / 16;
  static constexpr int runs = bits == 16 ? 0 : depth / 32, blocks = Scaled ? runs : 0;
  static constexpr bool is_f8 = detail::is_same<W, f8e4m3>;
  static constexpr bool subnormal = bits < 16 && !is_f8 && !detail::is_same<T, bf16>;
  static_assert(bits != 8 || !detail::is_same<T, bf16>, "bf16 has too few bits for 8 of integers");
  /// Added to an integer, and what the products of rows g and g + 8 are to be multiplied by.
  static constexpr float bias = bits == 16 || is_f8 ? 0 : subnormal ? (bits == 8 ? 128 : 8) : 136;
  static constexpr float low = is_f8 ? 256 : subnormal ? 16777216 : 1;
  static constexpr float high = subnormal && bits == 4 ? 1048576 : low;
  static constexpr unsigned ones = detail::is_same<T, bf16> ? 0x3f803f80u : 0x3c003c00u;

  unsigned word[4];
  T scale[blocks > 0 ? blocks : 1][2]; // of rows g and g + 8

  TENON_DEVICE void load(const unsigned char *from, const unsigned char *scales) {
    load_words(word, reinterpret_cast<const unsigned *>(from) + 4 * lane());
    if constexpr (blocks > 0) {
      T both[2 * blocks];
      load_words(both, reinterpret_cast<const T *>(scales) + 2 * blocks * (lane() / 4));
      memcpy(static_cast<void *>(scale), both, sizeof(both));
    }
  }
  /// A of one step of 16 k.
  TENON_DEVICE void fragment(unsigned (&a)[4], int step) const {
    if constexpr (bits == 16) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i)
        a[i] = word[i];
    } else if constexpr (is_f8) {
      TENON_UNROLL
      for (int r = 0; r < 4; r += 2) {
        const unsigned w = word[2 * step + r / 2];
        a[r] = (w << 1 & 0x80008000u) | (w << 7 & 0x3f803f80u);
        a[r + 1] = w & 0xbf80bf80u;
      }
    } else if constexpr (bits == 8) {
      TENON_UNROLL
      for (int r = 0; r < 4; ++r)
        a[r] = r % 2 ? ptx::byte_permute::widen_high(word[2 * step + r / 2])
                     : ptx::byte_permute::widen_low(word[2 * step + r / 2]);
    } else if constexpr (subnormal) {
      const unsigned w = word[step], rest = w >> 8;
      a[0] = w & 0x000f000fu, a[1] = w & 0x00f000f0u;
      a[2] = rest & 0x000f000fu, a[3] = rest & 0x00f000f0u;
    } else {
      TENON_UNROLL
      for (int r = 0; r < 4; ++r)
        a[r] = (word[step] >> (4 * r) & 0x000f000fu) | 0x43004300u;
    }
  }
};

} // namespace detail

} // namespace cuda
} // namespace tenon

#endif
