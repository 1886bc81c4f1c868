// Defines how values cross the border of a model whose inputs or outputs are integers there
// (passes/QuantizedIo.h): data sets and seeds hold the model's floats.
#pragma once

#include "ir/IR.h"
#include "ir/Tensor.h"

namespace tenon {

/// `value` of an input as the graph takes it, an element of type `element`: floats are quantised
/// where the interface asks for integers, anything else stays as it is.
Tensor toInterface(const Module &module, llvm::StringRef port, Element element,
                   const Tensor &value);
/// What an input or output of the graph means in the model's own type.
Tensor toModel(const Module &module, llvm::StringRef port, const Tensor &value);

} // namespace tenon
