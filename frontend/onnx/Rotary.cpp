// Imports the rotary position embedding.
#include "frontend/onnx/Heads.h"
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {

Value *rotated(Node &n, Value *x, Value *cos, Value *sin, bool interleaved) {
  const Type t = x->type();
  const Dim half = cos->type().dim(2), rotated = half * 2, size = t.dim(3);
  if (!half.isConstant() || sin->type().dim(2) != half ||
      (size.isConstant() && rotated.constant() > size.constant()))
    return n.error("expected rows of sines and cosines for at most " + text({size}, "") +
                   " numbers, found " + toString(cos->type()) + " and " + toString(sin->type()));
  Value *even = sliceAlong(n.b, x, 3, n.dim(0), half, interleaved ? 2 : 1);
  Value *odd = sliceAlong(n.b, x, 3, interleaved ? n.dim(1) : half, half, interleaved ? 2 : 1);
  if (!even || !odd)
    return nullptr;
  // (even, odd) turned by the angle of its position.
  auto turn = [&](Op op, Value *first, Value *second) {
    const std::vector<IndexMap> maps{identityMap(4), {0, 2, 3}, identityMap(4), {0, 2, 3}};
    return pointwise(n.b, {even, first, odd, second}, maps, even->type().shape(),
                     [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                       return s(op, s(Op::Mul, a[0], a[1]), s(Op::Mul, a[2], a[3]));
                     });
  };
  Value *real = turn(Op::Sub, cos, sin), *imag = turn(Op::Add, sin, cos);
  if (!real || !imag)
    return nullptr;
  Value *y;
  if (interleaved) {
    const Shape pair{t.dim(0), t.dim(1), t.dim(2), half, n.dim(1)};
    y = n.b.value(Op::Concat, {n.b.reshape(real, pair), n.b.reshape(imag, pair)},
                  {{"axis", int64_t(4)}});
    y = y ? n.b.reshape(y, {t.dim(0), t.dim(1), t.dim(2), rotated}) : nullptr;
  } else {
    y = n.b.value(Op::Concat, {real, imag}, {{"axis", int64_t(3)}});
  }
  if (y && rotated != size)
    y = n.b.value(Op::Concat, {y, sliceAlong(n.b, x, 3, rotated, size - rotated, 1)},
                  {{"axis", int64_t(3)}});
  return y;
}

namespace {

/// What operator sets differ in: where operands stand, and the positions [batch, length] whose rows
/// of the caches count (null: the caches have one row per batch entry and position).
struct Rotary {
  unsigned cos, sin;
  Value *positions;
};

/// Operand 0, [batch, length, width] or [batch, heads, length, size], as the latter.
Value *headsOf(Node &n, int64_t heads) {
  return n.rank(0) == 3 ? splitHeads(n, n.input(0), heads, "num_heads") : n.input(0);
}

/// Sets result 0 to `x` turned, in the form of operand 0.
void turn(Node &n, Value *x, const Rotary &from) {
  const Dim size = x->type().dim(3);
  const int64_t given = n.intAttr("rotary_embedding_dim", 0);
  const Dim turned = given ? n.dim(given) : size;
  if (!turned.isConstant() || turned.constant() % 2 != 0 ||
      (size.isConstant() && turned.constant() > size.constant())) {
    n.error("attribute rotary_embedding_dim: expected an even number up to " + text({size}, "") +
            ", found " + text({turned}, ""));
    return;
  }
  Value *caches[2];
  for (unsigned i : {from.cos, from.sin}) {
    Value *cache = n.input(i);
    if (from.positions)
      cache = n.b.value(Op::Gather, {cache, from.positions}, {{"axis", int64_t(0)}});
    if (!cache)
      return;
    if (cache->type().rank() != 3 || cache->type().dim(2) != n.dim(turned.constant() / 2)) {
      n.error("operand " + n.inputName(i) + ": expected rows of " +
              std::to_string(turned.constant() / 2) + " numbers, found " + toString(n.type(i)));
      return;
    }
    caches[i == from.sin] = cache;
  }
  Value *y = rotated(n, x, caches[0], caches[1], n.boolAttr("interleaved", false));
  n.set(0, n.rank(0) == 3 ? joinHeads(n.b, y) : y);
}

} // namespace

void importRotaryEmbedding(Node &n) {
  enum { X, Cos, Sin, Positions };
  if (!n.checkRank(X, 3, 4) || !n.checkFloat(X))
    return;
  if (Value *x = headsOf(n, n.intAttr("num_heads", 0)))
    turn(n, x, {Cos, Sin, n.input(Positions)});
}

void importMicrosoftRotaryEmbedding(Node &n) {
  // ONNX Runtime, which defines it, reads the attribute scale and does nothing with it.
  enum { X, Positions, Cos, Sin };
  if (!n.checkRank(X, 3, 4) || !n.checkFloat(X) || !n.checkRank(Cos, 2, 2) ||
      !n.checkRank(Sin, 2, 2))
    return;
  // Heads that are not counted are as long as the caches say.
  int64_t heads = n.intAttr("num_heads", 0);
  const Dim width = n.type(X).dim(n.rank(X) - 1), half = n.type(Cos).dim(1);
  if (heads == 0 && width.isConstant() && half.isConstant() && half.constant() > 0 &&
      width.constant() % (2 * half.constant()) == 0)
    heads = width.constant() / (2 * half.constant());
  Value *x = headsOf(n, heads);
  if (!x)
    return;
  // One position per token, or that of every sequence's first token.
  const Shape tokens{x->type().dim(0), x->type().dim(2)};
  Value *positions = n.input(Positions);
  const Type t = positions->type();
  const bool first = isInteger(t.element()) && t.rank() == 1 && t.dim(0).isConstant(1);
  if (!first && (!isInteger(t.element()) || t.shape() != llvm::makeArrayRef(tokens))) {
    n.error("operand " + n.inputName(Positions) + ": expected integers [1] or [" +
            text(tokens, ", ") + "], found " + toString(t));
    return;
  }
  if (first)
    positions = pointwise(n.b, {n.b.reshape(positions, {})}, {{}}, tokens,
                          [](Scalars &s, llvm::ArrayRef<Value *> a) {
                            return s(Op::Add, s.cast(a[0], Element::I64), s.index(1));
                          });
  if (positions)
    turn(n, x, {Cos, Sin, positions});
}

} // namespace tenon::frontend
