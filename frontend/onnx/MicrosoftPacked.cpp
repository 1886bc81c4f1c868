// Imports com.microsoft's packing mode: sequences of unequal lengths without the padding behind
// them. RemovePadding keeps the tokens that there are, [batch, length, width] -> [tokens, width];
// attention needs their sequences and puts the padding back for itself; RestorePadding does for the
// result.
//
//   token offsets    [batch, length]: first the places of the tokens in batch · length, in order,
//                    then those of the padding
//   cumulated        [batch + 1]: tokens in front of each sequence
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Heads.h"
#include "frontend/onnx/Operators.h"

#include "ir/Names.h"

namespace tenon::frontend {
namespace {

/// Places [count] of the true elements of `mask`, a list; `count` becomes a symbol.
Value *placesOf(Node &n, Value *mask, const char *what) {
  const Dim symbol = n.graph.state.bornSymbol(n.context(), sanitizeName(n.id + what), 0,
                                              mask->type().upperElements());
  Value *found = n.b.value(Op::NonZero, {mask}, {{"symbol", symbol.symbol().str()}});
  return found ? n.b.reshape(found, {found->type().dim(1)}) : nullptr;
}

Value *joined(Builder &b, llvm::ArrayRef<Value *> parts) {
  return b.value(Op::Concat, parts, {{"axis", int64_t(0)}});
}

/// What operands `offsets` and `cumulated` say; false after an error.
bool checkPacking(Node &n, unsigned offsets, unsigned cumulated) {
  if (!n.has(offsets) || !n.has(cumulated)) {
    n.error(
        "operands " + std::to_string(offsets) + " and " + std::to_string(cumulated) +
        " are missing: expected token offsets and cumulated lengths, as RemovePadding gives them");
    return false;
  }
  const Type t = n.type(offsets), c = n.type(cumulated);
  if (t.rank() == 2 && isInteger(t.element()) && c.rank() == 1 && isInteger(c.element()) &&
      c.dim(0) == t.dim(0) + 1)
    return true;
  n.error(
      "operands " + n.inputName(offsets) + " and " + n.inputName(cumulated) +
      ": expected integers [batch, length] and [batch + 1], as RemovePadding gives them, found " +
      toString(t) + " and " + toString(c));
  return false;
}

/// The rows of `padded` [batch · length, width] that are tokens, in order: [tokens, width].
Value *packed(Node &n, Value *padded, Value *offsets, Dim tokens) {
  Value *flat = n.b.reshape(n.b.cast(offsets, Element::I64), {offsets->type().elements()});
  Value *rows = flat ? sliceAlong(n.b, flat, 0, n.dim(0), tokens, 1) : nullptr;
  return rows && padded ? n.b.value(Op::Gather, {padded, rows}, {{"axis", int64_t(0)}}) : nullptr;
}

} // namespace

Value *unpackedRows(Node &n, Value *packed, Value *offsets) {
  const Type t = packed->type();
  const Dim places = offsets->type().elements();
  Value *empty = n.b.broadcastTo(n.b.scalarConstant(t.element(), 0), {places, t.dim(1)});
  Value *flat = n.b.reshape(n.b.cast(offsets, Element::I64), {places});
  Value *rows = flat ? sliceAlong(n.b, flat, 0, n.dim(0), t.dim(0), 1) : nullptr;
  if (!rows || !empty)
    return nullptr;
  Value *linear = pointwise(n.b, {rows}, {along(0)}, {t.dim(0), t.dim(1)},
                            [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                              Value *width = s.b.scalarInt(Element::I64, t.dim(1).constant());
                              return s(Op::Add, s(Op::Mul, a[0], width), s.index(1));
                            });
  Value *flatEmpty = n.b.reshape(empty, {places * t.dim(1)});
  Value *y = linear && flatEmpty ? n.b.value(Op::Scatter,
                                             {flatEmpty, n.b.reshape(linear, {t.elements()}),
                                              n.b.reshape(packed, {t.elements()})},
                                             {{"combiner", Word{"none"}}})
                                 : nullptr;
  return y ? n.b.reshape(y, {places, t.dim(1)}) : nullptr;
}

void importRemovePadding(Node &n) { // x [batch, length, width], tokens of each sequence [batch]
  const Type t = n.type(0);
  if (!n.checkRank(0, 3, 3))
    return;
  if (n.rank(1) != 1 || !isInteger(n.element(1)) || n.type(1).dim(0) != t.dim(0)) {
    n.error("operand " + n.inputName(1) + ": expected one number of tokens per sequence of " +
            toString(t) + ", found " + toString(n.type(1)));
    return;
  }
  Value *counts = n.b.cast(n.input(1), Element::I64);
  const Dim places = t.dim(0) * t.dim(1);
  auto isToken = [&](bool token) {
    Value *mask = pointwise(n.b, {counts}, {along(0)}, {t.dim(0), t.dim(1)},
                            [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                              return token ? s(Op::Less, s.index(1), a[0])
                                           : s(Op::GreaterEqual, s.index(1), a[0]);
                            });
    return mask ? n.b.reshape(mask, {places}) : nullptr;
  };
  Value *tokenMask = isToken(true), *restMask = isToken(false);
  Value *tokens = tokenMask ? placesOf(n, tokenMask, "_tokens") : nullptr;
  Value *rows = tokens ? n.b.reshape(n.input(0), {places, t.dim(2)}) : nullptr;
  if (!rows || !restMask)
    return;
  n.set(0, n.b.value(Op::Gather, {rows, tokens}, {{"axis", int64_t(0)}}));
  if (n.wants(1)) {
    Value *all = generate(n.b, Element::I64, {places},
                          [](Scalars &s, llvm::ArrayRef<Value *>) { return s.index(0); });
    // A token moves to the number of tokens before it, padding behind all tokens: both are sums.
    auto rank = [&](Value *mask) -> Value * {
      Operation *op =
          n.b.scan(Op::Add, n.b.cast(mask, Element::I64), 0, 0, /*exclusive=*/true, false);
      return op ? op->result() : nullptr;
    };
    Value *before = rank(tokenMask), *restBefore = rank(restMask);
    Value *count = extentProduct(n.b, tokens, {0}, Element::I64);
    Value *to = before && restBefore && count
                    ? pointwise(n.b, {before, restBefore, tokenMask, count},
                                {along(0), along(0), along(0), {}}, {places},
                                [](Scalars &s, llvm::ArrayRef<Value *> a) {
                                  return s(Op::Select, a[2], a[0], s(Op::Add, a[1], a[3]));
                                })
                    : nullptr;
    Value *offsets =
        to && all ? n.b.value(Op::Scatter, {all, to, all}, {{"combiner", Word{"none"}}}) : nullptr;
    n.set(1,
          n.b.cast(offsets ? n.b.reshape(offsets, {t.dim(0), t.dim(1)}) : nullptr, Element::I32));
  }
  if (n.wants(2)) {
    Operation *ends = n.b.scan(Op::Add, counts, 0, 0, /*exclusive=*/false, false);
    Value *zero = n.b.constant(Tensor::fromInts({0}));
    n.set(2, n.b.cast(ends ? joined(n.b, {zero, ends->result()}) : nullptr, Element::I32));
  }
  if (n.wants(3)) {
    Value *most = n.b.reduce(Op::Max, counts, {0}, 0);
    n.set(3, n.b.cast(most ? n.b.reshape(most, {n.dim(1)}) : nullptr, Element::I32));
  }
}

void importRestorePadding(Node &n) { // tokens [tokens, width], token offsets [batch, length]
  if (!n.checkRank(0, 2, 2) || !n.checkRank(1, 2, 2))
    return;
  const Type offsets = n.type(1);
  Value *rows = unpackedRows(n, n.input(0), n.input(1));
  n.set(0, rows ? n.b.reshape(rows, {offsets.dim(0), offsets.dim(1), n.type(0).dim(1)}) : nullptr);
}

namespace {

/// Attention of each sequence over `projected` [tokens, widths of queries, keys and values].
void attendPacked(Node &n, Value *projected, unsigned offsetsAt, unsigned cumulatedAt,
                  unsigned added) {
  const Type t = n.type(offsetsAt);
  Value *offsets = n.input(offsetsAt);
  Value *rows = projected ? unpackedRows(n, projected, offsets) : nullptr;
  rows = rows ? n.b.reshape(rows, {t.dim(0), t.dim(1), projected->type().dim(1)}) : nullptr;
  Value *first = sliceAlong(n.b, n.input(cumulatedAt), 0, n.dim(0), t.dim(0), 1);
  Value *last = sliceAlong(n.b, n.input(cumulatedAt), 0, n.dim(1), t.dim(0), 1);
  Value *lengths = first && last ? n.b.pointwise(Op::Sub, {last, first}) : nullptr;
  if (!rows || !lengths)
    return;
  attendProjected(n, rows, {kNone, added, kNone, lengths});
  auto y = n.output(0);
  if (!y)
    return;
  Value *padded = n.b.reshape(y->tensor(), {t.elements(), y->tensor()->type().dim(2)});
  n.set(0, padded ? packed(n, padded, offsets, projected->type().dim(0)) : nullptr);
}

} // namespace

void importPackedAttention(Node &n) {
  enum { X, Weights, Bias, Offsets, Cumulated, Added };
  if (!n.checkRank(X, 2, 2) || !n.checkRank(Weights, 2, 2) || !n.checkFloat(X) ||
      !checkPacking(n, Offsets, Cumulated))
    return;
  Value *projected = matmul(n.b, n.input(X), n.input(Weights), {}, {});
  if (projected && n.has(Bias))
    projected = n.b.pointwise(Op::Add, {projected, n.input(Bias)});
  attendPacked(n, projected, Offsets, Cumulated, Added);
}

void importPackedMultiHeadAttention(Node &n) {
  enum { Q, K, V, Bias, Offsets, Cumulated, Added };
  if (!n.checkFloat(Q) || !checkPacking(n, Offsets, Cumulated))
    return;
  Value *projected = nullptr;
  if (n.has(K) && n.has(V)) {
    if (!n.checkRank(Q, 2, 2) || !n.checkRank(K, 2, 2) || !n.checkRank(V, 2, 2))
      return;
    projected = n.b.value(Op::Concat, {n.input(Q), n.input(K), n.input(V)}, {{"axis", int64_t(1)}});
  } else { // [tokens, heads, 3, size] holds all three
    const Type t = n.type(Q);
    if (!n.checkRank(Q, 4, 4))
      return;
    Value *apart = n.b.value(Op::Transpose, {n.input(Q)}, {{"perm", Ints{0, 2, 1, 3}}});
    projected = apart ? n.b.reshape(apart, {t.dim(0), t.dim(1) * t.dim(2) * t.dim(3)}) : nullptr;
  }
  if (projected && n.has(Bias))
    projected = n.b.pointwise(Op::Add, {projected, n.input(Bias)});
  attendPacked(n, projected, Offsets, Cumulated, Added);
}

} // namespace tenon::frontend
