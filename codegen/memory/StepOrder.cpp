// Implements the order of steps by vector clocks: a step knows for each branch how far it has come.
#include "codegen/memory/StepOrder.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace tenon {

void stepsBehind(Value *v, const llvm::DenseMap<const Operation *, int> &stepOf,
                 llvm::SmallVectorImpl<int> &out) {
  Operation *def = v->def();
  if (!def)
    return;
  auto it = stepOf.find(def);
  if (it != stepOf.end()) {
    if (!llvm::is_contained(out, it->second))
      out.push_back(it->second);
    return;
  }
  for (Value *operand : def->operands())
    stepsBehind(operand, stepOf, out);
}

StepOrder::StepOrder(llvm::ArrayRef<Operation *> steps) {
  llvm::DenseMap<const Operation *, int> stepOf;
  std::array<int, kMaxBranches> last;
  last.fill(-1);
  for (int s = 0; s < int(steps.size()); ++s) {
    // checkBranches() reports what is out of range; the order is sound whatever the text says.
    const auto b =
        int(std::clamp<int64_t>(steps[size_t(s)]->intAttr("branch"), 0, int64_t(kMaxBranches) - 1));
    branch_.push_back(b);
    branches_ = std::max(branches_, b + 1);
    llvm::SmallVector<int, 8> read;
    for (Value *v : steps[size_t(s)]->operands())
      stepsBehind(v, stepOf, read);
    stepOf[steps[size_t(s)]] = s;
    reach_.push_back(reachOf(s, read, last, edges_));
    last[size_t(b)] = s;
  }
}

StepOrder::Reach StepOrder::reachOf(int step, llvm::ArrayRef<int> read,
                                    const std::array<int, kMaxBranches> &last,
                                    std::vector<Edge> &edges) const {
  const int mine = step < size() ? branch(step) : 0;
  Reach reach;
  reach.fill(-1);
  auto join = [&](int s) { // what has finished when s has
    for (size_t b = 0; b < reach.size(); ++b)
      reach[b] = std::max(reach[b], reach_[size_t(s)][b]);
    auto &own = reach[size_t(branch(s))];
    own = std::max(own, s);
  };
  if (last[size_t(mine)] >= 0)
    join(last[size_t(mine)]);
  // The latest first: what they waited for needs no edge of its own.
  llvm::SmallVector<int, 8> order(read.begin(), read.end());
  llvm::sort(order, [](int a, int b) { return a > b; });
  const size_t first = edges.size();
  for (int s : order)
    if (reach[size_t(branch(s))] < s) {
      edges.push_back({s, step});
      join(s);
    }
  std::reverse(edges.begin() + long(first), edges.end());
  return reach;
}

std::vector<StepOrder::Edge> StepOrder::joins() const {
  std::array<int, kMaxBranches> last;
  last.fill(-1);
  for (int s = 0; s < size(); ++s)
    last[size_t(branch(s))] = s;
  llvm::SmallVector<int, 4> ends;
  for (int s : last)
    if (s >= 0)
      ends.push_back(s);
  std::vector<Edge> edges;
  reachOf(size(), ends, last, edges);
  return edges;
}

bool checkBranches(Graph &graph, Diagnostics &diagnostics) {
  bool ok = true;
  graph.body().walk([&](Operation *op) {
    const int64_t b = op->is(Op::Group) ? op->intAttr("branch") : 0;
    if (b >= 0 && b < kMaxBranches)
      return;
    ok = false;
    diagnostics.error(*op, "branch " + std::to_string(b) + ": expected 0 to " +
                               std::to_string(kMaxBranches - 1));
  });
  return ok;
}

} // namespace tenon
