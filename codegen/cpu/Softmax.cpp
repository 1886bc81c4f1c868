// Defines the tactic `softmax`: normalised exponentials with a fused epilogue
// (runtime/cpu/softmax.h).
#include "codegen/cpu/Tactics.h"

#include "codegen/cpu/Operands.h"

namespace tenon::cpu {
namespace {

bool match(const TacticInput &in, std::string &why) {
  return matchAnchor(in, Op::Softmax, why) && isUnbounded(in.form.anchorInputs[0], why);
}

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"softmax", {}});
}

double cost(const TacticInput &in, const Schedule &) { return rooflineCost(in, 0.1); }

void emit(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const ScalarProgram &x = form.anchorInputs[0];
  const auto rank = unsigned(form.body.space.size());
  const auto axis = unsigned(op.intAttr("axis"));

  // The normalised dimension comes last, the others in the order of memory.
  std::vector<Strides> operands = bodyStrides(form);
  for (const Access &a : x.inputs)
    operands.push_back(stridesOf(a, rank));
  llvm::SmallVector<unsigned, 6> others;
  for (unsigned d = 0; d < rank; ++d)
    if (d != axis)
      others.push_back(d);
  llvm::SmallVector<bool, 6> kept = indexedDims(form.body);
  const auto indexedBefore = indexedDims(x);
  for (unsigned d = 0; d < rank; ++d)
    kept[d] = kept[d] || indexedBefore[d];
  MergedDims dims = mergeDims(form.body.space, byStride(others, operands[0]), operands, kept);
  dims.placeOf[axis] = int(dims.extents.size());
  dims.extents.push_back(form.body.space[axis]);
  dims.inner.push_back(axis);

  out.include("cpu/softmax.h");
  const std::string view = operandView(out, x, dims, dims.placeOf, "prologue");
  const std::string body = out.body(form.body, {op.result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto x = " + view + ";");
  w.line("const auto outs = " + out.outputs(form, dims) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, dims, dims.placeOf) + ";");
  w.line(std::string("cpu::softmax<") + (op.boolAttr("log") ? "true" : "false") + ">(" +
         out.dims().list(dims.extents) + ", x, outs, ins, " + body + ", *f.workers);");
}

} // namespace

const Tactic kSoftmax = {
    "softmax", "softmax along one dimension", match, enumerate, cost, nullptr, nullptr, emit};

} // namespace tenon::cpu
