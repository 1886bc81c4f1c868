// Defines `attention_rows`: what a warp has and does for 16 queries of an attention, whose keys and
// values pass in shared memory, on the Tensor Cores of sm_80 and up.
//
// Scores never leave registers (Dao et al., FlashAttention): the warp multiplies its queries with
// Keys keys, follows the largest score of each query so far, and multiplies the weights, rounded to
// the values' type, with the values; sums, which are fp32, are scaled down when a larger score
// comes. A lane has the queries lane / 4 and lane / 4 + 8, as mma leaves them.
#ifndef TENON_RUNTIME_CUDA_TILE_ATTENTION_ROWS_CUH
#define TENON_RUNTIME_CUDA_TILE_ATTENTION_ROWS_CUH

#include "common/attention_order.h"
#include "cuda/ptx/exp2.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/round_pair.cuh"
#include "cuda/tile/intra_block_split_k.cuh"
#include "cuda/tile/tensor_cores_sm80.cuh"

namespace tenon {
namespace cuda {

/// Rows of Depth and Width elements, multiples of 16; Sums: of a lane, in blocks of 4, at least one
/// block for 8 columns of values. HasBias: something is added to scores, which are in units of
/// log2(e) otherwise; a bias may be as large as floats are, and stays what it is.
template <class Element, int Depth, int Width, int Keys, int Sums, bool HasBias>
struct attention_rows {
  using cores = tensor_cores_sm80;
  static_assert(Keys % 16 == 0, "warps multiply 16 keys at once");
  static constexpr float log2e = 1.44269504f, unit = HasBias ? log2e : 1.0f;
  /// Blocks of 8 columns: scores, sums.
  static constexpr int score_blocks = Keys / 8, sum_blocks = Width / 8;
  using scores = float[score_blocks][4];

  unsigned query[Depth / 16][4];
  float largest[2] = {-float(INFINITY), -float(INFINITY)}; // of each query
  float total[2] = {};                                     // of this lane's weights
  float sum[Sums] = {};

  /// 2^x in units of scores.
  TENON_DEVICE static float weight(float x) { return ptx::exp2_approximate::of(x * unit); }
  /// What scores are relative to: a number even where every score so far is -infinity.
  TENON_DEVICE static float relative_to(float largest) {
    return largest == -float(INFINITY) ? 0.0f : largest;
  }

  /// Products with the keys of a tile from row `first` on.
  template <class Tile>
  TENON_DEVICE void multiply_keys(scores &score, const Element *tile, int first) const {
    const Element *mine = tile + Tile::at(first + lane() / 16 * 8 + lane() % 8, lane() / 8 % 2);
    TENON_UNROLL
    for (int i = 0; i < Depth / 16; ++i) {
      TENON_UNROLL
      for (int j = 0; j < score_blocks; j += 2) {
        unsigned four[4];
        ptx::ldmatrix_x4::load(four, mine + 8 * j * Tile::pitch + 16 * i);
        cores::multiply<Element>(score[j], query[i], four[0], four[1]);
        cores::multiply<Element>(score[j + 1], query[i], four[2], four[3]);
      }
    }
  }
  /// Products become scores; `added`: what is added to each (HasBias).
  template <class Order>
  TENON_DEVICE static void finish_scores(scores &score, float scale, const Order &order,
                                         [[maybe_unused]] const scores &added) {
    TENON_UNROLL
    for (int j = 0; j < score_blocks; ++j) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) {
        if constexpr (Order::is_capped) {
          score[j][i] = order.cap * tanhf(score[j][i] * scale / order.cap);
          if constexpr (HasBias)
            score[j][i] += added[j][i];
        } else if constexpr (HasBias) {
          score[j][i] = mul_add(score[j][i], scale, added[j][i]);
        } else {
          score[j][i] *= scale;
        }
      }
    }
  }
  /// Of row r (0 or 1), scores of keys from `end` on, and with Window those before `begin`, are
  /// -infinity; both are counted from the first of the keys.
  template <bool Window> TENON_DEVICE static void hide(scores &score, int r, int begin, int end) {
    const int column = 2 * (lane() % 4), left = end - column, early = begin - column;
    TENON_UNROLL
    for (int j = 0; j < score_blocks; ++j) {
      TENON_UNROLL
      for (int i = 0; i < 2; ++i)
        if (8 * j + i >= left || (Window && 8 * j + i < early))
          score[j][2 * r + i] = -float(INFINITY);
    }
  }
  /// Loads what is added to scores of row r: from[key * step] of the keys from `first` on; of those
  /// from `count` on whatever.
  template <class T, class Index>
  TENON_DEVICE static void load_bias(scores &added, int r, const T *from, Index step, Index first,
                                     Index count) {
    TENON_UNROLL
    for (int j = 0; j < score_blocks; ++j) {
      TENON_UNROLL
      for (int i = 0; i < 2; ++i) {
        const Index key = first + 8 * j + 2 * (lane() % 4) + i;
        added[j][2 * r + i] = load_element(from + min_of(key, count - 1) * step);
      }
    }
  }

  /// Scores become weights relative to the largest of their row so far.
  TENON_DEVICE void weigh(scores &score) {
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      float most = largest[r];
      TENON_UNROLL
      for (int j = 0; j < score_blocks; ++j)
        most = fmaxf(most, fmaxf(score[j][2 * r], score[j][2 * r + 1]));
      most = fmaxf(most, shuffle_xor(most, 1));
      most = fmaxf(most, shuffle_xor(most, 2));
      const float from = relative_to(most), factor = weight(largest[r] - from);
      largest[r] = most;
      float all = total[r] * factor;
      TENON_UNROLL
      for (int j = 0; j < score_blocks; ++j) {
        TENON_UNROLL
        for (int i = 2 * r; i < 2 * r + 2; ++i)
          all += score[j][i] = weight(score[j][i] - from);
      }
      total[r] = all;
      scale_row(r, factor);
    }
  }
  TENON_DEVICE void scale_row(int r, float factor) {
    TENON_UNROLL
    for (int j = 0; j < sum_blocks; ++j) {
      sum[4 * j + 2 * r] *= factor;
      sum[4 * j + 2 * r + 1] *= factor;
    }
  }

  /// Adds the values of a tile from row `first` on times the weights: what mma leaves of two blocks
  /// of scores is what it takes of 16 columns of A.
  template <class Tile>
  TENON_DEVICE void multiply_values(const scores &weights, const Element *tile, int first) {
    using pair = ptx::round_pair<Element>;
    const Element *mine = tile + Tile::at(first + lane() % 16, lane() / 16);
    TENON_UNROLL
    for (int i = 0; i < Keys / 16; ++i) {
      const float(&low)[4] = weights[2 * i], (&high)[4] = weights[2 * i + 1];
      const unsigned a[4] = {pair::of(low[0], low[1]), pair::of(low[2], low[3]),
                             pair::of(high[0], high[1]), pair::of(high[2], high[3])};
      TENON_UNROLL
      for (int j = 0; j < sum_blocks; j += 2) {
        unsigned four[4];
        ptx::ldmatrix_x4_transposed::load(four, mine + 16 * i * Tile::pitch + 8 * j);
        cores::multiply<Element>(block(j), a, four[0], four[1]);
        cores::multiply<Element>(block(j + 1), a, four[2], four[3]);
      }
    }
  }

  /// Behind the last key: the weights of all lanes of a row.
  TENON_DEVICE void add_up_totals() {
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      total[r] += shuffle_xor(total[r], 1);
      total[r] += shuffle_xor(total[r], 2);
    }
  }

  struct of_row {
    float largest, total;
  };
  /// Teams of Threads threads that had different keys agree on the largest score and the total of
  /// each row, and share out the blocks of columns: team t has in `own` the t-th part. `row`: of
  /// the lane's first query among the block's Rows; `shared`: sums, then [Teams][Rows] of_row.
  template <int Teams, int Threads, int Rows, int Own>
  TENON_DEVICE void join_teams(float (&own)[Own], int row, unsigned char *shared) {
    of_row *const found = reinterpret_cast<of_row *>(shared + team_bytes(Teams, Threads, Sums));
    const int team = thread() / Threads;
    TENON_UNROLL
    for (int r = 0; r < 2; ++r)
      if (lane() % 4 == 0)
        found[team * Rows + row + 8 * r] = {largest[r], total[r]};
    sync_block();
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      float most = -float(INFINITY), all = 0;
      TENON_UNROLL
      for (int t = 0; t < Teams; ++t)
        most = fmaxf(most, found[t * Rows + row + 8 * r].largest);
      const float from = relative_to(most);
      TENON_UNROLL
      for (int t = 0; t < Teams; ++t) {
        const of_row part = found[t * Rows + row + 8 * r];
        all += part.total * weight(part.largest - from);
      }
      scale_row(r, weight(largest[r] - from));
      largest[r] = most;
      total[r] = all;
    }
    add_up_teams<Teams, Threads>(own, sum, shared);
  }

private:
  TENON_DEVICE float (&block(int j))[4] { return reinterpret_cast<float(&)[4]>(sum[4 * j]); }
};

} // namespace cuda
} // namespace tenon

#endif
