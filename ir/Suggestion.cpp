// Implements suggestions for words that are not known.
#include "ir/Suggestion.h"

#include <algorithm>

namespace tenon {

std::string didYouMean(llvm::StringRef word, llvm::ArrayRef<llvm::StringRef> candidates) {
  llvm::StringRef nearest;
  // A word that shares no letter is no slip, however short.
  unsigned least =
      std::min(1 + std::max(2u, unsigned(word.size()) / 4), std::max(1u, unsigned(word.size())));
  for (llvm::StringRef c : candidates) {
    const unsigned edits = !word.empty() && (c.startswith(word) || word.startswith(c))
                               ? 1
                               : word.edit_distance(c, /*AllowReplacements=*/true, least);
    if (edits < least) {
      least = edits;
      nearest = c;
    }
  }
  return nearest.empty() ? "" : "; did you mean '" + nearest.str() + "'?";
}

std::string oneOf(llvm::ArrayRef<llvm::StringRef> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i].str();
  return text;
}

} // namespace tenon
