// Defines text in generated code: an element is the address and the number of UTF-8 bytes that lie
// in the caller's input, in a constant of the file, or in the text_store of the context.
//
// So text is moved, picked, compared and split by kernels that copy 16 bytes an element; what only
// a run can spell (text joined, or with other letters) goes into the store, which the context has
// and every run starts afresh. Nothing allocates, and nothing is freed.
#ifndef TENON_RUNTIME_COMMON_TEXT_H
#define TENON_RUNTIME_COMMON_TEXT_H

#include "common/lanes.h"
#include "common/text_store.h"

namespace tenon {

/// `data` may be null where `size` is 0, and any byte may be 0.
struct text {
  const char *data;
  size_t size;
};
static_assert(sizeof(text) == 16, "text is for machines whose addresses have 64 bits");

template <class L> using str = typename L::template of<text>;

/// -1, 0 or 1: a before, equal to, or behind b, by bytes (which is by code points, too).
inline int compare(text a, text b) {
  const size_t common = a.size < b.size ? a.size : b.size;
  const int order = common ? memcmp(a.data, b.data, common) : 0;
  if (order != 0)
    return order < 0 ? -1 : 1;
  return a.size < b.size ? -1 : a.size > b.size ? 1 : 0;
}
inline bool operator==(text a, text b) { return a.size == b.size && compare(a, b) == 0; }
inline bool operator!=(text a, text b) { return !(a == b); }
inline bool operator<(text a, text b) { return compare(a, b) < 0; }

/// The place of text among `count` keys, of which none is there twice: places[k] for the k-th one
/// in order of bytes, -1 for any other.
struct text_index {
  const text *sorted;
  const int32_t *places;
  index_t count;

  int64_t operator()(text x) const {
    index_t low = 0, high = count;
    while (low < high) {
      const index_t middle = low + (high - low) / 2;
      const int order = compare(sorted[middle], x);
      if (order == 0)
        return places[middle];
      if (order < 0)
        low = middle + 1;
      else
        high = middle;
    }
    return -1;
  }
};

/// An automaton over bytes: state s goes to next[s * classes + class_of[byte]]. State 0 is left
/// never, state 1 is the first.
struct text_automaton {
  const uint8_t *class_of;
  const uint16_t *next;
  const uint8_t *accepts;
  int classes;

  bool operator()(text x) const {
    int state = 1;
    for (size_t i = 0; i < x.size && state != 0; ++i)
      state = next[state * classes + class_of[static_cast<unsigned char>(x.data[i])]];
    return accepts[state] != 0;
  }
};

/// The pieces of text between delimiters, one by one: at most `limit` cuts (-1: any number). An
/// empty delimiter stands for runs of white space, which bound no empty pieces.
struct text_pieces {
  text rest, delimiter;
  int64_t limit;
  int64_t cuts = 0;
  bool done = false;

  text_pieces(text x, text d, int64_t most) : rest(x), delimiter(d), limit(most) {
    if (delimiter.size == 0)
      skip_spaces();
  }
  /// Whether there was another piece.
  bool next(text *piece) {
    if (done)
      return false;
    const bool last = limit >= 0 && cuts == limit;
    size_t end = rest.size;
    for (size_t i = 0; !last && i < rest.size; ++i)
      if (delimiter.size == 0 ? is_space(rest.data[i]) : starts(i)) {
        end = i;
        break;
      }
    *piece = {rest.data, end};
    ++cuts;
    // Without a delimiter behind it, the piece was the last one.
    done = end == rest.size;
    if (!done) {
      drop(end + delimiter.size);
      if (delimiter.size == 0)
        skip_spaces();
    }
    return true;
  }

private:
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  bool starts(size_t at) const {
    return rest.size - at >= delimiter.size &&
           memcmp(rest.data + at, delimiter.data, delimiter.size) == 0;
  }
  void drop(size_t count) { rest = {rest.data + count, rest.size - count}; }
  void skip_spaces() {
    size_t i = 0;
    while (i < rest.size && is_space(rest.data[i]))
      ++i;
    drop(i);
    done = rest.size == 0;
  }
};

} // namespace tenon

#endif
