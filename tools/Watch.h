// Defines what is watched in a running program: the values that groups read and make, what states
// carry, and where the program's memory has them.
#pragma once

#include "ir/Names.h"
#include "tools/Program.h"

namespace tenon {

/// One value of a scheduled graph, and where it lies around a step.
struct Spot {
  std::string name;
  Type type;
  Placement place;
  int step = 0;
};

/// One group with what it reads from memory that can be written, and what it makes.
struct WatchedGroup {
  Operation *group;
  std::vector<Spot> operands, results;
};

/// What an input that is a state holds before a run (number: of the input), or an output carries
/// to the next run (number: of the output).
struct WatchedState {
  unsigned number;
  Spot spot;
};

/// For given values of the graph's symbols.
class Watch {
public:
  Watch(Graph &graph, SymbolValues symbols);

  std::vector<WatchedGroup> groups;
  std::vector<WatchedState> states, carried;

  /// Out of the spot after its step. Made when needed: the order of elements takes memory.
  Transfer read(const Spot &spot) const;
  /// The tensor into the spot before its step; None when it does not fit.
  llvm::Optional<Transfer> write(const Spot &spot, const Tensor &tensor) const;

private:
  llvm::Optional<Spot> spot(Value *v, int step) const;

  SymbolValues symbols_;
  ValueNames names_;
  Plan plan_;
};

} // namespace tenon
