// Imports attention as matrix products, maps and a softmax.
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Heads.h"
#include "frontend/onnx/Operators.h"

#include <cmath>

namespace tenon::frontend {

Value *splitHeads(Node &n, Value *v, int64_t heads, const char *attribute) {
  const Type t = v->type();
  const Dim width = t.dim(2);
  if (heads < 1 || !width.isConstant() || width.constant() % heads != 0)
    return n.error(std::string("attribute ") + attribute + ": expected a divisor of the last " +
                   "extent of " + toString(t) + ", found " + std::to_string(heads));
  Value *split =
      n.b.reshape(v, {t.dim(0), t.dim(1), n.dim(heads), n.dim(width.constant() / heads)});
  return split ? n.b.transpose(split, {0, 2, 1, 3}) : nullptr;
}

Value *joinHeads(Builder &b, Value *v) {
  Value *last = v ? b.transpose(v, {0, 2, 1, 3}) : nullptr;
  if (!last)
    return nullptr;
  const Type t = last->type();
  return b.reshape(last, {t.dim(0), t.dim(1), t.dim(2) * t.dim(3)});
}

Value *matmulShared(Node &n, Value *a, Value *b, bool transposed) {
  if (!a || !b)
    return nullptr;
  const NamedAttributes attributes{{"trans_b", transposed}};
  const Type ta = a->type(), tb = b->type();
  const Dim heads = ta.dim(1), groups = tb.dim(1);
  if (heads == groups)
    return n.b.value(Op::MatMul, {a, b}, attributes);
  if (!heads.isConstant() || !groups.isConstant() || groups.constant() < 1 ||
      heads.constant() % groups.constant() != 0)
    return n.error("expected a number of query heads that the one of key heads divides, found " +
                   text({heads, groups}, " and "));
  const Dim shared = n.dim(heads.constant() / groups.constant());
  Value *product = n.b.value(Op::MatMul,
                             {n.b.reshape(a, {ta.dim(0), groups, shared, ta.dim(2), ta.dim(3)}),
                              n.b.reshape(b, {tb.dim(0), groups, n.dim(1), tb.dim(2), tb.dim(3)})},
                             attributes);
  if (!product)
    return nullptr;
  const Type t = product->type();
  return n.b.reshape(product, {t.dim(0), heads, t.dim(3), t.dim(4)});
}

Value *scaledBy(Builder &b, Value *v, double factor) {
  if (!v || factor == 1)
    return v;
  return pointwise(
      b, {v}, [&](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Mul, a[0], s.c(factor)); });
}

namespace {

/// Operand i with as many heads as `attribute` says.
Value *splitHeads(Node &n, unsigned i, const char *attribute) {
  return splitHeads(n, n.input(i), n.intAttr(attribute, 0), attribute);
}

/// Which keys a query may see, and what is added to its scores [batch, heads, query, key].
///
/// Query i stands at position p = i + offset, where offset counts the keys before the queries. It
/// sees key j when j < valid[batch], j <= p if causal, and p − left <= j <= p + right; a boolean
/// mask must hold there, too, and a mask of numbers other than −∞ is added.
struct Visibility {
  Value *mask = nullptr;   // broadcasts to the scores
  Value *valid = nullptr;  // [batch]; then offset = valid − number of queries
  Value *offset = nullptr; // []; null: none
  Dim queries;
  bool causal = false;
  int64_t left = -1, right = -1; // −1: no bound

  bool restricts() const { return mask || valid || causal || left >= 0 || right >= 0; }
  /// Some query may see no key at all.
  bool mayHideAll() const { return mask || valid || left >= 0; }

  /// A map over `scores`: `body` gets the score, whether it is hidden, and what is added to it
  /// (null: nothing).
  Value *
  apply(Builder &b, Value *scores,
        llvm::function_ref<Value *(Scalars &, Value *, Value *hidden, Value *added)> body) const {
    if (!scores)
      return nullptr;
    const Type t = scores->type();
    llvm::SmallVector<Value *, 4> operands{scores};
    std::vector<IndexMap> maps{identityMap(4)};
    auto use = [&](Value *v, IndexMap map) {
      if (!v)
        return size_t(0);
      operands.push_back(v);
      maps.push_back(std::move(map));
      return operands.size() - 1;
    };
    const size_t atMask = use(mask, mask ? broadcastMap(mask->type(), t.shape()) : IndexMap());
    const size_t atValid = use(valid, along(0)), atOffset = use(offset, {});
    return pointwise(b, operands, maps, t.shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      Value *hidden = s.c(Element::Bool, 0), *added = nullptr;
      auto hide = [&](Value *more) { hidden = s(Op::LogicalOr, hidden, more); };
      if (atMask) {
        if (isBool(mask->type().element())) {
          hide(s(Op::LogicalNot, a[atMask]));
        } else {
          added = a[atMask];
          hide(s(Op::Equal, added, s.c(mask->type().element(), -INFINITY)));
        }
      }
      Value *key = s.index(3), *position = s.index(2);
      if (atValid) {
        Value *count = s.cast(a[atValid], Element::I64);
        hide(s(Op::GreaterEqual, key, count));
        position = s(Op::Add, position,
                     s(Op::Sub, count, s.b.scalarInt(Element::I64, queries.constant())));
      } else if (atOffset) {
        position = s(Op::Add, position, a[atOffset]);
      }
      if (causal)
        hide(s(Op::Greater, key, position));
      if (left >= 0)
        hide(s(Op::Less, key, s(Op::Sub, position, s.b.scalarInt(Element::I64, left))));
      if (right >= 0)
        hide(s(Op::Greater, key, s(Op::Add, position, s.b.scalarInt(Element::I64, right))));
      return body(s, a[0], hidden, added);
    });
  }
};

/// The mask filled up to `keys`: what it does not mention is hidden.
Value *fullMask(Node &n, Dim keys) {
  const Type t = n.type(3);
  if (t.rank() == 0 || t.rank() > 4 || (!isBool(t.element()) && !isFloat(t.element())))
    return n.error("operand " + n.inputName(3) + ": expected a mask of rank 1 to 4, found " +
                   toString(t));
  const Dim missing = keys - t.dim(t.rank() - 1);
  if (missing.isConstant(0))
    return n.input(3);
  Dims low(t.rank(), n.dim(0)), high = low;
  high.back() = missing;
  Value *hidden = n.b.scalarConstant(t.element(), isBool(t.element()) ? 0 : -INFINITY);
  return n.b.value(Op::Pad, {n.input(3), hidden}, {{"low", low}, {"high", high}});
}

/// Concatenation of an operand (past) and `v` along the sequence.
Value *withPast(Node &n, unsigned past, Value *v) {
  return n.has(past) && v ? n.b.value(Op::Concat, {n.input(past), v}, {{"axis", int64_t(2)}}) : v;
}

} // namespace

void importAttention(Node &n) {
  enum { Q, K, V, Mask, PastKey, PastValue, Valid };
  const unsigned rank = n.rank(Q);
  if (!n.checkRank(Q, 3, 4) || !n.checkRank(K, rank, rank) || !n.checkRank(V, rank, rank) ||
      !n.checkFloat(Q))
    return;
  if (n.has(PastKey) != n.has(PastValue) || (n.has(PastKey) && n.has(Valid))) {
    n.error("expected past keys and past values together, and no operand nonpad_kv_seqlen then");
    return;
  }
  Value *q = n.input(Q), *k = n.input(K), *v = n.input(V);
  if (rank == 3) {
    q = splitHeads(n, Q, "q_num_heads");
    k = splitHeads(n, K, "kv_num_heads");
    v = splitHeads(n, V, "kv_num_heads");
  }
  k = withPast(n, PastKey, k);
  v = withPast(n, PastValue, v);
  if (!q || !k || !v)
    return;
  const Dim keys = k->type().dim(2), size = q->type().dim(3);
  if (!n.hasAttr("scale") && !size.isConstant()) {
    n.error("expected a head size that is known, or the attribute scale; found " +
            toString(q->type()));
    return;
  }

  Visibility visible;
  visible.causal = n.boolAttr("is_causal", false);
  visible.left = n.intAttr("left_window_size", -1);
  visible.right = n.intAttr("right_window_size", -1);
  visible.queries = q->type().dim(2);
  visible.valid = n.input(Valid);
  if (visible.valid && (n.rank(Valid) != 1 || !visible.queries.isConstant())) {
    n.error("operand " + n.inputName(Valid) + ": expected one count per batch entry and a known " +
            "number of queries, found " + toString(n.type(Valid)));
    return;
  }
  if (n.has(PastKey))
    visible.offset = extentProduct(n.b, n.input(PastKey), {2}, Element::I64);
  if (n.has(Mask) && !(visible.mask = fullMask(n, keys)))
    return;

  // Narrow types could overflow before the scaling: there each operand gets its share.
  const double scale = n.floatAttr("scale", size.isConstant() ? 1 / std::sqrt(size.constant()) : 1);
  const bool narrow = computeType(n.element(Q)) != n.element(Q) && scale > 0;
  Value *scores = narrow ? matmulShared(n, scaledBy(n.b, q, std::sqrt(scale)),
                                        scaledBy(n.b, k, std::sqrt(scale)), true)
                         : scaledBy(n.b, matmulShared(n, q, k, true), scale);
  Value *shown[4] = {scores};
  if (const double cap = n.floatAttr("softcap", 0); scores && cap > 0)
    scores = pointwise(n.b, {scores}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s(Op::Mul, s(Op::Tanh, s(Op::Div, a[0], s.c(cap))), s.c(cap));
    });
  shown[1] = scores;
  if (visible.restricts())
    scores = visible.apply(n.b, scores, [](Scalars &s, Value *score, Value *hidden, Value *added) {
      if (added)
        score = s(Op::Add, score, s.cast(added, s.type));
      return s(Op::Select, hidden, s.c(-INFINITY), score);
    });
  shown[2] = scores;
  if (!scores)
    return;
  Value *wide = scores;
  if (n.hasAttr("softmax_precision")) {
    auto precision = n.elementAttr("softmax_precision", n.element(Q));
    if (!precision)
      return;
    wide = n.b.cast(scores, *precision);
  }
  Value *weights = n.b.value(Op::Softmax, {wide}, {{"axis", int64_t(3)}});
  weights = weights ? n.b.cast(weights, n.element(Q)) : nullptr;
  if (visible.mayHideAll()) // a query that sees nothing gets nothing
    weights = visible.apply(n.b, weights, [](Scalars &s, Value *weight, Value *hidden, Value *) {
      return s(Op::Select, hidden, s.c(0), weight);
    });
  shown[3] = weights;
  Value *y = matmulShared(n, weights, v, false);
  n.set(0, rank == 3 ? joinHeads(n.b, y) : y);
  if (n.wants(1))
    n.set(1, k);
  if (n.wants(2))
    n.set(2, v);
  if (n.wants(3)) {
    const int64_t mode = n.intAttr("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3)
      n.error("attribute qk_matmul_output_mode: expected 0 to 3, found " + std::to_string(mode));
    else
      n.set(3, shown[mode]);
  }
}

void importFlexAttention(Node &n) {
  // Subgraphs of the model change the scores and the weights.
  enum { Q, K, V };
  for (unsigned i : {Q, K, V})
    if (!n.checkRank(i, 4, 4) || !n.checkFloat(i))
      return;
  const Dim size = n.type(Q).dim(3);
  if (!n.hasAttr("scale") && !size.isConstant()) {
    n.error("expected a head size that is known, or the attribute scale; found " +
            toString(n.type(Q)));
    return;
  }
  auto precision = n.elementAttr("softmax_precision", computeType(n.element(Q)));
  if (!precision)
    return;
  auto modified = [&](llvm::StringRef name, Value *v) -> Value * {
    const onnx::AttributeProto *a = n.attr(name);
    if (!a || !v)
      return v;
    Items results;
    if (!a->has_g() || a->g().input_size() != 1 || a->g().output_size() != 1)
      return n.error("attribute " + name.str() + ": expected a graph of one input and one output");
    if (!n.graph.importInline(n, a->g(), name, {Item(v)}, results))
      return nullptr;
    Value *result = results[0].tensor();
    if (!result || result->type() != v->type())
      return n.error("attribute " + name.str() + ": expected a result of type " +
                     toString(v->type()));
    return result;
  };
  const double scale = n.floatAttr("scale", size.isConstant() ? 1 / std::sqrt(size.constant()) : 1);
  Value *scores = scaledBy(n.b, matmulShared(n, n.input(Q), n.input(K), true), scale);
  scores = modified("score_mod", scores ? n.b.cast(scores, *precision) : nullptr);
  Value *weights = scores ? n.b.value(Op::Softmax, {scores}, {{"axis", int64_t(3)}}) : nullptr;
  weights = modified("prob_mod", weights);
  weights = weights ? n.b.cast(weights, n.element(Q)) : nullptr;
  n.set(0, matmulShared(n, weights, n.input(V), false));
}

} // namespace tenon::frontend
