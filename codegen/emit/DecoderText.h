// Declares the text of a decoder's functions (--decoder), which both kinds of files have.
#pragma once

#include "codegen/emit/Interface.h"
#include "codegen/emit/SourceWriter.h"

namespace tenon {

/// `the_decoder`, what the runtime's functions know of the program.
void writeDecoderForm(SourceWriter &w, const InterfaceInfo &info, const DimSpelling &dims);

/// The functions that the header declares. `scope` is the namespace of `the_decoder`, `machine`
/// what runs the program of `context`.
void writeDecoderFunctions(SourceWriter &w, const InterfaceInfo &info, const std::string &scope,
                           const std::string &tenon, const std::string &machine);

/// What two run-time dimensions are together at most (ir/SumBounds.h): for each such pair the
/// members of its row, "0, 1, 64". Entries have the bounds of the first graph.
std::vector<std::string> sumMembers(const Module &module, const DimSpelling &dims);

/// What the functions of a decoder remember in a context, as common/decoder.h counts it.
int64_t decoderBytes(const DecoderInfo &info);

} // namespace tenon
