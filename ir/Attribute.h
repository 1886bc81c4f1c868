// Defines Attribute: a compile-time parameter of an operation, and NamedAttributes, the sorted
// dictionary an operation holds.
#pragma once

#include "ir/Tensor.h"
#include "ir/Type.h"

#include "llvm/ADT/Optional.h"

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace tenon {

/// A chosen kernel and its parameters, in order: igemm_sm90<m=128, n=128, k=64>.
struct Schedule {
  std::string tactic;
  std::vector<std::pair<std::string, int64_t>> params;

  llvm::Optional<int64_t> get(llvm::StringRef name) const;
  friend bool operator==(const Schedule &a, const Schedule &b) {
    return a.tactic == b.tactic && a.params == b.params;
  }
};

/// A bare word in the text: an enumerator such as `max` or `half_pixel`.
struct Word {
  std::string text;
  friend bool operator==(const Word &a, const Word &b) { return a.text == b.text; }
};

using Ints = std::vector<int64_t>;
using IntLists = std::vector<Ints>;
using Floats = std::vector<double>;
using Dims = std::vector<Dim>;
using Strings = std::vector<std::string>;
/// Large data shared between operations and modules; never changed once made.
using Literal = std::shared_ptr<const Tensor>;

class Attribute {
public:
  using Storage = std::variant<bool, int64_t, double, std::string, Word, Ints, IntLists, Floats,
                               Dims, Strings, Type, Schedule, Literal>;
  template <class T, class = std::enable_if_t<!std::is_same_v<std::decay_t<T>, Attribute>>>
  Attribute(T &&value) : storage_(std::forward<T>(value)) {}
  Attribute(int value) : storage_(int64_t(value)) {}
  Attribute(const char *text) : storage_(std::string(text)) {}

  template <class T> const T *get() const { return std::get_if<T>(&storage_); }
  const Storage &storage() const { return storage_; }
  /// Equality; literals compare by content.
  friend bool operator==(const Attribute &a, const Attribute &b);
  friend bool operator!=(const Attribute &a, const Attribute &b) { return !(a == b); }

private:
  Storage storage_;
};

/// Names in sorted order, so that text and hashes do not depend on insertion.
using NamedAttributes = std::map<std::string, Attribute, std::less<>>;

} // namespace tenon
