// Defines the tactic `user`: a call of the function that the user wrote for an operator of their
// own.
//
// The attribute `function` names it; it takes a pointer to each operand, one to the result, all
// dense and row-major, and the `extents`. With the attribute `header` its declaration comes from
// there, else it is declared here as a C function.
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"

namespace tenon::cpu {
namespace {

/// Whether the elements of `space` follow one another in memory, the last dimension fastest.
bool isDense(const Strides &s, llvm::ArrayRef<Dim> space) {
  Dim pitch;
  for (unsigned i = unsigned(space.size()); i-- > 0;) {
    if (space[i].isConstant(1))
      continue;
    if (pitch ? s.strides[i] != pitch : !s.strides[i].isConstant(1))
      return false;
    pitch = pitch ? pitch * space[i] : space[i];
  }
  return true;
}

struct User {
  static constexpr llvm::StringLiteral id = "user", summary = "a function that the user brings";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    if (auto anchor = matchAnchor(in, Op::User); !anchor)
      return std::move(anchor).refusal();
    const GroupForm &f = in.form;
    if (f.anchor->stringAttr("function").empty())
      return Refusal{"operator " + f.anchor->stringAttr("name").str() +
                         " names no function for this target",
                     ""};
    for (size_t i = 0; i < f.anchorInputs.size(); ++i) {
      const ScalarProgram &p = f.anchorInputs[i];
      if (!p.isPlainRead() || !isDense(stridesOf(p.inputs[0], unsigned(p.space.size())), p.space))
        return Refusal{"operand " + std::to_string(i) +
                           " is not dense and row-major, as the function takes it",
                       ""};
    }
    const auto rank = unsigned(f.body.space.size());
    if (!f.bodyIsIdentity() || f.outputs.size() != 1)
      return Refusal{"the function's result is changed in the group", ""};
    if (!isDense(stridesOf(f.outputs[0], rank), f.body.space))
      return Refusal{"the result is not dense and row-major, as the function gives it", ""};
    return in;
  }

  static double microseconds(const Problem &p, const Schedule &) { return rooflineCost(p, 0.1); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const Operation &op = *form.anchor;
    const std::string function = op.stringAttr("function").str();
    std::string parameters, values;
    for (const ScalarProgram &p : form.anchorInputs) {
      const Access &a = p.inputs[0];
      parameters += "const " + cppElement(a.source->type().element()).str() + " *, ";
      values += out.pointer(a.source, stridesOf(a, unsigned(p.space.size())).offset) + ", ";
    }
    parameters += cppElement(op.result()->type().element()).str() + " *";
    values +=
        out.resultPointer(0, stridesOf(form.outputs[0], unsigned(form.body.space.size())).offset);
    for (Dim d : op.dimsAttr("extents")) {
      parameters += ", ptrdiff_t";
      values += ", " + out.dims().value(d);
    }
    if (op.has("header"))
      out.includeUser(op.stringAttr("header"));
    else
      out.declarations().line("extern \"C\" void " + function + "(" + parameters + ");");
    out.code().line((op.has("header") ? "::" : "") + function + "(" + values + ");");
  }
};

} // namespace

const Tactic &kUser = kTacticOf<User>;

} // namespace tenon::cpu
