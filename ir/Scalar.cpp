// Implements the scalar function table: references and typing.
#include "ir/Scalar.h"

#include "ir/IR.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

// Integer arithmetic wraps; shifts and divisions are total. T is int64_t, or uint64_t for u64.
template <class T> T wrapAdd(T a, T b) { return T(uint64_t(a) + uint64_t(b)); }
template <class T> T wrapSub(T a, T b) { return T(uint64_t(a) - uint64_t(b)); }
template <class T> T wrapMul(T a, T b) { return T(uint64_t(a) * uint64_t(b)); }
template <class T> bool isNegative(T a) {
  if constexpr (std::is_signed_v<T>)
    return a < 0;
  return false;
}
template <class T> T wrapNeg(T a) { return wrapSub(T(0), a); }
template <class T> T intAbs(T a) { return isNegative(a) ? wrapNeg(a) : a; }
template <class T> T intSign(T a) { return isNegative(a) ? T(-1) : T(a != 0); }
template <class T> bool isMinusOne(T a) { return isNegative(a) && a == T(-1); }
template <class T> T truncDiv(T a, T b) { return b == 0 ? 0 : isMinusOne(b) ? wrapNeg(a) : a / b; }
template <class T> T truncMod(T a, T b) { return b == 0 || isMinusOne(b) ? 0 : a % b; }
template <class T> T floorMod(T a, T b) {
  T r = truncMod(a, b);
  return r != 0 && isNegative(r) != isNegative(b) ? r + b : r;
}
double floorMod(double a, double b) {
  double r = std::fmod(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
template <class T> T intPow(T a, T b) {
  if (isNegative(b))
    return a == 1 ? 1 : isMinusOne(a) ? (b % 2 ? -1 : 1) : 0;
  T r = 1;
  for (; b; b >>= 1, a = wrapMul(a, a))
    if (b & 1)
      r = wrapMul(r, a);
  return r;
}
template <class T> T shiftLeft(T a, T b) { return uint64_t(b) > 63 ? 0 : T(uint64_t(a) << b); }
template <class T> T shiftRight(T a, T b) {
  return uint64_t(b) > 63 ? (isNegative(a) ? T(-1) : 0) : a >> b;
}
template <class T> T roundShift(T a, T b) {
  if (b == 0)
    return a;
  if (uint64_t(b) > 63)
    return uint64_t(b) == 64 && !isNegative(a) && uint64_t(a) > uint64_t(1) << 63 ? 1 : 0;
  const uint64_t rest = uint64_t(a) & ((uint64_t(1) << b) - 1), half = uint64_t(1) << (b - 1);
  const T down = a >> b;
  return rest > half || (rest == half && (down & 1)) ? down + 1 : down;
}
template <class T> T mulHigh(T a, T b) { return wrapMul(a, b) >> 32; }
double nanMin(double a, double b) { return a != a ? a : b != b ? b : a < b ? a : b; }
double nanMax(double a, double b) { return a != a ? a : b != b ? b : a > b ? a : b; }
/// Computed in f32 as ONNX defines it, so that ties fall alike everywhere; the caller saturates.
double quantize(double x, double scale, double zero) {
  float q = std::nearbyint(float(x) / float(scale));
  return double(q) + zero;
}

// These turn a reference expression into a function of scalars and one of arrays, or NO into null.
struct NoReference {};
constexpr NoReference NO;
template <class F> double (*floatReference(F f))(double, double, double) {
  if constexpr (std::is_same_v<decltype(f(0.0, 0.0, 0.0)), NoReference>)
    return nullptr;
  else
    return [](double a, double b, double c) { return double(F{}(a, b, c)); };
}
/// T: int64_t, or uint64_t for u64.
template <class T, class F> IntReference intReference(F f) {
  if constexpr (std::is_same_v<decltype(f(T(), T(), T())), NoReference>)
    return nullptr;
  else
    return [](int64_t a, int64_t b, int64_t c) { return int64_t(F{}(T(a), T(b), T(c))); };
}

/// Values of type T are kept as Kept. Arrays that a function has no operand for are never read.
template <class T, class Kept, int Arity, class F>
void (*arrayReference(F f))(const Kept *, const Kept *, const Kept *, Kept *, size_t) {
  if constexpr (std::is_same_v<decltype(f(T(), T(), T())), NoReference>)
    return nullptr;
  else
    return [](const Kept *a, const Kept *b, const Kept *c, Kept *out, size_t n) {
      for (size_t i = 0; i < n; ++i)
        out[i] = Kept(
            F{}(Arity > 0 ? T(a[i]) : T(), Arity > 1 ? T(b[i]) : T(), Arity > 2 ? T(c[i]) : T()));
    };
}

const ScalarInfo kScalars[] = {
#define TENON_FLOAT(EXPRESSION)                                                                    \
  []([[maybe_unused]] double a, [[maybe_unused]] double b, [[maybe_unused]] double c) {            \
    return EXPRESSION;                                                                             \
  }
#define TENON_INT(EXPRESSION)                                                                      \
  []([[maybe_unused]] auto a, [[maybe_unused]] auto b, [[maybe_unused]] auto c) {                  \
    return EXPRESSION;                                                                             \
  }
#define TENON_SCALAR(NAME, TEXT, ARITY, SIGNATURE, SPELLING, FLOAT, INT, SUMMARY)                  \
  {Op::NAME,                                                                                       \
   TEXT,                                                                                           \
   ARITY,                                                                                          \
   ScalarSignature::SIGNATURE,                                                                     \
   SPELLING,                                                                                       \
   floatReference(TENON_FLOAT((FLOAT))),                                                           \
   intReference<int64_t>(TENON_INT((INT))),                                                        \
   intReference<uint64_t>(TENON_INT((INT))),                                                       \
   arrayReference<double, double, ARITY>(TENON_FLOAT((FLOAT))),                                    \
   arrayReference<int64_t, int64_t, ARITY>(TENON_INT((INT))),                                      \
   arrayReference<uint64_t, int64_t, ARITY>(TENON_INT((INT))),                                     \
   SUMMARY},
#include "ir/Scalars.def"
#undef TENON_FLOAT
#undef TENON_INT
};

std::string expected(const Operation &op, llvm::StringRef what) {
  std::string s = op.name().str() + " expects " + what.str() + ", found (";
  for (unsigned i = 0; i < op.numOperands(); ++i)
    s += (i ? ", " : "") + toString(op.operand(i)->type());
  return s + ")";
}

} // namespace

llvm::StringRef name(ScalarSignature signature) {
  switch (signature) {
  case ScalarSignature::Same: return "T… → T";
  case ScalarSignature::Float: return "F… → F";
  case ScalarSignature::Int: return "I… → I";
  case ScalarSignature::I32: return "i32… → i32";
  case ScalarSignature::Bool: return "i1… → i1";
  case ScalarSignature::Compare: return "T, T → i1";
  case ScalarSignature::Test: return "F → i1";
  case ScalarSignature::Select: return "i1, T, T → T";
  case ScalarSignature::Cast: return "T → to";
  case ScalarSignature::Quantize: return "F, F, Q → Q";
  case ScalarSignature::Dequantize: return "Q, F, Q → F";
  case ScalarSignature::Lookup: return "i8 or u8 → to";
  case ScalarSignature::Const: return "→ to";
  case ScalarSignature::Index: return "→ i64";
  }
  return "";
}

const ScalarInfo *scalarInfo(Op op) {
  const unsigned first = unsigned(kScalars[0].op);
  return unsigned(op) < first ? nullptr : &kScalars[unsigned(op) - first];
}

bool inferScalar(const Operation &op, llvm::SmallVectorImpl<Type> &types, std::string &error) {
  const ScalarInfo &row = *scalarInfo(op.kind());
  if (int(op.numOperands()) != row.arity) {
    error = expected(op, std::to_string(row.arity) + " operands");
    return false;
  }
  llvm::SmallVector<Element, 3> e;
  for (Value *v : op.operands()) {
    if (!v->type().isScalar()) {
      error = expected(op, "scalars");
      return false;
    }
    e.push_back(v->type().element());
    if (isOpaque(e.back())) {
      error = expected(op, "numbers or booleans");
      return false;
    }
  }
  auto fail = [&](llvm::StringRef what) {
    error = expected(op, what);
    return false;
  };
  auto give = [&](Element element) {
    const Attribute *named = op.find("to");
    Context *c = e.empty() ? nullptr : &op.operand(0)->type().context();
    if (!c)
      c = &named->get<Type>()->context();
    types.push_back(Type::scalar(*c, element));
    return true;
  };
  const Type *to = op.find("to") ? op.find("to")->get<Type>() : nullptr;
  if (to && to->isScalar() && isOpaque(to->element()))
    return fail("attribute 'to' with a type of numbers or booleans");
  for (size_t i = 1; i < e.size(); ++i)
    if (e[i] != e[0] && row.signature <= ScalarSignature::Test)
      return fail("operands of one type");
  switch (row.signature) {
  case ScalarSignature::Same:
    return isFloat(e[0]) || isInteger(e[0]) ? give(e[0]) : fail("numbers");
  case ScalarSignature::Float: return isFloat(e[0]) ? give(e[0]) : fail("floats");
  case ScalarSignature::Int: return isInteger(e[0]) ? give(e[0]) : fail("integers");
  case ScalarSignature::I32: return e[0] == Element::I32 ? give(e[0]) : fail("i32");
  case ScalarSignature::Bool: return isBool(e[0]) ? give(Element::Bool) : fail("booleans");
  case ScalarSignature::Compare: return give(Element::Bool);
  case ScalarSignature::Test: return isFloat(e[0]) ? give(Element::Bool) : fail("a float");
  case ScalarSignature::Select:
    return isBool(e[0]) && e[1] == e[2] ? give(e[1]) : fail("(i1, T, T)");
  case ScalarSignature::Cast:
    if (!to || !to->isScalar())
      return fail("attribute 'to' with a scalar type");
    return give(to->element());
  case ScalarSignature::Quantize:
    return isFloat(e[0]) && isFloat(e[1]) && !isBool(e[2])
               ? give(e[2])
               : fail("(float, float scale, zero point)");
  case ScalarSignature::Dequantize:
    return isFloat(e[1]) && e[0] == e[2] ? give(e[1]) : fail("(q, float scale, zero point of q)");
  case ScalarSignature::Lookup: {
    const Ints &table = op.intsAttr("table");
    if (!isInteger(e[0]) || bitWidth(e[0]) != 8 || !to || !to->isScalar() ||
        !isInteger(to->element()) || table.size() != 256)
      return fail("8-bit integers, and attributes 'table' with 256 entries and 'to'");
    const Element result = to->element();
    if (llvm::any_of(table, [&](int64_t v) { return wrapScalar(result, v) != v; }))
      return fail("entries of the table that are " + name(result).str());
    return give(result);
  }
  case ScalarSignature::Const: {
    const Attribute *v = op.find("value");
    if (!to || !to->isScalar() || !v || !(v->get<double>() || v->get<int64_t>() || v->get<bool>()))
      return fail("attributes 'value' and 'to'");
    return give(to->element());
  }
  case ScalarSignature::Index:
    if (!to || !to->isScalar() || to->element() != Element::I64 || !op.has("dim"))
      return fail("attributes 'dim' and 'to = i64'");
    return give(Element::I64);
  }
  return false;
}

double roundScalar(Element e, double value) {
  return e == Element::F64 ? value : double(float(value));
}

int64_t wrapScalar(Element e, int64_t value) {
  if (isBool(e))
    return value != 0;
  const unsigned bits = bitWidth(e);
  if (bits >= 64)
    return value;
  const uint64_t mask = (uint64_t(1) << bits) - 1;
  uint64_t u = uint64_t(value) & mask;
  if (isSignedInt(e) && (u >> (bits - 1)))
    u |= ~mask;
  return int64_t(u);
}

int64_t truncateToInt(Element e, double value) {
  if (value != value)
    return 0;
  if (e == Element::U64)
    return value >= 0x1p64 ? -1 : value <= 0 ? 0 : int64_t(uint64_t(value));
  if (isBool(e))
    return value != 0;
  if (value <= double(minInt(e)))
    return minInt(e);
  if (value >= double(maxInt(e)))
    return maxInt(e);
  return int64_t(value);
}

double integerToReal(Element e, int64_t value) {
  return e == Element::U64 ? double(uint64_t(value)) : double(value);
}

} // namespace tenon
