// Defines the tactic `softmax`: normalised exponentials along one dimension with a fused epilogue
// (runtime/cuda/softmax.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cuda/Common.h"

namespace tenon::cuda {
namespace {

bool match(const TacticInput &in, std::string &why) {
  return matchAnchor(in, Op::Softmax, why) && isUnbounded(in.form.anchorInputs[0], why);
}

/// The space with the normalised dimension last and at least one before it.
struct Nest {
  MergedDims dims;
  bool noneBefore = false;

  Strides operator()(const Strides &s) const {
    Strides r = dims(s);
    if (noneBefore)
      r.strides.insert(r.strides.begin(), s.offset.node()->context->dim(0));
    return r;
  }
};

Nest nestOf(const GroupForm &form) {
  const ScalarProgram &x = form.anchorInputs[0];
  const auto rank = unsigned(form.body.space.size());
  const auto axis = unsigned(form.anchor->intAttr("axis"));
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
  Nest n;
  n.dims = mergeDims(form.body.space, byStride(others, operands[0]), operands, kept);
  n.noneBefore = n.dims.extents.empty();
  if (n.noneBefore)
    n.dims.extents.push_back(form.anchor->result()->type().context().dim(1));
  n.dims.placeOf[axis] = int(n.dims.extents.size());
  n.dims.extents.push_back(form.body.space[axis]);
  n.dims.inner.push_back(axis);
  return n;
}

void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  const Nest nest = nestOf(in.form);
  const Strides y = nest(stridesOf(in.form.outputs[0], unsigned(in.form.body.space.size())));
  const size_t last = nest.dims.extents.size() - 1;
  const int64_t n = nest.dims.extents[last].upper();
  const bool across = !y.strides[last].isConstant(1) && y.strides[last - 1].isConstant(1);
  int64_t lanes = 1;
  while (lanes < 256 && lanes * 4 < n)
    lanes *= 2;
  out.push_back(
      {"softmax", {{"lanes", across ? std::min<int64_t>(lanes, 32) : lanes}, {"across", across}}});
}

double cost(const TacticInput &in, const Schedule &s) {
  const Work w = workOf(*in.form.group);
  const Nest nest = nestOf(in.form);
  Effort e;
  e.bytes = double(w.bytes) * 1.5;
  e.operations = w.flops * 8;
  e.efficiency = 0.2;
  e.blocks = double(in.form.anchor->result()->type().upperElements()) /
             double(std::max<int64_t>(1, nest.dims.extents.back().upper())) *
             double(*s.get("lanes")) / 256;
  return microseconds(in.level, e);
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const Nest nest = nestOf(form);
  out.include("cuda/softmax.cuh");
  StepWriter::Config cfg(out, "config");
  cfg.extents("space", nest.dims.extents).flag("log", op.boolAttr("log"));
  cfg.number("lanes", *s.get("lanes")).flag("across", *s.get("across"));
  if (isLarge(form))
    cfg.flag("large", true);
  const std::string config = cfg.finish();
  llvm::SmallVector<int, 6> places(nest.dims.placeOf.begin(), nest.dims.placeOf.end());
  const std::string x = operandView(out, form.anchorInputs[0], nest, places, "prologue");
  const std::string body = out.body(form.body, {op.result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto x = " + x + ";");
  w.line("const auto outs = " + out.outputs(form, nest) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, nest, places) + ";");
  launch(out, "softmax", {config, "x", "outs", "ins", body});
}

} // namespace

const Tactic kSoftmax = {
    "softmax", "softmax along one dimension", match, enumerate, cost, nullptr, nullptr, emit};

} // namespace tenon::cuda
