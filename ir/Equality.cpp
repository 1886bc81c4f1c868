// Implements equality of what operations compute.
#include "ir/Equality.h"

#include <map>

namespace tenon {
namespace {

using Same = llvm::function_ref<bool(const Value *, const Value *)>;

/// `pairs` holds values of a's regions and their counterparts in b's.
bool equal(const Operation &a, const Operation &b, Same same,
           std::map<const Value *, const Value *> &pairs) {
  if (a.kind() != b.kind() || a.numOperands() != b.numOperands() ||
      a.numResults() != b.numResults() || a.numRegions() != b.numRegions() ||
      a.attributes() != b.attributes())
    return false;
  for (unsigned i = 0; i < a.numResults(); ++i)
    if (a.result(i)->type() != b.result(i)->type())
      return false;
  for (unsigned i = 0; i < a.numOperands(); ++i) {
    const Value *x = a.operand(i), *y = b.operand(i);
    auto it = pairs.find(x);
    const bool alike = it != pairs.end() ? it->second == y : same(x, y);
    if (!alike && !(a.is(Op::ShapeOf) && x->type().shape() == y->type().shape()))
      return false;
  }
  for (unsigned r = 0; r < a.numRegions(); ++r) {
    Region &x = a.region(r), &y = b.region(r);
    if (x.numArguments() != y.numArguments())
      return false;
    for (unsigned i = 0; i < x.numArguments(); ++i) {
      if (x.argument(i)->type() != y.argument(i)->type())
        return false;
      pairs[x.argument(i)] = y.argument(i);
    }
    auto p = x.begin(), q = y.begin();
    for (; p != x.end() && q != y.end(); ++p, ++q) {
      if (!equal(*p, *q, same, pairs))
        return false;
      for (unsigned i = 0; i < p->numResults(); ++i)
        pairs[p->result(i)] = q->result(i);
    }
    if (p != x.end() || q != y.end())
      return false;
  }
  return true;
}

bool sameWithin(const Value *a, const Value *b, int &steps) {
  if (a == b)
    return true;
  const Operation *x = a->def(), *y = b->def();
  if (!x || !y || --steps < 0 || a->index() != b->index() || (x->info().traits & OpTrait::Effect) ||
      x->is(Op::User))
    return false;
  return computeSame(*x, *y,
                     [&](const Value *p, const Value *q) { return sameWithin(p, q, steps); });
}

} // namespace

bool computeSame(const Operation &a, const Operation &b, Same same) {
  std::map<const Value *, const Value *> pairs;
  return equal(a, b, same, pairs);
}

bool sameNumbers(const Value *a, const Value *b, int steps) { return sameWithin(a, b, steps); }

} // namespace tenon
