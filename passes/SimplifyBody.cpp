// Scalar algebra inside the bodies of map and reduce.
//
// Every equation below but those of powers is exact in IEEE arithmetic, NaN and infinities
// included; nothing is reassociated. Zeros keep their sign except through min and max, which never
// promised one: so `x + 0` stays (it turns −0 into +0) while `x + −0` goes.
#include "passes/SimplifyBody.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"

#include "ir/Scalar.h"

#include <cmath>

namespace tenon {
namespace {

bool isHalf(Element e) { return e == Element::F16 || e == Element::BF16; }

/// A scalar constant with its exact value; integers and booleans in `i`, floats in `f`.
struct Scalar {
  Element element;
  double f = 0;
  int64_t i = 0;
};

llvm::Optional<Scalar> scalarOf(const Value *v) {
  const Operation *def = v->def();
  if (!def || !def->is(Op::Const))
    return llvm::None;
  Scalar s{v->type().element()};
  const Attribute *a = def->find("value");
  if (const double *d = a->get<double>())
    s.f = *d;
  else if (const int64_t *n = a->get<int64_t>())
    s.i = *n, s.f = integerToReal(s.element, *n);
  else
    s.i = *a->get<bool>(), s.f = double(s.i);
  if (!isFloat(s.element) && a->get<double>())
    return llvm::None;
  return s;
}

/// Exactly the value v, zeros told apart by sign.
bool isExactly(const Value *x, double v) {
  llvm::Optional<Scalar> s = scalarOf(x);
  return s && s->f == v && (!isFloat(s->element) || std::signbit(s->f) == std::signbit(v));
}

/// c = f(constants)
Value *foldConstants(Operation &op, Builder &b) {
  const ScalarInfo *row = scalarInfo(op.kind());
  if (!row || op.numOperands() == 0 || op.isAny(Op::Quantize, Op::Dequantize))
    return nullptr;
  llvm::SmallVector<Scalar, 3> in;
  for (Value *v : op.operands()) {
    llvm::Optional<Scalar> s = scalarOf(v);
    if (!s)
      return nullptr;
    in.push_back(*s);
  }
  const Element to = op.result()->type().element();
  if (op.is(Op::Select))
    return in[0].i ? op.operand(1) : op.operand(2);
  const bool wide = to == Element::F32 || to == Element::F64;
  if (op.is(Op::Cast)) {
    if (isHalf(in[0].element) && op.boolAttr("rounds"))
      in[0].f = decodeFloat(in[0].element, encodeFloat(in[0].element, in[0].f));
    if (isFloat(to)) {
      // Larger integers would be rounded twice.
      constexpr int64_t kExact = int64_t(1) << 53;
      const bool exact = isFloat(in[0].element) || (in[0].i >= -kExact && in[0].i <= kExact);
      return wide && exact ? b.scalarConst(to, roundScalar(to, in[0].f)) : nullptr;
    }
    return isFloat(in[0].element) ? b.scalarInt(to, truncateToInt(to, in[0].f))
                                  : b.scalarInt(to, wrapScalar(to, in[0].i));
  }
  auto f = [&](unsigned k) { return k < in.size() ? in[k].f : 0.0; };
  auto i = [&](unsigned k) { return k < in.size() ? in[k].i : int64_t(0); };
  if (isFloat(in[0].element)) {
    if (!row->onFloat || !(in[0].element == Element::F32 || in[0].element == Element::F64))
      return nullptr;
    const double v = row->onFloat(f(0), f(1), f(2));
    return isFloat(to) ? b.scalarConst(to, roundScalar(to, v)) : b.scalarConst(to, v != 0);
  }
  if (!row->onInt)
    return nullptr;
  const int64_t v = row->integer(in[0].element)(i(0), i(1), i(2));
  return isBool(to) ? b.scalarConst(to, v != 0) : b.scalarInt(to, wrapScalar(to, v));
}

/// True when every value of `from` is a value of `to`.
bool embeds(Element from, Element to) {
  if (from == to)
    return true;
  if (isBool(from))
    return isInteger(to) || to == Element::F32 || to == Element::F64;
  if (isInteger(from) && isInteger(to))
    return isSignedInt(from) ? isSignedInt(to) && bitWidth(from) <= bitWidth(to)
                             : bitWidth(from) < bitWidth(to) ||
                                   (isUnsignedInt(to) && bitWidth(from) == bitWidth(to));
  if (isInteger(from))
    return (to == Element::F32 && bitWidth(from) <= 16) ||
           (to == Element::F64 && bitWidth(from) <= 32);
  return (to == Element::F32 && (from == Element::F16 || from == Element::BF16)) ||
         (to == Element::F64 &&
          (from == Element::F32 || from == Element::F16 || from == Element::BF16));
}

/// Whether v is an integer that a clamp keeps among the values of `e`.
bool isClampedInto(const Value *v, Element e) {
  if (!v->def() || !v->def()->is(Op::Clamp) || !isInteger(e))
    return false;
  auto low = scalarOf(v->def()->operand(1)), high = scalarOf(v->def()->operand(2));
  return low && high && isInteger(low->element) && low->i <= high->i &&
         wrapScalar(e, low->i) == low->i && wrapScalar(e, high->i) == high->i;
}

/// The operation behind operand i when it is of kind k.
Operation *operandOf(Operation &op, unsigned i, Op k) {
  Operation *def = op.operand(i)->def();
  return def && def->is(k) ? def : nullptr;
}

/// clamp(x, −∞, ∞) = x;  clamp(x, 0, ∞) = relu x;  clamp(x, −∞, hi) = min(x, hi)
Value *identityOfClamp(Operation &op, Builder &b) {
  llvm::Optional<Scalar> lo = scalarOf(op.operand(1)), hi = scalarOf(op.operand(2));
  if (!lo || !hi || !isFloat(lo->element))
    return nullptr;
  const bool openLow = lo->f == -INFINITY, openHigh = hi->f == INFINITY;
  if (openLow && openHigh)
    return op.operand(0);
  if (openHigh)
    return isExactly(op.operand(1), 0.0) ? b.scalar(Op::Relu, {op.operand(0)})
                                         : b.scalar(Op::Max, {op.operand(0), op.operand(1)});
  return openLow ? b.scalar(Op::Min, {op.operand(0), op.operand(2)}) : nullptr;
}

/// cast<T>(x: T) = x;  cast<B>(cast<A>(x)) = cast<B>(x) when A holds every x
Value *identityOfCast(Operation &op, Builder &b) {
  const Element to = op.result()->type().element();
  if (op.operand(0)->type().element() == to) // f16 and bf16 are carried as f32
    return isHalf(to) && op.boolAttr("rounds") ? nullptr : op.operand(0);
  Operation *inner = operandOf(op, 0, Op::Cast);
  if (!inner)
    return nullptr;
  const Element from = inner->operand(0)->type().element();
  if (from == to && isClampedInto(inner->operand(0), inner->result()->type().element()))
    return inner->operand(0);
  // Wider to float and on to an integer saturates where integer to integer wraps.
  const bool sameRounding =
      isFloat(inner->result()->type().element()) == isFloat(from) || isFloat(to);
  if (embeds(from, inner->result()->type().element()) && sameRounding && !isHalf(from))
    return from == to ? inner->operand(0)
                      : b.scalar(Op::Cast, {inner->operand(0)}, op.attributes());
  return nullptr;
}

/// An equal value that needs less work, or null.
Value *identity(Operation &op, Builder &b) {
  auto in = [&](unsigned i) { return op.operand(i); };
  const bool integer = op.numOperands() && isInteger(in(0)->type().element());
  switch (op.kind()) {
  case Op::Add: // x + −0 = x;  n + 0 = n
    for (unsigned i : {0u, 1u})
      if (isExactly(in(1 - i), integer ? 0.0 : -0.0))
        return in(i);
    return nullptr;
  case Op::Sub: // x − 0 = x
    return isExactly(in(1), 0.0) ? in(0) : nullptr;
  case Op::Mul: // x · 1 = x
    for (unsigned i : {0u, 1u})
      if (isExactly(in(1 - i), 1.0))
        return in(i);
    return nullptr;
  case Op::Div: { // x / 1 = x;  x / ±2^n = x · ±2^−n
    if (isExactly(in(1), 1.0))
      return in(0);
    llvm::Optional<Scalar> c = scalarOf(in(1));
    int exponent;
    if (c && c->element == Element::F32 && std::fabs(std::frexp(c->f, &exponent)) == 0.5 &&
        std::abs(exponent) < 100)
      return b.scalar(Op::Mul, {in(0), b.scalarConst(c->element, 1 / c->f)});
    return nullptr;
  }
  case Op::Neg: // −(−x) = x
    if (Operation *n = operandOf(op, 0, Op::Neg))
      return n->operand(0);
    return nullptr;
  case Op::LogicalNot: // ¬¬x = x
    if (Operation *n = operandOf(op, 0, Op::LogicalNot))
      return n->operand(0);
    return nullptr;
  case Op::Relu: // relu(relu x) = relu x;  relu(sigmoid x) = sigmoid x, likewise after abs, exp
    for (Op k : {Op::Relu, Op::Sigmoid, Op::Abs, Op::Exp})
      if (operandOf(op, 0, k))
        return in(0);
    return nullptr;
  case Op::Abs: // | |x| | = |x|
    return operandOf(op, 0, Op::Abs) ? in(0) : nullptr;
  case Op::Max: // max(x, 0) = relu x;  max(min(x, hi), lo) has no shorter form when lo > hi
    for (unsigned i : {0u, 1u})
      if (isExactly(in(1 - i), 0.0) && isFloat(in(i)->type().element()))
        return b.scalar(Op::Relu, {in(i)});
    return nullptr;
  case Op::Min: // min(max(x, lo), hi) = clamp(x, lo, hi);  min(relu x, hi) = clamp(x, 0, hi)
    for (unsigned i : {0u, 1u}) {
      if (!scalarOf(in(1 - i)))
        continue;
      if (Operation *m = operandOf(op, i, Op::Max))
        for (unsigned k : {0u, 1u})
          if (scalarOf(m->operand(1 - k)))
            return b.scalar(Op::Clamp, {m->operand(k), m->operand(1 - k), in(1 - i)});
      if (Operation *r = operandOf(op, i, Op::Relu))
        return b.scalar(Op::Clamp, {r->operand(0),
                                    integer ? b.scalarInt(r->operand(0)->type().element(), 0)
                                            : b.scalarConst(r->operand(0)->type().element(), 0),
                                    in(1 - i)});
    }
    return nullptr;
  case Op::Clamp: return identityOfClamp(op, b);
  case Op::Select: // c ? x : x = x;  constant c chooses
    if (in(1) == in(2))
      return in(1);
    if (llvm::Optional<Scalar> c = scalarOf(in(0)))
      return c->i ? in(1) : in(2);
    return nullptr;
  case Op::Cast: return identityOfCast(op, b);
  case Op::LogicalAnd:
  case Op::LogicalOr: // x ∧ x = x ∨ x = x
  case Op::BitAnd:
  case Op::BitOr: return in(0) == in(1) ? in(0) : nullptr;
  default: return nullptr;
  }
}

/// x^n as products and roots, or null.
///
///   x^0 = 1                  x^½  = x = −∞ ? ∞ : √(x + 0)
///   x^2 = x · x              x^−½ = x = −∞ ? 0 : 1 / √(x + 0)
///   x^3 = x · x · x          x^−1 = 1 / x
///   x^4 = (x · x) · (x · x)  x^−2 = (1 / x) · (1 / x)
///   x^¼, x^¾, x^−¼, x^−¾ likewise of √x, √√x and √x · √√x
///
/// Zeros, infinities and NaN give what pow says (x + 0 makes +0 of −0, whose root pow gives), and
/// no step leaves the range of floats where the power does not: (1 / x)², not 1 / x². Each step
/// rounds once; four at most leave an error of 1.75 · 2^−p of the value beside the last rounding's,
/// while a library's pow is called lane by lane. Products of integers wrap as their powers do.
Value *power(Operation &op, Builder &b) {
  if (!op.is(Op::Pow))
    return nullptr;
  Value *x = op.operand(0);
  const Element e = x->type().element();
  const llvm::Optional<Scalar> exponent = scalarOf(op.operand(1));
  if (!exponent)
    return nullptr;
  const double n = isFloat(e) ? exponent->f : double(exponent->i);
  const auto square = [&](Value *v) { return b.scalar(Op::Mul, {v, v}); };
  if (n == 1)
    return x;
  if (n == 2)
    return square(x);
  if (n == 3)
    return b.scalar(Op::Mul, {square(x), x});
  if (n == 4)
    return square(square(x));
  if (!isFloat(e))
    return n == 0 ? b.scalarInt(e, 1) : nullptr;
  const auto number = [&](double v) { return b.scalarConst(e, v); };
  if (n == 0)
    return number(1);
  if (n == -1 || n == -2) {
    Value *reciprocal = b.scalar(Op::Div, {number(1), x});
    return n == -1 ? reciprocal : square(reciprocal);
  }
  const double quarters = 4 * std::fabs(n);
  if (quarters != 1 && quarters != 2 && quarters != 3)
    return nullptr;
  Value *root = b.scalar(Op::Sqrt, {b.scalar(Op::Add, {x, number(0)})});
  if (quarters != 2) {
    Value *fourth = b.scalar(Op::Sqrt, {root});
    root = quarters == 1 ? fourth : b.scalar(Op::Mul, {root, fourth});
  }
  return b.scalar(Op::Select,
                  {b.scalar(Op::Equal, {x, number(-INFINITY)}), number(n > 0 ? INFINITY : 0),
                   n > 0 ? root : b.scalar(Op::Div, {number(1), root})});
}

} // namespace

bool simplifyBody(Operation &op, PassContext &context) {
  Region &body = op.region();
  bool changed = eraseDeadOps(body);
  for (bool again = true; again;) {
    again = false;
    for (Operation &scalar : body.opsEarlyInc()) {
      if (scalar.isTerminator() || isDead(scalar))
        continue;
      Builder b(&scalar, context.diagnostics);
      // The candidate is built first; if it may not be used it is dead and removed below.
      Value *to = foldConstants(scalar, b);
      llvm::StringRef id = "canonicalize.scalar-fold";
      if (!to) {
        to = identity(scalar, b);
        id = "canonicalize.scalar-identity";
      }
      if (!to) {
        to = power(scalar, b);
        id = "canonicalize.scalar-power";
      }
      if (to && context.enabled(id, &op) && context.fire(id, op)) {
        if (to->hint().empty())
          to->setHint(scalar.result()->hint());
        scalar.result()->replaceAllUsesWith(to);
        again = changed = true;
      }
    }
    eraseDeadOps(body);
  }
  return changed;
}

} // namespace tenon
