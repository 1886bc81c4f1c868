// Implements the analysis of groups into accesses and scalar programs.
#include "codegen/GroupForm.h"

#include "ir/Builder.h"

#include <map>

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

bool isAbsorbable(const Operation &op) {
  if (op.isAny(Op::Map, Op::Transpose, Op::Slice, Op::Reshape))
    return true;
  return op.is(Op::Pad) && op.wordAttr("mode", "constant") == "constant";
}

namespace {

/// How the elements of a tensor inside the group correspond to the iteration space.
struct Index {
  llvm::SmallVector<AccessDim, 6> dims;
  bool bounded = false;
  llvm::SmallVector<std::pair<Dim, Dim>, 6> inside;
  double fill = 0;
};

Index identityIndex(Type t) {
  Index x;
  for (unsigned i = 0; i < t.rank(); ++i) {
    AccessDim d;
    // An extent of 1 is read at 0 whatever the space says, so that views of it compare equal.
    d.dim = t.dim(i).isConstant(1) ? -1 : int(i);
    x.dims.push_back(d);
  }
  return x;
}

class ProgramBuilder {
public:
  ProgramBuilder(Operation &group, Operation *anchor, ScalarProgram &program, std::string &why)
      : group_(group), anchor_(anchor), program_(program), why_(why) {}

  /// Node of element `at` of `v`; −1 after setting the reason.
  int evaluate(Value *v, const Index &at) {
    if (v->argumentOf())
      return input(v, v->type(), at);
    Operation *op = v->def();
    if (op == anchor_)
      return anchorResult(v, at);
    switch (op->kind()) {
    case Op::Map: return map(op, v->index(), at);
    case Op::Transpose: {
      const Ints &perm = op->intsAttr("perm");
      Index inner = at;
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

  int add(ScalarNode n) {
    program_.nodes.push_back(std::move(n));
    return int(program_.nodes.size()) - 1;
  }

private:
  int fail(std::string why) {
    if (why_.empty())
      why_ = std::move(why);
    return -1;
  }

  int input(Value *source, Type type, const Index &at) {
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

  int anchorResult(Value *v, const Index &at) {
    const Index identity = identityIndex(v->type());
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

  int map(Operation *op, unsigned result, const Index &at) {
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
      Index inner;
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

  int slice(Operation *op, const Index &at) {
    Index inner = at;
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

  int reshape(Operation *op, const Index &at) {
    Value *x = op->operand(0);
    const Type from = x->type(), to = op->result()->type();
    // Row-major data of the group's own input can be addressed by either shape.
    if (x->argumentOf() && from.layout().isRowMajor())
      return input(x, to.withLayout(Layout()), at);
    // Otherwise only extents of 1 may come and go.
    Index inner = at;
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

  int pad(Operation *op, const Index &at) {
    Value *x = op->operand(0);
    if (!x->argumentOf() || at.bounded)
      return fail("a pad of a computed value");
    Index inner = at;
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
      if (d.dim < 0 || d.step != 1)
        return fail("a pad read with a step or at a constant index");
      auto &range = inner.inside[d.dim];
      range = {max(range.first, low[i] - before),
               min(range.second, low[i] + x->type().dim(i) - before)};
      d.offset = before - low[i];
    }
    if (op->numOperands() > 1) {
      Value *fill = op->operand(1);
      Operation *def = fill->argumentOf() ? group_.operand(fill->index())->def() : fill->def();
      if (!def || !def->is(Op::Constant))
        return fail("a pad with a value that is not constant");
      inner.fill = (*def->find("value")->get<Literal>())->at(0);
    }
    return evaluate(x, inner);
  }

  Operation &group_;
  Operation *anchor_;
  ScalarProgram &program_;
  std::string &why_;
  std::map<std::string, std::vector<int>> memo_;
};

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

} // namespace

llvm::Optional<GroupForm> analyzeGroup(Operation &group, std::string &why) {
  GroupForm form;
  form.group = &group;
  Region &region = group.region();
  for (Operation &op : region) {
    if (op.isTerminator() || isAbsorbable(op))
      continue;
    if (form.anchor) {
      why = "two anchors, " + form.anchor->name().str() + " and " + op.name().str();
      return llvm::None;
    }
    form.anchor = &op;
  }
  if (form.anchor)
    for (Value *v : form.anchor->operands()) {
      ScalarProgram &p = form.anchorInputs.emplace_back();
      p.space.assign(v->type().shape().begin(), v->type().shape().end());
      int n = ProgramBuilder(group, nullptr, p, why).evaluate(v, identityIndex(v->type()));
      if (n < 0)
        return llvm::None;
      p.outputs.push_back(unsigned(n));
    }
  ProgramBuilder body(group, form.anchor, form.body, why);
  for (Value *v : region.terminator()->operands()) {
    OutputForm &out = form.outputs.emplace_back();
    Value *inner = peelOutput(v, form.anchor != nullptr, out);
    Index at = identityIndex(inner->type());
    llvm::ArrayRef<Dim> shape = inner->type().shape();
    if (form.anchor) {
      // The body walks the anchor's own dimensions, whatever movement lies between.
      llvm::SmallVector<int, 6> dims;
      if (!anchorDims(inner, form.anchor, dims)) {
        why = "a result that does not follow the anchor point by point";
        return llvm::None;
      }
      shape = form.anchor->result()->type().shape();
      for (size_t i = 0; i < dims.size(); ++i)
        at.dims[i].dim = dims[i] >= 0 && shape[dims[i]].isConstant(1) ? -1 : dims[i];
      for (int &d : out.dims)
        d = d < 0 ? -1 : dims[d];
    }
    if (form.outputs.size() == 1) {
      form.body.space.assign(shape.begin(), shape.end());
    } else if (shape != llvm::ArrayRef<Dim>(form.body.space)) {
      why = "results over different spaces";
      return llvm::None;
    }
    for (size_t i = 0; i < out.dims.size(); ++i)
      if (out.type.dim(unsigned(i)).isConstant(1))
        out.dims[i] = -1;
    int n = body.evaluate(inner, at);
    if (n < 0)
      return llvm::None;
    form.body.outputs.push_back(unsigned(n));
  }
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
