// Imports linear attention as a loop over the sequence whose state is a matrix for each head.
//
// S ← e^g · S (gated), r = v or β (v − Sᵀ k) (delta), S ← S + k rᵀ, y = scale · Sᵀ q. The state is
// f32, as the operator says, whatever the operands are.
#include "frontend/onnx/Operators.h"

#include <cmath>

namespace tenon::frontend {
namespace {

/// [batch, length, heads · size] as f32 [length, batch, heads, size].
Value *bySteps(Builder &b, Value *v, int64_t heads) {
  const Type t = v->type();
  Value *split = b.reshape(v, {t.dim(0), t.dim(1), b.context().dim(heads),
                               b.context().dim(t.dim(2).constant() / heads)});
  split = split ? b.transpose(split, {1, 0, 2, 3}) : nullptr;
  return split ? b.cast(split, Element::F32) : nullptr;
}

enum { Q, K, V, Past, Decay, Beta };

/// What the operator's attributes and operands say.
struct LinearAttention {
  bool gated = false, delta = false;
  int64_t heads = 0, kvHeads = 0, keySize = 0, valueSize = 0;
  Dim batch, length;
  double scale = 1;
  Shape state; // [batch, kv heads, key size, value size]
};

/// Operands are there as the rule has them, and their last extents hold whole heads.
bool checkHeads(Node &n, const std::string &rule, const LinearAttention &a) {
  if (n.has(Decay) != a.gated || n.has(Beta) != a.delta || a.kvHeads < 1 || a.heads < 1 ||
      a.heads % a.kvHeads != 0) {
    n.error("expected decay and beta as the rule '" + rule +
            "' has them and a number of query heads that the one of key heads divides, found " +
            std::to_string(a.heads) + " and " + std::to_string(a.kvHeads));
    return false;
  }
  const int64_t divisors[] = {a.heads, a.kvHeads, a.kvHeads, 1, a.kvHeads, 1};
  for (unsigned i : {Q, K, V, Decay, Beta}) {
    if (!n.has(i))
      continue;
    if (!n.checkRank(i, 3, 3) || !n.checkFloat(i))
      return false;
    const Dim width = n.type(i).dim(2);
    if (width.isConstant() && width.constant() % divisors[i] == 0)
      continue;
    n.error("operand " + n.inputName(i) + ": expected a multiple of " +
            std::to_string(divisors[i]) + " as last extent, found " + toString(n.type(i)));
    return false;
  }
  return true;
}

llvm::Optional<LinearAttention> readLinearAttention(Node &n) {
  LinearAttention a;
  const std::string rule = n.stringAttr("update_rule", "gated_delta");
  a.gated = rule == "gated" || rule == "gated_delta";
  a.delta = rule == "delta" || rule == "gated_delta";
  a.heads = n.intAttr("q_num_heads", 0);
  a.kvHeads = n.intAttr("kv_num_heads", 0);
  if (!a.gated && !a.delta && rule != "linear") {
    n.error("attribute update_rule: expected linear, gated, delta or gated_delta, found '" + rule +
            "'");
    return llvm::None;
  }
  if (!checkHeads(n, rule, a))
    return llvm::None;
  a.batch = n.type(Q).dim(0);
  a.length = n.type(Q).dim(1);
  a.keySize = n.type(Q).dim(2).constant() / a.heads;
  a.valueSize = n.type(V).dim(2).constant() / a.kvHeads;
  a.state = {a.batch, n.dim(a.kvHeads), n.dim(a.keySize), n.dim(a.valueSize)};
  if (n.has(Past) && n.type(Past).shape() != llvm::makeArrayRef(a.state)) {
    n.error("operand " + n.inputName(Past) + ": expected extents [" + text(a.state, ", ") +
            "], found " + toString(n.type(Past)));
    return llvm::None;
  }
  if (!n.type(K).dim(2).isConstant(a.kvHeads * a.keySize)) {
    n.error("operand " + n.inputName(K) + ": expected " + std::to_string(a.kvHeads * a.keySize) +
            " as last extent, found " + toString(n.type(K)));
    return llvm::None;
  }
  const double given = n.floatAttr("scale", 0);
  a.scale = given == 0 ? 1 / std::sqrt(double(a.keySize)) : given;
  return a;
}

/// What one step adds: v, or for the delta rule β (v − Sᵀ k).
Value *updateOf(Builder &b, const LinearAttention &a, Value *k, Value *v, Value *beta,
                Value *state) {
  if (!a.delta)
    return v;
  Value *row = b.reshape(k, {a.batch, a.state[1], b.context().dim(1), a.state[2]});
  Value *known = row ? b.value(Op::MatMul, {row, state}) : nullptr;
  known = known ? b.reshape(known, v->type().shape()) : nullptr;
  if (!known)
    return nullptr;
  return pointwise(b, {v, known, beta}, [](Scalars &s, llvm::ArrayRef<Value *> x) {
    return s(Op::Mul, x[2], s(Op::Sub, x[0], x[1]));
  });
}

/// One step: the state after it and its result, null after an error. `take` gives the operands of
/// this step in their order, [batch, heads, size].
std::pair<Value *, Value *> step(Builder &b, const LinearAttention &a, Value *state,
                                 llvm::function_ref<Value *()> take) {
  Value *q = take(), *k = take(), *v = take();
  Value *decay = a.gated ? take() : nullptr, *beta = a.delta ? take() : nullptr;
  if (!q || !k || !v || (a.gated && !decay) || (a.delta && !beta))
    return {};
  if (decay)
    state = pointwise(
        b, {state, decay},
        {identityMap(4), broadcastMap(decay->type(), state->type().shape().take_front(3))},
        state->type().shape(),
        [](Scalars &s, llvm::ArrayRef<Value *> x) { return s(Op::Mul, x[0], s(Op::Exp, x[1])); });
  Value *update = state ? updateOf(b, a, k, v, beta, state) : nullptr;
  if (!update)
    return {};
  Value *after = pointwise(b, {state, k, update}, {identityMap(4), {0, 1, 2}, {0, 1, 3}},
                           state->type().shape(), [](Scalars &s, llvm::ArrayRef<Value *> x) {
                             return s(Op::Add, x[0], s(Op::Mul, x[1], x[2]));
                           });
  Value *queries =
      b.reshape(q, {a.batch, a.state[1], b.context().dim(a.heads / a.kvHeads), a.state[2]});
  Value *y = after && queries ? b.value(Op::MatMul, {queries, after}) : nullptr;
  y = y ? pointwise(
              b, {y},
              [&](Scalars &s, llvm::ArrayRef<Value *> x) { return s(Op::Mul, x[0], s.c(a.scale)); })
        : nullptr;
  return {after, y};
}

} // namespace

void importLinearAttention(Node &n) {
  const auto a = readLinearAttention(n);
  if (!a)
    return;
  Builder &b = n.b;
  Value *state = n.has(Past) ? b.cast(n.input(Past), Element::F32)
                             : generate(b, Element::F32, a->state,
                                        [](Scalars &s, llvm::ArrayRef<Value *>) { return s.c(0); });
  Value *trip = a->length.isConstant()
                    ? b.constant(Tensor::fromInts({a->length.constant()}).reshaped({}))
                    : extentProduct(b, n.input(Q), {1}, Element::I64);
  llvm::SmallVector<Value *, 8> operands{trip, b.scalarConstant(Element::Bool, 1), state};
  for (unsigned i : {Q, K, V, Decay, Beta})
    if (n.has(i)) // beta may be shared by all heads
      operands.push_back(bySteps(b, n.input(i),
                                 i == Q      ? a->heads
                                 : i == Beta ? n.type(Beta).dim(2).constant()
                                             : a->kvHeads));
  if (llvm::is_contained(operands, nullptr))
    return;
  const NamedAttributes attributes{
      {"carried", int64_t(1)}, {"scans", int64_t(1)}, {"max_trip", Dims{a->length}}};
  Operation *loop = b.create(Op::Loop, operands, attributes, 1, [&](unsigned, Region &region) {
    llvm::SmallVector<Value *, 8> arguments;
    for (Value *v : operands)
      arguments.push_back(region.addArgument(v->type()));
    Builder inner(region, b.diagnostics());
    inner.location = b.location;
    unsigned next = 3;
    const auto take = [&] {
      return inner.value(Op::Gather, {arguments[next++], arguments[0]}, {{"axis", int64_t(0)}});
    };
    const auto [after, y] = step(inner, *a, arguments[2], take);
    if (y)
      inner.yield({arguments[1], after, y});
  });
  if (!loop)
    return;
  // [length, batch, kv heads, queries of each, size]
  Value *y = b.transpose(loop->result(1), {1, 0, 2, 3, 4});
  y = y ? b.reshape(y, {a->batch, a->length, n.dim(a->heads * a->valueSize)}) : nullptr;
  n.set(0, y ? b.cast(y, n.element(Q)) : nullptr);
  if (n.wants(1))
    n.set(1, b.cast(loop->result(0), n.has(Past) ? n.element(Past) : n.element(Q)));
}

} // namespace tenon::frontend
