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

/// What the functions of a decoder remember in a context, as common/decoder.h counts it.
int64_t decoderBytes(const DecoderInfo &info);

} // namespace tenon
