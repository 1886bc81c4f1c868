// Imports com.microsoft's GroupQueryAttention: attention of decoders over a cache of keys and
// values, with heads that share keys, a window, sinks, and the norms and the rotary embedding of
// queries and keys inside.
#include "frontend/onnx/Heads.h"
#include "frontend/onnx/KeyCache.h"
#include "frontend/onnx/Operators.h"

#include <cmath>

namespace tenon::frontend {
namespace {

enum {
  Q,
  K,
  V,
  PastKey,
  PastValue,
  Lengths,
  Total,
  Cos,
  Sin,
  Positions,
  Bias,
  Sinks,
  KeyScale,
  ValueScale,
  QueryNorm,
  KeyNorm,
};

/// The pieces of one node. Query i of batch entry b stands at position first[b] + i, where
/// first[b] = max(lengths[b] + 1 − queries, 0), and sees the keys up to there.
class GroupQuery {
public:
  explicit GroupQuery(Node &n)
      : n_(n), heads_(n.intAttr("num_heads", 0)), groups_(n.intAttr("kv_num_heads", 0)),
        causal_(n.boolAttr("causal", true)) {}

  void run() {
    if (!check() || !split() || !place() || (n_.has(QueryNorm) && !normalise()) ||
        (n_.boolAttr("do_rotary", false) && !rotate()))
      return;
    for (unsigned i : {0u, 1u}) {
      const CacheFormat format(n_, PastKey + i, KeyScale + i, i ? "v_quant_type" : "k_quant_type",
                               size_);
      Value *&now = parts_[i + 1];
      now = format.valid() ? format.store(now) : nullptr;
      if (now && n_.has(PastKey))
        now = rows_.capacity ? besideWindow(n_.input(PastKey + i), now, i + 1)
                             : grown(n_.input(PastKey + i), now);
      if (now && !rows_.capacity && n_.wants(i + 1))
        n_.set(i + 1, now);
      if (!(now = format.load(now, n_.element(Q))))
        return;
    }
    n_.set(0, attend());
  }

private:
  bool refuse(const std::string &what) {
    n_.error(what + " is not supported");
    return false;
  }

  bool check() {
    if (!n_.checkRank(Q, 3, 3) || !n_.checkFloat(Q))
      return false;
    for (unsigned i = KeyNorm + 1; i < n_.numInputs(); ++i)
      if (n_.has(i))
        return refuse("operand " + n_.inputName(i));
    if (n_.has(K) != n_.has(V) || n_.has(PastKey) != n_.has(PastValue) || !n_.has(Lengths) ||
        n_.has(QueryNorm) != n_.has(KeyNorm)) {
      n_.error(
          "expected keys with values, past keys with past values, seqlens_k, and norms of queries "
          "with norms of keys");
      return false;
    }
    if (n_.has(Sinks) && !n_.type(Sinks).elements().isConstant(heads_)) {
      n_.error("operand " + n_.inputName(Sinks) + ": expected a number per head, " +
               std::to_string(heads_) + ", found " + toString(n_.type(Sinks)));
      return false;
    }
    const Type lengths = n_.type(Lengths);
    rows_.queries = n_.type(Q).dim(1);
    rows_.window = n_.intAttr("local_window_size", -1);
    // Of one sequence the new rows simply follow.
    const bool follows = n_.type(Q).dim(0).isConstant(1) && n_.has(PastKey) &&
                         !n_.boolAttr("sliding_window_cache", false);
    if (!isInteger(lengths.element()) || lengths.elements() != n_.type(Q).dim(0) ||
        !(rows_.queries.isConstant() || follows)) {
      n_.error("expected one integer per batch entry in seqlens_k and a known number of queries, "
               "or one sequence whose cache grows, found " +
               toString(lengths) + " for " + toString(n_.type(Q)));
      return false;
    }
    if (n_.has(PastKey) && (!n_.checkRank(PastKey, 4, 4) || !n_.checkRank(PastValue, 4, 4)))
      return false;
    if (n_.has(Bias) && !n_.checkRank(Bias, 0, 4))
      return false;
    return !n_.boolAttr("sliding_window_cache", false) || checkWindow();
  }

  /// The cache holds a window alone: its extent is the capacity.
  bool checkWindow() {
    const Dim room = n_.has(PastKey) ? n_.type(PastKey).dim(2) : n_.dim(0);
    if (!room.isConstant() || rows_.window < 1 || room.constant() < rows_.window ||
        n_.type(PastValue).dim(2) != room || n_.has(Bias)) {
      n_.error(
          "expected past keys and values of as many rows as local_window_size, or more, and no "
          "attention_bias where sliding_window_cache is 1, found a window of " +
          std::to_string(rows_.window) + " and " +
          (n_.has(PastKey) ? toString(n_.type(PastKey)) : std::string("no past")));
      return false;
    }
    rows_.capacity = room.constant();
    return true;
  }

  /// Queries, keys and values [batch, heads, length, size], apart or side by side in operand 0.
  bool split() {
    const Dim width = n_.type(Q).dim(2);
    const int64_t all = heads_ + 2 * groups_;
    const bool packed = !n_.has(K);
    if (heads_ < 1 || groups_ < 1 || !width.isConstant() ||
        width.constant() % (packed ? all : heads_) != 0) {
      n_.error("attributes num_heads and kv_num_heads: expected heads that share " +
               toString(n_.type(Q)) + " evenly, found " + std::to_string(heads_) + " and " +
               std::to_string(groups_));
      return false;
    }
    size_ = width.constant() / (packed ? all : heads_);
    int64_t start = 0;
    for (unsigned i : {Q, K, V}) {
      const int64_t count = i == Q ? heads_ : groups_;
      Value *part = packed
                        ? sliceAlong(n_.b, n_.input(Q), 2, n_.dim(start), n_.dim(count * size_), 1)
                        : n_.input(i);
      start += count * size_;
      parts_[i] = part && part->type().rank() == 3
                      ? splitHeads(n_, part, count, i == Q ? "num_heads" : "kv_num_heads")
                      : nullptr;
      if (!parts_[i]) {
        if (!n_.failed())
          n_.error("operand " + n_.inputName(i) + ": expected [batch, length, width], found " +
                   toString(n_.type(i)));
        return false;
      }
    }
    return true;
  }

  bool place() {
    Value *lengths = n_.b.reshape(n_.input(Lengths), {n_.type(Q).dim(0)});
    valid_ = lengths
                 ? pointwise(n_.b, {lengths},
                             [](Scalars &s, llvm::ArrayRef<Value *> a) {
                               return s(Op::Add, s.cast(a[0], Element::I64), s.c(Element::I64, 1));
                             })
                 : nullptr;
    const auto count = rows_.queries.asConstant();
    llvm::SmallVector<Value *, 2> operands{valid_};
    if (!count)
      operands.push_back(extentProduct(n_.b, n_.input(Q), {1}, Element::I64));
    rows_.first = valid_ && operands.back()
                      ? pointwise(n_.b, operands,
                                  [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                                    Value *queries =
                                        count ? s.b.scalarInt(Element::I64, *count) : a[1];
                                    return s(Op::Relu, s(Op::Sub, a[0], queries));
                                  })
                      : nullptr;
    return rows_.first != nullptr;
  }

  /// Queries and keys over the root of the mean of their squares, head by head.
  bool normalise() {
    const double both = n_.floatAttr("qk_norm_epsilon", 1e-6f);
    for (unsigned i : {Q, K}) {
      const unsigned weight = QueryNorm + i;
      if (n_.rank(weight) != 1 || !n_.type(weight).dim(0).isConstant(size_)) {
        n_.error("operand " + n_.inputName(weight) + ": expected a factor per channel of a head, " +
                 std::to_string(size_) + ", found " + toString(n_.type(weight)));
        return false;
      }
      const double epsilon = n_.floatAttr(i == Q ? "q_norm_epsilon" : "k_norm_epsilon", both);
      Value *norm = n_.b.value(Op::Normalize, {parts_[i]},
                               {{"axes", Ints{3}}, {"epsilon", epsilon}, {"centered", false}});
      parts_[i] = norm ? n_.b.pointwise(Op::Mul, {n_.b.cast(norm, n_.element(Q)),
                                                  n_.b.cast(n_.input(weight), n_.element(Q))})
                       : nullptr;
      if (!parts_[i])
        return false;
    }
    return true;
  }

  bool rotate() {
    if (!n_.has(Cos) || !n_.has(Sin)) {
      n_.error("expected cos_cache and sin_cache where do_rotary is 1");
      return false;
    }
    Value *positions = n_.has(Positions) ? n_.input(Positions)
                                         : pointwise(n_.b, {rows_.first}, {{0}},
                                                     {n_.type(Q).dim(0), rows_.queries},
                                                     [](Scalars &s, llvm::ArrayRef<Value *> a) {
                                                       return s(Op::Add, a[0], s.index(1));
                                                     });
    Value *rows[2];
    for (unsigned i : {0u, 1u})
      if (!n_.checkRank(Cos + i, 2, 2) || !positions ||
          !(rows[i] =
                n_.b.value(Op::Gather, {n_.input(Cos + i), positions}, {{"axis", int64_t(0)}})))
        return false;
    for (unsigned i : {Q, K})
      if (!(parts_[i] =
                rotated(n_, parts_[i], rows[0], rows[1], n_.boolAttr("rotary_interleaved", false))))
        return false;
    return true;
  }

  /// The cache with the new rows at first[b]: longer by them, unless total_sequence_length is known
  /// to fit into it already. Null after an error.
  Value *grown(Value *past, Value *now) {
    const Dim room = past->type().dim(2);
    const auto total = n_.has(Total) ? n_.knownOperand(Total) : llvm::None;
    const bool fits =
        total && total->size() == 1 && room.isConstant() && total->intAt(0) <= room.constant();
    if (!fits) {
      Value *longer = n_.b.value(Op::Concat, {past, now}, {{"axis", int64_t(2)}});
      // One sequence has no padding: what is new follows what is kept.
      if (!longer || past->type().dim(0).isConstant(1))
        return longer;
      past = longer;
    }
    return written(past, now, fits);
  }
  /// Where row `row` [batch, head, …] of a value of type `t` has the element at the index.
  static Value *element(Scalars &s, Value *row, Type t) {
    auto times = [&](Value *v, unsigned d) {
      return s(Op::Mul, v, s.b.scalarInt(Element::I64, t.dim(d).constant()));
    };
    Value *head = s(Op::Add, times(s.index(0), 1), s.index(1));
    return s(Op::Add, times(s(Op::Add, times(head, 2), row), 3), s.index(3));
  }
  /// What lies behind the new rows of a cache that has just grown is zero.
  Value *written(Value *cache, Value *now, bool keepsRest) {
    const Type t = now->type();
    if (!t.dim(1).isConstant() || !t.dim(0).isConstant() || !rows_.queries.isConstant())
      return n_.error("expected a known batch size and number of queries, found " + toString(t));
    Value *linear = pointwise(n_.b, {rows_.first}, {{0}}, cache->type().shape(),
                              [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                                Value *row =
                                    s(Op::Clamp, s(Op::Sub, s.index(2), a[0]), s.c(Element::I64, 0),
                                      s.b.scalarInt(Element::I64, rows_.queries.constant() - 1));
                                return element(s, row, t);
                              });
    Value *fresh = linear ? gatherLinear(n_.b, now, linear) : nullptr;
    return fresh ? pointwise(n_.b, {cache, fresh, rows_.first},
                             {identityMap(4), identityMap(4), {0}}, cache->type().shape(),
                             [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                               Value *at = s(Op::Sub, s.index(2), a[2]);
                               Value *is =
                                   s(Op::LogicalAnd, s(Op::GreaterEqual, at, s.c(Element::I64, 0)),
                                     s(Op::Less, at,
                                       s.b.scalarInt(Element::I64, rows_.queries.constant())));
                               Value *rest = a[0];
                               if (!keepsRest)
                                 rest = s(Op::Select, s(Op::Less, at, s.c(Element::I64, 0)), rest,
                                          s.c(0));
                               return s(Op::Select, is, a[1], rest);
                             })
                 : nullptr;
  }

  /// The window's rows with the new ones behind them; sets result i: the rows that stay.
  Value *besideWindow(Value *past, Value *now, unsigned i) {
    Value *all = n_.b.value(Op::Concat, {past, now}, {{"axis", int64_t(2)}});
    if (!all || !n_.wants(i))
      return all;
    const Type t = all->type();
    if (!t.dim(1).isConstant() || !t.dim(0).isConstant() || !t.dim(3).isConstant())
      return n_.error("expected known extents, found " + toString(t));
    // Row r holds position `end` − kept + r. Rows behind the kept ones hold the last new row: any
    // number would do there.
    Value *linear = pointwise(n_.b, {rows_.first}, {{0}}, past->type().shape(),
                              [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                                auto c = [&](int64_t v) { return s.b.scalarInt(Element::I64, v); };
                                Value *end = s(Op::Add, a[0], c(rows_.queries.constant()));
                                Value *at =
                                    s(Op::Add, s(Op::Sub, end, rows_.kept(s, end)), s.index(2));
                                Value *old = s(Op::Add, s(Op::Sub, at, a[0]), rows_.kept(s, a[0]));
                                Value *fresh = s(Op::Add, s(Op::Sub, at, a[0]), c(*rows_.capacity));
                                Value *row = s(Op::Select, s(Op::Less, at, a[0]), old, fresh);
                                row = s(Op::Clamp, row, c(0), c(t.dim(2).constant() - 1));
                                return element(s, row, t);
                              });
    n_.set(i, linear ? gatherLinear(n_.b, all, linear) : nullptr);
    return all;
  }

  /// Whether the query at `position` does not see row `key`, where `first` positions precede the
  /// new rows. `valid`: positions with those, up to where a query sees that is not causal.
  Value *hidden(Scalars &s, Value *first, Value *position, Value *key, Value *valid) const {
    auto c = [&](int64_t v) { return s.b.scalarInt(Element::I64, v); };
    Value *hides = nullptr;
    if (rows_.capacity) { // rows of the window first, then the new ones
      Value *rows = rows_.kept(s, first);
      Value *isOld = s(Op::Less, key, c(*rows_.capacity));
      hides = s(Op::LogicalAnd, isOld, s(Op::GreaterEqual, key, rows));
      Value *old = s(Op::Add, s(Op::Sub, first, rows), key);
      Value *fresh = s(Op::Add, s(Op::Sub, first, c(*rows_.capacity)), key);
      key = s(Op::Select, isOld, old, fresh);
    }
    Value *beyond = causal_ ? s(Op::Greater, key, position) : s(Op::GreaterEqual, key, valid);
    hides = hides ? s(Op::LogicalOr, hides, beyond) : beyond;
    if (rows_.window <= 0)
      return hides;
    // So many keys, its own among them.
    return s(Op::LogicalOr, hides, s(Op::Less, key, s(Op::Sub, position, c(rows_.window - 1))));
  }

  /// Softmax of [batch, heads…, query, key], with one more score in each sum that has no key.
  Value *weightsOf(Value *scores) const {
    const bool smooth = n_.boolAttr("smooth_softmax", false);
    if (!scores || (!n_.has(Sinks) && !smooth))
      return scores
                 ? n_.b.value(Op::Softmax, {scores}, {{"axis", int64_t(scores->type().rank()) - 1}})
                 : nullptr;
    const Type t = scores->type();
    const unsigned keys = t.rank() - 1;
    const IndexMap rows = identityMap(keys);
    Value *sinks = n_.has(Sinks) ? n_.b.cast(n_.input(Sinks), t.element())
                                 : n_.b.scalarConstant(t.element(), 0);
    if (sinks && n_.has(Sinks)) {
      Dims each(t.shape().begin() + 1, t.shape().begin() + (keys - 1));
      each.push_back(n_.dim(1));
      sinks = n_.b.reshape(sinks, each);
    }
    sinks = sinks ? n_.b.broadcastTo(sinks, t.shape().drop_back()) : nullptr;
    Value *top = n_.b.reduce(Op::Max, scores, {int64_t(keys)}, -INFINITY);
    top = top && sinks ? n_.b.pointwise(Op::Max, {top, sinks}) : nullptr;
    if (!top)
      return nullptr;
    auto exponential = [&](Value *v) {
      return pointwise(
          n_.b, {v, top}, {identityMap(v->type().rank()), rows}, v->type().shape(),
          [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Exp, s(Op::Sub, a[0], a[1])); });
    };
    Value *powers = exponential(scores), *rest = exponential(sinks);
    Value *total = powers && rest
                       ? n_.b.pointwise(Op::Add, {sum(n_.b, powers, {int64_t(keys)}), rest})
                       : nullptr;
    return total ? pointwise(
                       n_.b, {powers, total}, {identityMap(t.rank()), rows}, t.shape(),
                       [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Div, a[0], a[1]); })
                 : nullptr;
  }

  Value *attend() {
    const double given = n_.floatAttr("scale", 0), cap = n_.floatAttr("softcap", 0);
    const auto shared = sharing(n_, parts_[Q]->type().dim(1), parts_[K]->type().dim(1));
    if (!shared)
      return nullptr;
    Value *bias = n_.input(Bias);
    if (!shared->isConstant(1)) {
      parts_[Q] = groupHeads(n_.b, parts_[Q], *shared);
      for (unsigned i : {K, V})
        parts_[i] = groupHeads(n_.b, parts_[i], n_.dim(1));
      bias = bias ? groupMask(n_.b, bias, *shared) : nullptr;
      if (!parts_[Q] || !parts_[K] || !parts_[V] || (n_.has(Bias) && !bias))
        return nullptr;
    }
    Value *scores = n_.b.value(Op::MatMul, {parts_[Q], parts_[K]}, {{"trans_b", true}});
    scores = scores ? n_.b.cast(scores, computeType(n_.element(Q))) : nullptr;
    scores = scaledBy(n_.b, scores, given != 0 ? given : 1 / std::sqrt(double(size_)));
    if (!scores)
      return nullptr;
    llvm::SmallVector<Value *, 4> operands{scores, rows_.first};
    const Type t = scores->type();
    const unsigned rank = t.rank();
    std::vector<IndexMap> maps{identityMap(rank), along(0)};
    if (!causal_) {
      operands.push_back(valid_);
      maps.push_back(along(0));
    }
    if (bias) {
      operands.push_back(bias);
      maps.push_back(broadcastMap(bias->type(), t.shape()));
    }
    Value *shown =
        pointwise(n_.b, operands, maps, t.shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          Value *score = a[0], *position = s(Op::Add, a[1], s.index(rank - 2));
          if (cap > 0)
            score = s(Op::Mul, s(Op::Tanh, s(Op::Div, score, s.c(cap))), s.c(cap));
          if (bias)
            score = s(Op::Add, score, s.cast(a.back(), s.type));
          return s(Op::Select,
                   hidden(s, a[1], position, s.index(rank - 1), causal_ ? nullptr : a[2]),
                   s.c(-INFINITY), score);
        });
    Value *weights = weightsOf(shown);
    weights = weights ? n_.b.cast(weights, n_.element(Q)) : nullptr;
    weights = weights ? n_.b.value(Op::MatMul, {weights, parts_[V]}) : nullptr;
    return joinHeads(n_.b, ungroupHeads(n_.b, weights));
  }

  Node &n_;
  const int64_t heads_, groups_;
  const bool causal_;
  int64_t size_ = 0;
  CacheRows rows_;
  Value *parts_[3] = {};
  Value *valid_ = nullptr; // [batch]: positions with the new ones
};

} // namespace

void importGroupQueryAttention(Node &n) { GroupQuery(n).run(); }

} // namespace tenon::frontend
