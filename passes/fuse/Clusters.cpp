// Implements Clusters.
#include "passes/fuse/Clusters.h"

#include "passes/Isolate.h"
#include "passes/Rewrite.h"
#include "passes/ViewLayout.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>
#include <set>

namespace tenon {

int64_t bytesOf(Type t) { return byteSize(t.element(), t.upperElements()); }

bool isMovement(const Operation &op) {
  if (op.is(Op::Pad))
    return op.wordAttr("mode", "constant") == "constant" &&
           (op.numOperands() == 1 || constantValue(op.operand(1)));
  return op.isAny(Op::Transpose, Op::Slice, Op::Reshape);
}

bool isContraction(const Operation &op) {
  return op.isAny(Op::Conv, Op::ConvTranspose, Op::MatMul);
}

bool isAnchor(const Operation &op) { return !op.is(Op::Map) && !isMovement(op); }

Clusters::Clusters(Region &region) {
  for (Operation &op : region) {
    const unsigned i = unsigned(ops_.size());
    ops_.push_back(&op);
    position_[&op] = i;
    clusterOf_.push_back(i);
    Cluster c;
    c.members = {i};
    c.kernel = needsKernel(op);
    c.anchor = c.kernel && isAnchor(op) ? &op : nullptr;
    c.movement = c.kernel && isMovement(op);
    clusters_.push_back(std::move(c));
  }
}

bool Clusters::pathThroughOthers(unsigned from, unsigned to) const {
  const unsigned floor = clusters_[from].members.front();
  std::vector<unsigned> stack;
  std::set<unsigned> seen;
  auto visit = [&](unsigned c, bool first) {
    for (unsigned m : clusters_[c].members)
      for (Value *v : ops_[m]->operands()) {
        if (!v->def())
          continue;
        const unsigned d = of(v->def());
        if (d == c || (first && d == from))
          continue;
        if (clusters_[d].members.back() >= floor && seen.insert(d).second)
          stack.push_back(d);
      }
  };
  visit(to, true);
  while (!stack.empty()) {
    const unsigned c = stack.back();
    stack.pop_back();
    if (c == from)
      return true;
    visit(c, false);
  }
  return false;
}

size_t Clusters::inputs(unsigned a, unsigned b) const {
  llvm::SmallPtrSet<Value *, 16> values;
  for (unsigned c : {a, b})
    for (unsigned m : clusters_[c].members)
      for (Value *v : ops_[m]->operands())
        if (!v->def() || (of(v->def()) != a && of(v->def()) != b))
          values.insert(v);
  return values.size();
}

bool Clusters::feedsOnly(unsigned c, unsigned other) const {
  for (unsigned m : clusters_[c].members)
    for (Value *v : ops_[m]->results())
      for (Use *u : v->uses()) {
        const unsigned d = of(u->owner());
        if (d != c && d != other)
          return false;
      }
  return true;
}

int64_t Clusters::savedBytes(const Value *v, unsigned a, unsigned b) const {
  for (Use *u : v->uses())
    if (of(u->owner()) != a && of(u->owner()) != b)
      return bytesOf(v->type()); // still written, read once less
  return 2 * bytesOf(v->type());
}

void Clusters::merge(unsigned into, unsigned from) {
  Cluster &a = clusters_[into], &b = clusters_[from];
  for (unsigned m : b.members)
    clusterOf_[m] = into;
  std::vector<unsigned> members;
  std::merge(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
             std::back_inserter(members));
  a.members = std::move(members);
  if (!a.anchor)
    a.anchor = b.anchor;
  a.movement |= b.movement;
  b = Cluster();
}

Clusters::Merged Clusters::mergeOnTrial(unsigned into, const Operation &view) {
  const unsigned from = of(&view);
  assert(clusters_[from].members.size() == 1);
  Merged merged{into, from, clusters_[into], clusters_[from]};
  merge(into, from);
  return merged;
}

void Clusters::separate(Merged merged, const Operation &view) {
  clusters_[merged.into] = std::move(merged.before);
  clusters_[merged.from] = std::move(merged.alone);
  clusterOf_[position(&view)] = merged.from;
}

bool Clusters::form() {
  if (llvm::none_of(clusters_, [](const Cluster &c) { return c.kernel && c.members.size() > 1; }))
    return false;
  // Kahn's algorithm over clusters; among the ready ones that which ended first in the old order.
  const unsigned n = unsigned(clusters_.size());
  std::vector<std::set<unsigned>> users(n);
  std::vector<unsigned> waiting(n, 0);
  for (unsigned i = 0; i < ops_.size(); ++i)
    for (Value *v : ops_[i]->operands())
      if (v->def() && of(v->def()) != clusterOf_[i] &&
          users[of(v->def())].insert(clusterOf_[i]).second)
        ++waiting[clusterOf_[i]];
  std::set<std::pair<unsigned, unsigned>> ready; // (last member, cluster)
  for (unsigned c = 0; c < n; ++c)
    if (!clusters_[c].members.empty() && waiting[c] == 0)
      ready.insert({clusters_[c].members.back(), c});
  Operation *end = ops_.back();
  assert(end->isTerminator());
  while (!ready.empty()) {
    const unsigned c = ready.begin()->second;
    ready.erase(ready.begin());
    for (unsigned u : users[c])
      if (--waiting[u] == 0)
        ready.insert({clusters_[u].members.back(), u});
    std::vector<Operation *> members;
    for (unsigned m : clusters_[c].members)
      members.push_back(ops_[m]);
    if (members[0] == end)
      continue;
    if (clusters_[c].kernel && members.size() > 1)
      makeGroup(members, end);
    else
      members[0]->moveBefore(end);
  }
  return true;
}

} // namespace tenon
