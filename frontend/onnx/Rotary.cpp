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

void importRotaryEmbedding(Node &n) {
  enum { X, Cos, Sin, Positions };
  if (!n.checkRank(X, 3, 4) || !n.checkFloat(X))
    return;
  // [batch, heads, length, size]
  Value *x = n.input(X);
  if (n.rank(X) == 3)
    x = splitHeads(n, x, n.intAttr("num_heads", 0), "num_heads");
  if (!x)
    return;
  const Type t = x->type();
  const Dim size = t.dim(3);
  const int64_t given = n.intAttr("rotary_embedding_dim", 0);
  const Dim turned = given ? n.dim(given) : size;
  if (!turned.isConstant() || turned.constant() % 2 != 0 ||
      (size.isConstant() && turned.constant() > size.constant())) {
    n.error("attribute rotary_embedding_dim: expected an even number up to " + text({size}, "") +
            ", found " + text({turned}, ""));
    return;
  }
  // One row of the caches per position: chosen by the ids, or there already.
  Value *caches[2];
  for (unsigned i : {0u, 1u}) {
    Value *cache = n.input(Cos + i);
    if (n.has(Positions))
      cache = n.b.value(Op::Gather, {cache, n.input(Positions)}, {{"axis", int64_t(0)}});
    if (!cache)
      return;
    if (cache->type().rank() != 3 || cache->type().dim(2) != n.dim(turned.constant() / 2)) {
      n.error("operand " + n.inputName(Cos + i) + ": expected rows of " +
              std::to_string(turned.constant() / 2) + " numbers, found " +
              toString(n.type(Cos + i)));
      return;
    }
    caches[i] = cache;
  }
  Value *y = rotated(n, x, caches[0], caches[1], n.boolAttr("interleaved", false));
  n.set(0, n.rank(X) == 3 ? joinHeads(n.b, y) : y);
}

} // namespace tenon::frontend
