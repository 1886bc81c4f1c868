// Imports com.microsoft's Attention: the projection of one tensor to queries, keys and values, then
// attention over them and what was kept of earlier runs; MultiHeadAttention, whose operands are
// projected; and what stands for it where decoders generate one token at a time.
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
  Value *lengths = nullptr; // keys of each sequence, [batch]: those beyond are none
  unsigned scores = kNone;  // the result that takes the scores as the softmax reads them
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
  size_t atMask = 0, atBegin = 0, atEnd = 0, atAdded = 0, atBefore = 0, atLength = 0;
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
  if (masks.lengths)
    atLength = use(masks.lengths, along(0));
  auto at = [](llvm::ArrayRef<Value *> a, size_t i) { return i ? a[i] : nullptr; };
  const Type scoresType = scores->type();
  Value *shown = pointwise(
      n.b, operands, maps, scoresType.shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
        Value *score = a[0], *key = s.index(3);
        if (atAdded)
          score = s(Op::Add, score, s.cast(a[atAdded], s.type));
        if (Value *hidden = hides(s, key, at(a, atMask), at(a, atBegin), at(a, atEnd)))
          score = s(Op::Add, score, s(Op::Select, hidden, s.c(filter), s.c(0)));
        const double least = s.type == Element::F64 ? std::numeric_limits<double>::lowest()
                                                    : std::numeric_limits<float>::lowest();
        if (causal) {
          Value *last = s.index(2);
          if (atBefore)
            last = s(Op::Add, last, a[atBefore]);
          score = s(Op::Select, s(Op::Greater, key, last), s.c(least), score);
        }
        if (atLength) {
          Value *beyond = s(Op::GreaterEqual, key, s.cast(a[atLength], Element::I64));
          score = s(Op::Select, beyond, s.c(least), score);
        }
        return score;
      });
  if (masks.scores != kNone && n.wants(masks.scores) && shown)
    n.set(masks.scores, n.b.cast(shown, parts[0]->type().element()));
  Value *weights = shown ? n.b.value(Op::Softmax, {shown}, {{"axis", int64_t(3)}}) : nullptr;
  weights = weights ? n.b.cast(weights, parts[2]->type().element()) : nullptr;
  return joinHeads(n.b, matmulShared(n, weights, parts[2], false));
}

/// Keys and values of operand i [2, batch, heads, length, size], each [batch, heads, length, size].
/// False after an error.
bool keysAndValues(Node &n, unsigned i, Value *(&parts)[2]) {
  if (!n.checkRank(i, 5, 5))
    return false;
  for (int64_t k : {0, 1}) {
    Value *part = sliceAlong(n.b, n.input(i), 0, n.dim(k), n.dim(1), 1);
    if (!(parts[k] = part ? n.b.reshape(part, n.type(i).shape().drop_front()) : nullptr))
      return false;
  }
  return true;
}

/// The reverse.
Value *asOne(Builder &b, llvm::ArrayRef<Value *> parts) {
  llvm::SmallVector<Value *, 2> pair;
  for (Value *v : parts) {
    Shape shape{b.context().dim(1)};
    shape.append(v->type().shape().begin(), v->type().shape().end());
    pair.push_back(b.reshape(v, shape));
  }
  return b.value(Op::Concat, pair, {{"axis", int64_t(0)}});
}

/// Operand 0 [batch, length, inputs] times operand 1 [inputs, width], with the bias that operand 2
/// may be. Null after an error.
Value *projection(Node &n) {
  enum { X, Weights, Bias };
  if (!n.checkRank(X, 3, 3) || !n.checkRank(Weights, 2, 2) || !n.checkFloat(X))
    return nullptr;
  Value *y = matmul(n.b, n.input(X), n.input(Weights), {}, {});
  return y && n.has(Bias) ? n.b.pointwise(Op::Add, {y, n.input(Bias)}) : y;
}

} // namespace

void importMicrosoftAttention(Node &n) {
  enum { X, Weights, Bias, Mask, Past, Added };
  attendProjected(n, projection(n), {Mask, Added, Past});
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
  if (n.has(at.past)) { // keys and values of earlier runs come first
    Value *kept[2];
    if (!keysAndValues(n, at.past, kept))
      return;
    for (unsigned i : {0u, 1u}) {
      Value *&now = parts[i + 1];
      now = n.b.value(Op::Concat, {kept[i], now}, {{"axis", int64_t(2)}});
      if (!now)
        return;
    }
  }
  if (n.wants(1))
    n.set(1, asOne(n.b, {parts[1], parts[2]}));

  n.set(0, attend(n, parts, n.input(at.past), 3, {at.mask, at.added, at.lengths}));
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

/// Adds the bias, operand `bias`, to what has no heads yet and splits its heads, of `parts`. False
/// after an error.
bool byHeads(Node &n, Value *(&parts)[3], unsigned bias) {
  Dim start = n.dim(0);
  for (Value *&part : parts) {
    if (part->type().rank() == 4) // heads are apart already
      continue;
    const Dim width = part->type().dim(2);
    if (n.has(bias)) {
      Value *own = sliceAlong(n.b, n.input(bias), 0, start, width, 1);
      part = own ? n.b.pointwise(Op::Add, {part, own}) : nullptr;
      start = start + width;
    }
    part = part ? splitHeads(n, part, n.intAttr("num_heads", 0), "num_heads") : nullptr;
    if (!part)
      return false;
  }
  return true;
}

/// Keys and values of one more token in caches [batch, heads, most, size] that hold `count` rows
/// before it. With beams, [batch / width, width, most], row k < count of an entry is read from the
/// beam of its batch that they name.
struct SharedCaches {
  Value *count = nullptr; // a scalar, i64
  Value *beams = nullptr; // [batch, most], i64; null: each entry reads its own rows
  int64_t width = 1;

  /// `cache` with `row` [batch, heads, 1, size] at `count`.
  Value *appended(Builder &b, Value *cache, Value *row) const {
    return pointwise(b, {cache, row, count}, {identityMap(4), {0, 1, -1, 3}, {}},
                     cache->type().shape(), [](Scalars &s, llvm::ArrayRef<Value *> a) {
                       return s(Op::Select, s(Op::Equal, s.index(2), a[2]), a[1], a[0]);
                     });
  }

  /// The rows that attention reads of `cache`, which has known extents where there are beams.
  Value *read(Builder &b, Value *cache) const {
    if (!beams)
      return cache;
    const Type t = cache->type();
    Value *linear = pointwise(
        b, {beams, count}, {{0, 2}, {}}, t.shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          const auto c = [&](int64_t v) { return s.b.scalarInt(Element::I64, v); };
          Value *own = s(Op::Mod, s.index(0), c(width));
          Value *first = s(Op::Sub, s.index(0), own);
          Value *beam = s(Op::Select, s(Op::Less, s.index(2), a[1]), a[0], own);
          Value *at = s(Op::Add, first, beam);
          for (unsigned d = 1; d < 4; ++d)
            at = s(Op::Add, s(Op::Mul, at, c(t.dim(d).constant())), s.index(d));
          return at;
        });
    return linear ? gatherLinear(b, cache, linear) : nullptr;
  }
};

/// What the operands say that go with shared caches [batch, heads, most, size]; None after an
/// error.
llvm::Optional<SharedCaches> sharedCaches(Node &n, Type cache, unsigned length, unsigned indices) {
  if (!n.has(length) || !isInteger(n.element(length)) || !n.type(length).elements().isConstant(1)) {
    n.error("expected operand past_sequence_length, one integer, beside caches that past and "
            "present share");
    return llvm::None;
  }
  SharedCaches shared;
  shared.count = n.b.cast(n.b.reshape(n.input(length), {}), Element::I64);
  if (n.has(indices)) {
    const Type t = n.type(indices);
    const bool fits = t.rank() == 3 && isInteger(t.element()) &&
                      t.dim(0) * t.dim(1) == cache.dim(0) && t.dim(1).isConstant() &&
                      t.dim(2) == cache.dim(2);
    if (!fits || !llvm::all_of(cache.shape().drop_front(), [](Dim d) { return d.isConstant(); })) {
      n.error("operand " + n.inputName(indices) +
              ": expected integers [batch / beams, beams, most] for caches [batch, heads, most, "
              "size] of known extents, found " +
              toString(t) + " for " + toString(cache));
      return llvm::None;
    }
    shared.width = t.dim(1).constant();
    Value *beams = n.b.reshape(n.input(indices), {cache.dim(0), cache.dim(2)});
    shared.beams = n.b.cast(beams, Element::I64);
  }
  return shared;
}

} // namespace

void importMultiHeadAttention(Node &n) {
  enum { Q, K, V, Bias, Mask, Added, PastKey, PastValue };
  constexpr unsigned Scores = 3; // a result
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
  if (!projections(n, parts) || !byHeads(n, parts, Bias))
    return;
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
  n.set(0, attend(n, parts, n.input(PastKey), 2, {Mask, Added, nullptr, Scores}));
}

namespace {

/// Operands of the two operators that decode one token: their places.
struct DecoderOperands {
  unsigned mask, added, length, indices;
};

/// Attention of one token over the caches of keys and values that past and present share. `parts`
/// [batch, heads, 1, size], `caches` [batch, heads, most, size]; `present` are the caches with the
/// token. Null after an error.
Value *attendShared(Node &n, llvm::ArrayRef<Value *> parts, llvm::ArrayRef<Value *> caches,
                    DecoderOperands at, Value *(&present)[2]) {
  for (unsigned i : {0u, 1u}) {
    const Type row = parts[i + 1]->type(), cache = caches[i]->type();
    if (cache.rank() != 4 || cache.element() != row.element() || cache.dim(0) != row.dim(0) ||
        cache.dim(1) != row.dim(1) || !row.dim(2).isConstant(1) || cache.dim(3) != row.dim(3))
      return n.error("expected caches [batch, heads, most, size] for one token " + toString(row) +
                     ", found " + toString(cache));
  }
  const auto shared = sharedCaches(n, caches[0]->type(), at.length, at.indices);
  if (!shared)
    return nullptr;
  // A mask or bias has as many keys as there are with the token.
  Dim keys = caches[0]->type().dim(2);
  for (unsigned i : {at.mask, at.added})
    if (n.has(i) && n.rank(i) > 0)
      keys = n.type(i).dim(n.rank(i) - 1);
  llvm::SmallVector<Value *, 3> read{parts[0]};
  for (unsigned i : {0u, 1u}) {
    present[i] = shared->appended(n.b, caches[i], parts[i + 1]);
    Value *rows = present[i] ? shared->read(n.b, present[i]) : nullptr;
    rows = rows ? sliceAlong(n.b, rows, 2, n.dim(0), keys, 1) : nullptr;
    if (!rows)
      return nullptr;
    read.push_back(rows);
  }
  Value *lengths = pointwise(n.b, {shared->count}, {{}}, {parts[0]->type().dim(0)},
                             [](Scalars &s, llvm::ArrayRef<Value *> a) {
                               return s(Op::Add, a[0], s.b.scalarInt(Element::I64, 1));
                             });
  return lengths ? attend(n, read, nullptr, 2, {at.mask, at.added, lengths}) : nullptr;
}

} // namespace

void importDecoderMaskedMultiHeadAttention(Node &n) {
  enum { Q, K, V, Mask, Added, PastKey, PastValue, PastLength, Beams, Indices, Bias };
  constexpr unsigned Scores = 3; // a result
  if (!n.checkRank(Q, 3, 3) || !n.checkFloat(Q))
    return;
  if (n.has(K) != n.has(V) || n.has(PastKey) != n.has(PastValue)) {
    n.error("expected keys and values together, and past ones, too");
    return;
  }
  Value *parts[3];
  if (n.has(K)) {
    if (!n.checkRank(K, 3, 4) || !n.checkRank(V, n.rank(K), n.rank(K)))
      return;
    for (unsigned i : {Q, K, V})
      parts[i] = n.input(i);
  } else { // queries, keys and values side by side
    const Dim width = floorDiv(n.type(Q).dim(2), 3);
    for (unsigned i : {Q, K, V})
      if (!(parts[i] = sliceAlong(n.b, n.input(Q), 2, width * int64_t(i), width, 1)))
        return;
  }
  if (!byHeads(n, parts, Bias))
    return;
  if (!n.has(PastKey)) {
    n.set(0, attend(n, parts, nullptr, 2, {Mask, Added, nullptr, Scores}));
    return;
  }
  Value *present[2];
  if (n.boolAttr("past_present_share_buffer", false)) {
    n.set(0, attendShared(n, parts, {n.input(PastKey), n.input(PastValue)},
                          {Mask, Added, PastLength, Indices}, present));
  } else {
    for (unsigned i : {0u, 1u}) {
      present[i] =
          n.b.value(Op::Concat, {n.input(PastKey + i), parts[i + 1]}, {{"axis", int64_t(2)}});
      if (!(parts[i + 1] = present[i]))
        return;
    }
    n.set(0, attend(n, parts, n.input(PastKey), 2, {Mask, Added, nullptr, Scores}));
  }
  if (!n.output(0))
    return;
  for (unsigned i : {0u, 1u})
    if (n.wants(i + 1))
      n.set(i + 1, present[i]);
}

void importDecoderMaskedSelfAttention(Node &n) {
  enum { X, Weights, Bias, Mask, Past, Added, PastLength, Beams, Indices };
  Value *projected = projection(n);
  if (!projected)
    return;
  if (!n.boolAttr("past_present_share_buffer", false)) {
    attendProjected(n, projected, {Mask, Added, Past});
    return;
  }
  if (!n.has(Past)) {
    n.error("operand past is missing: expected the cache that past and present share");
    return;
  }
  const Dim width = floorDiv(projected->type().dim(2), 3);
  Value *parts[3], *caches[2], *present[2];
  for (int64_t i : {0, 1, 2}) {
    Value *part = sliceAlong(n.b, projected, 2, width * i, width, 1);
    parts[i] = part ? splitHeads(n, part, n.intAttr("num_heads", 0), "num_heads") : nullptr;
    if (!parts[i])
      return;
  }
  if (!keysAndValues(n, Past, caches))
    return;
  Value *y = attendShared(n, parts, caches, {Mask, Added, PastLength, Indices}, present);
  n.set(0, y);
  if (y && n.wants(1))
    n.set(1, asOne(n.b, present));
}

} // namespace tenon::frontend
