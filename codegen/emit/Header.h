// Defines the text of the generated C89 header, shared by C++ and CUDA outputs.
#pragma once

#include "codegen/emit/Interface.h"

namespace tenon {

std::string writeHeader(const Module &module, const InterfaceInfo &info, const Target &target,
                        const DimSpelling &dims, const CompileOptions &options,
                        const CompileSummary &summary);

/// The signature of the function that quantises an input or dequantises an output.
std::string conversionSignature(const std::string &prefix, const Port &port, bool input);

} // namespace tenon
