// Defines what the tables know of scalar functions: typing, C++ spelling, references.
#pragma once

#include "ir/Op.h"

namespace tenon {

enum class ScalarSignature : uint8_t {
  Same,
  Float,
  Int,
  I32,
  Bool,
  Compare,
  Test,
  Select,
  Cast,
  Quantize,
  Dequantize,
  Lookup,
  Const,
  Index
};

/// For people: "T, T → i1".
llvm::StringRef name(ScalarSignature signature);

/// All integers are kept as int64, those of u64 by their bits.
using IntReference = int64_t (*)(int64_t a, int64_t b, int64_t c);
using IntArrayReference = void (*)(const int64_t *a, const int64_t *b, const int64_t *c,
                                   int64_t *out, size_t n);

struct ScalarInfo {
  Op op;
  llvm::StringRef name;
  int arity;
  ScalarSignature signature;
  /// C++ expression with $0, $1, $2, $T; see ir/Scalars.def.
  llvm::StringRef spelling;
  /// Exact or double-precision references; null where the type class is not allowed.
  double (*onFloat)(double a, double b, double c);
  IntReference onInt, onU64;
  /// The same over arrays of n elements.
  void (*onFloats)(const double *a, const double *b, const double *c, double *out, size_t n);
  IntArrayReference onInts, onU64s;
  llvm::StringRef summary;

  /// The references for integers of an element type.
  IntReference integer(Element e) const { return e == Element::U64 ? onU64 : onInt; }
  IntArrayReference integers(Element e) const { return e == Element::U64 ? onU64s : onInts; }
};

/// The row of a scalar op; null for structured ones.
const ScalarInfo *scalarInfo(Op op);

/// Result type of a scalar op; Cast, Quantize and Const name theirs in the attribute `to`.
bool inferScalar(const Operation &op, llvm::SmallVectorImpl<Type> &types, std::string &error);

/// What the interpreter keeps of a scalar value: a double rounded to `e` (f16 and bf16 stay f32
/// inside bodies), or an integer wrapped to its width.
double roundScalar(Element e, double value);
int64_t wrapScalar(Element e, int64_t value);
/// Float to integer as `cast` does: truncation, saturation, NaN to 0.
int64_t truncateToInt(Element e, double value);
/// Integer to float, exact where a double can be.
double integerToReal(Element e, int64_t value);

} // namespace tenon
