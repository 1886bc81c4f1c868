// Implements GraphText.
#include "codegen/cpu/program/GraphText.h"

#include "ir/BornExtents.h"

namespace tenon {

void GraphText::writeRun(SourceWriter &w, const std::string &name,
                         const std::string &hookPrefix) const {
  w.open("static int " + name + "([[maybe_unused]] const frame &f)");
  calls(w, graph().body(), hookPrefix);
  for (const State &s : graph().states) {
    Value *in = graph().body().argument(s.input), *out = graph().returnOp()->operand(s.output);
    if (plan()[in].buffer != plan()[out].buffer) // else written in place
      copy(w, in, out);
  }
  w.line("return rt::ok;");
  w.close();
  w.line("");
}

std::string GraphText::bytesExpression(Value *v) const {
  const Type t = v->type();
  if (bitWidth(t.element()) < 8)
    return "size_t(" + dims_.value(t.elements()) + " + " +
           std::to_string(8 / bitWidth(t.element()) - 1) + ") / " +
           std::to_string(8 / bitWidth(t.element()));
  const int64_t width = bitWidth(t.element()) / 8;
  const Dim n = t.elements();
  return n.isConstant() ? std::to_string(n.constant() * width)
                        : "size_t(" + dims_.value(n) + ") * " + std::to_string(width);
}
void GraphText::copy(SourceWriter &w, Value *to, Value *from, const std::string &plus) const {
  auto start = [&](Value *v, bool constant) {
    return bitWidth(v->type().element()) >= 8
               ? places_.pointer(v, constant)
               : places_.pointer(v, "unsigned char", constant, v->type().context().dim(0));
  };
  w.line("memcpy(" + start(to, false) + plus + ", " + start(from, true) + ", " +
         bytesExpression(from) + ");");
}

/// The calls of a region's steps in order.
void GraphText::calls(SourceWriter &w, Region &r, const std::string &hookPrefix) const {
  for (Operation &op : r)
    switch (op.kind()) {
    case Op::Group: {
      const int n = stepOf(op);
      const auto hook = [&](const char *when) {
        if (!hookPrefix.empty())
          w.line("::" + hookPrefix + "_" + when + "_layer(" + std::to_string(n) + ", \"" +
                 stringSafe(describe(op.loc())) + "\");");
      };
      hook("before");
      w.line("f.step(" + std::to_string(n) + ", " + functions_[size_t(n)] + ");");
      hook("after");
      break;
    }
    case Op::If: branch(w, op, hookPrefix); break;
    case Op::Loop: loop(w, op, hookPrefix); break;
    default: break;
    }
}
int GraphText::stepOf(const Operation &op) const {
  for (const Step &s : plan().steps)
    if (s.op == &op)
      return s.number;
  return -1;
}

void GraphText::branch(SourceWriter &w, Operation &op, const std::string &hookPrefix) const {
  w.comment(describe(op.loc()));
  for (unsigned k = 0; k < 2; ++k) {
    if (k == 0)
      w.open("if (*" + places_.pointer(op.operand(0)) + ")");
    else
      w.open("else");
    calls(w, op.region(k), hookPrefix);
    Operation *yield = op.region(k).terminator();
    for (unsigned i = 0; i < yield->numOperands(); ++i)
      copy(w, op.result(i), yield->operand(i));
    for (const BornExtent &b : bornExtents(op))
      w.line("f.dims[" + std::to_string(dims_.indexOf(b.symbol.symbol())) +
             "] = " + dims_.value(b.yielded[k]) + ";");
    w.close();
  }
}

void GraphText::loop(SourceWriter &w, Operation &op, const std::string &hookPrefix) const {
  w.comment(describe(op.loc()));
  const auto carried = unsigned(op.intAttr("carried")), scans = unsigned(op.intAttr("scans"));
  Region &r = op.region();
  w.open("");
  for (unsigned i = 0; i < carried; ++i)
    copy(w, r.argument(2 + i), op.operand(2 + i));
  w.line("int64_t count;");
  const Dim count = scans ? op.dimsAttr("max_trip")[0] : Dim();
  w.open("const auto trip = [&](int64_t i, bool &going)");
  w.line("*" + places_.pointer(r.argument(0), false) + " = i;");
  w.line("*" + places_.pointer(r.argument(1), false) + " = going;");
  calls(w, r, hookPrefix);
  Operation *yield = r.terminator();
  w.line("going = *" + places_.pointer(yield->operand(0)) + ";");
  for (unsigned i = 0; i < carried; ++i)
    copy(w, r.argument(2 + i), yield->operand(1 + i));
  for (unsigned i = 0; i < scans; ++i) {
    Value *element = yield->operand(1 + carried + i);
    copy(w, op.result(carried + i), element, " + i * " + dims_.value(element->type().elements()));
  }
  w.line("return int(rt::ok);");
  w.close("};");
  // What is stacked has room for so many.
  w.line("const int code = rt::repeat(*" + places_.pointer(op.operand(0)) + ", *" +
         places_.pointer(op.operand(1)) + ", " +
         (scans ? std::to_string(count.upper()) : "rt::any_number") + ", count, trip);");
  w.line("if (code != rt::ok) return code;");
  if (scans && count.isSymbol() && isBorn(graph(), count))
    w.line("f.dims[" + std::to_string(dims_.indexOf(count.symbol())) + "] = index_t(count);");
  for (unsigned i = 0; i < carried; ++i)
    copy(w, op.result(i), r.argument(2 + i));
  w.close();
}

} // namespace tenon
