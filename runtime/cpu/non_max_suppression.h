// Defines non_max_suppression: of the boxes of each batch entry and class the best ones that
// overlap little.
//
//   non_max_suppression<Center>(batch, classes, n, k, boxes, scores, out, iou, least, places)
//     out[b, c, :] = indices of at most k boxes in order of score (ties: lower index first), and
//                    -1 behind them
//
// A box is taken when its score exceeds `least` and its intersection over union with every box
// taken before is at most `iou`. Extents: `fixed` or `dyn`. boxes: view over (batch, n, 4), two
// opposite corners (y, x, y, x), or with Center the center and size (x, y, width, height). scores:
// view over (batch, classes, n); out: view of int64_t over (batch, classes, k). places: n index_t
// of scratch; so one thread works. Candidates leave a heap one by one: only those looked at are
// ordered.
#ifndef TENON_RUNTIME_CPU_NON_MAX_SUPPRESSION_H
#define TENON_RUNTIME_CPU_NON_MAX_SUPPRESSION_H

#include "common/boxes.h"
#include "cpu/topk.h"

namespace tenon {
namespace cpu {
namespace detail {

template <bool Center, class Boxes> box read_box(const Boxes &boxes, index_t b, index_t i) {
  float v[4];
  for (index_t d = 0; d < 4; ++d) {
    const index_t at[] = {b, i, d};
    v[d] = load_element(boxes.data + boxes.offset(at));
  }
  return box::of<Center>(v);
}

} // namespace detail

template <bool Center, class Batch, class Classes, class N, class K, class Boxes, class Scores,
          class Out>
void non_max_suppression(Batch batch, Classes classes, N n, K k, const Boxes &boxes,
                         const Scores &scores, const Out &out, float iou, float least,
                         index_t *places) {
  using namespace detail;
  for (index_t b = 0; b < index_t(batch); ++b)
    for (index_t c = 0; c < index_t(classes); ++c) {
      const auto score = [&](index_t i) {
        const index_t at[] = {b, c, i};
        return load_element(scores.data + scores.offset(at));
      };
      const auto result = [&](index_t r) -> int64_t & {
        const index_t at[] = {b, c, r};
        return out.data[out.offset(at)];
      };
      // The best candidate on top: none stands above one that comes before it.
      const auto after = [&](index_t i, index_t j) {
        const float u = score(i), v = score(j);
        return u < v || (u == v && j < i);
      };
      index_t size = 0;
      for (index_t i = 0; i < index_t(n); ++i)
        if (score(i) > least)
          places[size++] = i;
      for (index_t i = size / 2; i-- > 0;)
        sift_down(places, size, i, after);
      index_t taken = 0;
      while (size > 0 && taken < index_t(k)) {
        const index_t best = places[0];
        places[0] = places[--size];
        sift_down(places, size, 0, after);
        const box candidate = read_box<Center>(boxes, b, best);
        bool apart = true;
        for (index_t t = 0; t < taken && apart; ++t)
          apart = !(overlap(candidate, read_box<Center>(boxes, b, index_t(result(t)))) > iou);
        if (apart)
          result(taken++) = best;
      }
      for (; taken < index_t(k); ++taken)
        result(taken) = -1;
    }
}

} // namespace cpu
} // namespace tenon

#endif
