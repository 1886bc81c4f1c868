// Implements the matching and writing of prologues.
#include "codegen/cpu/shared/Prologue.h"

#include "codegen/forms/Operands.h"

namespace tenon::cpu {

/// Whether every value of `stored` is one of the float type `sums`, which kernels hand over: floats
/// are computed in it, integers come back from it (stored_as).
static bool holds(Element sums, Element stored) {
  const unsigned digits = sums == Element::F64 ? 53 : 24;
  return isFloat(stored) ? computeElement(stored) == sums : bitWidth(stored) < digits;
}

Result<unsigned> prologueTensor(const ScalarProgram &program, unsigned dim, Element sums) {
  llvm::Optional<unsigned> tensor;
  auto variesElsewhere = [&](const Access &a) {
    return llvm::any_of(a.dims,
                        [&](const AccessDim &d) { return d.dim >= 0 && d.dim != int(dim); });
  };
  for (unsigned i = 0; i < program.inputs.size(); ++i) {
    const Access &a = program.inputs[i];
    if (a.bounded)
      return Refusal{"an operand is padded with values", ""};
    if (!variesElsewhere(a))
      continue;
    if (tensor)
      return Refusal{"an operand is computed from several tensors", ""};
    tensor = i;
  }
  // With extents of 1 in all other dimensions any operand that has this one may be the tensor.
  for (unsigned i = 0; i < program.inputs.size() && !tensor; ++i)
    if (llvm::any_of(program.inputs[i].dims, [](const AccessDim &d) { return d.dim >= 0; }) ||
        program.inputs.size() == 1)
      tensor = i;
  if (!tensor)
    return Refusal{"an operand is computed from no tensor", ""};
  if (program.usesIndex())
    return Refusal{"an operand is computed from its index", ""};
  const Element stored = program.inputs[*tensor].source->type().element();
  if (!program.isPlainRead() && !holds(sums, stored))
    return Refusal{
        "an operand is computed from " + name(stored).str() + ", sums are " + name(sums).str(), ""};
  return *tensor;
}

std::string prologueArguments(StepWriter &out, const ScalarProgram &program, unsigned tensor,
                              unsigned dim) {
  if (program.isPlainRead())
    return "";
  // The functor's first parameter is the element itself.
  ScalarProgram first = program;
  std::swap(first.inputs[0], first.inputs[tensor]);
  for (ScalarNode &n : first.nodes)
    if (n.kind == ScalarNode::Input && (n.index == 0 || n.index == tensor))
      n.index = n.index == 0 ? tensor : 0;
  std::string views;
  for (unsigned i = 1; i < first.inputs.size(); ++i) {
    const Strides all = stridesOf(first.inputs[i], unsigned(first.space.size()));
    Strides along;
    along.offset = all.offset;
    along.strides.push_back(all.strides[dim]);
    views += (i > 1 ? ", " : "") + out.view(first.inputs[i].source, along);
  }
  std::string functor = out.body(first, {}, "prologue");
  // Kernels hand the element over in the type they accumulate in.
  const Element stored = first.inputs[0].source->type().element();
  if (!isFloat(stored)) {
    out.include("cpu/computed.h");
    functor = "cpu::stored_as<" + cppElement(stored).str() + ">(" + functor + ")";
  }
  return ", " + functor + ", pack(" + views + ")";
}

namespace {

/// Whether operand i of the anchor is a constant of nothing but zeros.
bool isZero(const GroupForm &form, unsigned i) {
  Value *v = constantOperand(form, i);
  if (!v)
    return false;
  const Tensor &t = **v->def()->find("value")->get<Literal>();
  for (int64_t k = 0; k < t.size(); ++k)
    if (t.intAt(k) != 0)
      return false;
  return true;
}

} // namespace

Result<> matchInt8Operands(const GroupForm &form, bool weightZeros) {
  const Operation &op = *form.anchor;
  const Element x = op.operand(0)->type().element();
  if (!isInteger(x) || bitWidth(x) > 16)
    return Refusal{"operands are no integers of 8 or 16 bits", ""};
  if (!form.anchorInputs[0].isPlainRead())
    return Refusal{"an operand computed in the group", ""};
  if (!constantOperand(form, 1))
    return Refusal{"weights known only at run time", ""};
  if (form.anchorInputs.size() > 2 && !form.anchorInputs[2].isPlainRead())
    return Refusal{"a zero point computed in the group", ""};
  if (form.anchorInputs.size() > 3 && !isZero(form, 3)) {
    if (!weightZeros)
      return Refusal{"weights with a zero point", ""};
    if (!constantOperand(form, 3))
      return Refusal{"a zero point of the weights known only at run time", ""};
  }
  return Accepted{};
}

bool hasZeroPoint(const GroupForm &form) {
  return form.anchorInputs.size() > 2 && !isZero(form, 2);
}

std::string zeroPointArguments(StepWriter &out, const GroupForm &form) {
  if (!hasZeroPoint(form))
    return "";
  const ScalarProgram &zero = form.anchorInputs[2];
  Strides one;
  one.offset = stridesOf(zero.inputs[0], unsigned(zero.space.size())).offset;
  one.strides.push_back(one.offset.node()->context->dim(0));
  out.include("cpu/computed.h");
  return ", cpu::less_zero_point{}, pack(" + out.view(zero.inputs[0].source, one) + ")";
}

} // namespace tenon::cpu
