// Implements attribute comparison and schedule lookup.
#include "ir/Attribute.h"

namespace tenon {

llvm::Optional<int64_t> Schedule::get(llvm::StringRef name) const {
  for (const auto &p : params)
    if (p.first == name)
      return p.second;
  return llvm::None;
}

bool operator==(const Attribute &a, const Attribute &b) {
  if (a.storage_.index() != b.storage_.index())
    return false;
  if (const Literal *x = a.get<Literal>()) {
    const Literal &y = *b.get<Literal>();
    return *x == y || (*x)->sameBytes(*y);
  }
  return a.storage_ == b.storage_;
}

} // namespace tenon
