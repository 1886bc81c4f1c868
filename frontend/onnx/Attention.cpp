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

llvm::Optional<Dim> sharing(Node &n, Dim heads, Dim groups) {
  if (heads == groups)
    return n.dim(1);
  if (heads.isConstant() && groups.isConstant() && groups.constant() >= 1 &&
      heads.constant() % groups.constant() == 0)
    return n.dim(heads.constant() / groups.constant());
  n.error("expected a number of query heads that the one of key heads divides, found " +
          text({heads, groups}, " and "));
  return llvm::None;
}

Value *groupHeads(Builder &b, Value *v, Dim shared) {
  if (!v)
    return nullptr;
  const Type t = v->type();
  return b.reshape(v, {t.dim(0), floorDiv(t.dim(1), shared), shared, t.dim(2), t.dim(3)});
}

Value *ungroupHeads(Builder &b, Value *v) {
  if (!v || v->type().rank() == 4)
    return v;
  const Type t = v->type();
  return b.reshape(v, {t.dim(0), t.dim(1) * t.dim(2), t.dim(3), t.dim(4)});
}

Value *groupMask(Builder &b, Value *mask, Dim shared) {
  const Type t = mask->type();
  if (t.rank() < 3)
    return mask;
  const Dim one = t.context().dim(1);
  const bool same = t.dim(t.rank() - 3).isConstant(1);
  if (t.rank() == 4)
    return groupHeads(b, mask, same ? one : shared);
  return same ? mask : b.reshape(mask, {floorDiv(t.dim(0), shared), shared, t.dim(1), t.dim(2)});
}

Value *matmulShared(Node &n, Value *a, Value *b, bool transposed) {
  if (!a || !b)
    return nullptr;
  const NamedAttributes attributes{{"trans_b", transposed}};
  const auto shared = sharing(n, a->type().dim(1), b->type().dim(1));
  if (!shared)
    return nullptr;
  if (shared->isConstant(1))
    return n.b.value(Op::MatMul, {a, b}, attributes);
  return ungroupHeads(n.b, n.b.value(Op::MatMul,
                                     {groupHeads(n.b, a, *shared), groupHeads(n.b, b, n.dim(1))},
                                     attributes));
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

/// Which keys a query may see, and what is added to its scores [batch, heads…, query, key].
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

  /// Whether a key is hidden from a query, over just the dimensions of the scores that this depends
  /// on; others have extent 1.
  Value *hidden(Builder &b, Type scores) const {
    const unsigned rank = scores.rank();
    Shape space(rank, b.context().dim(1));
    llvm::SmallVector<Value *, 4> operands;
    std::vector<IndexMap> maps;
    auto read = [&](Value *v, IndexMap map) {
      if (!v)
        return;
      for (int64_t d : map)
        if (d >= 0)
          space[size_t(d)] = scores.dim(unsigned(d));
      operands.push_back(v);
      maps.push_back(std::move(map));
    };
    read(mask, mask ? broadcastMap(mask->type(), scores.shape()) : IndexMap());
    read(valid, along(0));
    read(offset, {});
    const bool byPosition = causal || left >= 0 || right >= 0;
    if (valid || byPosition)
      space[rank - 1] = scores.dim(rank - 1);
    if (byPosition)
      space[rank - 2] = scores.dim(rank - 2);
    Operation *made = b.map(operands, maps, space, [&](Builder &in, llvm::ArrayRef<Value *> a) {
      return llvm::SmallVector<Value *, 2>{test({in, Element::Bool}, rank, a)};
    });
    return made ? made->result() : nullptr;
  }

  /// What the scores become: −∞ where a key is hidden, else what the mask adds comes to them.
  /// `hidden`: what the function of this name gave; null where positions alone decide.
  Value *restrict(Builder &b, Value *scores, Value *hidden) const {
    const unsigned rank = scores->type().rank();
    llvm::SmallVector<Value *, 3> operands{scores};
    if (!hidden) {
      std::vector<IndexMap> maps{identityMap(rank)};
      if (offset)
        operands.push_back(offset), maps.push_back({});
      return pointwise(b, operands, maps, scores->type().shape(),
                       [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                         return s(Op::Select, test(s, rank, a.drop_front()), s.c(-INFINITY), a[0]);
                       });
    }
    operands.push_back(hidden);
    if (mask && !isBool(mask->type().element()))
      operands.push_back(mask);
    return pointwise(b, operands, [](Scalars &s, llvm::ArrayRef<Value *> a) {
      Value *score = a.size() > 2 ? s(Op::Add, a[0], s.cast(a[2], s.type)) : a[0];
      return s(Op::Select, a[1], s.c(-INFINITY), score);
    });
  }

private:
  /// `a`: the elements of mask, valid and offset, of those that there are.
  Value *test(const Scalars &s, unsigned rank, llvm::ArrayRef<Value *> a) const {
    Value *hidden = s.c(Element::Bool, 0);
    auto hide = [&](Value *more) { hidden = s(Op::LogicalOr, hidden, more); };
    auto take = [&] {
      Value *v = a.front();
      a = a.drop_front();
      return v;
    };
    if (mask) {
      const Element e = mask->type().element();
      hide(isBool(e) ? s(Op::LogicalNot, take()) : s(Op::Equal, take(), s.c(e, -INFINITY)));
    }
    Value *key = s.index(rank - 1), *position = s.index(rank - 2);
    if (valid) {
      Value *count = s.cast(take(), Element::I64);
      hide(s(Op::GreaterEqual, key, count));
      position =
          s(Op::Add, position, s(Op::Sub, count, s.b.scalarInt(Element::I64, queries.constant())));
    } else if (offset) {
      position = s(Op::Add, position, take());
    }
    if (causal)
      hide(s(Op::Greater, key, position));
    if (left >= 0)
      hide(s(Op::Less, key, s(Op::Sub, position, s.b.scalarInt(Element::I64, left))));
    if (right >= 0)
      hide(s(Op::Greater, key, s(Op::Add, position, s.b.scalarInt(Element::I64, right))));
    return hidden;
  }
};

/// The mask filled up to `keys`: what it does not mention is hidden. Integers are numbers to add.
Value *fullMask(Node &n, Dim keys) {
  if (n.rank(3) == 0 || n.rank(3) > 4 || isOpaque(n.element(3)))
    return n.error("operand " + n.inputName(3) + ": expected a mask of booleans or numbers, of " +
                   "rank 1 to 4, found " + toString(n.type(3)));
  Value *mask = n.input(3);
  if (isInteger(n.element(3)))
    mask = n.b.cast(mask, computeType(n.element(0)));
  const Type t = mask->type();
  const Dim missing = keys - t.dim(t.rank() - 1);
  if (missing.isConstant(0))
    return mask;
  Dims low(t.rank(), n.dim(0)), high = low;
  high.back() = missing;
  Value *hidden = n.b.scalarConstant(t.element(), isBool(t.element()) ? 0 : -INFINITY);
  return n.b.value(Op::Pad, {mask, hidden}, {{"low", low}, {"high", high}});
}

/// Concatenation of an operand (past) and `v` along the sequence.
Value *withPast(Node &n, unsigned past, Value *v) {
  return n.has(past) && v ? n.b.value(Op::Concat, {n.input(past), v}, {{"axis", int64_t(2)}}) : v;
}

/// What the operator's attributes, mask and lengths let each query see; none after an error.
llvm::Optional<Visibility> visibilityOf(Node &n, Type q, Dim keys, unsigned mask, unsigned pastKey,
                                        unsigned valid) {
  Visibility visible;
  visible.causal = n.boolAttr("is_causal", false);
  visible.left = n.intAttr("left_window_size", -1);
  visible.right = n.intAttr("right_window_size", -1);
  visible.queries = q.dim(2);
  visible.valid = n.input(valid);
  if (visible.valid && (n.rank(valid) != 1 || !visible.queries.isConstant())) {
    n.error("operand " + n.inputName(valid) + ": expected one count per batch entry and a known " +
            "number of queries, found " + toString(n.type(valid)));
    return llvm::None;
  }
  if (n.has(pastKey))
    visible.offset = extentProduct(n.b, n.input(pastKey), {2}, Element::I64);
  if (n.has(mask) && !(visible.mask = fullMask(n, keys)))
    return llvm::None;
  return visible;
}

/// Scores and weights at the four places where the operator may show them: products, after the
/// softcap, after the mask, weights. Null from the first error on.
struct AttentionScores {
  Value *shown[4] = {};
  Value *weights() const { return shown[3]; }
};

AttentionScores scoresOf(Node &n, Value *q, Value *k, const Visibility &visible) {
  // Narrow types could overflow before the scaling: there each operand gets its share.
  const Dim size = q->type().dim(q->type().rank() - 1);
  const double scale = n.floatAttr("scale", size.isConstant() ? 1 / std::sqrt(size.constant()) : 1);
  const bool narrow = computeType(n.element(0)) != n.element(0) && scale > 0;
  const double each = narrow ? std::sqrt(scale) : 1;
  AttentionScores s;
  Value *scores =
      n.b.value(Op::MatMul, {scaledBy(n.b, q, each), scaledBy(n.b, k, each)}, {{"trans_b", true}});
  if (!narrow)
    scores = scaledBy(n.b, scores, scale);
  s.shown[0] = scores;
  if (const double cap = n.floatAttr("softcap", 0); scores && cap > 0)
    scores = pointwise(n.b, {scores}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s(Op::Mul, s(Op::Tanh, s(Op::Div, a[0], s.c(cap))), s.c(cap));
    });
  s.shown[1] = scores;
  Value *hidden = nullptr;
  if (scores && visible.mayHideAll() && !(hidden = visible.hidden(n.b, scores->type())))
    return s; // the mask does not fit, which was said
  if (scores && visible.restricts())
    scores = visible.restrict(n.b, scores, hidden);
  s.shown[2] = scores;
  if (!scores)
    return s;
  Value *wide = scores;
  if (n.hasAttr("softmax_precision")) {
    auto precision = n.elementAttr("softmax_precision", n.element(0));
    if (!precision)
      return s;
    wide = n.b.cast(scores, *precision);
  }
  Value *weights = n.b.value(Op::Softmax, {wide}, {{"axis", int64_t(scores->type().rank()) - 1}});
  weights = weights ? n.b.cast(weights, n.element(0)) : nullptr;
  if (weights && hidden) // a query that sees nothing gets nothing, not 0/0
    weights = pointwise(n.b, {weights, hidden}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s(Op::Select, a[1], s.c(0), a[0]);
    });
  s.shown[3] = weights;
  return s;
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

  auto visible = visibilityOf(n, q->type(), keys, Mask, PastKey, Valid);
  if (!visible)
    return;

  // Heads that share keys: [batch, groups, shared, …], over which keys and values broadcast.
  const auto shared = sharing(n, q->type().dim(1), k->type().dim(1));
  if (!shared)
    return;
  Value *allKeys = k, *allValues = v;
  if (!shared->isConstant(1)) {
    q = groupHeads(n.b, q, *shared);
    k = groupHeads(n.b, k, n.dim(1));
    v = groupHeads(n.b, v, n.dim(1));
    if (visible->mask)
      visible->mask = groupMask(n.b, visible->mask, *shared);
    if (!q || !k || !v || (n.has(Mask) && !visible->mask))
      return;
  }

  const AttentionScores scores = scoresOf(n, q, k, *visible);
  Value *weights = scores.weights();
  Value *y = weights ? ungroupHeads(n.b, n.b.value(Op::MatMul, {weights, v})) : nullptr;
  if (!y)
    return;
  n.set(0, rank == 3 ? joinHeads(n.b, y) : y);
  if (n.wants(1))
    n.set(1, allKeys);
  if (n.wants(2))
    n.set(2, allValues);
  if (n.wants(3)) {
    const int64_t mode = n.intAttr("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3)
      n.error("attribute qk_matmul_output_mode: expected 0 to 3, found " + std::to_string(mode));
    else
      n.set(3, ungroupHeads(n.b, scores.shown[mode]));
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
    TensorsOrSequences results;
    if (!a->has_g() || a->g().input_size() != 1 || a->g().output_size() != 1)
      return n.error("attribute " + name.str() + ": expected a graph of one input and one output");
    if (!n.graph.importInline(n, a->g(), name, {TensorOrSequence(v)}, results))
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
