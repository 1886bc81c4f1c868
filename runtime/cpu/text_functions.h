// Defines functions of text as bodies of cpu::map, which walks the tensors:
//
//   map(space, pack(out), pack(x, y), text_concat{store}, one thread)
//
// What spells new text takes bytes from the store, in one thread; where none are left, the result
// is empty and the store is full, which ends the run with an error.
#ifndef TENON_RUNTIME_CPU_TEXT_FUNCTIONS_H
#define TENON_RUNTIME_CPU_TEXT_FUNCTIONS_H

#include "common/text_numbers.h"

namespace tenon {
namespace cpu {

/// y behind x; without a copy where one of them is empty.
struct text_concat {
  text_store *store;
  template <class L> text operator()(L, text x, text y) const {
    if (x.size == 0 || y.size == 0)
      return y.size == 0 ? x : y;
    char *to = store->take(x.size + y.size);
    if (!to)
      return {nullptr, 0};
    memcpy(to, x.data, x.size);
    memcpy(to + x.size, y.data, y.size);
    return {to, x.size + y.size};
  }
};

/// Letters of ASCII in the other case, From being 'a' or 'A'; without a copy where there are none.
template <char From> struct text_case {
  text_store *store;
  template <class L> text operator()(L, text x) const {
    const auto changes = [](char c) { return c >= From && c <= From + 25; };
    size_t first = 0;
    while (first < x.size && !changes(x.data[first]))
      ++first;
    if (first == x.size)
      return x;
    char *to = store->take(x.size);
    if (!to)
      return {nullptr, 0};
    for (size_t i = 0; i < x.size; ++i)
      to[i] = changes(x.data[i]) ? char(x.data[i] ^ 32) : x.data[i];
    return {to, x.size};
  }
};

struct text_equal {
  template <class L> bool operator()(L, text x, text y) const { return x == y; }
};

/// Whether the automaton accepts all of x.
struct text_match {
  text_automaton automaton;
  template <class L> bool operator()(L, text x) const { return automaton(x); }
};

struct text_place {
  text_index keys;
  template <class L> int64_t operator()(L, text x) const { return keys(x); }
};

/// The number that x says; where it says none, `code` becomes what the run returns.
template <class T> struct text_number {
  int *failure;
  int code;
  template <class L> T operator()(L, text x) const {
    T value = 0;
    if (!read_number(x, &value))
      *failure = code;
    return value;
  }
};

/// x in digits.
struct text_digits {
  text_store *store;
  template <class L, class T> text operator()(L, T x) const {
    char digits[24];
    const size_t size = write_number(x, digits);
    char *to = store->take(size);
    if (!to)
      return {nullptr, 0};
    memcpy(to, digits, size);
    return {to, size};
  }
};

/// How many pieces x has.
struct text_count {
  text delimiter;
  int64_t limit;
  template <class L> int64_t operator()(L, text x) const {
    text_pieces pieces(x, delimiter, limit);
    text piece;
    int64_t count = 0;
    while (pieces.next(&piece))
      ++count;
    return count;
  }
};

} // namespace cpu
} // namespace tenon

#endif
