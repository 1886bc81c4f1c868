// Defines the writing of a C++ file's C functions, which hand over to the runtime.
#pragma once

#include "codegen/emit/Interface.h"
#include "codegen/emit/SourceWriter.h"
#include "codegen/memory/Pools.h"

namespace tenon {

/// Writes the functions that the header declares. `space` is the namespace of the runtime,
/// `the_program` and `output_extent`; without a `heap`, the caller gives all memory.
void writeCppEntryPoints(SourceWriter &w, const InterfaceInfo &info, const DimSpelling &dims,
                         llvm::ArrayRef<Pool> pools, const std::string &space, bool heap);

} // namespace tenon
