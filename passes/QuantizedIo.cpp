// quantized-io: quantisation at the model's borders is left to its caller.
//
//   graph (%x: tensor<4xf32>)                    graph (%x: tensor<4xi8>)
//     %q = quantize %x, scale, zero         →      %r = … %x …
//     %r = … %q …                                  return %r
//     return dequantize %r, scale, zero
//
// Runs where --io quantized asks for it. The module's facts `quantized.NAME` keep scale and zero
// point of each port that changed, for the header and the functions that generated code offers
// instead.
#include "passes/QuantizedIo.h"

#include "passes/QuantizedForm.h"
#include "passes/Rewrite.h"

#include "llvm/ADT/StringExtras.h"

#include <cstdio>
#include <cstdlib>

namespace tenon {
namespace {

constexpr llvm::StringLiteral kFact = "quantized.";

void record(Module &module, const std::string &port, double scale, int64_t zero) {
  char text[64];
  std::snprintf(text, sizeof(text), "scale %.9g, zero point %lld", scale,
                static_cast<long long>(zero));
  module.facts[(kFact + port).str()] = text;
}

/// A map that does nothing but quantise its one operand in place with known parameters.
bool matchQuantize(Operation &map, PortQuantization &q) {
  if (!map.is(Op::Map) || map.numOperands() != 1 || map.numResults() != 1 ||
      map.operand(0)->type().shape() != map.result()->type().shape() ||
      !isIdentityMap(indexMap(map, 0), map.result()->type().rank()) ||
      !isInteger(map.result()->type().element()))
    return false;
  Operation *op = map.region().terminator()->operand(0)->def();
  if (!op || !op->is(Op::Quantize) || op->operand(0) != map.region().argument(0))
    return false;
  auto scale = scalarValue(op->operand(1)), zero = scalarValue(op->operand(2));
  if (!scale || !zero)
    return false;
  q = {*scale, int64_t(*zero)};
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
  record(graph.module(), graph.inputNames[i], first.scale, first.zero);
  return true;
}

// return dequantize(y) = an integer output
bool quantizeOutput(Graph &graph, unsigned i, PassContext &context) {
  Operation *end = graph.returnOp();
  auto d = matchDequantized(end->operand(i));
  if (!d || !d->perTensor() || bitWidth(d->q->type().element()) > 16 ||
      !context.fire("quantized-io.output", *end->operand(i)->def()))
    return false;
  end->setOperand(i, d->q);
  record(graph.module(), graph.outputNames[i], d->scale[0], int64_t(d->zero[0]));
  return true;
}

} // namespace

bool runQuantizedIo(Graph &graph, PassContext &context) {
  bool changed = false;
  auto carried = [&](auto member, unsigned i) {
    return llvm::any_of(graph.states, [&](const State &s) { return s.*member == i; });
  };
  for (unsigned i = 0; i < graph.inputNames.size(); ++i)
    if (!carried(&State::input, i))
      changed |= quantizeInput(graph, i, context);
  for (unsigned i = 0; i < graph.outputNames.size(); ++i)
    if (!carried(&State::output, i))
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
  auto [scale, zero] = rest.split(", zero point ");
  q.scale = std::strtod(scale.str().c_str(), nullptr);
  if (zero.getAsInteger(10, q.zero))
    return llvm::None;
  return q;
}

} // namespace tenon
