// Implements the reading of extents that follow from others.
#include "frontend/Extents.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

namespace tenon::frontend {
namespace {

constexpr size_t kLongest = 256;

bool readFactor(llvm::StringRef word, ExtentTerm &term) {
  word = word.trim();
  if (word.empty())
    return false;
  if (llvm::isDigit(word[0])) {
    int64_t v;
    return !word.getAsInteger(10, v) && !llvm::MulOverflow(term.factor, v, term.factor);
  }
  term.names.push_back(word.str());
  return word.find_first_of("/()") == llvm::StringRef::npos;
}

} // namespace

llvm::Optional<llvm::SmallVector<ExtentTerm, 4>> parseExtent(llvm::StringRef text) {
  if (text.size() > kLongest)
    return llvm::None;
  llvm::SmallVector<ExtentTerm, 4> terms;
  int64_t sign = 1;
  for (;;) {
    const size_t end = text.find_first_of("+-");
    llvm::SmallVector<llvm::StringRef, 4> words;
    text.substr(0, end).split(words, '*');
    ExtentTerm term;
    term.factor = sign;
    for (llvm::StringRef word : words)
      if (!readFactor(word, term))
        return llvm::None;
    terms.push_back(std::move(term));
    if (end == llvm::StringRef::npos)
      return terms;
    sign = text[end] == '-' ? -1 : 1;
    text = text.substr(end + 1);
  }
}

bool isExtentExpression(llvm::StringRef text) {
  const auto terms = parseExtent(text);
  return terms && (terms->size() > 1 || (*terms)[0].names.size() != 1 || (*terms)[0].factor != 1 ||
                   (*terms)[0].names[0] != text);
}

} // namespace tenon::frontend
