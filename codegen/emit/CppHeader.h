// Defines the text of the generated C++17 header, which stands on the C header alone.
#pragma once

#include "codegen/emit/Interface.h"

namespace tenon {

/// A model and a context that close themselves, spans, inputs and outputs by name and type, results
/// that hold a value or a status. `queue`: the target has functions for sequences of inferences.
std::string writeCppHeader(const Module &module, const InterfaceInfo &info,
                           const CompileOptions &options, const DimSpelling &dims, bool queue);

} // namespace tenon
