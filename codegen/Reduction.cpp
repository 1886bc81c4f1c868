// Implements the splitting of reductions.
#include "codegen/Reduction.h"

#include "ir/Scalar.h"

#include <map>

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

} // namespace

Reduction reduction(const GroupForm &form) {
  const Operation &op = *form.anchor;
  Region &region = op.region();
  Operation *end = region.terminator();
  const unsigned count = op.numResults();
  Reduction r;
  const std::vector<unsigned> elements = gatherInputs(form, r.pre);

  // Which values are made of elements (and indices) only, which of accumulators, too.
  std::map<const Value *, unsigned> fromElements; // node of r.pre
  std::map<const Value *, bool> fromAccumulators;
  for (unsigned i = 0; i < count; ++i)
    fromAccumulators[region.argument(i)] = true;
  for (unsigned i = 0; i < op.numOperands(); ++i)
    fromElements[region.argument(count + i)] = elements[i];
  auto isLeaf = [&](Value *v) {
    return fromElements.count(v) && !(v->def() && v->def()->is(Op::Const));
  };
  for (Operation &s : region) {
    if (s.isTerminator())
      break;
    if (llvm::any_of(s.operands(), [&](Value *v) { return fromAccumulators.count(v); })) {
      fromAccumulators[s.result()] = true;
      continue;
    }
    ScalarNode n;
    n.op = &s;
    n.element = s.result()->type().element();
    for (Value *v : s.operands())
      n.operands.push_back(fromElements[v]);
    if (s.is(Op::Index))
      n.indexDim = int(s.intAttr("dim"));
    r.pre.nodes.push_back(n);
    fromElements[s.result()] = unsigned(r.pre.nodes.size()) - 1;
  }

  // The one such value that each accumulator meets in what is yielded for it.
  std::vector<Value *> leaves(count, nullptr);
  r.splits = true;
  for (unsigned i = 0; i < count; ++i) {
    Operation *last = end->operand(i)->def();
    bool meets = false;
    for (Value *v : last ? last->operands() : llvm::SmallVector<Value *, 4>()) {
      meets |= v == region.argument(i);
      if (isLeaf(v) && v->type() == region.argument(i)->type()) {
        if (leaves[i] && leaves[i] != v)
          meets = false;
        leaves[i] = v;
      }
    }
    r.splits &= meets && leaves[i];
  }
  // Nothing else made of elements may reach the combiner.
  std::vector<Value *> taken;
  for (Operation &s : region)
    if (s.isTerminator() || fromAccumulators.count(s.result()))
      for (Value *v : s.operands())
        if (isLeaf(v) && !llvm::is_contained(taken, v))
          taken.push_back(v);
  for (Value *v : taken)
    r.splits &= llvm::is_contained(leaves, v);
  // One value for two accumulators is two partial results: it must be clear which is meant.
  for (unsigned i = 0; i < count; ++i)
    if (llvm::count(leaves, leaves[i]) > 1)
      for (Use *u : leaves[i] ? leaves[i]->uses() : llvm::SmallVector<Use *, 4>())
        r.splits &=
            !fromAccumulators.count(u->owner()->numResults() ? u->owner()->result() : nullptr) ||
            llvm::any_of(end->operands(), [&](Value *y) { return y->def() == u->owner(); });
  if (!r.splits) {
    leaves = taken;
    if (leaves.empty() && op.numOperands())
      leaves.push_back(region.argument(count)); // elements that only count
  }

  std::map<const Value *, unsigned> nodes;
  std::vector<unsigned> leafNodes;
  for (unsigned i = 0; i < count; ++i) {
    const Element e = region.argument(i)->type().element();
    r.accumulators.push_back(e);
    nodes[region.argument(i)] = input(r.combine, i, e);
  }
  for (unsigned i = 0; i < leaves.size(); ++i) {
    const Element e = leaves[i]->type().element();
    r.values.push_back(e);
    r.pre.outputs.push_back(fromElements[leaves[i]]);
    leafNodes.push_back(input(r.combine, count + i, e));
    nodes.emplace(leaves[i], leafNodes.back());
  }
  for (Operation &s : region) {
    if (s.isTerminator() || (!fromAccumulators.count(s.result()) && !s.is(Op::Const)))
      continue;
    ScalarNode n;
    n.op = &s;
    n.element = s.result()->type().element();
    unsigned yields = count; // the accumulator that this operation makes, if any
    for (unsigned i = 0; i < count; ++i)
      if (end->operand(i) == s.result())
        yields = i;
    for (Value *v : s.operands())
      n.operands.push_back(r.splits && yields < count && v == leaves[yields] ? leafNodes[yields]
                                                                             : nodes[v]);
    r.combine.nodes.push_back(n);
    nodes[s.result()] = unsigned(r.combine.nodes.size()) - 1;
  }
  for (Value *v : end->operands())
    r.combine.outputs.push_back(nodes[v]);
  return r;
}

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

ReductionNest reductionNest(const GroupForm &form, const Reduction &r, bool atLeastOne) {
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

std::string writeCombiner(const GroupForm &form, const Reduction &r, StepWriter &out) {
  llvm::SmallVector<Element, 4> parameters(r.accumulators.begin(), r.accumulators.end());
  parameters.append(r.values.begin(), r.values.end());
  const std::string functor = out.body(r.combine, parameters, "step");
  const Floats &init = form.anchor->floatsAttr("init");
  std::string values;
  for (size_t i = 0; i < r.accumulators.size(); ++i) {
    const Element e = r.accumulators[i];
    const std::string value =
        isFloat(e) ? cppScalar(e, init[i]) : cppScalar(e, truncateToInt(e, init[i]));
    values += (i ? ", " : "") + ("broadcast<L>(" + value + ")");
  }
  SourceWriter &d = out.declarations();
  const std::string name = out.name() + "_combine";
  d.open("struct " + name + " : " + llvm::StringRef(functor).drop_back(2).str());
  d.line("template <class L>");
  d.open("TENON_FN auto identity(L) const");
  d.line("return " + (r.accumulators.size() > 1 ? "pack(" + values + ")" : values) + ";");
  d.close();
  d.close("};");
  return name + "{}";
}

} // namespace tenon
