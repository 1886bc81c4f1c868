// Defines what a model takes and gives: declared inputs and outputs, symbolic dimensions and what
// the options make of them. Internal to the frontend.
#pragma once

#include "frontend/GraphImporter.h"

namespace tenon::frontend {

/// Inputs without the initialisers among them, or outputs. False with a message for types other
/// than tensors.
bool readDeclarations(const onnx::ModelProto &model, std::vector<DeclaredTensor> &inputs,
                      std::vector<DeclaredTensor> &outputs, Diagnostics &diagnostics);

/// Name of an anonymous dimension, to bind it by: `input.d0`.
std::string anonymousName(llvm::StringRef input, size_t dimension);

struct InputType {
  Element element = Element::F32;
  llvm::SmallVector<Dim, 6> shape;
  /// The input is a constant instead.
  llvm::Optional<Tensor> constant;
  /// Bounds of the value of a scalar integer.
  llvm::Optional<ImportRange> range;
};

/// Types of the inputs under the options. False after reporting every open symbol, every option
/// that names nothing, and contradictions.
bool resolveInputs(ModelImport &state, Context &context, llvm::ArrayRef<DeclaredTensor> inputs,
                   llvm::ArrayRef<DeclaredTensor> outputs, std::vector<InputType> &types);

} // namespace tenon::frontend
