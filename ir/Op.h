// Defines the operation kinds and OpInfo, the one place where an operation is described.
//
// Every operation stands in ir/Ops.def (structured) or ir/Scalars.def (scalar functions of map and
// reduce bodies); the tables in ir/ops/*.cpp and ir/Scalar.cpp say what each means.
#pragma once

#include "ir/Type.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace tenon {

class Operation;
struct EvaluationFrame;

enum class Op : uint16_t {
#define TENON_OP(NAME, TEXT) NAME,
#include "ir/Ops.def"
#define TENON_SCALAR(NAME, TEXT, ARITY, SIGNATURE, SPELLING, FLOAT, INT, SUMMARY) NAME,
#include "ir/Scalars.def"
};

namespace OpTrait {
enum : unsigned {
  None = 0,
  Terminator = 1,
  /// Regions see only their arguments.
  Isolated = 2,
  /// Works on scalars inside a body.
  Scalar = 4,
  /// Moves elements without computing: an index map.
  Movement = 8,
  /// Has effects beyond its results, or its results depend on more than its operands.
  Effect = 16,
};
}

enum class AttrKind : uint8_t {
  Bool,
  Int,
  Float,
  String,
  Word,
  Ints,
  IntLists,
  Floats,
  Dims,
  Strings,
  Type,
  Schedule,
  Literal
};

struct AttrInfo {
  llvm::StringRef name;
  AttrKind kind;
  bool required;
  llvm::StringRef summary;
};

constexpr int kVariadic = -1;

struct OpInfo {
  llvm::StringRef name;
  llvm::StringRef summary;
  /// Operand names for messages and docs; a trailing "…" makes the last one variadic, "?" optional.
  llvm::ArrayRef<llvm::StringRef> operands;
  llvm::ArrayRef<AttrInfo> attributes;
  int results = 1; // kVariadic: decided by infer
  int regions = 0; // kVariadic for none or several
  unsigned traits = OpTrait::None;

  /// Result types (logical; layouts row-major) from operands, attributes and regions. Returns
  /// false with a message that says what was expected and found. Used by builder and verifier.
  bool (*infer)(const Operation &op, llvm::SmallVectorImpl<Type> &results,
                std::string &error) = nullptr;
  /// Further checks once result types are known; may be null.
  bool (*verify)(const Operation &op, std::string &error) = nullptr;
  /// Computes the results in the interpreter; null for ops that the interpreter handles itself.
  bool (*evaluate)(const Operation &op, EvaluationFrame &frame, std::string &error) = nullptr;

  /// Null where there is none of this name.
  const AttrInfo *attribute(llvm::StringRef attributeName) const;
};

const OpInfo &opInfo(Op kind);
/// All kinds in order, for docs and for the parser.
llvm::ArrayRef<Op> allOps();
llvm::Optional<Op> parseOp(llvm::StringRef name);
/// Says that the operation has no such attribute, and which one may have been meant.
std::string unknownAttribute(const OpInfo &info, llvm::StringRef name);

} // namespace tenon
