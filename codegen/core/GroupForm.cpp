// Implements the analysis of groups into accesses and scalar programs.
#include "codegen/core/GroupForm.h"

#include "codegen/core/ScalarProgramBuilder.h"

namespace tenon {

bool operator==(const Access &a, const Access &b) {
  if (a.source != b.source || a.type != b.type || a.bounded != b.bounded ||
      a.dims.size() != b.dims.size() || a.inside != b.inside ||
      (a.bounded && a.fill != b.fill && a.fill == a.fill))
    return false;
  for (size_t i = 0; i < a.dims.size(); ++i)
    if (a.dims[i].dim != b.dims[i].dim || a.dims[i].step != b.dims[i].step ||
        a.dims[i].offset != b.dims[i].offset)
      return false;
  return true;
}

bool ScalarProgram::usesIndex() const {
  for (const ScalarNode &n : nodes)
    if (n.indexDim >= 0)
      return true;
  return false;
}

bool GroupForm::bodyIsIdentity() const {
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    const ScalarNode &n = body.nodes[body.outputs[i]];
    if (n.kind != ScalarNode::Anchor || n.index != i)
      return false;
  }
  return true;
}

const JoinForm *GroupForm::joinOf(const Value *v) const {
  for (const JoinForm &j : joined)
    if (j.concat->result() == v)
      return &j;
  return nullptr;
}

const GroupForm *GroupForm::makerOf(const Value *v) const {
  for (const GroupForm &form : before)
    if (form.anchor && v->def() == form.anchor)
      return &form;
  return nullptr;
}

bool isAbsorbable(const Operation &op) {
  if (op.isAny(Op::Map, Op::Transpose, Op::Slice, Op::Reshape))
    return true;
  return op.is(Op::Pad) && op.wordAttr("mode", "constant") == "constant";
}

namespace {

/// For a reshape that only adds or drops extents of 1: the operand dimension behind each result
/// dimension, −1 for an extent of 1. False for other reshapes.
bool unitReshape(Type from, Type to, llvm::SmallVectorImpl<int> &dims) {
  dims.assign(to.rank(), -1);
  unsigned j = 0;
  for (unsigned i = 0; i < to.rank(); ++i) {
    if (to.dim(i).isConstant(1))
      continue;
    while (j < from.rank() && from.dim(j).isConstant(1))
      ++j;
    if (j >= from.rank() || from.dim(j) != to.dim(i))
      return false;
    dims[i] = int(j++);
  }
  while (j < from.rank() && from.dim(j).isConstant(1))
    ++j;
  return j == from.rank();
}

/// Follows the result `v` back through trailing movement that can be absorbed by writing
/// elsewhere; gives the value to compute and where its elements go.
Value *peelOutput(Value *v, bool throughTransposes, OutputForm &out) {
  out.type = v->type();
  out.dims.clear();
  for (unsigned i = 0; i < v->type().rank(); ++i)
    out.dims.push_back(int(i));
  bool moved = false; // out.dims is no longer the identity
  while (Operation *op = v->def()) {
    llvm::SmallVector<int, 6> inner;
    if (op->is(Op::Transpose) && throughTransposes) {
      inner.assign(op->intsAttr("perm").begin(), op->intsAttr("perm").end());
    } else if (op->is(Op::Reshape) && !moved && out.type.layout().isRowMajor()) {
      // Row-major data may as well be written by the shape before the reshape.
      out.type = op->operand(0)->type().withLayout(Layout());
      out.dims.clear();
      for (unsigned i = 0; i < out.type.rank(); ++i)
        out.dims.push_back(int(i));
      v = op->operand(0);
      continue;
    } else if (!op->is(Op::Reshape) || !throughTransposes ||
               !unitReshape(op->operand(0)->type(), v->type(), inner)) {
      break;
    }
    for (int &d : out.dims)
      d = d < 0 ? -1 : inner[d];
    moved = true;
    v = op->operand(0);
  }
  return v;
}

/// The dimension of the anchor's result that each dimension of `v` follows, −1 for an extent of 1.
/// False when `v` does not come from the anchor point by point.
bool anchorDims(Value *v, Operation *anchor, llvm::SmallVectorImpl<int> &dims) {
  Operation *op = v->def();
  if (!op)
    return false;
  dims.assign(v->type().rank(), -1);
  if (op == anchor) {
    for (unsigned i = 0; i < dims.size(); ++i)
      dims[i] = int(i);
    return true;
  }
  llvm::SmallVector<int, 6> inner;
  if (op->is(Op::Transpose)) {
    if (!anchorDims(op->operand(0), anchor, inner))
      return false;
    for (unsigned i = 0; i < dims.size(); ++i)
      dims[i] = inner[op->intsAttr("perm")[i]];
    return true;
  }
  if (op->is(Op::Reshape)) {
    llvm::SmallVector<int, 6> from;
    if (!unitReshape(op->operand(0)->type(), v->type(), from) ||
        !anchorDims(op->operand(0), anchor, inner))
      return false;
    for (unsigned i = 0; i < dims.size(); ++i)
      dims[i] = from[i] < 0 ? -1 : inner[from[i]];
    return true;
  }
  if (!op->is(Op::Map))
    return false;
  const IntLists &maps = op->intListsAttr("maps");
  for (unsigned k = 0; k < op->numOperands(); ++k) {
    if (!anchorDims(op->operand(k), anchor, inner))
      continue;
    for (size_t j = 0; j < inner.size(); ++j)
      if (maps[k][j] >= 0)
        dims[maps[k][j]] = inner[j];
    bool whole = true; // no dimension that the anchor lacks
    for (unsigned i = 0; i < dims.size(); ++i)
      whole &= dims[i] >= 0 || v->type().dim(i).isConstant(1);
    if (whole)
      return true;
  }
  return false;
}

/// Where `v` is a map of more elements than the anchor's result: the operand that follows the
/// anchor; else null.
Value *spreadBy(Value *v, Operation &anchor) {
  Operation *map = v->def();
  llvm::SmallVector<int, 6> dims;
  if (!map || !map->is(Op::Map) || anchorDims(v, &anchor, dims))
    return nullptr;
  for (Value *operand : map->operands())
    if (anchorDims(operand, &anchor, dims))
      return operand;
  return nullptr;
}

/// Whether an anchor reads what the last one reads, and makes as many elements of maps alone.
bool isBeside(const Operation &anchor, const Operation &last) {
  return anchor.kind() == last.kind() && anchor.numResults() == 1 &&
         anchor.operand(0) == last.operand(0) &&
         anchor.result()->type().shape() == last.result()->type().shape() &&
         llvm::all_of(anchor.result()->uses(),
                      [](const Use *u) { return u->owner()->is(Op::Map); });
}

/// Describes an operand `v` over its logical shape.
Result<> describeOperand(Operation &group, Value *v, llvm::ArrayRef<const Value *> made,
                         ScalarProgram &p) {
  p.space.assign(v->type().shape().begin(), v->type().shape().end());
  ScalarProgramBuilder prologue(group, nullptr, p, made);
  const int n = prologue.evaluate(v, identityIndex(v->type()));
  if (n < 0)
    return prologue.refusal();
  p.outputs.push_back(unsigned(n));
  return Accepted{};
}

/// Describes one anchor (null: there is none) and what the group makes of it up to `results`.
/// `made`: what other anchors make, which is read as it is.
Result<> describe(Operation &group, Operation *anchor, llvm::ArrayRef<const Value *> made,
                  llvm::ArrayRef<Value *> results, GroupForm &form) {
  form.group = &group;
  form.anchor = anchor;
  if (anchor)
    for (Value *v : anchor->operands())
      if (auto part = describeOperand(group, v, made, form.anchorInputs.emplace_back()); !part)
        return part;
  ScalarProgramBuilder body(group, anchor, form.body, made);
  for (Value *v : results) {
    OutputForm &out = form.outputs.emplace_back();
    Value *inner = peelOutput(v, anchor != nullptr, out);
    ElementIndex at = identityIndex(inner->type());
    llvm::ArrayRef<Dim> shape = inner->type().shape();
    if (anchor) {
      // The body walks the anchor's own dimensions, whatever movement lies between.
      llvm::SmallVector<int, 6> dims;
      if (!anchorDims(inner, anchor, dims))
        return Refusal{"a result that does not follow the anchor point by point", ""};
      shape = anchor->result()->type().shape();
      for (size_t i = 0; i < dims.size(); ++i)
        at.dims[i].dim = dims[i] >= 0 && shape[dims[i]].isConstant(1) ? -1 : dims[i];
      for (int &d : out.dims)
        d = d < 0 ? -1 : dims[d];
    }
    if (form.outputs.size() == 1) {
      form.body.space.assign(shape.begin(), shape.end());
    } else if (shape != llvm::ArrayRef<Dim>(form.body.space)) {
      return Refusal{"results over different spaces", ""};
    }
    for (size_t i = 0; i < out.dims.size(); ++i)
      if (out.type.dim(unsigned(i)).isConstant(1))
        out.dims[i] = -1;
    const int n = body.evaluate(inner, at);
    if (n < 0)
      return body.refusal();
    form.body.outputs.push_back(unsigned(n));
  }
  return Accepted{};
}

/// A group of one anchor that reads what concats join, and of others `before`, which make what the
/// pieces are computed of.
Result<GroupForm> analyzeJoining(Operation &group, Operation &anchor,
                                 llvm::ArrayRef<Operation *> before,
                                 llvm::ArrayRef<Operation *> concats) {
  GroupForm form;
  llvm::SmallVector<const Value *, 4> made;
  for (Operation *maker : before) {
    if (maker->numResults() != 1)
      return Refusal{"pieces of an anchor with several results", ""};
    if (auto part = describe(group, maker, {}, {maker->result()}, form.before.emplace_back());
        !part)
      return std::move(part).refusal();
    made.push_back(maker->result());
  }
  for (Operation *concat : concats) {
    JoinForm &join = form.joined.emplace_back();
    join.concat = concat;
    for (Value *v : concat->operands())
      if (auto piece = describeOperand(group, v, made, join.pieces.emplace_back()); !piece)
        return std::move(piece).refusal();
    made.push_back(concat->result());
  }
  const auto isOfJoin = [&](Value *v) {
    return llvm::is_contained(made, v) || llvm::any_of(concats, [&](const Operation *concat) {
             return llvm::is_contained(concat->operands(), v);
           });
  };
  llvm::SmallVector<Value *, 4> results = group.region().terminator()->operands();
  while (results.size() > 1 && isOfJoin(results.back()))
    results.pop_back();
  if (auto whole = describe(group, &anchor, made, results, form); !whole)
    return std::move(whole).refusal();
  return form;
}

} // namespace

Result<GroupForm> analyzeGroup(Operation &group) {
  Region &region = group.region();
  llvm::SmallVector<Operation *, 3> anchors, concats;
  for (Operation &op : region)
    if (!op.isTerminator() && !isAbsorbable(op))
      (op.is(Op::Concat) ? concats : anchors).push_back(&op);
  if (!anchors.empty() && !concats.empty())
    return analyzeJoining(group, *anchors.back(), llvm::makeArrayRef(anchors).drop_back(), concats);
  anchors.append(concats.begin(), concats.end());
  const llvm::SmallVector<Value *, 4> results = region.terminator()->operands();
  // What anchors make that read the same as the last one.
  llvm::SmallVector<Value *, 1> beside;
  for (size_t i = anchors.size(); i-- > 1;)
    if (Operation *a = anchors[i - 1]; isBeside(*a, *anchors.back())) {
      beside.insert(beside.begin(), a->result());
      anchors.erase(anchors.begin() + ptrdiff_t(i - 1));
    }
  // What each anchor of a chain hands on to the next, and the last to a map of another space.
  llvm::SmallVector<Value *, 3> handed;
  for (size_t i = 1; i < anchors.size(); ++i)
    handed.push_back(anchors[i]->operand(0));
  if (anchors.size() > 1)
    if (Value *v = spreadBy(results[0], *anchors.back()))
      handed.push_back(v);
  GroupForm form;
  llvm::SmallVector<const Value *, 3> made; // that comes next
  for (Value *v : handed) {
    Operation *anchor = anchors[form.before.size()];
    if (v->argumentOf())
      return Refusal{"anchors that are no chain, " + anchor->name().str() + " among them", ""};
    if (auto part = describe(group, anchor, made, {v}, form.before.emplace_back()); !part)
      return std::move(part).refusal();
    made.assign(1, v);
  }
  Operation *last = handed.size() < anchors.size() ? anchors.back() : nullptr;
  for (Value *v : beside) {
    if (auto part = describe(group, v->def(), made, {v}, form.beside.emplace_back()); !part)
      return std::move(part).refusal();
  }
  made.append(beside.begin(), beside.end());
  if (auto whole = describe(group, last, made, results, form); !whole)
    return std::move(whole).refusal();
  return form;
}

namespace {
Context &contextOf(Type t) { return t.context(); }
} // namespace

Strides stridesOf(const Access &a, unsigned rank) {
  Context &c = contextOf(a.type);
  Addressing address = addressing(a.type);
  Strides s;
  s.strides.assign(rank, c.dim(0));
  s.offset = address.offset;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    const AccessDim &d = a.dims[i];
    if (d.dim >= 0)
      s.strides[d.dim] = s.strides[d.dim] + address.strides[i] * d.step;
    if (d.offset)
      s.offset = s.offset + address.strides[i] * d.offset;
  }
  return s;
}

Access composed(const Access &read, const Access &inner) {
  Access r = inner;
  for (AccessDim &d : r.dims) {
    if (d.dim < 0)
      continue;
    const AccessDim &outer = read.dims[size_t(d.dim)];
    if (outer.offset)
      d.offset = d.offset ? d.offset + outer.offset * d.step : outer.offset * d.step;
    d.step *= outer.step;
    d.dim = outer.dim;
  }
  return r;
}

Strides stridesOf(const OutputForm &o, unsigned rank) {
  Context &c = contextOf(o.type);
  Addressing address = addressing(o.type);
  Strides s;
  s.strides.assign(rank, c.dim(0));
  s.offset = address.offset;
  for (size_t i = 0; i < o.dims.size(); ++i)
    if (o.dims[i] >= 0)
      s.strides[o.dims[i]] = address.strides[i];
  return s;
}

unsigned rankThrough(const ScalarProgram &program,
                     llvm::function_ref<Strides(const Strides &)> change) {
  const unsigned rank = unsigned(program.space.size());
  if (!program.inputs.empty())
    return unsigned(change(stridesOf(program.inputs.front(), rank)).strides.size());
  if (rank == 0)
    return unsigned(change({}).strides.size());
  Strides none;
  none.offset = program.space.front().node()->context->dim(0);
  none.strides.assign(rank, none.offset);
  return unsigned(change(none).strides.size());
}

} // namespace tenon
