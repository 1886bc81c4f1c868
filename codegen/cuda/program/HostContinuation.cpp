// Implements the statements by which the host goes on where a program's graph ends.
#include "codegen/cuda/program/HostContinuation.h"

#include "codegen/emit/Interface.h"
#include "ir/BornExtents.h"

#include "llvm/ADT/STLExtras.h"

namespace tenon {
namespace {

/// The operation in a group whose number of elements depends on data; else null.
const Operation *counting(const Operation &group) {
  if (group.is(Op::Group))
    for (const Operation &op : const_cast<Operation &>(group).region())
      if (op.is(Op::NonZero))
        return &op;
  return nullptr;
}

std::string check(const std::string &call) { return "TENON_CHECK(h." + call + ");"; }

} // namespace

HostContinuation::HostContinuation(const Plan &plan, const Places &places, const DimSpelling &dims)
    : plan_(plan), places_(places), dims_(dims) {
  const auto first = llvm::find_if(
      plan.steps, [](const Step &s) { return isControlFlow(*s.op) || counting(*s.op); });
  captured_ = int(first - plan.steps.begin());
  exists_ = first != plan.steps.end();
  if (exists_ && !isControlFlow(*first->op))
    ++captured_;
}

const Step &HostContinuation::stepOf(const Operation &op) const {
  return *llvm::find_if(plan_.steps, [&](const Step &s) { return s.op == &op; });
}

void HostContinuation::write(SourceWriter &w, int more) const {
  region(w, plan_.steps.front().op->parent()->graph()->body());
  for (int i = 0; i < more; ++i)
    w.line(check("step(" + std::to_string(int(plan_.steps.size()) + i) + ")"));
  w.line("return tenon::cuda::ok;");
}

void HostContinuation::region(SourceWriter &w, Region &r) const {
  for (Operation &op : r)
    switch (op.kind()) {
    case Op::Group: group(w, op); break;
    case Op::If: branch(w, op); break;
    case Op::Loop: loop(w, op); break;
    default: break;
    }
}

void HostContinuation::group(SourceWriter &w, Operation &op) const {
  const Step &step = stepOf(op);
  if (step.number >= captured_)
    w.line(check("step(" + std::to_string(step.number) + ")"));
  // The number stands at the start of the group's scratch.
  if (const Operation *found = counting(op))
    w.line(check("read_dim(" + std::to_string(dims_.indexOf(found->stringAttr("symbol"))) + ", " +
                 places_.scratch(step, "const int64_t") + ")"));
}

void HostContinuation::copy(SourceWriter &w, Value *to, Value *from,
                            const std::string &plus) const {
  const Type t = from->type();
  auto start = [&](Value *v, bool constant) {
    return bitWidth(t.element()) >= 8
               ? places_.pointer(v, constant)
               : places_.pointer(v, "unsigned char", constant, t.context().dim(0));
  };
  const std::string elements = "size_t(" + dims_.value(t.elements()) + ")";
  const unsigned perByte = bitWidth(t.element()) < 8 ? 8 / bitWidth(t.element()) : 1;
  w.line(check("copy(" + start(to, false) + plus + ", " + start(from, true) + ", " +
               (perByte > 1 ? "(" + elements + " + " + std::to_string(perByte - 1) + ") / " +
                                  std::to_string(perByte)
                            : elements + " * " + std::to_string(bitWidth(t.element()) / 8)) +
               ")"));
}

void HostContinuation::branch(SourceWriter &w, Operation &op) const {
  w.comment(describe(op.loc()));
  w.open("");
  w.line("bool which = false;");
  w.line(check("read(" + places_.pointer(op.operand(0)) + ", which)"));
  for (unsigned k = 0; k < 2; ++k) {
    w.open(k == 0 ? "if (which)" : "else");
    region(w, op.region(k));
    Operation *yield = op.region(k).terminator();
    for (unsigned i = 0; i < yield->numOperands(); ++i)
      copy(w, op.result(i), yield->operand(i));
    for (const BornExtent &b : bornExtents(op))
      w.line(check("set_dim(" + std::to_string(dims_.indexOf(b.symbol.symbol())) + ", " +
                   dims_.value(b.yielded[k]) + ")"));
    w.close();
  }
  w.close();
}

void HostContinuation::loop(SourceWriter &w, Operation &op) const {
  w.comment(describe(op.loc()));
  const auto carried = unsigned(op.intAttr("carried")), scans = unsigned(op.intAttr("scans"));
  Region &body = op.region();
  Operation *yield = body.terminator();
  const std::string at = std::to_string(stepOf(op).number);
  const std::string trip = "trip" + at, going = "going" + at, done = "done" + at;
  const std::string bodyName = "body" + at;
  const Dim count = scans ? op.dimsAttr("max_trip")[0] : Dim();
  w.open("");
  for (unsigned i = 0; i < carried; ++i)
    copy(w, body.argument(2 + i), op.operand(2 + i));
  w.open("const auto " + bodyName + " = [&]([[maybe_unused]] int64_t " + trip +
         ", [[maybe_unused]] bool &" + going + ") -> tenon::cuda::status");
  if (!body.argument(0)->uses().empty())
    w.line(check("write(" + places_.pointer(body.argument(0), false) + ", " + trip + ")"));
  // A condition that stays as it is was true when the trip began.
  const bool unchanged = yield->operand(0) == body.argument(1);
  if (body.argument(1)->uses().size() > size_t(unchanged))
    w.line(check("write(" + places_.pointer(body.argument(1), false) + ", " + going + ")"));
  region(w, body);
  if (!unchanged)
    w.line(check("read(" + places_.pointer(yield->operand(0)) + ", " + going + ")"));
  for (unsigned i = 0; i < carried; ++i)
    copy(w, body.argument(2 + i), yield->operand(1 + i));
  for (unsigned i = 0; i < scans; ++i) {
    Value *element = yield->operand(1 + carried + i);
    copy(w, op.result(carried + i), element,
         " + " + trip + " * " + dims_.value(element->type().elements()));
  }
  w.line("return tenon::cuda::ok;");
  w.close("};");
  w.line("int64_t " + done + " = 0;");
  w.line(check("loop(" + places_.pointer(op.operand(0)) + ", " + places_.pointer(op.operand(1)) +
               ", " + (scans ? std::to_string(count.upper()) : "INT64_MAX") + ", " + done + ", " +
               bodyName + ")"));
  if (scans && count.isSymbol() && isBorn(*op.parent()->graph(), count))
    w.line(check("set_dim(" + std::to_string(dims_.indexOf(count.symbol())) + ", " + done + ")"));
  for (unsigned i = 0; i < carried; ++i)
    copy(w, op.result(i), body.argument(2 + i));
  w.close();
}

} // namespace tenon
