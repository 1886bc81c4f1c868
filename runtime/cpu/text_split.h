// Defines text_split: the pieces of each element along a new last dimension.
//
//   most = text_split(space, x, delimiter, limit, bound, out)
//
// space: dims<...>; x: view of text over it. out: room for `bound` pieces of every element;
// receives `most` of them, the largest number that an element has (at most `bound`), in row-major
// order, empty text behind the last piece. Returns -1 and writes nothing where an element has more
// than `bound`.
#ifndef TENON_RUNTIME_CPU_TEXT_SPLIT_H
#define TENON_RUNTIME_CPU_TEXT_SPLIT_H

#include "common/text.h"
#include "cpu/loops.h"

namespace tenon {
namespace cpu {

template <class Space, class X>
index_t text_split(const Space &space, const X &x, text delimiter, int64_t limit, index_t bound,
                   text *out) {
  constexpr int rank = Space::rank;
  index_t at[rank > 0 ? rank : 1] = {};
  index_t most = 0;
  for_each_point<0, 0, rank>(space, at, [&] {
    text_pieces pieces(x.data[x.offset(at)], delimiter, limit);
    text piece;
    index_t count = 0;
    while (pieces.next(&piece))
      ++count;
    most = count > most ? count : most;
  });
  if (most > bound)
    return -1;
  for_each_point<0, 0, rank>(space, at, [&] {
    text_pieces pieces(x.data[x.offset(at)], delimiter, limit);
    for (index_t k = 0; k < most; ++k)
      if (!pieces.next(out++))
        out[-1] = {nullptr, 0};
  });
  return most;
}

} // namespace cpu
} // namespace tenon

#endif
