// Imports com.microsoft's GroupQueryAttention: causal attention of decoders over a cache of keys
// and values, with heads that share keys, a window, and the rotary embedding inside.
#include "frontend/onnx/Heads.h"
#include "frontend/onnx/Operators.h"

#include <cmath>

namespace tenon::frontend {
namespace {

enum { Q, K, V, PastKey, PastValue, Lengths, Total, Cos, Sin, Positions, Bias };

/// The pieces of one node. Query i of batch entry b stands at position first[b] + i, where
/// first[b] = max(lengths[b] + 1 − queries, 0), and sees the keys up to there.
class GroupQuery {
public:
  explicit GroupQuery(Node &n)
      : n_(n), heads_(n.intAttr("num_heads", 0)), groups_(n.intAttr("kv_num_heads", 0)) {}

  void run() {
    if (!check() || !split() || !place() || (n_.boolAttr("do_rotary", false) && !rotate()))
      return;
    for (unsigned i : {0u, 1u}) {
      Value *&now = parts_[i + 1];
      now = n_.has(PastKey) ? kept(n_.input(PastKey + i), now) : now;
      if (!now)
        return;
      if (n_.wants(i + 1))
        n_.set(i + 1, now);
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
    for (unsigned i = Bias + 1; i < n_.numInputs(); ++i)
      if (n_.has(i))
        return refuse("operand " + n_.inputName(i));
    if (n_.has(K) != n_.has(V) || n_.has(PastKey) != n_.has(PastValue) || !n_.has(Lengths)) {
      n_.error("expected keys with values, past keys with past values, and seqlens_k");
      return false;
    }
    const Type lengths = n_.type(Lengths);
    queries_ = n_.type(Q).dim(1);
    if (!isInteger(lengths.element()) || lengths.elements() != n_.type(Q).dim(0) ||
        !queries_.isConstant()) {
      n_.error("expected one integer per batch entry in seqlens_k and a known number of queries, "
               "found " +
               toString(lengths) + " for " + toString(n_.type(Q)));
      return false;
    }
    return !n_.has(PastKey) || (n_.checkRank(PastKey, 4, 4) && n_.checkRank(PastValue, 4, 4));
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
    first_ = valid_ ? pointwise(n_.b, {valid_},
                                [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                                  Value *count = s.b.scalarInt(Element::I64, queries_.constant());
                                  return s(Op::Relu, s(Op::Sub, a[0], count));
                                })
                    : nullptr;
    return first_ != nullptr;
  }

  bool rotate() {
    if (!n_.has(Cos) || !n_.has(Sin)) {
      n_.error("expected cos_cache and sin_cache where do_rotary is 1");
      return false;
    }
    Value *positions = n_.has(Positions)
                           ? n_.input(Positions)
                           : pointwise(n_.b, {first_}, {{0}}, {n_.type(Q).dim(0), queries_},
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
  Value *kept(Value *past, Value *now) {
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
  /// What lies behind the new rows of a cache that has just grown is zero.
  Value *written(Value *cache, Value *now, bool keepsRest) {
    const Type t = now->type();
    if (!t.dim(1).isConstant() || !t.dim(0).isConstant())
      return n_.error("expected a known batch size, found " + toString(t));
    Value *linear = pointwise(
        n_.b, {first_}, {{0}}, cache->type().shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          auto times = [&](Value *v, int64_t by) {
            return s(Op::Mul, v, s.b.scalarInt(Element::I64, by));
          };
          Value *row = s(Op::Clamp, s(Op::Sub, s.index(2), a[0]), s.c(Element::I64, 0),
                         s.b.scalarInt(Element::I64, queries_.constant() - 1));
          Value *head = s(Op::Add, times(s.index(0), t.dim(1).constant()), s.index(1));
          row = s(Op::Add, times(head, queries_.constant()), row);
          return s(Op::Add, times(row, size_), s.index(3));
        });
    Value *fresh = linear ? gatherLinear(n_.b, now, linear) : nullptr;
    return fresh
               ? pointwise(
                     n_.b, {cache, fresh, first_}, {identityMap(4), identityMap(4), {0}},
                     cache->type().shape(),
                     [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                       Value *at = s(Op::Sub, s.index(2), a[2]);
                       Value *is =
                           s(Op::LogicalAnd, s(Op::GreaterEqual, at, s.c(Element::I64, 0)),
                             s(Op::Less, at, s.b.scalarInt(Element::I64, queries_.constant())));
                       Value *rest = a[0];
                       if (!keepsRest)
                         rest = s(Op::Select, s(Op::Less, at, s.c(Element::I64, 0)), rest, s.c(0));
                       return s(Op::Select, is, a[1], rest);
                     })
               : nullptr;
  }

  Value *attend() {
    const double given = n_.floatAttr("scale", 0), cap = n_.floatAttr("softcap", 0);
    const int64_t window = n_.intAttr("local_window_size", -1);
    Value *scores = matmulShared(n_, parts_[Q], parts_[K], true);
    scores = scores ? n_.b.cast(scores, computeType(n_.element(Q))) : nullptr;
    scores = scaledBy(n_.b, scores, given != 0 ? given : 1 / std::sqrt(double(size_)));
    if (!scores)
      return nullptr;
    llvm::SmallVector<Value *, 3> operands{scores, first_};
    std::vector<IndexMap> maps{identityMap(4), along(0)};
    if (n_.has(Bias)) {
      operands.push_back(n_.input(Bias));
      maps.push_back(broadcastMap(n_.type(Bias), scores->type().shape()));
    }
    const Type t = scores->type();
    Value *shown =
        pointwise(n_.b, operands, maps, t.shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          Value *score = a[0], *key = s.index(3), *position = s(Op::Add, a[1], s.index(2));
          if (cap > 0)
            score = s(Op::Mul, s(Op::Tanh, s(Op::Div, score, s.c(cap))), s.c(cap));
          if (a.size() > 2)
            score = s(Op::Add, score, s.cast(a[2], s.type));
          Value *hidden = s(Op::Greater, key, position);
          if (window > 0) // this many keys, its own among them
            hidden =
                s(Op::LogicalOr, hidden,
                  s(Op::Less, key, s(Op::Sub, position, s.b.scalarInt(Element::I64, window - 1))));
          return s(Op::Select, hidden, s.c(-INFINITY), score);
        });
    Value *weights = shown ? n_.b.value(Op::Softmax, {shown}, {{"axis", int64_t(3)}}) : nullptr;
    weights = weights ? n_.b.cast(weights, n_.element(Q)) : nullptr;
    return joinHeads(n_.b, matmulShared(n_, weights, parts_[V], false));
  }

  Node &n_;
  const int64_t heads_, groups_;
  int64_t size_ = 0;
  Dim queries_;
  Value *parts_[3] = {};
  Value *valid_ = nullptr, *first_ = nullptr; // [batch]
};

} // namespace

void importGroupQueryAttention(Node &n) { GroupQuery(n).run(); }

} // namespace tenon::frontend
