// Defines what the tables know of scalar functions: typing, C++ spelling, references.
#pragma once

#include "ir/Op.h"

namespace tenon {

enum class ScalarSignature : uint8_t {
  Same,
  Float,
  Int,
  Bool,
  Compare,
  Test,
  Select,
  Cast,
  Quantize,
  Dequantize,
  Const,
  Index
};

/// For people: "T, T → i1".
llvm::StringRef name(ScalarSignature signature);

struct ScalarInfo {
  Op op;
  llvm::StringRef name;
  int arity;
  ScalarSignature signature;
  /// C++ expression with $0, $1, $2, $T; see ir/Scalars.def.
  llvm::StringRef spelling;
  /// Exact or double-precision references; null where the type class is not allowed.
  double (*onFloat)(double a, double b, double c);
  int64_t (*onInt)(int64_t a, int64_t b, int64_t c);
  /// The same over arrays of n elements.
  void (*onFloats)(const double *a, const double *b, const double *c, double *out, size_t n);
  void (*onInts)(const int64_t *a, const int64_t *b, const int64_t *c, int64_t *out, size_t n);
  llvm::StringRef summary;
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

} // namespace tenon
