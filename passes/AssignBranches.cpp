// assign-branches: groups that do not depend on each other may run side by side.
//
//   %a = group %x …                 %a = group %x …
//   %b = group %x …            →    %b = group %x … {branch = 1}
//   %c = group %a, %b …             %c = group %a, %b …
//
// Groups of one branch run one after another, in the order of the text; a group also waits for
// whatever it reads from other branches, and for the last readers of memory that it reuses. A group
// without the attribute is on branch 0. A chain stays on branch 0 as a whole.
//
// The groups are taken in order; each goes to the branch on which it can start first when every
// group takes as long as every other. That is near the truth where branches pay: at small batches,
// when kernels are as long as their launch and leave most of the machine idle. A wait across
// branches costs half a group, so that nothing forks for less than it gains.
#include "passes/AssignBranches.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace tenon {
namespace {

/// Time in half groups.
constexpr int kGroup = 2, kCrossing = 1;

class Assignment {
public:
  Assignment(unsigned branches, PassContext &context) : context_(context), ends_(branches) {}

  bool run(Region &region) {
    bool changed = false;
    for (Operation &op : region) {
      if (!op.is(Op::Group))
        continue;
      const unsigned branch = choose(op);
      if (branch == 0 || !context_.fire("assign-branches", op)) {
        place(op, 0);
        continue;
      }
      op.set("branch", int64_t(branch));
      place(op, branch);
      changed = true;
    }
    return changed;
  }

private:
  struct End {
    Operation *last = nullptr;
    int time = 0;
  };
  struct Placed {
    unsigned branch;
    int end;
  };

  /// The groups whose results `v` is, through whatever moves nothing.
  void producers(Value *v, llvm::SmallSetVector<Operation *, 4> &out) const {
    Operation *def = v->def();
    if (!def)
      return;
    if (placed_.count(def))
      out.insert(def);
    else if (!def->is(Op::Group))
      for (Value *operand : def->operands())
        producers(operand, out);
  }
  llvm::SmallSetVector<Operation *, 4> producersOf(const Operation &group) const {
    llvm::SmallSetVector<Operation *, 4> out;
    for (Value *v : group.operands())
      producers(v, out);
    return out;
  }

  /// When `group` could start on a branch.
  int startOn(const Operation &group, unsigned branch) const {
    int start = ends_[branch].time;
    for (Operation *p : producersOf(group)) {
      const Placed &at = placed_.find(p)->second;
      start = std::max(start, at.end + (at.branch == branch ? 0 : kCrossing));
    }
    return start;
  }
  unsigned choose(const Operation &group) const {
    // Two groups may write elements of one byte.
    for (Value *v : group.results())
      if (bitWidth(v->type().element()) < 8)
        return 0;
    const auto before = producersOf(group);
    // A fork costs the way back, too; who follows one's own producer does not fork.
    auto price = [&](unsigned b) {
      return startOn(group, b) + (b == 0 || before.count(ends_[b].last) ? 0 : kCrossing);
    };
    unsigned best = 0;
    for (unsigned b = 1; b < ends_.size(); ++b)
      if (price(b) < price(best))
        best = b;
    return best;
  }
  void place(Operation &group, unsigned branch) {
    const int end = startOn(group, branch) + kGroup;
    ends_[branch] = {&group, end};
    placed_[&group] = {branch, end};
  }

  PassContext &context_;
  std::vector<End> ends_;
  llvm::DenseMap<const Operation *, Placed> placed_; // looked up only
};

} // namespace

bool runAssignBranches(Graph &graph, PassContext &context) {
  const int64_t given = context.option("branches");
  const int64_t branches = given > 0 ? given : context.target.branches;
  return branches > 1 && Assignment(unsigned(branches), context).run(graph.body());
}

} // namespace tenon
