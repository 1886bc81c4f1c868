// Implements the conversion between text and numbers.
#include "ir/TextNumbers.h"

#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

/// `digits`, without a sign, as a finite double; infinity or 0 where none is so large or so small.
bool readMagnitude(llvm::StringRef digits, double &value) {
  // What from_chars takes beyond decimal numbers: nan(…) and infinity.
  if (digits.empty() || !(llvm::isDigit(digits[0]) || digits[0] == '.'))
    return false;
  const auto [end, code] = std::from_chars(digits.begin(), digits.end(), value);
  if (end != digits.end() || code == std::errc::invalid_argument)
    return false;
  if (code == std::errc()) // fits
    return true;
  // The place of the first digit that counts, from the point on, says which it is.
  const size_t e = digits.find_first_of("eE");
  const llvm::StringRef mantissa = digits.take_front(e);
  int64_t power = 0;
  if (e != llvm::StringRef::npos && digits.drop_front(e + 1).ltrim('+').getAsInteger(10, power))
    power = digits[e + 1] == '-' ? std::numeric_limits<int32_t>::min()
                                 : std::numeric_limits<int32_t>::max();
  const auto first = int64_t(mantissa.find_first_of("123456789"));
  const auto point = int64_t(std::min(mantissa.find('.'), mantissa.size()));
  value = point - first + power > 0 ? HUGE_VAL : 0;
  return true;
}

/// inf, nan or a magnitude, after the sign.
bool readFloat(llvm::StringRef digits, double &value) {
  if (digits.equals_insensitive("inf"))
    value = HUGE_VAL;
  else if (digits.equals_insensitive("nan"))
    value = std::numeric_limits<double>::quiet_NaN();
  else
    return readMagnitude(digits, value);
  return true;
}

} // namespace

bool readNumber(llvm::StringRef text, Tensor &to, int64_t i) {
  llvm::StringRef digits = text.trim(" \t\n\v\f\r");
  const bool negative = digits.startswith("-");
  if (negative || digits.startswith("+"))
    digits = digits.drop_front();
  const Element e = to.element();
  double value;
  if (isInteger(e) && !digits.empty() && llvm::all_of(digits, llvm::isDigit)) {
    uint64_t whole;
    const uint64_t most = e == Element::U64 ? std::numeric_limits<uint64_t>::max()
                                            : uint64_t(maxInt(e)) + uint64_t(negative);
    if (digits.getAsInteger(10, whole) || whole > most)
      return false;
    to.setInt(i, int64_t(negative ? 0 - whole : whole));
    return true;
  }
  if (!readFloat(digits, value))
    return false;
  float narrow;
  if (e == Element::F32 && // rounded once
      std::from_chars(digits.begin(), digits.end(), narrow).ec == std::errc())
    value = double(narrow);
  if (isInteger(e) && !(value < (e == Element::U64 ? 0x1p64 : 0x1p63)))
    return false;
  to.set(i, negative ? -value : value);
  return true;
}

std::string writtenNumber(const Tensor &from, int64_t i) {
  if (from.element() == Element::U64)
    return std::to_string(uint64_t(from.intAt(i)));
  if (!isFloat(from.element()))
    return std::to_string(from.intAt(i));
  const double v = from.at(i);
  if (v != v)
    return "NaN";
  if (std::isinf(v))
    return v < 0 ? "-INF" : "INF";
  char buffer[32];
  return {buffer,
          std::to_chars(buffer, buffer + sizeof(buffer), v, std::chars_format::general, 8).ptr};
}

} // namespace tenon
