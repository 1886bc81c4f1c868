// Defines the writing of a C++ file's C functions, which hand over to the runtime.
#pragma once

#include "codegen/emit/Interface.h"
#include "codegen/emit/SourceWriter.h"
#include "codegen/memory/Pools.h"

namespace tenon {

/// Stands before names that a library does not export, in the manner of C++17. Exported, the
/// templates of the runtime would make it larger, and their static data, of which a process has
/// one, would keep it from being unloaded.
constexpr llvm::StringLiteral kHidden = "[[gnu::visibility(\"hidden\")]] ";

/// Writes the functions that the header declares. `space` is the namespace of the runtime,
/// `the_program` and `output_extent`; without a `heap`, the caller gives all memory.
void writeCppEntryPoints(SourceWriter &w, const InterfaceInfo &info, const DimSpelling &dims,
                         llvm::ArrayRef<Pool> pools, const std::string &space, bool heap);

} // namespace tenon
