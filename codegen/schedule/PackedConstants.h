// Defines PackedConstants: how the graphs of a module that are scheduled already store their
// constants, so that the others may read the same bytes.
#pragma once

#include "ir/IR.h"

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon {

class PackedConstants {
public:
  /// A form in which a constant is stored.
  struct Form {
    Type type; // with its layout
    std::string stored;

    bool operator==(const Form &other) const {
      return type == other.type && stored == other.stored;
    }
  };

  /// Notes the constants of a scheduled graph. Bytes of those that no graph before stores so.
  int64_t add(Graph &graph);
  /// The forms of a constant of the same content; none where no graph has it.
  llvm::ArrayRef<Form> formsOf(const Operation &constant);

private:
  std::vector<Form> &formsOf(Literal content);

  struct Constant {
    Literal content;
    std::vector<Form> forms;
  };
  std::vector<Constant> constants_;
  std::map<std::pair<const void *, size_t>, size_t> byBytes_; // looked up only
  std::unordered_multimap<uint64_t, size_t> byContent_;       // by hash; looked up only
};

} // namespace tenon
