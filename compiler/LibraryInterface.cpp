// Implements the translation of internal structures to those of compiler/tenon.h.
#include "compiler/LibraryInterface.h"

#include "codegen/emit/Interface.h"
#include "ir/Entries.h"

#include "llvm/ADT/STLExtras.h"

namespace tenon {
namespace {

/// The words of an extent in postfix order.
void appendFormula(const DimNode &node, std::vector<std::string> &words) {
  if (node.kind == DimKind::Constant || node.kind == DimKind::Symbol) {
    words.push_back(node.kind == DimKind::Symbol ? node.symbol.str() : std::to_string(node.value));
    return;
  }
  appendFormula(*node.lhs, words);
  appendFormula(*node.rhs, words);
  switch (node.kind) {
  case DimKind::Add: return words.push_back("+");
  case DimKind::Mul: return words.push_back("*");
  case DimKind::FloorDiv: return words.push_back("//");
  case DimKind::Min: return words.push_back("min");
  case DimKind::Max: return words.push_back("max");
  case DimKind::Constant:
  case DimKind::Symbol: return;
  }
}

Interface::Port portOf(const std::string &name, Type type) {
  Interface::Port port;
  port.name = name;
  port.type = tenon::name(type.element()).str();
  for (Dim d : type.shape()) {
    port.shape.push_back({d.upper(), {}});
    appendFormula(*d.node(), port.shape.back().formula);
  }
  return port;
}

} // namespace

Interface interfaceOf(Graph &graph) {
  Interface out;
  out.states = !graph.states.empty();
  for (unsigned i = 0; i < graph.inputNames.size(); ++i)
    if (!graph.stateOfInput(i))
      out.inputs.push_back(portOf(graph.inputNames[i], graph.body().argument(i)->type()));
  for (unsigned i = 0; i < graph.outputNames.size(); ++i)
    if (!graph.stateOfOutput(i))
      out.outputs.push_back(portOf(graph.outputNames[i], graph.returnOp()->operand(i)->type()));
  for (Dim d : graph.module().symbols) {
    if (isOfEntry(graph.module(), d))
      continue;
    const bool carried = llvm::any_of(graph.states, [&](const State &s) {
      return s.appendAxis >= 0 &&
             graph.body().argument(s.input)->type().dim(unsigned(s.appendAxis)) == d;
    });
    out.symbols.push_back({d.symbol().str(), d.lower(), d.upper(), carried});
  }
  if (const auto d = describeInterface(graph, CompileOptions()).decoder)
    out.decoder = {int64_t(d->tokens),          d->capacity,   d->vocabulary,
                   tenon::name(d->logit).str(), d->lastLogits, d->shortens};
  return out;
}

void addMessages(const Diagnostics &diagnostics, std::vector<Message> &messages) {
  for (const Diagnostic &d : diagnostics.list()) {
    Message m;
    m.severity = Message::Severity(int(d.severity));
    m.text = d.message;
    m.nodes.assign(d.nodes.begin(), d.nodes.end());
    m.op = d.op;
    m.notes = d.notes;
    messages.push_back(std::move(m));
  }
}

void moveDiagnostics(Diagnostics &from, Diagnostics &to) {
  for (Diagnostic &d : from.list())
    to.report(d.severity, "") = std::move(d);
}

} // namespace tenon
