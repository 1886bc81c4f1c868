// Imports com.microsoft's Attention: the projection of one tensor to queries, keys and values, then
// attention over them and what was kept of earlier runs.
#include "frontend/onnx/Heads.h"
#include "frontend/onnx/Operators.h"

#include <cmath>
#include <limits>

namespace tenon::frontend {
namespace {

/// Which keys there are, from an operand of integers.
struct ShownKeys {
  /// Positive where a key is shown, and how it follows the scores [batch, head, query, key].
  Value *mask = nullptr;
  IndexMap map;
  /// [batch]: keys before `begin` and from `end` on are hidden; null: no such bound.
  Value *begin = nullptr, *end = nullptr;
};

/// Operand i for scores [batch, head, query, key]; None after an error.
///
///   [batch]                          how many keys there are
///   [2 batch]                        where they end, then where they begin
///   [3 batch + 2]                    how many there are, then where those of each batch entry
///                                    begin among the queries and the keys of all: nothing new
///   [batch, keys], [batch, queries, keys]
///   [batch, 1, most, most]           of which the rows of the last queries count
llvm::Optional<ShownKeys> shownKeys(Node &n, unsigned i, llvm::ArrayRef<Dim> scores) {
  const Type t = n.type(i);
  const Dim batch = scores[0], queries = scores[2], keys = scores[3];
  ShownKeys shown;
  if (isInteger(t.element()))
    switch (t.rank()) {
    case 1: {
      const bool bounds = t.dim(0) == batch * 2;
      if (!bounds && t.dim(0) != batch && t.dim(0) != batch * 3 + 2)
        break;
      shown.end = sliceAlong(n.b, n.input(i), 0, n.dim(0), batch, 1);
      shown.begin = bounds ? sliceAlong(n.b, n.input(i), 0, batch, batch, 1) : nullptr;
      return shown;
    }
    case 2: shown.map = {0, 3}; break;
    case 3: shown.map = {0, 2, 3}; break;
    case 4: {
      if (t.dim(1) != n.dim(1))
        break;
      shown.map = {0, -1, 2, 3};
      Value *rows = sliceAlong(n.b, n.input(i), 2, keys - queries, queries, 1);
      shown.mask = rows ? sliceAlong(n.b, rows, 3, n.dim(0), keys, 1) : nullptr;
      return shown.mask ? llvm::Optional<ShownKeys>(shown) : llvm::None;
    }
    default: break;
    }
  shown.mask = n.input(i);
  if (!shown.map.empty())
    return shown;
  n.error("operand " + n.inputName(i) + ": expected integers [batch], [2 batch], [3 batch + 2], " +
          "[batch, keys], [batch, queries, keys] or [batch, 1, most, most] for scores of [batch, " +
          "heads, queries, keys] = [" + text(scores, ", ") + "], found " + toString(t));
  return llvm::None;
}

/// Whether elements of ShownKeys hide a key; null where there are none.
Value *hides(Scalars &s, Value *key, Value *mask, Value *begin, Value *end) {
  Value *hidden = nullptr;
  auto hide = [&](Value *more) { hidden = hidden ? s(Op::LogicalOr, hidden, more) : more; };
  if (mask)
    hide(s(Op::LessEqual, s.cast(mask, Element::I64), s.c(Element::I64, 0)));
  if (begin)
    hide(s(Op::Less, key, s.cast(begin, Element::I64)));
  if (end)
    hide(s(Op::GreaterEqual, key, s.cast(end, Element::I64)));
  return hidden;
}

/// The operands that hide keys (integers) and that are added to the scores.
struct Masks {
  unsigned shown, added;
};

/// Attention over queries, keys and values [batch, heads, length, size]; `past`, if there is one,
/// has the length of what came before the queries at `pastAxis`. Null after an error.
Value *attend(Node &n, llvm::ArrayRef<Value *> parts, Value *past, int64_t pastAxis, Masks masks) {
  // Scores stay wide: what hides a key is the least number there is.
  const Dim size = parts[0]->type().dim(3);
  if (!size.isConstant())
    return n.error("expected a head size that is known, found " + toString(parts[0]->type()));
  const double given = n.floatAttr("scale", 0), filter = n.floatAttr("mask_filter_value", -10000);
  Value *scores = matmulShared(n, parts[0], parts[1], true);
  scores = scores ? n.b.cast(scores, computeType(parts[0]->type().element())) : nullptr;
  scores = scaledBy(n.b, scores, given != 0 ? given : 1 / std::sqrt(double(size.constant())));
  if (!scores)
    return nullptr;
  llvm::SmallVector<Value *, 4> operands{scores};
  std::vector<IndexMap> maps{identityMap(4)};
  size_t atMask = 0, atBegin = 0, atEnd = 0, atAdded = 0, atBefore = 0;
  auto use = [&](Value *v, IndexMap map) {
    operands.push_back(v);
    maps.push_back(std::move(map));
    return operands.size() - 1;
  };
  if (n.has(masks.shown)) {
    auto keys = shownKeys(n, masks.shown, scores->type().shape());
    if (!keys)
      return nullptr;
    atMask = keys->mask ? use(keys->mask, keys->map) : 0;
    atBegin = keys->begin ? use(keys->begin, along(0)) : 0;
    atEnd = keys->end ? use(keys->end, along(0)) : 0;
  }
  if (n.has(masks.added) && !n.checkRank(masks.added, 0, 4))
    return nullptr;
  if (n.has(masks.added))
    atAdded = use(n.input(masks.added), broadcastMap(n.type(masks.added), scores->type().shape()));
  const bool causal = n.boolAttr("unidirectional", false);
  if (causal && past)
    atBefore = use(extentProduct(n.b, past, {pastAxis}, Element::I64), {});
  auto at = [](llvm::ArrayRef<Value *> a, size_t i) { return i ? a[i] : nullptr; };
  const Type scoresType = scores->type();
  Value *shown = pointwise(
      n.b, operands, maps, scoresType.shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
        Value *score = a[0], *key = s.index(3);
        if (atAdded)
          score = s(Op::Add, score, s.cast(a[atAdded], s.type));
        if (Value *hidden = hides(s, key, at(a, atMask), at(a, atBegin), at(a, atEnd)))
          score = s(Op::Add, score, s(Op::Select, hidden, s.c(filter), s.c(0)));
        if (causal) {
          Value *last = s.index(2);
          if (atBefore)
            last = s(Op::Add, last, a[atBefore]);
          const double least = s.type == Element::F64 ? std::numeric_limits<double>::lowest()
                                                      : std::numeric_limits<float>::lowest();
          score = s(Op::Select, s(Op::Greater, key, last), s.c(least), score);
        }
        return score;
      });
  Value *weights = shown ? n.b.value(Op::Softmax, {shown}, {{"axis", int64_t(3)}}) : nullptr;
  weights = weights ? n.b.cast(weights, parts[2]->type().element()) : nullptr;
  return joinHeads(n.b, matmulShared(n, weights, parts[2], false));
}

} // namespace

void importMicrosoftAttention(Node &n) {
  enum { X, Weights, Bias, Mask, Past, Added };
  if (!n.checkRank(X, 3, 3) || !n.checkRank(Weights, 2, 2) || !n.checkFloat(X))
    return;
  Value *projected = matmul(n.b, n.input(X), n.input(Weights), {}, {});
  if (n.has(Bias))
    projected = n.b.pointwise(Op::Add, {projected, n.input(Bias)});
  attendProjected(n, projected, {Mask, Added, Past});
}

void attendProjected(Node &n, Value *projected, AttentionOperands at) {
  if (!projected)
    return;
  // Queries, keys and values stand side by side.
  const int64_t heads = n.intAttr("num_heads", 0);
  const Dim width = projected->type().dim(2);
  Ints widths = n.intsAttr("qkv_hidden_sizes");
  if (widths.empty() && width.isConstant() && width.constant() % 3 == 0)
    widths.assign(3, width.constant() / 3);
  if (widths.size() != 3 || width != n.dim(widths[0] + widths[1] + widths[2])) {
    n.error("attribute qkv_hidden_sizes: expected three widths that make " + text({width}, ""));
    return;
  }
  Value *parts[3];
  int64_t start = 0;
  for (size_t i = 0; i < 3; start += widths[i++]) {
    Value *part = sliceAlong(n.b, projected, 2, n.dim(start), n.dim(widths[i]), 1);
    parts[i] = part ? splitHeads(n, part, heads, "num_heads") : nullptr;
    if (!parts[i])
      return;
  }
  // Keys and values of earlier runs come first: [2, batch, heads, past, size].
  if (n.has(at.past)) {
    const Type past = n.type(at.past);
    if (!n.checkRank(at.past, 5, 5))
      return;
    for (int64_t i : {0, 1}) {
      Value *kept = sliceAlong(n.b, n.input(at.past), 0, n.dim(i), n.dim(1), 1);
      kept = kept ? n.b.reshape(kept, past.shape().drop_front()) : nullptr;
      Value *&now = parts[i + 1];
      now = kept ? n.b.value(Op::Concat, {kept, now}, {{"axis", int64_t(2)}}) : nullptr;
      if (!now)
        return;
    }
  }
  if (n.wants(1)) {
    llvm::SmallVector<Value *, 2> pair;
    for (Value *v : {parts[1], parts[2]}) {
      Shape shape{n.dim(1)};
      shape.append(v->type().shape().begin(), v->type().shape().end());
      pair.push_back(n.b.reshape(v, shape));
    }
    n.set(1, n.b.value(Op::Concat, pair, {{"axis", int64_t(0)}}));
  }

  n.set(0, attend(n, parts, n.input(at.past), 3, {at.mask, at.added}));
}

namespace {

/// Queries, keys and values of MultiHeadAttention as [batch, length, width], or with heads apart
/// already; keys and values, or all three, may be one operand [batch, length, heads, 2 or 3, size].
/// False after an error.
bool projections(Node &n, Value *(&parts)[3]) {
  enum { Q, K, V };
  const unsigned packed = n.has(V) ? 3 : n.has(K) ? 1 : 0; // first operand that holds several
  if (!n.checkFloat(Q))
    return false;
  for (unsigned i = 0; i < packed; ++i) {
    if (!n.has(i)) {
      n.error("operand key is missing: expected it where operand value is given");
      return false;
    }
    if (!n.checkRank(i, 3, i == Q ? 3 : 4) || (i == V && !n.checkRank(V, n.rank(K), n.rank(K))))
      return false;
    parts[i] = n.input(i);
  }
  if (packed == 3)
    return true;
  const int64_t held = 3 - packed, heads = n.intAttr("num_heads", 0);
  const Type t = n.type(packed);
  if (t.rank() != 5 || t.dim(2) != n.dim(heads) || t.dim(3) != n.dim(held)) {
    n.error("operand " + n.inputName(packed) + ": expected [batch, length, " +
            std::to_string(heads) + ", " + std::to_string(held) + ", size], which holds " +
            (held == 2 ? "keys and values" : "queries, keys and values") + ", found " +
            toString(t));
    return false;
  }
  for (int64_t i = 0; i < held; ++i) {
    Value *part = sliceAlong(n.b, n.input(packed), 3, n.dim(i), n.dim(1), 1);
    parts[packed + i] =
        part ? n.b.reshape(part, {t.dim(0), t.dim(1), t.dim(2) * t.dim(4)}) : nullptr;
    if (!parts[packed + i])
      return false;
  }
  return true;
}

} // namespace

void importMultiHeadAttention(Node &n) {
  enum { Q, K, V, Bias, Mask, Added, PastKey, PastValue };
  for (unsigned i = PastValue + 1; i < n.numInputs(); ++i)
    if (n.has(i)) {
      n.error("operand " + n.inputName(i) + " is not supported");
      return;
    }
  if (n.has(PastKey) != n.has(PastValue)) {
    n.error("expected past keys and past values together");
    return;
  }
  Value *parts[3];
  if (!projections(n, parts))
    return;
  Dim start = n.dim(0);
  for (unsigned i = 0; i < 3; ++i) {
    const Type t = parts[i]->type();
    if (t.rank() == 4) // heads are apart already
      continue;
    const Dim width = t.dim(2);
    if (n.has(Bias)) {
      Value *bias = sliceAlong(n.b, n.input(Bias), 0, start, width, 1);
      parts[i] = bias ? n.b.pointwise(Op::Add, {parts[i], bias}) : nullptr;
      start = start + width;
    }
    parts[i] = parts[i] ? splitHeads(n, parts[i], n.intAttr("num_heads", 0), "num_heads") : nullptr;
    if (!parts[i])
      return;
  }
  for (unsigned i : {0u, 1u})
    if (n.has(PastKey)) {
      Value *&now = parts[i + 1];
      now = n.b.value(Op::Concat, {n.input(PastKey + i), now}, {{"axis", int64_t(2)}});
      if (!now)
        return;
    }
  for (unsigned i : {1u, 2u})
    if (n.wants(i))
      n.set(i, parts[i]);
  n.set(0, attend(n, parts, n.input(PastKey), 2, {Mask, Added}));
}

} // namespace tenon::frontend
