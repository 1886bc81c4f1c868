// Defines the lexer of the textual form: punctuation, keywords, names, strings and numbers.
#pragma once

#include "ir/Diagnostics.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace tenon {

/// Takes tokens off a text. A function that returns false has reported what it expected, with the
/// place; the first error counts. White space and comments (`// …`) separate tokens.
class Lexer {
protected:
  /// Bounds how deep input may nest.
  static constexpr unsigned kMaxDepth = 64;

  Lexer(llvm::StringRef text, Diagnostics &diagnostics) : text_(text), diagnostics_(diagnostics) {}

  /// Reports an error at the place reached: the token that was not expected.
  bool fail(std::string message);
  /// Reports an error at a token that was taken: `where` is what mark() gave before it.
  bool failAt(size_t where, std::string message) {
    at_ = where;
    return fail(std::move(message));
  }
  /// Where the next token begins.
  size_t mark() {
    skip();
    return at_;
  }
  void skip();
  static bool wordChar(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  /// Accepts punctuation or a whole keyword.
  bool accept(llvm::StringRef token);
  bool expect(llvm::StringRef token);
  /// The next character, '\0' at the end.
  char peek();
  /// A name; dots may stand inside it.
  bool word(std::string &out);
  /// The longest run of word characters, which may begin with a digit; empty where none stands.
  llvm::StringRef wordCharacters();
  /// ", found '…'" of a word; nothing where there is none.
  static std::string foundWord(llvm::StringRef word) {
    return word.empty() ? "" : ", found '" + word.str() + "'";
  }
  bool string(std::string &out);
  bool integer(int64_t &out);
  /// An integer without a sign that `width` bits hold, 1 to 64.
  bool bitPattern(uint64_t &out, int64_t width);
  struct Number {
    double value = 0;
    int64_t integer = 0;
    bool isInt = false; ///< it has neither fraction nor exponent
  };
  bool number(Number &out);
  /// Whether `nan` or `inf` comes next.
  bool atNumberWord();
  /// `[a, b, …]`, with `each` for one element.
  template <class Each> bool list(Each each) {
    if (!expect("["))
      return false;
    for (bool first = true; !accept("]"); first = false)
      if ((!first && !expect(",")) || !each())
        return false;
    return true;
  }

  llvm::StringRef text_;
  Diagnostics &diagnostics_;
  size_t at_ = 0;

private:
  bool failed_ = false;
};

} // namespace tenon
