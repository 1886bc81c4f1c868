// Defines DecoderPorts: what a program's interface knows of a module that decodes (--decoder). It
// is kept in the module's facts, so that it is in the text of every stage.
#pragma once

#include "ir/IR.h"

#include "llvm/ADT/Optional.h"

namespace tenon {

struct DecoderPorts {
  /// An input, integers [1, count], and an output, numbers [1, rows, vocabulary].
  std::string tokens, logits;
  /// The symbol that is the length of the caches, and that of new tokens; the latter is empty where
  /// their number is fixed.
  std::string length, count;
  /// The most tokens that the caches hold.
  int64_t capacity = 0;
  /// Only the last token of a run has logits.
  bool lastLogits = true;
};

void noteDecoder(Module &module, const DecoderPorts &ports);
void forgetDecoder(Module &module);
/// None where the module is no decoder's.
llvm::Optional<DecoderPorts> decoderPorts(const Module &module);

} // namespace tenon
