// Defines how strip kernels (cuda/strip/kernel.cuh) have weights: strip_matrices, packed in memory,
// and strip_tile, a lane's part of them, which becomes A of mma.m16n8k16.
//
// Weights: tiles of 16 outputs, 512 bytes each, along k first, filled with zeros of scale 0 up to
// whole strips and pairs of tiles. Lane 4 * g + t owns bytes 16 * lane ... Within 32 k, lane t of
// mma step s has k 8 * t + 4 * s + 2 * (r / 2) + h in register a[r], half h, row g + 8 * (r % 2):
// so its part of B is 16 bytes of a row as it lies.
//   16 bits  16 x 16: register a[i] of step (tile % 2) is word i
//   8 bits   16 x 32 (a block of one scale): bytes 2 * r + h of the eight of step s hold q + 128
//   4 bits   16 x 64 (two blocks): bits 4 * p ... of word 2 * b + s, p = 4 * h + r, hold q + 8
// Scales: [tile][g][block of the tile][row half].
//
// Integers become halves by a mask or a permutation of bytes alone: they are subnormal halves,
// q + bias times 2^-24 (bf16, of 4 bits: 128 + q + 8). A block of 32 starts from less bias times
// the sum of x, which one multiplication by ones gives for all strips.
#ifndef TENON_RUNTIME_CUDA_STRIP_WEIGHTS_CUH
#define TENON_RUNTIME_CUDA_STRIP_WEIGHTS_CUH

#include "common/packed.h"
#include "common/scalar.h"
#include "cuda/base/operands.cuh"
#include "cuda/ptx/byte_permute.cuh"

namespace tenon {
namespace cuda {

/// One matrix: elements W, packed as above, and their scales (null where W is a float).
template <class W, class Scale> struct strip_weights {
  const void *w;
  const Scale *scale;
};
template <class W, class Scale>
TENON_FN strip_weights<W, Scale> make_strip_weights(const void *w, const Scale *scale) {
  return {w, scale};
}
template <class W, class Scale, class P>
TENON_FN strip_weights<W, Scale> make_strip_weights(packed_pointer<P> w, const Scale *scale) {
  return {w.bytes, scale}; // constants start with a byte
}
/// Matrices whose sums the body takes together.
template <class W, class Scale, int Count> struct strip_matrices {
  strip_weights<W, Scale> of[Count];
  static constexpr int count = Count;
};

namespace detail {

/// This lane's part of a tile of weights W that are multiplied as T.
template <class W, class T, class Scale> struct strip_tile {
  static constexpr int bits = packed_bits<W> > 0 ? packed_bits<W> : 8 * int(sizeof(W));
  static constexpr int depth = 256 / bits, steps = depth / 16;
  static constexpr int blocks = bits == 16 ? 0 : depth / 32;
  static constexpr bool subnormal = bits < 16 && !detail::is_same<T, bf16>;
  static_assert(bits != 8 || subnormal, "bf16 has too few bits for 8-bit integers");
  /// Added to an integer, and what the products of rows g and g + 8 are to be multiplied by.
  static constexpr float bias = bits == 16 ? 0 : subnormal ? (bits == 8 ? 128 : 8) : 136;
  static constexpr float low = subnormal ? 16777216 : 1;
  static constexpr float high = subnormal && bits == 4 ? 1048576 : low;
  static constexpr unsigned ones = detail::is_same<T, bf16> ? 0x3f803f80u : 0x3c003c00u;

  unsigned word[4];
  Scale scale[blocks > 0 ? blocks : 1][2]; // of rows g and g + 8

  TENON_DEVICE void load(const unsigned char *from, const unsigned char *scales) {
    load_words(word, reinterpret_cast<const unsigned *>(from) + 4 * lane());
    if constexpr (blocks > 0) {
      Scale both[2 * blocks];
      load_words(both, reinterpret_cast<const Scale *>(scales) + 2 * blocks * (lane() / 4));
      memcpy(static_cast<void *>(scale), both, sizeof(both));
    }
  }
  /// A of one step of 16 k.
  TENON_DEVICE void fragment(unsigned (&a)[4], int step) const {
    if constexpr (bits == 16) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i)
        a[i] = word[i];
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
