// Patterns of canonicalize for windows and control flow.
#include "passes/canonicalize/Patterns.h"

#include "passes/Maps.h"

namespace tenon::canonicalize {

static bool all(const Ints &list, int64_t v) {
  return llvm::all_of(list, [&](int64_t x) { return x == v; });
}

// pool(x) over windows of one element = x
bool poolNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Pool) || op.numResults() != 1 || !all(op.intsAttr("kernel"), 1) ||
      !all(op.intsAttr("strides"), 1) || !all(op.intsAttr("pads"), 0) ||
      op.operand(0)->type() != op.result()->type() || !rw.fire(op))
    return false;
  return rw.replace(op, op.operand(0));
}

// resize(x) to the size of x by scales of 1 = x
bool resizeNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Resize) || op.operand(0)->type() != op.result()->type() ||
      op.wordAttr("coordinates") == "tf_crop_and_resize")
    return false;
  for (double s : op.floatsAttr("scales"))
    if (s != 1)
      return false;
  return rw.fire(op) && rw.replace(op, op.operand(0));
}

// if true { A } { B } = A
bool ifConstant(Operation &op, Rewriter &rw) {
  if (!op.is(Op::If) || op.has("extents"))
    return false;
  Literal cond = constantValue(op.operand(0));
  if (!cond || cond->size() != 1 || !rw.fire(op))
    return false;
  Region &taken = op.region(cond->at(0) != 0 ? 0 : 1);
  std::map<const Value *, Value *> map;
  for (unsigned i = 0; i < taken.numArguments(); ++i)
    map[taken.argument(i)] = op.operand(i + 1);
  for (Operation &inner : taken)
    if (!inner.isTerminator()) {
      Operation *copy = inner.clone(map);
      op.parent()->insertBefore(&op, copy);
    }
  llvm::SmallVector<Value *, 4> values;
  for (Value *v : taken.terminator()->operands()) {
    auto it = map.find(v);
    values.push_back(it == map.end() ? v : it->second);
  }
  return rw.replace(op, values);
}

// loop %n, %go, %s, %w { %a … } of a constant %w = loop %n, %go, %s { %a = constant … }
//
// So that bodies know it: weights are packed once, small values become part of expressions. What
// others read, too, stays outside unless it is small, for a constant is stored where it stands.
bool capturedConstant(Operation &op, Rewriter &rw) {
  constexpr int64_t kSmall = 16;
  if (!op.isAny(Op::If, Op::Loop))
    return false;
  const bool loop = op.is(Op::Loop);
  const unsigned first = loop ? 2 + unsigned(op.intAttr("carried")) : 1, shift = loop ? 0 : 1;
  for (unsigned i = first; i < op.numOperands(); ++i) {
    Value *v = op.operand(i);
    unsigned readers = 0;
    for (unsigned r = 0; r < op.numRegions(); ++r)
      readers += op.region(r).argument(i - shift)->hasUses();
    const Literal literal = constantValue(v);
    if (!literal || (literal->size() > kSmall && (!v->hasOneUse() || readers > 1)) || !rw.fire(op))
      continue;
    for (unsigned r = 0; r < op.numRegions(); ++r) {
      Region &region = op.region(r);
      if (Value *argument = region.argument(i - shift); argument->hasUses()) {
        std::map<const Value *, Value *> values;
        Operation *inside = v->def()->clone(values);
        region.insertBefore(&*region.begin(), inside);
        argument->replaceAllUsesWith(inside->result());
      }
      region.eraseArgument(i - shift);
    }
    auto operands = op.operands();
    operands.erase(operands.begin() + i);
    op.setOperands(operands);
    return true;
  }
  return false;
}

} // namespace tenon::canonicalize
