// quantized-io: quantisation at the model's borders is left to its caller.
//
//   graph (%x: tensor<4xf32>)                    graph (%x: tensor<4xi8>)
//     %q = quantize %x, scale, zero         →      %r = … %x …
//     %r = … %q …                                  return %r
//     return dequantize %r, scale, zero
//
// A softmax behind the last dequantize goes with it. Runs for microcontrollers and where --io
// quantized asks for it. The module's facts `quantized.NAME` keep scale and zero point of each port
// that changed, for the header and the functions that generated code offers instead.
#include "passes/QuantizedIo.h"

#include "passes/QuantizedForm.h"
#include "passes/Rewrite.h"

#include "llvm/ADT/StringExtras.h"

#include <cstdio>
#include <cstdlib>

namespace tenon {
namespace {

constexpr llvm::StringLiteral kFact = "quantized.";

void record(Module &module, const std::string &port, const PortQuantization &q) {
  char text[64];
  std::snprintf(text, sizeof(text), "scale %.9g, zero point %lld", q.scale,
                static_cast<long long>(q.zero));
  std::string &fact = module.facts[(kFact + port).str()] = text;
  if (q.softmax)
    fact += ", softmax over " + std::to_string(q.softmax);
}

/// Integers that C has a type for.
bool isPortElement(Element e) { return isInteger(e) && (bitWidth(e) == 8 || bitWidth(e) == 16); }

/// A map that does nothing but quantise its one operand in place with known parameters.
bool matchQuantize(Operation &map, PortQuantization &q) {
  if (!map.is(Op::Map) || map.numOperands() != 1 || map.numResults() != 1 ||
      map.operand(0)->type().shape() != map.result()->type().shape() ||
      !isIdentityMap(indexMap(map, 0), map.result()->type().rank()) ||
      !isPortElement(map.result()->type().element()))
    return false;
  Operation *op = map.region().terminator()->operand(0)->def();
  if (!op || !op->is(Op::Quantize) || op->operand(0) != map.region().argument(0))
    return false;
  auto scale = scalarValue(op->operand(1)), zero = scalarValue(op->operand(2));
  if (!scale || !zero)
    return false;
  q.scale = *scale;
  q.zero = int64_t(*zero);
  return true;
}

// x used as quantize(x) alone = an integer input
bool quantizeInput(Graph &graph, unsigned i, PassContext &context) {
  Value *x = graph.body().argument(i);
  PortQuantization first;
  Type type = x->type();
  bool any = false;
  for (Use *use : x->uses()) {
    PortQuantization q;
    Operation &map = *use->owner();
    if (!matchQuantize(map, q) ||
        (any && (q.scale != first.scale || q.zero != first.zero || map.result()->type() != type)))
      return false;
    first = q;
    type = map.result()->type();
    any = true;
  }
  if (!any || !context.fire("quantized-io.input", *x->firstUse()->owner()))
    return false;
  for (Use *use : x->uses())
    use->owner()->result()->replaceAllUsesWith(x);
  x->setType(type);
  eraseDeadOps(graph.body());
  record(graph.module(), graph.inputNames[i], first);
  return true;
}

/// The elements of a softmax's rows where they lie side by side; else 0.
int64_t softmaxRow(const Operation &op) {
  if (!op.is(Op::Softmax) || op.boolAttr("log"))
    return 0;
  const Type t = op.result()->type();
  const auto axis = unsigned(op.intAttr("axis"));
  for (unsigned d = axis + 1; d < t.rank(); ++d)
    if (!t.dim(d).isConstant(1))
      return 0;
  return t.dim(axis).isConstant() ? t.dim(axis).constant() : 0;
}

// return dequantize(y) = an integer output
// return softmax(dequantize(y)) = an integer output
bool quantizeOutput(Graph &graph, unsigned i, PassContext &context) {
  Operation *end = graph.returnOp();
  Operation *last = end->operand(i)->def();
  const int64_t row = last ? softmaxRow(*last) : 0;
  auto d = matchDequantized(row ? last->operand(0) : end->operand(i));
  if (!d || !d->perTensor() || !isPortElement(d->q->type().element()) ||
      !context.fire(row ? "quantized-io.softmax" : "quantized-io.output", *last))
    return false;
  end->setOperand(i, d->q);
  record(graph.module(), graph.outputNames[i], {d->scale[0], int64_t(d->zero[0]), row});
  return true;
}

} // namespace

bool runQuantizedIo(Graph &graph, PassContext &context) {
  bool changed = false;
  for (unsigned i = 0; i < graph.inputNames.size(); ++i)
    if (!graph.stateOfInput(i))
      changed |= quantizeInput(graph, i, context);
  for (unsigned i = 0; i < graph.outputNames.size(); ++i)
    if (!graph.stateOfOutput(i))
      changed |= quantizeOutput(graph, i, context);
  if (changed)
    eraseDeadOps(graph.body());
  return changed;
}

llvm::Optional<PortQuantization> portQuantization(const Module &module, llvm::StringRef port) {
  auto fact = module.facts.find((kFact + port).str());
  if (fact == module.facts.end())
    return llvm::None;
  PortQuantization q;
  llvm::StringRef rest = llvm::StringRef(fact->second);
  rest.consume_front("scale ");
  auto [scale, zeroAndMore] = rest.split(", zero point ");
  auto [zero, row] = zeroAndMore.split(", softmax over ");
  q.scale = std::strtod(scale.str().c_str(), nullptr);
  if (zero.getAsInteger(10, q.zero) || (!row.empty() && row.getAsInteger(10, q.softmax)))
    return llvm::None;
  return q;
}

} // namespace tenon
