// Defines GroupCheck: every group of a running program compared with the interpreter.
//
// Each group is given the interpreter's inputs, so that a difference is seen in the group where it
// arises and what later groups make of it is not. The interpreter's values are taken while it runs:
// a group is compared as soon as its inputs and outputs are known, several in one run of the
// program. What is held at a time is what the interpreter itself holds, at most kBatchBytes more,
// and the values of the largest group.
#pragma once

#include "tools/Oracle.h"
#include "tools/Runner.h"
#include "tools/Watch.h"

namespace tenon {

class GroupCheck {
public:
  /// Values that wait for a run of the program.
  static constexpr int64_t kBatchBytes = int64_t(64) << 20;

  /// `oracle` is interpreted; `common` gives its names for those of `watch`, null where they are
  /// the same. `exact`: whether groups are held against fp64 evaluations.
  GroupCheck(Runner &runner, Program &program, const Watch &watch, Graph &oracle,
             const CommonNames *common, bool exact);

  /// One set of inputs: interprets, runs the program, and adds checks to the runner's report.
  /// `states` are written in every run; `expected` receives the interpreter's outputs.
  bool run(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Transfer> states, llvm::StringRef set,
           OracleRun &expected);

private:
  /// A value of the oracle that groups still wait for.
  struct Known {
    Tensor typed, exact;
    unsigned waiting = 0;
  };
  struct Expected {
    const WatchedGroup *group;
    const Spot *spot;
    Tensor typed, exact;
    size_t transfer; // its number in the batch
  };
  llvm::StringRef oracleName(llvm::StringRef name) const;
  void see(const Operation &op, llvm::ArrayRef<Tensor> operands, llvm::ArrayRef<Tensor> results,
           const SymbolValues &symbols);
  void take(const WatchedGroup &group);
  void flush();

  Runner &runner_;
  Program &program_;
  const Watch &watch_;
  Graph &oracle_;
  const CommonNames *common_;
  const bool exact_;
  ValueNames names_;
  /// Groups that read or make a value, by its name in the oracle.
  llvm::StringMap<std::vector<unsigned>> users_;

  // Of one set:
  llvm::StringRef set_;
  llvm::ArrayRef<Transfer> states_;
  std::vector<unsigned> missing_; // values not seen yet, of each group
  llvm::StringMap<Known> known_;
  ProgramRun batch_;
  std::vector<Expected> expected_;
  int64_t bytes_ = 0;
  bool good_ = true;
};

} // namespace tenon
