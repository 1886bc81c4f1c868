// Defines `warpgroup_epilogue`: what becomes of the sums that wgmma leaves in a warpgroup's
// registers (ptx/wgmma.cuh); and `tile_pixels`, for convolutions whose tiles are windows of an
// image.
//
// The body gets runs of 8 neighbouring columns: the four lanes that share a row exchange their
// sums. It goes in batches of `batch` times 32 columns of the 8 rows that a warp's lanes hold at a
// time: batch number b has columns b / batches_m and of the rows, 64 in a block, half
// b % batches_m. So what is fixed beside the columns is loaded once for all rows. What the body
// reads is fetched a batch ahead, the first by the caller, before the multiplications: with a tile
// or two per block nothing else hides those loads.
#ifndef TENON_RUNTIME_CUDA_WARPGROUP_EPILOGUE_CUH
#define TENON_RUNTIME_CUDA_WARPGROUP_EPILOGUE_CUH

#include "cuda/warpgroup/tile_order.cuh"

namespace tenon {
namespace cuda {

/// The pixels of a tile of an image, Height rows of Width, as the rows of a problem.
template <class Problem, int Height, int Width> struct tile_pixels {
  static constexpr int rank = Problem::rank, along = Problem::along;
  const Problem &problem;
  pixel first;

  TENON_FN int columns() const { return problem.columns(); }
  template <int N> TENON_FN static constexpr bool has_whole_runs() {
    return Problem::template has_whole_runs<N>();
  }
  TENON_DEVICE bool has_row(int m) const {
    return first.y + down(m) < int(index_t(problem.cfg.out_h)) &&
           first.x + across(m) < int(index_t(problem.cfg.out_w));
  }
  TENON_DEVICE void point(int, int m, int n, int (&at)[rank]) const {
    at[0] = first.image, at[1] = n;
    at[2] = first.y + down(m), at[3] = first.x + across(m);
  }

private:
  TENON_FN static int down(int m) { return Height == 1 ? 0 : m / Width; }
  TENON_FN static int across(int m) { return Height == 1 ? m : m % Width; }
};

/// A warpgroup's part of a tile is 64 * Blocks rows of TileN columns. Parts: how many times as many
/// sums a thread has during the multiplications; few registers are left beside many. Products: how
/// many sums belong to an element; those of one product are columns of the tile behind another's.
template <class Problem, class Outs, class Ins, class Body, int TileN, int Blocks, int Parts = 1,
          int Products = 1>
class warpgroup_epilogue {
  static_assert(TileN % 32 == 0 && (Products == 1 || Products == 2), "tiles are whole blocks");
  static constexpr int blocks_n = TileN / 32;
  static constexpr int batch = blocks_n <= 4 && blocks_n * Parts * Products <= 6 ? blocks_n : 2;
  static constexpr int batches_m = Blocks * 2, batches = batches_m * (blocks_n / batch);
  static constexpr int each = TileN / 2; // sums of a thread, for 64 rows of a product
  static constexpr int sums = Products * each;
  static constexpr bool whole = Problem::template has_whole_runs<8>();
  static_assert(blocks_n % batch == 0, "batches are whole");

public:
  struct runs {
    operand_runs<8, Ins> columns[batch];
  };
  /// Runs of 8 columns in a thread, which blocks that share a tile divide among themselves.
  static constexpr int units = batches * batch;
  using unit_run = operand_runs<8, Ins>;

  TENON_DEVICE warpgroup_epilogue(const Problem &problem, const Outs &outs, const Ins &ins,
                                  const Body &body, const block_part &part, int m0)
      : problem_(problem), outs_(outs), ins_(ins), body_(body), part_(part), m0_(m0) {}

  /// All that the body reads, where registers hold it: a thread then waits for it once.
  struct all_runs {
    runs of[batches];
  };
  TENON_DEVICE void fetch_all(all_runs &to) const {
    TENON_UNROLL
    for (int b = 0; b < batches; ++b) {
      fetch<operand_part::moving>(to.of[b], b);
      if (b % batches_m == 0)
        fetch<operand_part::fixed>(to.of[b], b);
    }
  }
  template <class T>
  TENON_DEVICE void finish_all(const T (&sum)[Blocks * sums], const all_runs &operands) const {
    all_runs all = operands;
    TENON_UNROLL
    for (int b = 0; b < batches; ++b) {
      if (b % batches_m != 0)
        take_fixed(all.of[b], all.of[b - 1]);
      finish_batch(sum, b, all.of[b]);
    }
  }

  TENON_DEVICE void fetch_first(runs &to) const {
    fetch<operand_part::moving>(to, 0);
    fetch<operand_part::fixed>(to, 0);
  }
  template <class T>
  TENON_DEVICE void finish(const T (&sum)[Blocks * sums], const runs &first) const {
    runs now = first;
    TENON_UNROLL
    for (int b = 0; b < batches; ++b) {
      runs next;
      if (b + 1 < batches)
        fetch<operand_part::moving>(next, b + 1);
      finish_batch(sum, b, now);
      take_fixed(next, now);
      now = next;
      // Not earlier: with 128 sums there are no registers for two of them.
      if (b + 1 < batches && (b + 1) % batches_m == 0)
        fetch<operand_part::fixed>(now, b + 1);
    }
  }

  /// Where element e of unit u lies among a thread's sums.
  TENON_FN static constexpr int place_in_unit(int u, int e) {
    return place(u / batch, u % batch, e);
  }
  TENON_DEVICE void fetch_unit(unit_run &to, int u) const {
    int point[Problem::rank];
    const bool inside = seek_unit(u, point);
    to.template load<Problem::along, operand_part::all, whole>(ins_, point,
                                                               inside ? columns_of(u) : 0);
  }
  template <class T>
  TENON_DEVICE void finish_unit(int u, T (&eight)[8], const unit_run &run) const {
    int point[Problem::rank];
    const bool inside = seek_unit(u, point);
    static_assert(Products == 1, "blocks divide the sums of one product");
    detail::gather_eight(eight);
    if (inside && columns_of(u) > 0)
      apply_to_runs<Problem::along, whole>(body_, outs_, run, point, columns_of(u), eight);
  }

private:
  template <class T>
  TENON_DEVICE void finish_batch(const T (&sum)[Blocks * sums], int b, const runs &now) const {
    int point[Problem::rank];
    const bool inside = seek(b, point);
    TENON_UNROLL
    for (int j = 0; j < batch; ++j, point[Problem::along] += 32) {
      T eight[Products][8];
      TENON_UNROLL
      for (int p = 0; p < Products; ++p) {
        TENON_UNROLL
        for (int e = 0; e < 8; ++e)
          eight[p][e] = sum[p * each + place(b, j, e)];
        detail::gather_eight(eight[p]);
      }
      const int columns = min_of(problem_.columns() - first_column(b) - 32 * j, 8);
      if (!inside || columns <= 0)
        continue;
      if constexpr (Products == 1)
        apply_to_runs<Problem::along, whole>(body_, outs_, now.columns[j], point, columns,
                                             eight[0]);
      else
        apply_to_runs<Problem::along, whole>(body_, outs_, now.columns[j], point, columns, eight[0],
                                             eight[1]);
    }
  }
  TENON_DEVICE static void take_fixed(runs &to, const runs &from) {
    TENON_UNROLL
    for (int j = 0; j < batch; ++j)
      to.columns[j].template take_fixed<Problem::along>(from.columns[j]);
  }
  /// Where element e of run j of batch b lies among a thread's sums.
  TENON_FN static constexpr int place(int b, int j, int e) {
    return b % batches_m / 2 * sums + 16 * (b / batches_m * batch + j) + 4 * (e / 2) + 2 * (b % 2) +
           e % 2;
  }
  TENON_DEVICE bool seek_unit(int u, int (&point)[Problem::rank]) const {
    const bool inside = seek(u / batch, point);
    point[Problem::along] += 32 * (u % batch);
    return inside;
  }
  TENON_DEVICE int columns_of(int u) const {
    return min_of(problem_.columns() - first_column(u / batch) - 32 * (u % batch), 8);
  }
  /// Where a batch's first run lies; false where there is no such row.
  TENON_DEVICE bool seek(int b, int (&point)[Problem::rank]) const {
    const int m = m0_ + 64 * (b % batches_m / 2) + 16 * (warp() % 4) + 8 * (b % 2) + lane() / 4;
    const bool inside = problem_.has_row(m);
    problem_.point(part_.slice, inside ? m : 0, first_column(b), point);
    return inside;
  }
  TENON_DEVICE int first_column(int b) const {
    return part_.n0 + 8 * (lane() % 4) + 32 * batch * (b / batches_m);
  }
  template <operand_part Part> TENON_DEVICE void fetch(runs &to, int b) const {
    int point[Problem::rank];
    const bool inside = seek(b, point) || Part == operand_part::fixed;
    TENON_UNROLL
    for (int j = 0; j < batch; ++j, point[Problem::along] += 32) {
      const int left = problem_.columns() - first_column(b) - 32 * j;
      to.columns[j].template load<Problem::along, Part, whole>(ins_, point,
                                                               inside ? min_of(left, 8) : 0);
    }
  }

  const Problem &problem_;
  const Outs &outs_;
  const Ins &ins_;
  const Body &body_;
  const block_part &part_;
  int m0_;
};

} // namespace cuda
} // namespace tenon

#endif
