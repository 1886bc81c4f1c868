// Defines the writing of a CUDA file's C functions, which hand over to the runtime.
#pragma once

#include "codegen/emit/Interface.h"
#include "codegen/emit/SourceWriter.h"

namespace tenon {

/// Writes the functions that the header declares. `scope` is the scope of `the_program` and
/// `output_extent`, with its colons.
void writeCudaEntryPoints(SourceWriter &w, const InterfaceInfo &info, const DimSpelling &dims,
                          const std::string &scope);

} // namespace tenon
