// Defines ScalarProgramBuilder: what stands around a group's anchor as a scalar program.
#pragma once

#include "codegen/core/GroupForm.h"

#include <map>

namespace tenon {

/// How the elements of a tensor inside the group correspond to the iteration space.
struct ElementIndex {
  llvm::SmallVector<AccessDim, 6> dims;
  bool bounded = false;
  llvm::SmallVector<std::pair<Dim, Dim>, 6> inside;
  double fill = 0;
};
ElementIndex identityIndex(Type t);

/// Adds nodes to a program, element by element; movement disappears into the accesses. `made`:
/// values that something else makes; they are read as they are.
class ScalarProgramBuilder {
public:
  ScalarProgramBuilder(Operation &group, Operation *anchor, ScalarProgram &program,
                       llvm::ArrayRef<const Value *> made = {})
      : group_(group), anchor_(anchor), made_(made), program_(program) {}

  /// Node of element `at` of `v`; −1 where there is none, for the reason of `refusal`.
  int evaluate(Value *v, const ElementIndex &at);
  Refusal refusal() const { return {reason_, ""}; }

private:
  int add(ScalarNode n);
  int fail(std::string reason);
  int input(Value *source, Type type, const ElementIndex &at);
  int anchorResult(Value *v, const ElementIndex &at);
  int map(Operation *op, unsigned result, const ElementIndex &at);
  int slice(Operation *op, const ElementIndex &at);
  int reshape(Operation *op, const ElementIndex &at);
  int pad(Operation *op, const ElementIndex &at);

  Operation &group_;
  Operation *anchor_;
  llvm::ArrayRef<const Value *> made_;
  ScalarProgram &program_;
  std::string reason_; // the first
  std::map<std::string, std::vector<int>> memo_;
};

} // namespace tenon
