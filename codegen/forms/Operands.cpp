// Implements what tactics share.
#include "codegen/forms/Operands.h"

#include "llvm/ADT/Twine.h"

#include <algorithm>

namespace tenon {

Strides MergedDims::operator()(const Strides &s) const {
  Strides r;
  r.offset = s.offset;
  for (unsigned d : inner)
    r.strides.push_back(s.strides[d]);
  return r;
}

MergedDims mergeDims(llvm::ArrayRef<Dim> space, llvm::ArrayRef<unsigned> order,
                     llvm::ArrayRef<Strides> operands, llvm::ArrayRef<bool> kept) {
  MergedDims m;
  m.placeOf.assign(space.size(), -1);
  auto isKept = [&](unsigned d) { return !kept.empty() && kept[d]; };
  for (unsigned d : order) {
    if (space[d].isConstant(1) && !isKept(d))
      continue;
    bool merges = !m.inner.empty() && !isKept(d) && !isKept(m.inner.back());
    for (const Strides &s : operands)
      merges = merges && s.strides[m.inner.back()] == s.strides[d] * space[d];
    if (merges) {
      m.placeOf[m.inner.back()] = -1;
      m.extents.back() = m.extents.back() * space[d];
      m.inner.back() = d;
    } else {
      m.extents.push_back(space[d]);
      m.inner.push_back(d);
    }
    m.placeOf[d] = int(m.inner.size()) - 1;
  }
  return m;
}

llvm::SmallVector<unsigned, 6> byStride(llvm::ArrayRef<unsigned> dims, const Strides &s) {
  llvm::SmallVector<unsigned, 6> order(dims.begin(), dims.end());
  // By upper bounds: with run-time extents the strides are expressions.
  std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) {
    return s.strides[a].upper() > s.strides[b].upper();
  });
  return order;
}

std::vector<Strides> bodyStrides(const GroupForm &form) {
  const auto rank = unsigned(form.body.space.size());
  std::vector<Strides> all;
  for (const OutputForm &o : form.outputs)
    all.push_back(stridesOf(o, rank));
  for (const Access &a : form.body.inputs)
    all.push_back(stridesOf(a, rank));
  return all;
}

llvm::SmallVector<bool, 6> indexedDims(const ScalarProgram &program) {
  llvm::SmallVector<bool, 6> indexed(program.space.size(), false);
  for (const ScalarNode &n : program.nodes)
    if (n.indexDim >= 0)
      indexed[n.indexDim] = true;
  return indexed;
}

llvm::SmallVector<int, 6> inPlaceDims(unsigned rank) {
  llvm::SmallVector<int, 6> places;
  for (unsigned d = 0; d < rank; ++d)
    places.push_back(int(d));
  return places;
}

Result<> isUnbounded(const ScalarProgram &program) {
  for (const Access &a : program.inputs)
    if (a.bounded)
      return Refusal{"a padded tensor is read", ""};
  return Accepted{};
}

Result<> matchAnchor(const GroupQuery &in, Op kind) {
  if (!in.form.anchor || !in.form.anchor->is(kind))
    return Refusal{"no " + opInfo(kind).name.str(), ""};
  return isUnbounded(in.form.body);
}

Result<> isWithoutScales(const Operation &op) {
  if (op.is(Op::MatMul) && op.has("block"))
    return Refusal{"weights with scales", ""};
  return Accepted{};
}

Result<> matchNarrowProduct(const GroupQuery &in) {
  if (auto product = matchAnchor(in, Op::MatMul); !product)
    return product;
  const GroupForm &f = in.form;
  if (!f.anchor->has("block"))
    return Refusal{"weights without scales", ""};
  for (unsigned i = 1; i < f.anchorInputs.size(); ++i)
    if (!constantOperand(f, i))
      return Refusal{"weights known only at run time", ""};
  return Accepted{};
}

Value *constantOperand(const GroupForm &form, unsigned i) {
  const ScalarProgram &p = form.anchorInputs[i];
  if (!p.isPlainRead())
    return nullptr;
  Value *v = form.group->operand(p.inputs[0].source->index());
  return v->def() && v->def()->is(Op::Constant) ? v : nullptr;
}

std::string inputsIn(StepWriter &out, const ScalarProgram &program, StepWriter::Change change,
                     llvm::ArrayRef<int> placeOf) {
  LoopNest nest;
  nest.placeOf.assign(placeOf.begin(), placeOf.end());
  for (const Access &a : program.inputs)
    nest.inputs.push_back(change(stridesOf(a, unsigned(program.space.size()))));
  nest.inside.resize(nest.inputs.size());
  return out.inputs(program, nest);
}

std::string packWithFirst(llvm::StringRef first, llvm::StringRef ins) {
  constexpr llvm::StringLiteral kPack = "pack(";
  const llvm::StringRef rest = ins.drop_front(kPack.size());
  return (llvm::Twine(kPack) + first + (rest == ")" ? "" : ", ") + rest).str();
}

Result<> matchAlone(const GroupQuery &in, Op op) {
  if (auto anchor = matchAnchor(in, op); !anchor)
    return anchor;
  for (const ScalarProgram &p : in.form.anchorInputs)
    if (!p.isPlainRead())
      return Refusal{"an operand computed in the group", ""};
  if (!in.form.bodyIsIdentity())
    return Refusal{"an epilogue", ""};
  return Accepted{};
}

std::string plainView(StepWriter &out, const ScalarProgram &program) {
  return out.view(program.inputs[0], unsigned(program.space.size()));
}
std::string resultView(StepWriter &out, const GroupForm &form) {
  return out.view(form.outputs[0], 0, unsigned(form.body.space.size()));
}
std::string single(StepWriter &out, Dim d) { return out.dims().list({d}) + ".head"; }

Element accumulatorOf(Element e) {
  if (isInteger(e) && bitWidth(e) < 32)
    return Element::I32;
  return computeElement(e);
}

} // namespace tenon
