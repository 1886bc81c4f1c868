// Defines the report of what --decoder found in a model.
#pragma once

#include "frontend/Import.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon {

void printDecoder(llvm::raw_ostream &os, const DecoderInterface &decoder);
/// The attribute "decoder" of a document.
void writeDecoder(llvm::json::OStream &json, const DecoderInterface &decoder);

} // namespace tenon
