// Implements the export of control flow: branches and loops, and operators of the user's, whose
// bodies stand in their place.
#include "exporter/Writer.h"

namespace tenon::exporter {
namespace {

bool exportIf(Operation &op, Writer &w) {
  onnx::GraphProto branches[2];
  std::string cond = w.name(op.operand(0));
  if (op.operand(0)->type().rank())
    cond = w.reshape(cond, {});
  for (unsigned b = 0; b < 2; ++b) {
    Region &region = op.region(b);
    w.beginGraph(branches[b]);
    for (unsigned i = 0; i < region.numArguments(); ++i)
      w.alias(region.argument(i), op.operand(i + 1));
    if (!w.operations(region))
      return false;
    for (Value *v : region.terminator()->operands())
      w.graphOutput(w.name(v), v->type());
    w.endGraph();
  }
  const Names made =
      w.nodes("If", {cond}, {{"then_branch", &branches[0]}, {"else_branch", &branches[1]}},
              op.numResults());
  w.keep();
  for (unsigned i = 0; i < op.numResults(); ++i)
    w.bind(op.result(i), made[i]);
  return true;
}

bool exportLoop(Operation &op, Writer &w) {
  Region &region = op.region();
  const auto carried = unsigned(op.intAttr("carried"));
  // Of one element, and in the body of no dimension: what the values' types say is made of them.
  auto one = [&](const Value *v) {
    return v->type().rank() ? w.reshape(w.name(v), {}) : w.name(v);
  };
  Names inputs{one(op.operand(0)), one(op.operand(1))};
  for (unsigned i = 0; i < carried; ++i)
    inputs.push_back(w.name(op.operand(2 + i)));
  for (unsigned i = 2 + carried; i < op.numOperands(); ++i)
    w.name(op.operand(i)); // constants of the body are known outside
  onnx::GraphProto body;
  w.beginGraph(body);
  for (unsigned i = 0; i < 2; ++i) {
    const Type t = region.argument(i)->type();
    const std::string x = w.graphInput(t.withShape({}), i ? "again" : "iteration");
    w.bind(region.argument(i), t.rank() ? w.reshape(x, t.shape()) : x);
  }
  for (unsigned i = 0; i < carried; ++i)
    w.bind(region.argument(2 + i), w.graphInput(region.argument(2 + i)->type(), "carried"));
  for (unsigned i = 2 + carried; i < region.numArguments(); ++i)
    w.alias(region.argument(i), op.operand(i));
  if (!w.operations(region))
    return false;
  Operation *end = region.terminator();
  for (unsigned i = 0; i < end->numOperands(); ++i) {
    const Value *v = end->operand(i);
    w.graphOutput(i ? w.name(v) : one(v), i ? v->type() : v->type().withShape({}));
  }
  w.endGraph();
  const Names made = w.nodes("Loop", inputs, {{"body", &body}}, op.numResults());
  w.keep();
  for (unsigned i = 0; i < op.numResults(); ++i)
    w.bind(op.result(i), made[i]);
  return true;
}

} // namespace

bool exportControl(Operation &op, Writer &w) {
  if (op.is(Op::If))
    return exportIf(op, w);
  if (op.is(Op::Loop))
    return exportLoop(op, w);
  if (op.numRegions() == 0)
    return w.refuse("the operator " + op.stringAttr("name") +
                    " is the user's, and has no body of others");
  // A kernel is what it computes; so is an operator of the user's with a reference body.
  for (unsigned i = 0; i < op.numOperands(); ++i)
    w.alias(op.region().argument(i), op.operand(i));
  if (!w.operations(op.region()))
    return false;
  for (unsigned i = 0; i < op.numResults(); ++i)
    w.alias(op.result(i), op.region().terminator()->operand(i));
  return true;
}

} // namespace tenon::exporter
