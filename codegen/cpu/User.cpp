// Defines the tactic `user`: a call of the function that the user wrote for an operator of their
// own.
//
// The attribute `function` names it; it takes a pointer to each operand and one to the result, all
// dense and row-major. With the attribute `header` its declaration comes from there, else it is
// declared here as a C function.
#include "codegen/cpu/Tactics.h"

#include "codegen/cpu/Operands.h"

namespace tenon::cpu {
namespace {

bool match(const TacticInput &in, std::string &why) {
  if (!matchAnchor(in, Op::User, why))
    return false;
  const GroupForm &f = in.form;
  if (f.anchor->stringAttr("function").empty()) {
    why = "operator " + f.anchor->stringAttr("name").str() + " names no function for this target";
    return false;
  }
  auto isDense = [](Type t) { return t.hasStaticShape() && t.layout().isRowMajor(); };
  for (const ScalarProgram &p : f.anchorInputs)
    if (!p.isPlainRead() || !isDense(p.inputs[0].source->type())) {
      why = "the function takes dense row-major tensors of shapes known when compiling";
      return false;
    }
  if (!f.bodyIsIdentity() || f.outputs.size() != 1 || !isDense(f.group->result(0)->type())) {
    why = "the function's result is changed in the group";
    return false;
  }
  return true;
}

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"user", {}});
}

double cost(const TacticInput &in, const Schedule &) { return rooflineCost(in, 0.1); }

void emit(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const std::string function = op.stringAttr("function").str();
  Context &c = op.result()->type().context();
  std::string parameters, values;
  for (const ScalarProgram &p : form.anchorInputs) {
    Value *source = p.inputs[0].source;
    parameters += "const " + cppElement(source->type().element()).str() + " *, ";
    values += out.pointer(source, c.dim(0)) + ", ";
  }
  parameters += cppElement(op.result()->type().element()).str() + " *";
  values += out.resultPointer(0, c.dim(0));
  if (op.has("header"))
    out.includeUser(op.stringAttr("header"));
  else
    out.declarations().line("extern \"C\" void " + function + "(" + parameters + ");");
  out.code().line((op.has("header") ? "::" : "") + function + "(" + values + ");");
}

} // namespace

const Tactic kUser = {
    "user", "a function that the user brings", match, enumerate, cost, nullptr, nullptr, emit};

} // namespace tenon::cpu
