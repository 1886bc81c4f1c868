// Defines sum_over_lanes and apply_lane_sums: sums that `Lanes` neighbouring threads of a block
// have parts of, and what becomes of them.
#ifndef TENON_RUNTIME_CUDA_TILE_LANE_SUMS_CUH
#define TENON_RUNTIME_CUDA_TILE_LANE_SUMS_CUH

#include "cuda/tile/contraction.cuh"

namespace tenon {
namespace cuda {

/// Leaves the whole sums in the first of every Lanes threads (32 or a larger power of two), added
/// in a fixed order. More than 32 meet in `shared`, which has room for one set of sums for each
/// warp of the block; all threads of the block call then.
template <int Lanes, class T, int Rows, int Columns>
TENON_DEVICE void sum_over_lanes(T (&sum)[Rows][Columns], unsigned char *shared) {
  constexpr int warps = Lanes / 32;
  TENON_UNROLL
  for (int m = 0; m < Rows; ++m) {
    TENON_UNROLL
    for (int c = 0; c < Columns; ++c) {
      TENON_UNROLL
      for (int mask = 16; mask > 0; mask /= 2)
        sum[m][c] += shuffle_xor(sum[m][c], mask);
    }
  }
  if constexpr (warps > 1) {
    T *parts = reinterpret_cast<T *>(shared);
    if (lane() == 0) {
      TENON_UNROLL
      for (int i = 0; i < Rows * Columns; ++i)
        parts[warp() * Rows * Columns + i] = sum[i / Columns][i % Columns];
    }
    sync_block();
    TENON_UNROLL
    for (int i = 0; i < Rows * Columns; ++i) {
      T whole = 0;
      for (int p = 0; p < warps; ++p)
        whole += parts[(thread() / Lanes * warps + p) * Rows * Columns + i];
      sum[i / Columns][i % Columns] = whole;
    }
  }
}

/// Writes what the body makes of the sums, of columns `first` and following, as far as there are
/// `n`: by the first of every Lanes threads, which all call.
template <int Lanes, class T, int Rows, int Columns, class Outs, class Ins, class Body>
TENON_DEVICE void apply_lane_sums(T (&sum)[Rows][Columns], unsigned char *shared, const Body &body,
                                  const Outs &outs, const Ins &ins, int first, int n) {
  sum_over_lanes<Lanes>(sum, shared);
  if (thread() % Lanes != 0)
    return;
  const int count = min_of(n - first, Columns);
  TENON_UNROLL
  for (int m = 0; m < Rows; ++m) {
    const int at[2] = {m, first};
    if (count > 0)
      apply_body<1>(body, outs, ins, at, count, sum[m]);
  }
}

} // namespace cuda
} // namespace tenon

#endif
