// Defines the report of what --decoder found in a model.
#pragma once

#include "codegen/core/CompileOptions.h"
#include "frontend/Import.h"
#include "ir/IR.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon {

/// `module` is scheduled, `summary` that of its program.
void printDecoder(llvm::raw_ostream &os, const DecoderInterface &decoder, Module &module,
                  const CompileSummary &summary);
/// The attribute "decoder" of a document.
void writeDecoder(llvm::json::OStream &json, const DecoderInterface &decoder, Module &module,
                  const CompileSummary &summary);

} // namespace tenon
