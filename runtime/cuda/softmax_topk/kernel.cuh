// Defines `softmax_topk`: the k largest (or smallest) elements along one dimension of a softmax (or
// with `log` its logarithm), in order, with their indices: which experts a router takes, which
// classes a classifier names. Equal elements keep the lower index first; NaN counts as largest.
//
//   y[p, i] = e^(x[p, i] - max) / sum over i of e^(x[p, i] - max), rounded to Made
//   outs[p, r] = body(y[p, i], i, ins[p, r]...) where i is the index of the r-th element of y
//
// Algorithm: a warp has a row in registers, `run` elements a lane. It folds the maximum and the sum
// of exponentials, and then finds the best of what is left k times: lanes look through their own
// elements, and compare keys, then indices, by shuffles. So it is for rows of a few hundred
// elements and few results.
// Config: space (dims: others..., n), k, largest (bool), log (bool); warps of a block; run, with
// n <= 32 * run. x over space; outs, ins over (others..., k). Computed in f32.
#ifndef TENON_RUNTIME_CUDA_SOFTMAX_TOPK_KERNEL_CUH
#define TENON_RUNTIME_CUDA_SOFTMAX_TOPK_KERNEL_CUH

#include "common/scalar.h"
#include "cuda/base/computed.cuh"
#include "cuda/base/lane_group.cuh"
#include "cuda/sort/ordered_key.cuh"

namespace tenon {
namespace cuda {

template <class Made, class Config, class X, class Outs, class Ins, class Body>
struct softmax_topk_kernel {
  Config cfg;
  X x;
  Outs outs;
  Ins ins;
  Body body;

  using L = scalar_lanes;
  static constexpr int rank = decltype(Config::space)::rank, last = rank - 1;
  static constexpr int threads = 32 * Config::warps, blocks_per_sm = 1;
  static_assert(Config::run <= 32, "a lane counts its elements in the bits of a word");

  grid blocks() const { return {ceil_div(index_t(rows()), index_t(Config::warps)), 1, 1}; }

  TENON_DEVICE void run(unsigned char *) const {
    const int row = block_x() * Config::warps + warp();
    if (row >= rows()) // the whole warp
      return;
    const int n = length();
    int at[rank];
    unravel<rank>(cfg.space, row * n, at);
    float y[Config::run];
    TENON_UNROLL
    for (int j = 0; j < Config::run; ++j) {
      at[last] = number(j);
      y[j] = number(j) < n ? float(load_one(x, at)) : -INFINITY;
    }
    normalize(y, n);
    const int k = int(index_t(cfg.k));
    unsigned left = 0; // by element of the lane: no result has it yet
    TENON_UNROLL
    for (int j = 0; j < Config::run; ++j)
      left |= number(j) < n ? 1u << j : 0u;
    for (int r = 0; r < k; ++r) {
      const int best = best_of(y, left);
      if (best % 32 != lane())
        continue;
      float value[1] = {0};
      TENON_UNROLL
      for (int j = 0; j < Config::run; ++j)
        value[0] = best == number(j) ? y[j] : value[0];
      left &= ~(1u << best / 32);
      const int64_t index[1] = {best};
      at[last] = r;
      apply_body<last>(body, outs, ins, at, 1, value, index);
    }
  }

private:
  using group = lane_group<threads, 32, false>; // needs no shared memory

  TENON_FN int length() const { return int(index_t(cfg.space.template get<last>())); }
  TENON_FN int rows() const { return length() > 0 ? int(volume(cfg.space)) / length() : 0; }
  /// Of element j of this lane in the row.
  TENON_DEVICE static int number(int j) { return j * 32 + lane(); }

  TENON_DEVICE static void normalize(float (&y)[Config::run], int n) {
    float largest = -INFINITY, sum = 0;
    TENON_UNROLL
    for (int j = 0; j < Config::run; ++j)
      largest = max<L>(largest, y[j]);
    largest = group::combine(largest, nullptr, [](float a, float b) { return max<L>(a, b); });
    TENON_UNROLL
    for (int j = 0; j < Config::run; ++j)
      sum += number(j) < n ? exp<L>(y[j] - largest) : 0.0f;
    sum = group::combine(sum, nullptr, [](float a, float b) { return a + b; });
    const float factor = Config::log ? log<L>(sum) : 1.0f / sum;
    TENON_UNROLL
    for (int j = 0; j < Config::run; ++j) {
      Made made;
      store_element(&made, compute_t<Made>(Config::log ? y[j] - largest - factor
                                                       : exp<L>(y[j] - largest) * factor));
      y[j] = float(load_element(&made));
    }
  }

  /// The place in the row of the first element that is left, by order. One is left.
  TENON_DEVICE static int best_of(const float (&y)[Config::run], unsigned left) {
    constexpr int none = 1 << 30;
    unsigned key = 0;
    int place = none;
    TENON_UNROLL
    for (int j = 0; j < Config::run; ++j) {
      const unsigned other = Config::largest ? ordered_key(y[j]) : ~ordered_key(y[j]);
      if ((left >> j & 1) && (place == none || other > key)) {
        key = other;
        place = number(j);
      }
    }
    TENON_UNROLL
    for (int mask = 16; mask > 0; mask /= 2) {
      const unsigned other = shuffle_xor(key, mask);
      const int there = shuffle_xor(place, mask);
      const bool better = other > key || (other == key && there < place);
      key = better ? other : key;
      place = better ? there : place;
    }
    return place;
  }
};

template <class Made, class Config, class X, class Outs, class Ins, class Body>
softmax_topk_kernel<Made, Config, X, Outs, Ins, Body> softmax_topk(Config cfg, X x, Outs outs,
                                                                   Ins ins, Body body) {
  return {cfg, x, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
