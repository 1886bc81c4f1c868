// Defines the order of a graph's steps: which of them are finished when another starts.
//
// Steps of one branch (attribute `branch` of groups) run one after another. A step also waits for
// the steps of other branches whose results it reads. Everything else may run side by side: the
// memory plan relies on this order and on nothing else, and the CUDA program carries it out.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"

#include "llvm/ADT/DenseMap.h"

#include <array>

namespace tenon {

/// Branches at most; the runtime holds a stream for each (runtime/cuda/host/program.h).
constexpr int kMaxBranches = 4;

class StepOrder {
public:
  /// `to` starts when `from` has finished; they are on different branches.
  struct Edge {
    int from, to;
  };

  /// `steps`: the graph's groups and control flow in execution order.
  explicit StepOrder(llvm::ArrayRef<Operation *> steps);

  int size() const { return int(branch_.size()); }
  int branch(int step) const { return branch_[size_t(step)]; }
  /// Used branches; 1 for a chain.
  int branches() const { return branches_; }
  bool isChain() const { return branches_ == 1; }
  /// Whether `a` has finished when `b` starts.
  bool before(int a, int b) const { return a < b && reach_[size_t(b)][size_t(branch(a))] >= a; }
  /// What waits across branches, without what follows from the rest; ordered by `to`, then `from`.
  llvm::ArrayRef<Edge> edges() const { return edges_; }
  /// The edges after which one more step on branch 0 finds everything finished.
  std::vector<Edge> joins() const;

private:
  /// By branch the last step that has finished when a step starts; -1 for none.
  using Reach = std::array<int, kMaxBranches>;
  /// Adds a step's edges from what it reads; its reach.
  Reach reachOf(int step, llvm::ArrayRef<int> read, const std::array<int, kMaxBranches> &last,
                std::vector<Edge> &edges) const;

  std::vector<int> branch_;
  std::vector<Reach> reach_;
  std::vector<Edge> edges_;
  int branches_ = 1;
};

/// The steps that must have finished for `v` to be there: those that make it, through views and
/// concats in place. `stepOf` knows the graph's steps.
void stepsBehind(Value *v, const llvm::DenseMap<const Operation *, int> &stepOf,
                 llvm::SmallVectorImpl<int> &out);

/// Reports groups whose branch the runtime does not have.
bool checkBranches(Graph &graph, Diagnostics &diagnostics);

} // namespace tenon
