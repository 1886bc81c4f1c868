// Defines regular expressions as automata over bytes: what the interpreter walks, and what
// generated code carries as a table (runtime/common/text.h), so that both agree and neither
// interprets a pattern.
//
// The syntax is RE2's, which ONNX asks for: it has neither look-ahead nor references back, so that
// every pattern is an automaton, and text is matched in one pass whatever it holds. A pattern
// describes code points, which are bytes in UTF-8; bytes that are none match nothing. (?i) and \b
// look at letters of ASCII only; classes of Unicode (\pL) are errors.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Optional.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

/// What a pattern says, as a tree.
struct RegexNode {
  enum Kind : uint8_t {
    Set,       // one code point of `ranges`
    Sequence,  // all of `parts`, one behind the other; without parts, nothing
    Choice,    // one of `parts`
    Repeat,    // parts[0], `least` to `most` times (-1: any number)
    Assertion, // takes nothing: `assertion` holds here
  } kind = Sequence;
  enum Place : uint8_t {
    TextBegin,
    TextEnd,
    LineBegin,
    LineEnd,
    Word,
    NoWord
  } assertion = TextBegin;
  std::vector<std::pair<uint32_t, uint32_t>> ranges; // both ends included, ascending, apart
  std::vector<std::unique_ptr<RegexNode>> parts;
  int least = 0, most = 0;
};

/// Reads a pattern; null after setting what is wrong and at which byte.
std::unique_ptr<RegexNode> parseRegex(llvm::StringRef pattern, std::string &why);

/// A deterministic automaton, of as few states as can be. In state 0 nothing matches any more;
/// state 1 is the first.
struct Automaton {
  std::array<uint8_t, 256> classOf{}; // bytes that no state tells apart are one class
  unsigned classes = 0;
  std::vector<uint16_t> next;   // of each state, for each class
  std::vector<uint8_t> accepts; // of each state, whether text may end here

  unsigned states() const { return unsigned(accepts.size()); }
  bool matches(llvm::StringRef text) const;
};

/// The automaton that accepts what all of a pattern describes; None after setting why there is
/// none: a wrong pattern, or one of too many states.
llvm::Optional<Automaton> compileRegex(llvm::StringRef pattern, std::string &why);

} // namespace tenon
