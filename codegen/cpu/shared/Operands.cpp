// Implements what the tactics of C++ targets share.
#include "codegen/cpu/shared/Operands.h"

#include "codegen/core/Work.h"
#include "codegen/cpu/shared/Prologue.h"

#include <algorithm>

namespace tenon::cpu {

Result<> multiplies(const GroupQuery &in, Factors factors) {
  if (factors == Factors::Bytes)
    return matchInt8Operands(in.form);
  const Operation &op = *in.form.anchor;
  if (!isFloat(op.operand(0)->type().element()))
    return Refusal{"integer operands", ""};
  if (factors == Factors::Floats)
    return Accepted{};
  for (unsigned i = 0; i < 2; ++i)
    if (op.operand(i)->type().element() != Element::BF16)
      return Refusal{"operands that are not bf16", ""};
  if (in.level.simdWidth == 1)
    return Refusal{"no vectors", ""};
  return Accepted{};
}

std::string operandView(StepWriter &out, const ScalarProgram &program, StepWriter::Change change,
                        llvm::ArrayRef<int> placeOf, llvm::StringRef suffix) {
  if (program.isPlainRead()) {
    const Access &a = program.inputs[0];
    return out.view(a.source, change(stridesOf(a, unsigned(program.space.size()))));
  }
  out.include("cpu/computed.h");
  const std::string body = out.body(program, {}, suffix);
  return "cpu::make_computed_view<" +
         cppElement(computeElement(program.nodes[program.outputs[0]].element)).str() + ", " +
         std::to_string(rankThrough(program, change)) + ">(" +
         inputsIn(out, program, change, placeOf) + ", " + body + ")";
}

std::string zeroPointView(StepWriter &out, const GroupForm &form, unsigned i, unsigned rank,
                          unsigned along, llvm::StringRef suffix) {
  if (i >= form.anchorInputs.size())
    return "cpu::no_zero_point{}";
  const ScalarProgram &z = form.anchorInputs[i];
  const auto spread = [&](const Strides &s) {
    Strides all;
    all.offset = s.offset;
    all.strides.assign(rank, s.offset.node()->context->dim(0));
    if (!s.strides.empty() && !z.space[0].isConstant(1))
      all.strides[along] = s.strides[0];
    return all;
  };
  return operandView(out, z, spread, inPlaceDims(rank), suffix);
}

unsigned lanesFor(const TargetLevel &level, Element e) {
  return bitWidth(e) == 64 ? std::max(1u, level.simdWidth / 2) : level.simdWidth;
}

std::string lanesType(unsigned width) {
  return width == 1 ? "scalar_lanes" : "simd<" + std::to_string(width) + ">";
}

double storageCost(const GroupQuery &in) {
  const Element e = in.form.anchor->operand(0)->type().element();
  return isFloat(e) && bitWidth(e) == 16 && in.level.simdWidth > 1 ? 2 : 1;
}

double rooflineCost(const GroupQuery &in, double efficiency) {
  const Work w = workOf(*in.form.group);
  return std::max(w.flops / (in.level.peakGflops * efficiency * 1e3),
                  double(w.bytes) / (in.level.bandwidthGBs * 1e3));
}

double directCost(const GroupQuery &in) {
  return rooflineCost(in, 0.05 / std::max(1u, in.level.simdWidth));
}

} // namespace tenon::cpu
