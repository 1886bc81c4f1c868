// merge-reductions: reductions of the same tensors become one that reads these once.
//
//   %l = reduce %x {axes, init = [inf]} min          %l, %h = reduce %x {axes, init = [inf, -inf]}
//   %h = reduce %x {axes, init = [-inf]} max    →              (%a, %b, %x) { yield min %a %x,
//                                                                             max %b %x }
//
// The least and the largest value, which dynamic quantisation asks for, are such a pair.
#include "passes/MergeReductions.h"

#include "passes/Rewrite.h"

namespace tenon {
namespace {

bool readsTheSame(const Operation &a, const Operation &b) {
  return a.operands() == b.operands() && *a.find("maps") == *b.find("maps") &&
         a.intsAttr("axes") == b.intsAttr("axes");
}

/// The next reduction behind `op`, in its region, of what it reads.
Operation *nextLike(Operation &op) {
  Operation *found = nullptr;
  for (Use *use : op.operand(0)->uses()) {
    Operation *user = use->owner();
    if (user == &op || !user->is(Op::Reduce) || user->parent() != op.parent() ||
        !readsTheSame(op, *user) || !op.isBefore(user))
      continue;
    if (!found || user->isBefore(found))
      found = user;
  }
  return found;
}

bool mergePattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Reduce))
    return false;
  Operation *other = nextLike(op);
  if (!other || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  mergeLocation(b.location, other->loc());
  NamedAttributes attributes = op.attributes();
  Floats init = op.floatsAttr("init");
  const Floats &more = other->floatsAttr("init");
  init.insert(init.end(), more.begin(), more.end());
  attributes.insert_or_assign("init", Attribute(init));
  Operation *both =
      b.create(Op::Reduce, op.operands(), std::move(attributes), 1, [&](unsigned, Region &region) {
        std::map<const Value *, Value *> values;
        for (Operation *one : {&op, other})
          for (unsigned i = 0; i < one->numResults(); ++i) {
            Value *a = one->region().argument(i);
            values[a] = region.addArgument(a->type(), a->hint());
          }
        for (unsigned i = 0; i < op.numOperands(); ++i) {
          Value *a = op.region().argument(op.numResults() + i);
          values[a] = region.addArgument(a->type(), a->hint());
          values[other->region().argument(other->numResults() + i)] = values[a];
        }
        llvm::SmallVector<Value *, 4> yielded;
        for (Operation *one : {&op, other})
          for (Operation &s : one->region()) {
            if (&s != one->region().terminator())
              region.push_back(s.clone(values));
            else
              for (Value *v : s.operands())
                yielded.push_back(values.at(v));
          }
        Builder(region, rw.context().diagnostics).yield(yielded);
      });
  if (!both)
    return false;
  llvm::SmallVector<Value *, 2> first, second;
  for (unsigned i = 0; i < both->numResults(); ++i)
    (i < op.numResults() ? first : second).push_back(both->result(i));
  return rw.replace(*other, second) && rw.replace(op, first);
}

const Pattern kPatterns[] = {{"merge-reductions.sibling", mergePattern}};

} // namespace

bool runMergeReductions(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
