// Defines the tactics `softmax`: normalised exponentials with a fused epilogue
// (runtime/cpu/softmax.h), and `softmax_bytes`: the same in integers (runtime/cpu/softmax_bytes.h).
#include "codegen/cpu/Tactics.h"

#include "codegen/RowNest.h"
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
  const RowNest nest = rowNest(form, {op.intAttr("axis")}, /*atLeastOne=*/false);
  out.include("cpu/softmax.h");
  const std::string view = operandView(out, x, nest, nest.placeOf, "prologue");
  const std::string body = out.body(form.body, {op.result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto x = " + view + ";");
  w.line("const auto outs = " + out.outputs(form, nest) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, nest, nest.placeOf) + ";");
  w.line(std::string("cpu::softmax<") + (op.boolAttr("log") ? "true" : "false") + ">(" +
         out.dims().list(nest.extents) + ", x, outs, ins, " + body + ", *f.workers);");
}

bool matchBytes(const TacticInput &in, std::string &why) {
  if (!matchAnchor(in, Op::QuantizedSoftmax, why))
    return false;
  const ScalarProgram &x = in.form.anchorInputs[0];
  if (!x.isPlainRead())
    why = "an input that is not read as it lies";
  return x.isPlainRead();
}

void enumerateBytes(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"softmax_bytes", {}});
}

void emitBytes(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const RowNest nest = rowNest(form, {op.intAttr("axis")}, /*atLeastOne=*/false);
  out.include("cpu/softmax_bytes.h");
  StepWriter::Config cfg(out, "config", "");
  for (const char *name : {"multiplier", "shift", "zero"})
    cfg.number(name, op.intAttr(name));
  const std::string config = cfg.finish();
  const std::string view = operandView(out, form.anchorInputs[0], nest, nest.placeOf, "prologue");
  const Element to = op.result()->type().element();
  const std::string body = out.body(form.body, {to});
  SourceWriter &w = out.code();
  w.line("const auto x = " + view + ";");
  w.line("const auto outs = " + out.outputs(form, nest) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, nest, nest.placeOf) + ";");
  std::string table;
  for (int64_t v : op.intsAttr("table"))
    table += (table.empty() ? "" : ", ") + std::to_string(v);
  w.line("static constexpr uint32_t table[256] = {" + table + "};");
  w.line("cpu::softmax_bytes<" + cppElement(to).str() + ">(" + config + ", " +
         out.dims().list(nest.extents) + ", x, table, outs, ins, " + body + ", *f.workers);");
}

} // namespace

const Tactic kSoftmaxBytes = {"softmax_bytes",
                              "softmax of 8-bit integers in integers",
                              matchBytes,
                              enumerateBytes,
                              cost,
                              nullptr,
                              nullptr,
                              emitBytes};
const Tactic kSoftmax = {
    "softmax", "softmax along one dimension", match, enumerate, cost, nullptr, nullptr, emit};

} // namespace tenon::cpu
