// Defines what persistent contraction kernels go by: the order of tiles, positions in a ring of
// buffers, and the exchange of sums between the lanes that share a row.
#ifndef TENON_RUNTIME_CUDA_WARPGROUP_TILE_ORDER_CUH
#define TENON_RUNTIME_CUDA_WARPGROUP_TILE_ORDER_CUH

#include "cuda/tile/contraction.cuh"

namespace tenon {
namespace cuda {
namespace detail {

/// How the tiles of a contraction are numbered: splits of one tile first, then tiles in groups of
/// rows, so that blocks that run together share much of A and B in the second-level cache.
struct tile_order {
  int tiles_m, tiles_n, steps;

  template <int TileM, int TileN, int Splits> TENON_DEVICE block_part part(int index) const {
    constexpr int group = TileN >= 2 * TileM ? 16 : TileM >= 2 * TileN ? 8 : 12;
    const int split = index % Splits, tile = index / Splits;
    const int per_slice = tiles_m * tiles_n, slice = tile / per_slice,
              within = tile - slice * per_slice;
    const int first_m = within / (group * tiles_n) * group, rows = min_of(group, tiles_m - first_m),
              rest = within - first_m * tiles_n;
    const int n = rest / rows, m = first_m + rest - n * rows;
    return {m * TileM,
            n * TileN,
            slice,
            split,
            int(index_t(steps) * split / Splits),
            int(index_t(steps) * (split + 1) / Splits),
            tile};
  }
};

/// Position in a ring of buffers and the parity of its current round.
template <int Stages> struct ring_position {
  int stage = 0, parity = 0;
  TENON_DEVICE void next() {
    if (++stage == Stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  TENON_DEVICE void skip(int steps) {
    const int to = stage + steps, rounds = to / Stages;
    stage = to - rounds * Stages;
    parity ^= rounds & 1;
  }
};

/// Arguments are values, so that arrays they come from stay in registers.
template <class T> TENON_DEVICE T choose(bool first, T a, T b) { return first ? a : b; }

/// What four lanes hold of 32 columns of a row, two neighbours of each eight, becomes eight
/// neighbours in each lane: lane q of the four has columns 8*q to 8*q + 7.
template <class T> TENON_DEVICE void gather_eight(T (&x)[8]) {
  const bool odd = (lane() & 1) != 0, high = (lane() & 2) != 0;
  // x[2*j + e]: column 8*j + 2*q + e. First pairs of lanes, then pairs of pairs.
  T y[8];
  TENON_UNROLL
  for (int t = 0; t < 8; t += 4) {
    TENON_UNROLL
    for (int e = t; e < t + 2; ++e) {
      const T kept = choose(odd, x[e + 2], x[e]);
      const T got = shuffle_xor(choose(odd, x[e], x[e + 2]), 1);
      y[e] = choose(odd, got, kept);
      y[e + 2] = choose(odd, kept, got);
    }
  }
  TENON_UNROLL
  for (int e = 0; e < 4; ++e) {
    const T kept = choose(high, y[e + 4], y[e]);
    const T got = shuffle_xor(choose(high, y[e], y[e + 4]), 2);
    x[e] = choose(high, got, kept);
    x[e + 4] = choose(high, kept, got);
  }
}

} // namespace detail

} // namespace cuda
} // namespace tenon

#endif
