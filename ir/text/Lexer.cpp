// Implements the lexer of the textual form.
#include "ir/text/Lexer.h"

#include "llvm/Support/SMLoc.h"

#include <cmath>

namespace tenon {

bool Lexer::fail(std::string message) {
  if (!failed_) {
    diagnostics_.error(std::move(message)).where =
        llvm::SMLoc::getFromPointer(text_.data() + std::min(at_, text_.size()));
    failed_ = true;
  }
  return false;
}

void Lexer::skip() {
  while (at_ < text_.size()) {
    if (isspace(static_cast<unsigned char>(text_[at_])))
      ++at_;
    else if (text_.substr(at_).startswith("//"))
      at_ = std::min(text_.find('\n', at_), text_.size());
    else
      break;
  }
}

bool Lexer::accept(llvm::StringRef token) {
  skip();
  if (!text_.substr(at_).startswith(token))
    return false;
  const size_t end = at_ + token.size();
  if (wordChar(token.back()) && end < text_.size() && wordChar(text_[end]))
    return false;
  at_ = end;
  return true;
}

bool Lexer::expect(llvm::StringRef token) {
  return accept(token) || fail("expected '" + token.str() + "'");
}

char Lexer::peek() {
  skip();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool Lexer::word(std::string &out) {
  skip();
  size_t end = at_;
  while (end < text_.size() && (wordChar(text_[end]) || (end > at_ && text_[end] == '.' &&
                                                         !text_.substr(end).startswith(".."))))
    ++end;
  if (end == at_ || isdigit(static_cast<unsigned char>(text_[at_])))
    return fail("expected a name");
  out = text_.slice(at_, end).str();
  at_ = end;
  return true;
}

bool Lexer::string(std::string &out) {
  if (!expect("\""))
    return false;
  out.clear();
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c != '\\') {
      out += c;
      continue;
    }
    if (at_ >= text_.size())
      break;
    const size_t escape = at_ - 1;
    c = text_[at_++];
    switch (c) {
    case 'n': out += '\n'; break;
    case 't': out += '\t'; break;
    case '\\':
    case '"': out += c; break;
    case 'x': {
      unsigned v;
      if (text_.substr(at_, 2).getAsInteger(16, v))
        return failAt(escape, "expected two hexadecimal digits after \\x");
      out += char(v);
      at_ += 2;
      break;
    }
    default: return failAt(escape, "unknown escape in a string");
    }
  }
  return expect("\"");
}

bool Lexer::integer(int64_t &out) {
  skip();
  size_t end = at_ + (at_ < text_.size() && text_[at_] == '-');
  while (end < text_.size() && isdigit(static_cast<unsigned char>(text_[end])))
    ++end;
  if (text_.slice(at_, end).getAsInteger(10, out))
    return fail("expected an integer of 64 bits");
  at_ = end;
  return true;
}

bool Lexer::bitPattern(uint64_t &out, int64_t width) {
  skip();
  const llvm::StringRef digits =
      text_.substr(at_).take_while([](char c) { return c >= '0' && c <= '9'; });
  if (digits.getAsInteger(10, out) || (width < 64 && out >> width != 0))
    return fail("expected an integer from 0 to 2^" + std::to_string(width) + " - 1");
  at_ += digits.size();
  return true;
}

bool Lexer::number(Number &out) {
  skip();
  for (llvm::StringRef special : {"nan", "inf", "-inf"})
    if (accept(special)) {
      out.value = special == "nan" ? NAN : special == "inf" ? INFINITY : -INFINITY;
      out.isInt = false;
      return true;
    }
  const auto belongs = [&](size_t i) {
    const char c = text_[i];
    if (c == '-' || c == '+')
      return i == at_ || tolower(text_[i - 1]) == 'e';
    return isdigit(static_cast<unsigned char>(c)) || c == '.' || c == 'e' || c == 'E';
  };
  size_t end = at_;
  while (end < text_.size() && belongs(end))
    ++end;
  const llvm::StringRef digits = text_.slice(at_, end);
  out.isInt = digits.find_first_of(".eE") == llvm::StringRef::npos;
  if (out.isInt ? digits.getAsInteger(10, out.integer) : digits.getAsDouble(out.value))
    return fail("expected a number");
  if (out.isInt)
    out.value = double(out.integer);
  at_ = end;
  return true;
}

bool Lexer::atNumberWord() {
  const llvm::StringRef rest = text_.substr(at_);
  for (llvm::StringRef special : {"nan", "inf"})
    if (rest.startswith(special) &&
        (rest.size() == special.size() || !wordChar(rest[special.size()])))
      return true;
  return false;
}

llvm::StringRef Lexer::wordCharacters() {
  size_t end = at_;
  while (end < text_.size() && wordChar(text_[end]))
    ++end;
  const llvm::StringRef out = text_.slice(at_, end);
  at_ = end;
  return out;
}

} // namespace tenon
