// Implements the search for layers.
#include "passes/quantize/Layers.h"

#include "passes/Rewrite.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace tenon {
namespace {

bool isFloatTensor(const Value *v) {
  return v->type().isTensor() && v->type().element() == Element::F32;
}

/// The operands of an operation that are no constants.
llvm::SmallVector<Value *, 2> variables(const Operation &op) {
  llvm::SmallVector<Value *, 2> out;
  for (Value *v : op.operands())
    if (!constantValue(v))
      out.push_back(v);
  return out;
}

/// Whether a map adds, bounds and scales floats by constants, or multiplies two tensors: what
/// passes/QuantizedForm.h reads.
bool isLinear(const Operation &map) {
  if (!map.is(Op::Map) || map.numResults() != 1 || !isFloatTensor(map.result()))
    return false;
  for (Value *v : map.operands())
    if (!isFloatTensor(v))
      return false;
  llvm::SmallPtrSet<const Value *, 8> varying;
  for (unsigned i = 0; i < map.numOperands(); ++i)
    if (!constantValue(map.operand(i)))
      varying.insert(elementArgument(map, i));
  for (Operation &op : map.region()) {
    if (op.isTerminator() || op.is(Op::Const))
      continue;
    auto varies = [&](unsigned i) { return varying.count(op.operand(i)) != 0; };
    switch (op.kind()) {
    case Op::Add:
    case Op::Sub:
    case Op::Neg:
    case Op::Relu: break;
    case Op::Mul: // of two tensors of bytes, too
      if (varies(0) && varies(1) &&
          (op.operand(0) == op.operand(1) || !op.operand(0)->argumentOf() ||
           !op.operand(1)->argumentOf()))
        return false;
      break;
    case Op::Min:
    case Op::Max:
      if (varies(0) && varies(1))
        return false;
      break;
    case Op::Div:
    case Op::Clamp:
      for (unsigned i = 1; i < op.numOperands(); ++i)
        if (varies(i))
          return false;
      break;
    default: return false;
    }
    for (Value *v : op.operands())
      if (varying.count(v))
        varying.insert(op.result());
  }
  return varying.count(map.region().terminator()->operand(0)) != 0;
}

/// Whether a map is a function of the elements of one tensor: a table of bytes.
bool isFunction(const Operation &map) {
  if (!map.is(Op::Map) || map.numResults() != 1 || !isFloatTensor(map.result()) ||
      variables(map).size() != 1 ||
      llvm::any_of(map.region(), [](Operation &op) { return op.is(Op::Index); }))
    return false;
  return llvm::all_of(map.operands(), [](Value *v) {
    const Literal l = constantValue(v);
    return isFloatTensor(v) && (!l || l->size() == 1 || l->isSplat());
  });
}

/// Whether a reduction sums elements.
bool isSum(const Operation &op) {
  if (!op.is(Op::Reduce) || op.numOperands() != 1 || op.numResults() != 1)
    return false;
  const Operation *end = op.region().terminator()->operand(0)->def();
  return end && end->is(Op::Add) && end->operand(0)->argumentOf() == &op.region() &&
         end->operand(1)->argumentOf() == &op.region();
}

bool isAnchor(const Operation &op) {
  if (op.numResults() != 1 || !isFloatTensor(op.result()) || !op.numOperands() ||
      !isFloatTensor(op.operand(0)))
    return false;
  if (op.isAny(Op::Conv, Op::MatMul)) {
    if (op.numOperands() != 2 || !isFloatTensor(op.operand(1)) || constantValue(op.operand(0)))
      return false;
    return op.is(Op::MatMul) || constantValue(op.operand(1));
  }
  if (op.is(Op::Softmax)) // probabilities that are given as they are stay exact
    return !op.boolAttr("log") &&
           llvm::none_of(op.result()->uses(), [](Use *u) { return u->owner()->isTerminator(); });
  return (op.is(Op::Pool) && op.wordAttr("kind") == "average") || isSum(op);
}

/// What a value is made of by moving elements, which leaves scales as they are.
Value *sourceOf(Value *v) {
  for (;;) {
    Operation *op = v->def();
    const bool moves = op && (op->isAny(Op::Transpose, Op::Reshape, Op::Slice) ||
                              (op->is(Op::Pool) && op->wordAttr("kind") == "max"));
    if (!moves || !isFloatTensor(op->operand(0)))
      return v;
    v = op->operand(0);
  }
}

} // namespace

bool QuantizableLayer::isContraction() const {
  return anchor->isAny(Op::Conv, Op::MatMul) && constantValue(anchor->operand(1));
}

int64_t QuantizableLayer::weightAxis() const {
  if (anchor->is(Op::Conv))
    return 0;
  const auto rank = int64_t(anchor->operand(1)->type().rank());
  return anchor->boolAttr("trans_b") ? rank - 2 : rank - 1;
}

int64_t QuantizableLayer::resultAxis() const {
  return anchor->is(Op::Conv) ? 1 : int64_t(anchor->result()->type().rank()) - 1;
}

llvm::Optional<BiasPlace> QuantizableLayer::bias() const {
  if (tail.empty() || !isContraction())
    return llvm::None;
  Operation *map = tail[0];
  for (unsigned i = 0; i < map->numOperands(); ++i) {
    const Literal l = constantValue(map->operand(i));
    Value *argument = elementArgument(*map, i);
    if (!l || !argument->hasOneUse())
      continue;
    const IndexMap &m = indexMap(*map, i);
    bool along = l->size() > 1;
    for (size_t d = 0; d < m.size(); ++d)
      along &= l->shape()[d] == 1 || m[d] == resultAxis();
    Operation *add = argument->firstUse()->owner();
    if (!along || !add->is(Op::Add))
      continue;
    Value *other = add->operand(add->operand(0) == argument ? 1 : 0);
    if (other->argumentOf() == &map->region() && other->hasOneUse() &&
        map->operand(other->index()) == anchor->result())
      return BiasPlace{map, i};
  }
  return llvm::None;
}

std::string QuantizableLayer::name() const {
  if (!anchor->loc().empty())
    return anchor->loc().front();
  return anchor->name().str();
}

std::vector<QuantizableLayer> findLayers(Graph &graph) {
  std::vector<QuantizableLayer> layers;
  llvm::SmallPtrSet<const Operation *, 16> taken;
  for (Operation &op : graph.body()) {
    if (taken.count(&op) || !(isAnchor(op) || isLinear(op) || isFunction(op)))
      continue;
    QuantizableLayer layer;
    layer.anchor = &op;
    for (Value *v : variables(op))
      layer.inputs.push_back(sourceOf(v));
    layer.result = op.result();
    const bool isTable = op.is(Op::Map) && variables(op).size() == 1;
    while (layer.result->hasOneUse() && !op.is(Op::Softmax)) {
      Operation *next = layer.result->firstUse()->owner();
      if (next->parent() != &graph.body() || variables(*next).size() != 1 ||
          !(isLinear(*next) || (isTable && isFunction(*next))))
        break;
      taken.insert(next);
      layer.tail.push_back(next);
      layer.result = next->result();
    }
    if (llvm::none_of(layer.inputs, [](Value *v) { return constantValue(v) != nullptr; }))
      layers.push_back(std::move(layer));
  }
  return layers;
}

ValueNumbers::ValueNumbers(Graph &graph) : graph_(graph) {
  int next = 0;
  for (Value *v : graph.body().arguments())
    numbers_[v] = next++;
  for (Operation &op : graph.body())
    for (Value *v : op.results())
      numbers_[v] = next++;
}

std::vector<std::string> ValueNumbers::names() const {
  std::vector<std::string> names;
  std::map<std::string, int> seen;
  auto add = [&](std::string name) {
    const int count = ++seen[name];
    names.push_back(count == 1 ? name : name + "#" + std::to_string(count));
  };
  for (unsigned i = 0; i < graph_.body().numArguments(); ++i)
    add(graph_.inputNames[i]);
  for (Operation &op : graph_.body())
    for (unsigned i = 0; i < op.numResults(); ++i)
      add(op.loc().empty() ? op.name().str() : op.loc().front());
  return names;
}

} // namespace tenon
