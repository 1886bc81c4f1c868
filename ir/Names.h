// Defines the names that values get in text and in generated code.
#pragma once

#include "ir/IR.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tenon {

/// `hint` with everything but letters, digits and underscores replaced; empty stays empty. A
/// leading digit gets a `v` before it. Idempotent.
std::string sanitizeName(llvm::StringRef hint);

/// A unique name for every value of a graph, nested regions included: the sanitised hint, with a
/// counter appended to repetitions, or a number where there is no hint. Printing, parsing and
/// naming again gives the same names.
class ValueNames {
public:
  explicit ValueNames(const Graph &graph);
  explicit ValueNames(const Operation &op);
  llvm::StringRef operator[](const Value *v) const;

private:
  void visit(const Region &region);
  void visit(const Operation &op);
  void name(const Value *v);
  llvm::DenseMap<const Value *, std::string> names_; // looked up only, never iterated
  std::map<std::string, unsigned> used_;
  unsigned next_ = 0;
};

/// Every value of a graph, those of nested regions included.
void walkValues(Graph &graph, llvm::function_ref<void(Value *)> visit);

/// Gives every value that has a hint its unique name as the hint, so that what is made of hints is
/// the same for a module and for its text read back.
void adoptNames(Graph &graph);

} // namespace tenon
