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
  rw.replace(op, op.operand(0));
  return true;
}

// resize(x) to the size of x by scales of 1 = x
bool resizeNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Resize) || op.operand(0)->type() != op.result()->type() ||
      op.wordAttr("coordinates") == "tf_crop_and_resize")
    return false;
  for (double s : op.floatsAttr("scales"))
    if (s != 1)
      return false;
  if (!rw.fire(op))
    return false;
  rw.replace(op, op.operand(0));
  return true;
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
  rw.replace(op, values);
  return true;
}

} // namespace tenon::canonicalize
