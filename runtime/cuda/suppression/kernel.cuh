// Defines `non_max_suppression`: of the boxes of each batch entry and class the best ones that
// overlap little.
//
//   out[b, c, :] = indices of at most k boxes in order of score (ties: lower index first), then -1
//
// A box is taken when its score exceeds `least` and its intersection over union with every box
// taken before is at most `iou`.
//
// Algorithm: a block for each batch entry and class, whose threads share the boxes out. In each
// round a thread strikes those off its list that overlap the last one taken, and finds the best of
// the rest: a round costs what is left. Of many boxes that stay see
// cuda/suppression/sorted.cuh. Config: batch, classes, n, k (extents), center (bool:
// center and size instead of corners). boxes: view over (batch, n, 4); scores: view over (batch,
// classes, n); out: view of int64_t over (batch, classes, k); lists: an int for each score.
#ifndef TENON_RUNTIME_CUDA_SUPPRESSION_KERNEL_CUH
#define TENON_RUNTIME_CUDA_SUPPRESSION_KERNEL_CUH

#include "common/boxes.h"
#include "cuda/base/lane_group.cuh"

namespace tenon {
namespace cuda {

/// What the ways of suppressing read and write.
template <class Config, class Boxes, class Scores, class Out> struct suppression {
  Config cfg;
  Boxes boxes;
  Scores scores;
  Out out;
  float iou, least;

protected:
  /// Of each row of scores, one for every batch entry and class, as many boxes are taken as `k`.
  TENON_FN int rows() const { return int(index_t(cfg.batch) * index_t(cfg.classes)); }
  TENON_FN int n() const { return int(index_t(cfg.n)); }
  TENON_FN int k() const { return int(index_t(cfg.k)); }
  TENON_DEVICE float score(int row, int i) const {
    const int classes = int(index_t(cfg.classes)), at[] = {row / classes, row % classes, i};
    return float(load_element(scores.data + offset(scores.strides, at)));
  }
  TENON_DEVICE box read(int row, int i) const {
    float v[4];
    TENON_UNROLL
    for (int d = 0; d < 4; ++d) {
      const int at[] = {row / int(index_t(cfg.classes)), i, d};
      v[d] = float(load_element(boxes.data + offset(boxes.strides, at)));
    }
    return box::of<Config::center>(v);
  }
  TENON_DEVICE void store(int row, int i, int64_t index) const {
    const int classes = int(index_t(cfg.classes)), at[] = {row / classes, row % classes, i};
    out.data[offset(out.strides, at)] = index;
  }
};

template <class Config, class Boxes, class Scores, class Out>
struct non_max_suppression_kernel : suppression<Config, Boxes, Scores, Out> {
  int *lists;

  static constexpr int threads = 256, blocks_per_sm = 1;
  using group = lane_group<threads, threads, false>;
  struct candidate {
    float score;
    int index; // -1: none
  };

  int shared_bytes() const { return group::template shared_bytes<candidate>(); }
  grid blocks() const { return {index_t(this->rows()), 1, 1}; }

  TENON_DEVICE void run(unsigned char *shared) const {
    const int n = this->n(), k = this->k(), row = block_x();
    // A thread's list: every threads-th place from its own on. Boxes leave it in any order.
    int *const mine = lists + index_t(row) * n + thread();
    int left = 0;
    for (int i = thread(); i < n; i += threads)
      if (this->score(row, i) > this->least)
        mine[threads * left++] = i;
    int taken = 0, last = -1;
    for (; taken < k; ++taken) {
      const box taken_box = last < 0 ? box{} : this->read(row, last);
      candidate best{0, -1};
      for (int j = 0; j < left;) {
        const int i = mine[threads * j];
        if (i == last || (last >= 0 && overlap(this->read(row, i), taken_box) > this->iou)) {
          mine[threads * j] = mine[threads * --left];
          continue;
        }
        best = better(best, {this->score(row, i), i});
        ++j;
      }
      best = group::combine(best, shared, better);
      if (best.index < 0)
        break;
      if (thread() == 0)
        this->store(row, taken, best.index);
      last = best.index;
    }
    for (int i = taken + thread(); i < k; i += threads)
      this->store(row, i, -1);
  }

private:
  TENON_DEVICE static candidate better(candidate a, candidate b) {
    if (a.index < 0 || b.index < 0)
      return a.index < 0 ? b : a;
    const bool first = a.score > b.score || (a.score == b.score && a.index < b.index);
    return first ? a : b;
  }
};

template <class Config, class Boxes, class Scores, class Out>
non_max_suppression_kernel<Config, Boxes, Scores, Out>
non_max_suppression(Config cfg, Boxes boxes, Scores scores, Out out, float iou, float least,
                    int *lists) {
  return {{cfg, boxes, scores, out, iou, least}, lists};
}

} // namespace cuda
} // namespace tenon

#endif
