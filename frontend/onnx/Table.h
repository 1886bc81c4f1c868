// Defines the table of ONNX operators: which function imports which operator in which opsets.
#pragma once

#include "frontend/onnx/Node.h"

#include <climits>

namespace tenon::frontend {

constexpr int kNewest = INT_MAX;
/// Operator sets of the default domain; rows say since when each operator is as imported here.
constexpr int64_t kOldestOpset = 1, kNewestOpset = 28;

/// What operands an importer is ready for: tensors of numbers and booleans; of text, too; of any
/// elements, complex numbers included, because it moves them as they are, or because it can do to
/// their positions what it does to numbers (importByPosition); also sequences, and optionals
/// without a value.
enum class Operands : uint8_t { Numbers, Text, Moved, Placed, Anything };

struct OperatorRow {
  llvm::StringRef domain; // "" for ai.onnx
  llvm::StringRef name;
  int since, until; // opsets, inclusive
  /// Leading operands that must be there.
  unsigned required;
  ImportFunction import;
  Operands takes = Operands::Numbers;
};

llvm::ArrayRef<OperatorRow> operatorTable();
/// The row for an operator in an opset of its domain; null when there is none.
const OperatorRow *findOperator(llvm::StringRef domain, llvm::StringRef name, int64_t opset);

} // namespace tenon::frontend
