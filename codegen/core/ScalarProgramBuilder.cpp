// Implements ScalarProgramBuilder.
#include "codegen/core/ScalarProgramBuilder.h"

namespace tenon {

ElementIndex identityIndex(Type t) {
  ElementIndex x;
  for (unsigned i = 0; i < t.rank(); ++i) {
    AccessDim d;
    // An extent of 1 is read at 0 whatever the space says, so that views of it compare equal.
    d.dim = t.dim(i).isConstant(1) ? -1 : int(i);
    x.dims.push_back(d);
  }
  return x;
}

int ScalarProgramBuilder::evaluate(Value *v, const ElementIndex &at) {
  if (v->argumentOf() || llvm::is_contained(made_, v))
    return input(v, v->type(), at);
  Operation *op = v->def();
  if (op == anchor_)
    return anchorResult(v, at);
  switch (op->kind()) {
  case Op::Map: return map(op, v->index(), at);
  case Op::Transpose: {
    const Ints &perm = op->intsAttr("perm");
    ElementIndex inner = at;
    for (size_t i = 0; i < perm.size(); ++i)
      inner.dims[perm[i]] = at.dims[i];
    return evaluate(op->operand(0), inner);
  }
  case Op::Slice: return slice(op, at);
  case Op::Reshape: return reshape(op, at);
  case Op::Pad: return pad(op, at);
  default: return fail("a second anchor, " + op->name().str());
  }
}

int ScalarProgramBuilder::add(ScalarNode n) {
  program_.nodes.push_back(std::move(n));
  return int(program_.nodes.size()) - 1;
}

int ScalarProgramBuilder::fail(std::string reason) {
  if (reason_.empty())
    reason_ = std::move(reason);
  return -1;
}

int ScalarProgramBuilder::input(Value *source, Type type, const ElementIndex &at) {
  Access a;
  a.source = source;
  a.type = type;
  a.dims = at.dims;
  a.bounded = at.bounded;
  a.inside = at.inside;
  a.fill = at.fill;
  for (size_t i = 0; i < program_.nodes.size(); ++i)
    if (program_.nodes[i].kind == ScalarNode::Input &&
        program_.inputs[program_.nodes[i].index] == a)
      return int(i);
  ScalarNode n;
  n.kind = ScalarNode::Input;
  n.index = unsigned(program_.inputs.size());
  n.element = type.element();
  program_.inputs.push_back(std::move(a));
  return add(n);
}

int ScalarProgramBuilder::anchorResult(Value *v, const ElementIndex &at) {
  const ElementIndex identity = identityIndex(v->type());
  for (size_t i = 0; i < at.dims.size(); ++i)
    if (at.bounded || at.dims[i].dim != identity.dims[i].dim || at.dims[i].step != 1 ||
        (at.dims[i].offset && !at.dims[i].offset.isConstant(0)))
      return fail("the anchor's result is read through movement");
  for (size_t i = 0; i < program_.nodes.size(); ++i)
    if (program_.nodes[i].kind == ScalarNode::Anchor && program_.nodes[i].index == v->index())
      return int(i);
  ScalarNode n;
  n.kind = ScalarNode::Anchor;
  n.index = v->index();
  n.element = v->type().element();
  return add(n);
}

int ScalarProgramBuilder::map(Operation *op, unsigned result, const ElementIndex &at) {
  if (at.bounded)
    return fail("a pad of a computed value");
  // One evaluation per map and index; keyed by the index's text form.
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(op));
  for (const AccessDim &d : at.dims)
    key += ';' + std::to_string(d.dim) + ',' + std::to_string(d.step) + ',' +
           std::to_string(reinterpret_cast<uintptr_t>(d.offset ? d.offset.node() : nullptr));
  auto known = memo_.find(key);
  if (known != memo_.end())
    return known->second[result];
  const IntLists &maps = op->intListsAttr("maps");
  std::map<Value *, int> scalars;
  Region &body = op->region();
  for (unsigned k = 0; k < op->numOperands(); ++k) {
    ElementIndex inner;
    for (size_t j = 0; j < maps[k].size(); ++j)
      inner.dims.push_back(maps[k][j] < 0 ? AccessDim() : at.dims[maps[k][j]]);
    int n = evaluate(op->operand(k), inner);
    if (n < 0)
      return -1;
    scalars[body.argument(k)] = n;
  }
  for (Operation &s : body) {
    if (s.isTerminator())
      break;
    ScalarNode n;
    n.op = &s;
    n.element = s.result()->type().element();
    for (Value *v : s.operands())
      n.operands.push_back(unsigned(scalars[v]));
    if (s.is(Op::Index)) {
      const AccessDim &d = at.dims[s.intAttr("dim")];
      if (d.offset && !d.offset.isConstant())
        return fail("an index behind an offset known at run time");
      n.indexDim = d.dim;
      n.indexStep = d.step;
      n.indexOffset = d.offset ? d.offset.constant() : 0;
    }
    scalars[s.result()] = add(std::move(n));
  }
  std::vector<int> yields;
  for (Value *v : body.terminator()->operands())
    yields.push_back(scalars[v]);
  memo_[key] = yields;
  return yields[result];
}

int ScalarProgramBuilder::slice(Operation *op, const ElementIndex &at) {
  ElementIndex inner = at;
  const Dims &starts = op->dimsAttr("starts");
  const Ints &steps = op->intsAttr("steps");
  for (size_t i = 0; i < inner.dims.size(); ++i) {
    AccessDim &d = inner.dims[i];
    const int64_t step = steps.empty() ? 1 : steps[i];
    d.offset = d.offset ? d.offset * step + starts[i] : starts[i];
    d.step *= step;
  }
  return evaluate(op->operand(0), inner);
}

int ScalarProgramBuilder::reshape(Operation *op, const ElementIndex &at) {
  Value *x = op->operand(0);
  const Type from = x->type(), to = op->result()->type();
  // Row-major data of the group's own input can be addressed by either shape, as can what is read
  // like one; what a concat joins lies nowhere.
  const bool isMade = llvm::is_contained(made_, x);
  if (((x->argumentOf() || isMade) && from.layout().isRowMajor()) ||
      (isMade && x->def()->is(Op::Concat)))
    return input(x, to.withLayout(Layout()), at);
  // Otherwise only extents of 1 may come and go.
  ElementIndex inner = at;
  inner.dims.clear();
  unsigned j = 0;
  for (unsigned i = 0; i < from.rank(); ++i) {
    if (from.dim(i).isConstant(1)) {
      inner.dims.push_back(AccessDim());
      continue;
    }
    while (j < to.rank() && to.dim(j).isConstant(1))
      ++j;
    if (j >= to.rank() || to.dim(j) != from.dim(i))
      return fail("a reshape that is no index map");
    inner.dims.push_back(at.dims[j++]);
  }
  return evaluate(x, inner);
}

int ScalarProgramBuilder::pad(Operation *op, const ElementIndex &at) {
  Value *x = op->operand(0);
  if (!x->argumentOf() || at.bounded)
    return fail("a pad of a computed value");
  ElementIndex inner = at;
  inner.bounded = true;
  Context &c = x->type().context();
  for (Dim d : program_.space)
    inner.inside.push_back({c.dim(0), d});
  const Dims &low = op->dimsAttr("low");
  for (unsigned i = 0; i < x->type().rank(); ++i) {
    AccessDim &d = inner.dims[i];
    const Dim before = d.offset ? d.offset : c.dim(0);
    if (low[i].isConstant(0) && op->dimsAttr("high")[i].isConstant(0))
      continue;
    const Dim place = before - low[i];
    if (d.dim < 0 && place.isConstant() && place.constant() >= 0 && !program_.space.empty()) {
      // One place: whether it is in x decides for all indices.
      const Dim there = min(max(x->type().dim(i) - place, c.dim(0)), c.dim(1));
      inner.inside[0].second = min(inner.inside[0].second, program_.space[0] * there);
      d.offset = place;
      continue;
    }
    if (d.dim < 0 || d.step != 1)
      return fail("a pad read with a step or at a constant index");
    auto &range = inner.inside[d.dim];
    range = {max(range.first, low[i] - before),
             min(range.second, low[i] + x->type().dim(i) - before)};
    d.offset = before - low[i];
  }
  if (op->numOperands() > 1) {
    Value *fill = op->operand(1);
    const Literal literal =
        constantValue(fill->argumentOf() ? group_.operand(fill->index()) : fill);
    if (!literal)
      return fail("a pad with a value that is not constant");
    inner.fill = literal->at(0);
  }
  return evaluate(x, inner);
}

} // namespace tenon
