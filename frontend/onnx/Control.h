// Declares what the importers of control flow share.
#pragma once

#include "frontend/GraphImporter.h"
#include "frontend/onnx/Common.h"

namespace tenon::frontend {

/// The graph in an attribute; null after an error.
const onnx::GraphProto *subgraph(Node &n, llvm::StringRef name);
/// The captures that stay operands.
void appendOperands(const std::vector<Capture> &captures, llvm::SmallVectorImpl<Value *> &operands);
/// Reports where `found` is not `expected`.
bool checkCount(Node &n, size_t found, size_t expected, const char *what);
/// A result of a body that stays a loop; null after an error.
Value *oneTensor(Node &n, const TensorOrSequence &item);
/// An i64 of rank 0.
Value *integer(Builder &b, int64_t v);

} // namespace tenon::frontend
