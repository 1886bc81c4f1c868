// Defines how text says numbers, whatever the locale: read_number and write_number.
//
// Read: digits with an optional sign, fraction and exponent, or inf and nan in any case, between
// any white space; what no number of the type can say is infinity, or 0; fractions of integers are
// cut off. Written: integers with all their digits, floats with up to 8 significant digits as C's
// %.8g, infinities as INF and -INF, and NaN.
#ifndef TENON_RUNTIME_COMMON_TEXT_NUMBERS_H
#define TENON_RUNTIME_COMMON_TEXT_NUMBERS_H

#include <charconv>

#include "common/text.h"

namespace tenon {
namespace detail {

/// Whether [from, to) is `word`, which has lower case letters.
inline bool is_word(const char *from, const char *to, const char *word) {
  for (; from != to && *word && (*from | 32) == *word; ++from)
    ++word;
  return from == to && !*word;
}

/// Whether digits that no double holds say one that is too large, not one that is too small: by
/// the place of the first digit that counts.
inline bool is_huge(const char *from, const char *to) {
  const char *end = from, *first = nullptr, *point = nullptr;
  for (; end != to && (*end | 32) != 'e'; ++end) {
    if (*end == '.')
      point = end;
    else if (*end != '0' && !first)
      first = end;
  }
  int power = 0;
  if (end != to) {
    const char *digits = end + 1 + (end + 1 != to && end[1] == '+');
    if (std::from_chars(digits, to, power).ec != std::errc())
      return *digits != '-';
  }
  return (point ? point : end) - first + power > 0;
}

/// A magnitude in decimal digits, or inf and nan.
template <class T> bool read_float(const char *from, const char *to, T *value) {
  if (is_word(from, to, "inf") || is_word(from, to, "nan"))
    return std::from_chars(from, to, *value).ec == std::errc();
  if (from == to || !((*from >= '0' && *from <= '9') || *from == '.'))
    return false;
  const auto found = std::from_chars(from, to, *value);
  if (found.ptr != to || found.ec == std::errc::invalid_argument)
    return false;
  if (found.ec == std::errc::result_out_of_range)
    *value = is_huge(from, to) ? T(__builtin_inf()) : T(0);
  return true;
}
} // namespace detail

/// False where x says no number, or an integer that does not fit.
template <class T> bool read_number(text x, T *value) {
  const char *from = x.data, *to = x.data + x.size;
  const auto space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (from != to && space(*from))
    ++from;
  while (from != to && space(to[-1]))
    --to;
  const bool negative = from != to && *from == '-';
  if (from != to && (*from == '-' || *from == '+'))
    ++from;
  if constexpr (T(1) / T(2) != T(0)) {
    if (!detail::read_float(from, to, value))
      return false;
  } else {
    bool whole = from != to;
    for (const char *c = from; c != to; ++c)
      whole = whole && *c >= '0' && *c <= '9';
    constexpr uint64_t most = T(-1) < T(0) ? ~uint64_t(0) >> 1 : ~uint64_t(0);
    if (whole) {
      uint64_t digits = 0;
      if (std::from_chars(from, to, digits).ec != std::errc())
        return false;
      *value = T(negative ? 0 - digits : digits);
      return digits <= most || (negative && digits == most + 1);
    }
    double real = 0;
    if (!detail::read_float(from, to, &real) || !(real < double(most)))
      return false;
    *value = T(uint64_t(real));
  }
  if (negative)
    *value = -*value;
  return true;
}

/// The characters at `to`, of which there is room for 24.
inline size_t write_number(double x, char *to) {
  const char *word = x != x                  ? "NaN"
                     : x == __builtin_inf()  ? "INF"
                     : x == -__builtin_inf() ? "-INF"
                                             : nullptr;
  if (!word)
    return size_t(std::to_chars(to, to + 24, x, std::chars_format::general, 8).ptr - to);
  const size_t size = strlen(word);
  memcpy(to, word, size);
  return size;
}
inline size_t write_number(int64_t x, char *to) {
  return size_t(std::to_chars(to, to + 24, x).ptr - to);
}
inline size_t write_number(uint64_t x, char *to) {
  return size_t(std::to_chars(to, to + 24, x).ptr - to);
}

} // namespace tenon

#endif
