// Imports conversions between element types: Cast, CastLike and BitCast.
#include "frontend/onnx/Operators.h"

#include <cmath>

namespace tenon::frontend {

Value *castNarrow(Scalars &s, Value *x, Element to, bool saturate) {
  auto c = [&](double value) { return s.c(x->type().element(), value); };
  if (saturate) {
    const double most = to == Element::F8E5M2 || to == Element::F8E5M2Z ? 57344
                        : to == Element::F8E4M3                         ? 448
                                                                        : 240;
    return s.cast(s(Op::Clamp, x, c(-most), c(most)), to);
  }
  if (to == Element::F8E5M2) // has infinities: a conversion gives them
    return s.cast(x, to);
  // What rounds beyond the largest number is none: half way to the next one, which is even in
  // these formats except f8e4m3, where the largest is.
  const bool e4m3 = to == Element::F8E4M3;
  const double half = e4m3 ? 464 : to == Element::F8E4M3Z ? 248 : 61440;
  x = s.cast(x, computeType(x->type().element()));
  Value *beyond = s(e4m3 ? Op::Greater : Op::GreaterEqual, s(Op::Abs, x), c(half));
  return s.cast(s(Op::Select, beyond, c(NAN), x), to);
}

namespace {

/// The type whose numbers text says, or is made of, for elements of type `e`.
Element writtenAs(Element e) {
  if (isFloat(e))
    return e == Element::F64 ? Element::F64 : Element::F32;
  return e == Element::U64 ? Element::U64 : Element::I64;
}

Value *textCast(Node &n, Element to) {
  Value *v = n.input(0);
  if (n.element(0) == to)
    return v;
  if (isComplex(n.element(0)) || isComplex(to))
    return n.error("conversion from " + name(n.element(0)).str() + " to " + name(to).str() +
                   " is not supported");
  if (to == Element::String)
    return n.b.value(Op::TextMap, {n.b.cast(v, writtenAs(n.element(0)))},
                     {{"function", Word{"digits"}}});
  v = n.b.value(Op::TextMap, {v},
                {{"function", Word{"number"}}, {"to", Type::scalar(n.context(), writtenAs(to))}});
  return v ? n.b.cast(v, to) : nullptr;
}

/// Powers of two that f8e8m0 holds, as f32. What rounds beyond them is the last one, or NaN.
Value *roundedScale(Node &n, Value *v, const std::string &mode, bool saturate) {
  constexpr double kLeast = 0x1p-127, kMost = 0x1p127, kNormal = 0x1p-126;
  const bool up = mode == "up", nearest = mode == "nearest";
  v = n.b.cast(v, Element::F32);
  Value *power = v;
  if (!up) { // without its significand, after half of it was added where ties go up
    Value *bits = n.b.value(Op::Bitcast, {v}, {{"to", Type::scalar(n.context(), Element::U32)}});
    bits = bits ? pointwise(n.b, {bits},
                            [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                              Value *b = nearest ? s(Op::Add, a[0], s.c(0x400000)) : a[0];
                              return s(Op::BitAnd, b, s.c(0x7f800000));
                            })
                : nullptr;
    power = bits ? n.b.value(Op::Bitcast, {bits}, {{"to", Type::scalar(n.context(), Element::F32)}})
                 : nullptr;
  }
  if (!power)
    return nullptr;
  return pointwise(n.b, {v, power}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *x = a[0], *p = a[1];
    if (!up) { // below 2^-126 significands have no leading 1
      Value *least = nearest ? s(Op::Select, s(Op::GreaterEqual, x, s.c(1.5 * kLeast)),
                                 s.c(kNormal), s.c(kLeast))
                             : s.c(kLeast);
      p = s(Op::Select, s(Op::Less, x, s.c(kNormal)), least, p);
    }
    Value *bad = s(Op::IsNaN, x);
    if (!saturate) {
      bad = s(Op::LogicalOr, bad, s(Op::Less, x, s.c(kLeast)));
      bad = s(Op::LogicalOr, bad, s(Op::Greater, p, s.c(kMost)));
    }
    return s(Op::Select, bad, s.c(NAN), p);
  });
}

bool isHalf(Element e) { return e == Element::F16 || e == Element::BF16; }

/// A conversion that the model asks for. Bodies compute f16 and bf16 in f32: here they do not.
Value *rounded(Node &n, Value *v, Element to) {
  const Element from = v->type().element();
  if (from == to || !(isHalf(from) || (isHalf(to) && bitWidth(from) > 8)))
    return n.b.cast(v, to);
  return n.b.pointwise(Op::Cast, {v}, {{"to", Type::scalar(n.context(), to)}, {"rounds", true}});
}

void castTo(Node &n, Element to) {
  if (isOpaque(n.element(0)) || isOpaque(to)) {
    n.set(0, textCast(n, to));
    return;
  }
  Value *v = n.input(0);
  const bool saturate = n.boolAttr("saturate", true);
  if (to == Element::F8E8M0) {
    const std::string mode = n.stringAttr("round_mode", "up");
    if (mode != "up" && mode != "down" && mode != "nearest") {
      n.error("attribute round_mode: expected up, down or nearest, found '" + mode + "'");
      return;
    }
    if (mode != "up" || !saturate)
      v = roundedScale(n, v, mode, saturate);
    n.set(0, v ? n.b.cast(v, to) : nullptr);
    return;
  }
  if (isFloat(n.element(0)) && isInteger(to) && bitWidth(to) < 8)
    v = rounded(n, v, Element::I32); // whose low bits are taken
  const bool narrow = isFloat(to) && bitWidth(to) <= 8;
  if (narrow && isHalf(n.element(0)))
    v = rounded(n, v, Element::F32);
  if (narrow && bitWidth(to) == 8 && (isFloat(n.element(0)) || !saturate))
    v = pointwise(n.b, {v}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      return castNarrow(s, a[0], to, saturate);
    });
  n.set(0, v ? rounded(n, v, to) : nullptr);
}

} // namespace

void importCast(Node &n) {
  if (!n.hasAttr("to")) {
    n.error("attribute to is missing: expected an element type");
    return;
  }
  if (auto to = n.elementAttr("to", Element::F32))
    castTo(n, *to);
}

void importBitCast(Node &n) {
  auto to = n.elementAttr("to", Element::F32);
  n.set(0, to ? n.b.value(Op::Bitcast, {n.input(0)}, {{"to", Type::scalar(n.context(), *to)}})
              : nullptr);
}

void importCastLike(Node &n) { castTo(n, n.element(1)); }

} // namespace tenon::frontend
