// Implements mutations of IR text: tokens replaced by others of their kind, numbers made extreme,
// lines repeated, moved and dropped.
#include "tests/fuzz/Mutate.h"

#include "ir/Op.h"

#include <cctype>
#include <vector>

namespace tenon::fuzz {
namespace {

enum class Kind { Number, Word, Value, Other };
struct Token {
  Kind kind;
  size_t start, end;
};

bool isWord(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool isNumeral(char c) { return isdigit(static_cast<unsigned char>(c)); }

std::vector<Token> tokens(llvm::StringRef text) {
  std::vector<Token> list;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    size_t end = at + 1;
    if (isspace(static_cast<unsigned char>(c))) {
      at = end;
      continue;
    }
    Kind kind = Kind::Other;
    if (isNumeral(c) || (c == '-' && end < text.size() && isNumeral(text[end]))) {
      kind = Kind::Number; // an extent's `x` ends it
      while (end < text.size() && isNumeral(text[end]))
        ++end;
    } else if (isWord(c) || (c == '%' && end < text.size() && isWord(text[end]))) {
      kind = c == '%' ? Kind::Value : Kind::Word;
      while (end < text.size() && isWord(text[end]))
        ++end;
    }
    list.push_back({kind, at, end});
    at = end;
  }
  return list;
}

/// One change of a token; a word may become the name of any operation.
void changeToken(std::string &text, Random &random) {
  const std::vector<Token> all = tokens(text);
  if (all.empty())
    return;
  const Token t = all[pick(random, all.size())];
  std::string by;
  if (t.kind == Kind::Number && pick(random, 4)) {
    by = std::to_string(interesting(random));
  } else if (t.kind == Kind::Word && pick(random, 3) == 0) {
    by = opInfo(allOps()[pick(random, allOps().size())]).name.str();
  } else {
    const Token other = all[pick(random, all.size())];
    if (other.kind == t.kind || pick(random, 8) == 0)
      by = text.substr(other.start, other.end - other.start);
    else if (pick(random, 2))
      return;
  }
  text.replace(t.start, t.end - t.start, by);
}

void changeLine(std::string &text, Random &random) {
  auto lineAt = [&](size_t at) {
    const size_t before = at ? text.rfind('\n', at - 1) : std::string::npos;
    const size_t start = before == std::string::npos ? 0 : before + 1;
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    return std::pair(start, end);
  };
  if (text.empty())
    return;
  const auto [start, end] = lineAt(pick(random, text.size()));
  const std::string line = text.substr(start, end - start);
  if (pick(random, 2))
    text.erase(start, end - start);
  if (!text.empty() && pick(random, 2))
    text.insert(lineAt(pick(random, text.size())).first, line);
}

} // namespace

std::string mutatedText(llvm::StringRef from, Random &random) {
  std::string text = from.str();
  for (size_t count = 1 + pick(random, 4); count > 0; --count)
    pick(random, 4) ? changeToken(text, random) : changeLine(text, random);
  return text;
}

} // namespace tenon::fuzz
