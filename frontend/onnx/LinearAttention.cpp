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

} // namespace

void importLinearAttention(Node &n) {
  enum { Q, K, V, Past, Decay, Beta };
  const std::string rule = n.stringAttr("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  const int64_t heads = n.intAttr("q_num_heads", 0), kvHeads = n.intAttr("kv_num_heads", 0);
  if (!gated && !delta && rule != "linear") {
    n.error("attribute update_rule: expected linear, gated, delta or gated_delta, found '" + rule +
            "'");
    return;
  }
  if (n.has(Decay) != gated || n.has(Beta) != delta || kvHeads < 1 || heads < 1 ||
      heads % kvHeads != 0) {
    n.error("expected decay and beta as the rule '" + rule +
            "' has them and a number of query heads that the one of key heads divides, found " +
            std::to_string(heads) + " and " + std::to_string(kvHeads));
    return;
  }
  const int64_t divisors[] = {heads, kvHeads, kvHeads, 1, kvHeads, 1};
  for (unsigned i : {Q, K, V, Decay, Beta}) {
    if (!n.has(i))
      continue;
    if (!n.checkRank(i, 3, 3) || !n.checkFloat(i))
      return;
    const Dim width = n.type(i).dim(2);
    if (width.isConstant() && width.constant() % divisors[i] == 0)
      continue;
    n.error("operand " + n.inputName(i) + ": expected a multiple of " +
            std::to_string(divisors[i]) + " as last extent, found " + toString(n.type(i)));
    return;
  }
  Builder &b = n.b;
  const Dim batch = n.type(Q).dim(0), length = n.type(Q).dim(1);
  const int64_t keySize = n.type(Q).dim(2).constant() / heads;
  const int64_t valueSize = n.type(V).dim(2).constant() / kvHeads;
  const Shape stateShape{batch, n.dim(kvHeads), n.dim(keySize), n.dim(valueSize)};
  if (n.has(Past) && n.type(Past).shape() != llvm::makeArrayRef(stateShape)) {
    n.error("operand " + n.inputName(Past) + ": expected extents [" + text(stateShape, ", ") +
            "], found " + toString(n.type(Past)));
    return;
  }
  if (!n.type(K).dim(2).isConstant(kvHeads * keySize)) {
    n.error("operand " + n.inputName(K) + ": expected " + std::to_string(kvHeads * keySize) +
            " as last extent, found " + toString(n.type(K)));
    return;
  }
  const double given = n.floatAttr("scale", 0);
  const double scale = given == 0 ? 1 / std::sqrt(double(keySize)) : given;

  Value *state = n.has(Past) ? b.cast(n.input(Past), Element::F32)
                             : generate(b, Element::F32, stateShape,
                                        [](Scalars &s, llvm::ArrayRef<Value *>) { return s.c(0); });
  Value *trip = length.isConstant() ? b.constant(Tensor::fromInts({length.constant()}).reshaped({}))
                                    : extentProduct(b, n.input(Q), {1}, Element::I64);
  llvm::SmallVector<Value *, 8> operands{trip, b.scalarConstant(Element::Bool, 1), state};
  for (unsigned i : {Q, K, V, Decay, Beta})
    if (n.has(i)) // beta may be shared by all heads
      operands.push_back(bySteps(b, n.input(i),
                                 i == Q      ? heads
                                 : i == Beta ? n.type(Beta).dim(2).constant()
                                             : kvHeads));
  if (llvm::is_contained(operands, nullptr))
    return;
  const NamedAttributes attributes{
      {"carried", int64_t(1)}, {"scans", int64_t(1)}, {"max_trip", Dims{length}}};
  Operation *loop = b.create(Op::Loop, operands, attributes, 1, [&](unsigned, Region &region) {
    llvm::SmallVector<Value *, 8> arguments;
    for (Value *v : operands)
      arguments.push_back(region.addArgument(v->type()));
    Builder inner(region, b.diagnostics());
    inner.location = b.location;
    unsigned next = 3;
    auto take = [&]() { // [batch, heads, size] of this step
      return inner.value(Op::Gather, {arguments[next++], arguments[0]}, {{"axis", int64_t(0)}});
    };
    Value *q = take(), *k = take(), *v = take();
    Value *decay = gated ? take() : nullptr, *beta = delta ? take() : nullptr;
    Value *before = arguments[2];
    if (!q || !k || !v || (gated && !decay) || (delta && !beta))
      return;
    if (decay)
      before = pointwise(
          inner, {before, decay},
          {identityMap(4), broadcastMap(decay->type(), before->type().shape().take_front(3))},
          before->type().shape(),
          [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Mul, a[0], s(Op::Exp, a[1])); });
    Value *update = v;
    if (delta && before) {
      Value *row = inner.reshape(k, {batch, n.dim(kvHeads), n.dim(1), n.dim(keySize)});
      Value *known = row ? inner.value(Op::MatMul, {row, before}) : nullptr;
      known = known ? inner.reshape(known, v->type().shape()) : nullptr;
      if (!known)
        return;
      update = pointwise(inner, {v, known, beta}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
        return s(Op::Mul, a[2], s(Op::Sub, a[0], a[1]));
      });
    }
    if (!before || !update)
      return;
    Value *after = pointwise(inner, {before, k, update}, {identityMap(4), {0, 1, 2}, {0, 1, 3}},
                             before->type().shape(), [](Scalars &s, llvm::ArrayRef<Value *> a) {
                               return s(Op::Add, a[0], s(Op::Mul, a[1], a[2]));
                             });
    Value *queries =
        inner.reshape(q, {batch, n.dim(kvHeads), n.dim(heads / kvHeads), n.dim(keySize)});
    Value *y = after && queries ? inner.value(Op::MatMul, {queries, after}) : nullptr;
    y = y ? pointwise(
                inner, {y},
                [&](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Mul, a[0], s.c(scale)); })
          : nullptr;
    if (y)
      inner.yield({arguments[1], after, y});
  });
  if (!loop)
    return;
  // [length, batch, kv heads, queries of each, size]
  Value *y = b.transpose(loop->result(1), {1, 0, 2, 3, 4});
  y = y ? b.reshape(y, {batch, length, n.dim(heads * valueSize)}) : nullptr;
  n.set(0, y ? b.cast(y, n.element(Q)) : nullptr);
  if (n.wants(1))
    n.set(1, b.cast(loop->result(0), n.has(Past) ? n.element(Past) : n.element(Q)));
}

} // namespace tenon::frontend
