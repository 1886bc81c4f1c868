// Implements the splitting of reductions.
#include "codegen/forms/ReductionForm.h"

#include "ir/Scalar.h"

#include <map>
#include <set>

namespace tenon {
namespace {

unsigned input(ScalarProgram &p, unsigned index, Element e) {
  ScalarNode n;
  n.kind = ScalarNode::Anchor;
  n.index = index;
  n.element = e;
  p.nodes.push_back(n);
  return unsigned(p.nodes.size()) - 1;
}

/// The operands' programs side by side, over the iteration space; gives each operand's node.
std::vector<unsigned> gatherInputs(const GroupForm &form, ScalarProgram &p) {
  const Operation &op = *form.anchor;
  const IntLists &maps = op.intListsAttr("maps");
  for (Dim d : op.dimsAttr("space"))
    p.space.push_back(d);
  auto set = [&](int64_t dim, Dim extent) {
    if (dim >= int64_t(p.space.size()))
      p.space.resize(size_t(dim) + 1);
    p.space[size_t(dim)] = extent;
  };
  std::vector<unsigned> values;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    const ScalarProgram &own = form.anchorInputs[i];
    auto dim = [&](int d) { return d < 0 ? -1 : int(maps[i][d]); };
    for (size_t j = 0; j < maps[i].size(); ++j)
      if (maps[i][j] >= 0)
        set(maps[i][j], own.space[j]);
    const unsigned firstInput = unsigned(p.inputs.size()), firstNode = unsigned(p.nodes.size());
    for (Access a : own.inputs) {
      for (AccessDim &d : a.dims)
        d.dim = dim(d.dim);
      p.inputs.push_back(a);
    }
    for (ScalarNode n : own.nodes) {
      if (n.kind == ScalarNode::Input)
        n.index += firstInput;
      for (unsigned &k : n.operands)
        k += firstNode;
      n.indexDim = dim(n.indexDim);
      p.nodes.push_back(n);
    }
    values.push_back(firstNode + own.outputs[0]);
  }
  return values;
}

/// Splits the region of a reduce into work on elements and the merging of accumulators.
class RegionSplit {
public:
  explicit RegionSplit(const GroupForm &form)
      : op_(*form.anchor), region_(form.anchor->region()), end_(*region_.terminator()),
        count_(form.anchor->numResults()) {
    const std::vector<unsigned> elements = gatherInputs(form, r_.pre);
    for (unsigned i = 0; i < count_; ++i)
      fromAccumulators_.insert(region_.argument(i));
    for (unsigned i = 0; i < op_.numOperands(); ++i)
      fromElements_[region_.argument(count_ + i)] = elements[i];
  }

  ReductionForm run() {
    separate();
    const std::vector<Value *> met = metByAccumulators(), taken = takenFromElements();
    r_.splits = llvm::all_of(met, [](Value *v) { return v; }) &&
                llvm::all_of(taken, [&](Value *v) { return llvm::is_contained(met, v); }) &&
                isClearWhichIsMeant(met);
    std::vector<Value *> leaves = r_.splits ? met : taken;
    if (leaves.empty() && op_.numOperands())
      leaves.push_back(region_.argument(count_)); // elements that only count
    combine(leaves);
    return std::move(r_);
  }

private:
  /// Which values are made of elements (and indices) only, which of accumulators, too.
  void separate() {
    for (Operation &s : region_) {
      if (s.isTerminator())
        break;
      if (llvm::any_of(s.operands(), [&](Value *v) { return fromAccumulators_.count(v); })) {
        fromAccumulators_.insert(s.result());
        continue;
      }
      ScalarNode n;
      n.op = &s;
      n.element = s.result()->type().element();
      for (Value *v : s.operands())
        n.operands.push_back(fromElements_[v]);
      if (s.is(Op::Index))
        n.indexDim = int(s.intAttr("dim"));
      r_.pre.nodes.push_back(n);
      fromElements_[s.result()] = unsigned(r_.pre.nodes.size()) - 1;
    }
  }

  bool isLeaf(Value *v) const {
    return fromElements_.count(v) && !(v->def() && v->def()->is(Op::Const));
  }

  /// The one value made of elements that each accumulator meets in what is yielded for it; null
  /// where there is none, or several.
  std::vector<Value *> metByAccumulators() const {
    std::vector<Value *> met(count_, nullptr);
    for (unsigned i = 0; i < count_; ++i) {
      Operation *last = end_.operand(i)->def();
      bool meets = false;
      for (Value *v : last ? last->operands() : llvm::SmallVector<Value *, 4>()) {
        meets |= v == region_.argument(i);
        if (isLeaf(v) && v->type() == region_.argument(i)->type()) {
          if (met[i] && met[i] != v)
            meets = false;
          met[i] = v;
        }
      }
      if (!meets)
        met[i] = nullptr;
    }
    return met;
  }

  /// Everything made of elements that reaches the merging.
  std::vector<Value *> takenFromElements() const {
    std::vector<Value *> taken;
    for (Operation &s : region_)
      if (s.isTerminator() || fromAccumulators_.count(s.result()))
        for (Value *v : s.operands())
          if (isLeaf(v) && !llvm::is_contained(taken, v))
            taken.push_back(v);
    return taken;
  }

  /// One value for two accumulators is two partial results: only what makes an accumulator may
  /// read it.
  bool isClearWhichIsMeant(llvm::ArrayRef<Value *> met) const {
    for (Value *v : met)
      if (llvm::count(met, v) > 1)
        for (Use *u : v->uses()) {
          const Operation *user = u->owner();
          if (user->numResults() && fromAccumulators_.count(user->result()) &&
              llvm::none_of(end_.operands(), [&](Value *y) { return y->def() == user; }))
            return false;
        }
    return true;
  }

  /// The merging, over accumulators and what `pre` makes.
  void combine(llvm::ArrayRef<Value *> leaves) {
    std::map<const Value *, unsigned> nodes;
    std::vector<unsigned> leafNodes;
    for (unsigned i = 0; i < count_; ++i) {
      const Element e = region_.argument(i)->type().element();
      r_.accumulators.push_back(e);
      nodes[region_.argument(i)] = input(r_.combine, i, e);
    }
    for (unsigned i = 0; i < leaves.size(); ++i) {
      const Element e = leaves[i]->type().element();
      r_.values.push_back(e);
      r_.pre.outputs.push_back(fromElements_[leaves[i]]);
      leafNodes.push_back(input(r_.combine, count_ + i, e));
      nodes.emplace(leaves[i], leafNodes.back());
    }
    for (Operation &s : region_) {
      if (s.isTerminator() || (!fromAccumulators_.count(s.result()) && !s.is(Op::Const)))
        continue;
      ScalarNode n;
      n.op = &s;
      n.element = s.result()->type().element();
      unsigned yields = count_; // the accumulator that this operation makes, if any
      for (unsigned i = 0; i < count_; ++i)
        if (end_.operand(i) == s.result())
          yields = i;
      for (Value *v : s.operands())
        n.operands.push_back(r_.splits && yields < count_ && v == leaves[yields] ? leafNodes[yields]
                                                                                 : nodes[v]);
      r_.combine.nodes.push_back(n);
      nodes[s.result()] = unsigned(r_.combine.nodes.size()) - 1;
    }
    for (Value *v : end_.operands())
      r_.combine.outputs.push_back(nodes[v]);
  }

  const Operation &op_;
  Region &region_;
  Operation &end_;
  const unsigned count_;                           // accumulators
  std::map<const Value *, unsigned> fromElements_; // node of pre
  std::set<const Value *> fromAccumulators_;
  ReductionForm r_;
};

} // namespace

ReductionForm reduction(const GroupForm &form) { return RegionSplit(form).run(); }

//===----------------------------------------------------------------------===//
// Loops and text
//===----------------------------------------------------------------------===//

namespace {
/// Strides over the kept dimensions, spread over all.
Strides spread(const ReductionNest &n, const Strides &s) {
  Strides wide;
  wide.offset = s.offset;
  wide.strides.assign(n.rank, s.offset.node()->context->dim(0));
  for (size_t i = 0; i < n.keptDims.size(); ++i)
    wide.strides[n.keptDims[i]] = s.strides[i];
  return wide;
}
} // namespace

Strides ReductionNest::overKept(const Strides &s) const {
  Strides t = kept(spread(*this, s));
  if (noneKept)
    t.strides.push_back(s.offset.node()->context->dim(0));
  return t;
}

Strides ReductionNest::overAll(const Strides &s) const {
  const Dim zero = s.offset.node()->context->dim(0);
  Strides t = kept(s);
  if (noneKept)
    t.strides.push_back(zero);
  const Strides u = reduced(s);
  t.strides.append(u.strides.begin(), u.strides.end());
  if (noneReduced)
    t.strides.push_back(zero);
  return t;
}

ReductionNest reductionNest(const GroupForm &form, const ReductionForm &r, bool atLeastOne) {
  const Operation &op = *form.anchor;
  ReductionNest n;
  n.rank = unsigned(r.pre.space.size());
  // Kept dimensions by what is written, reduced ones by what is read.
  llvm::SmallVector<unsigned, 6> reducedDims;
  for (unsigned d = 0; d < n.rank; ++d)
    (llvm::is_contained(op.intsAttr("axes"), int64_t(d)) ? reducedDims : n.keptDims).push_back(d);
  std::vector<Strides> reads, writes = bodyStrides(form);
  for (const Access &a : r.pre.inputs)
    reads.push_back(stridesOf(a, n.rank));
  for (Strides &s : writes)
    s = spread(n, s);
  std::vector<Strides> all = reads;
  all.insert(all.end(), writes.begin(), writes.end());
  llvm::SmallVector<bool, 6> indexed = indexedDims(r.pre);
  const auto indexedAfter = indexedDims(form.body);
  for (size_t i = 0; i < n.keptDims.size(); ++i)
    indexed[n.keptDims[i]] = indexed[n.keptDims[i]] || indexedAfter[i];
  n.kept = mergeDims(r.pre.space, byStride(n.keptDims, writes[0]), all, indexed);
  n.reduced = mergeDims(r.pre.space, reads.empty() ? reducedDims : byStride(reducedDims, reads[0]),
                        reads, indexed);
  const Dim one = op.result()->type().context().dim(1);
  n.noneKept = atLeastOne && n.kept.extents.empty();
  n.noneReduced = atLeastOne && n.reduced.extents.empty();
  if (n.noneKept)
    n.kept.extents.push_back(one);
  if (n.noneReduced)
    n.reduced.extents.push_back(one);
  n.places.assign(n.rank, -1);
  for (unsigned d = 0; d < n.rank; ++d)
    n.places[d] = n.kept.placeOf[d] >= 0      ? n.kept.placeOf[d]
                  : n.reduced.placeOf[d] >= 0 ? int(n.kept.extents.size()) + n.reduced.placeOf[d]
                                              : -1;
  for (unsigned d : n.keptDims)
    n.keptPlaces.push_back(n.kept.placeOf[d]);
  return n;
}

namespace {
/// `accumulators`, whose identities are `init`, and `values` are what `program` takes, in order.
std::string writeCombiner(StepWriter &out, const ScalarProgram &program,
                          llvm::ArrayRef<Element> accumulators, llvm::ArrayRef<Element> values,
                          llvm::ArrayRef<double> init) {
  llvm::SmallVector<Element, 4> parameters(accumulators.begin(), accumulators.end());
  parameters.append(values.begin(), values.end());
  const std::string functor = out.body(program, parameters, "step");
  std::string identity;
  for (size_t i = 0; i < accumulators.size(); ++i) {
    const Element e = accumulators[i];
    const std::string value =
        isFloat(e) ? cppScalar(e, init[i]) : cppScalar(e, truncateToInt(e, init[i]));
    identity += (i ? ", " : "") + ("broadcast<L>(" + value + ")");
  }
  SourceWriter &d = out.declarations();
  const std::string name = out.name() + "_combine";
  d.open("struct " + name + " : " + llvm::StringRef(functor).drop_back(2).str());
  d.line("template <class L>");
  d.open("TENON_FN auto identity(L) const");
  d.line("return " + (accumulators.size() > 1 ? "pack(" + identity + ")" : identity) + ";");
  d.close();
  d.close("};");
  return name + "{}";
}
} // namespace

std::string writeCombiner(const GroupForm &form, const ReductionForm &r, StepWriter &out) {
  return writeCombiner(out, r.combine, r.accumulators, r.values, form.anchor->floatsAttr("init"));
}

std::string writeScanCombiner(const GroupForm &form, StepWriter &out) {
  Region &region = form.anchor->region();
  const Element e = form.anchor->result()->type().element();
  ScalarProgram combine;
  std::map<const Value *, unsigned> nodes;
  for (unsigned i = 0; i < 2; ++i)
    nodes[region.argument(i)] = input(combine, i, e);
  for (Operation &s : region) {
    if (s.isTerminator()) {
      combine.outputs.push_back(nodes[s.operand(0)]);
      break;
    }
    ScalarNode n;
    n.op = &s;
    n.element = s.result()->type().element();
    for (Value *v : s.operands())
      n.operands.push_back(nodes[v]);
    combine.nodes.push_back(n);
    nodes[s.result()] = unsigned(combine.nodes.size()) - 1;
  }
  return writeCombiner(out, combine, {e}, {e}, {form.anchor->floatAttr("init")});
}

} // namespace tenon
