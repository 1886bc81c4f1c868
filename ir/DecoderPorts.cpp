// Implements the facts of a decoder.
#include "ir/DecoderPorts.h"

namespace tenon {
namespace {
constexpr llvm::StringLiteral kTokens = "decoder.tokens", kLogits = "decoder.logits",
                              kLength = "decoder.length", kCount = "decoder.count",
                              kCapacity = "decoder.capacity", kRows = "decoder.rows",
                              kLast = "last", kAll = "all";
} // namespace

void noteDecoder(Module &module, const DecoderPorts &ports) {
  auto &facts = module.facts;
  facts[kTokens.str()] = ports.tokens;
  facts[kLogits.str()] = ports.logits;
  facts[kLength.str()] = ports.length;
  facts[kCount.str()] = ports.count;
  facts[kCapacity.str()] = std::to_string(ports.capacity);
  facts[kRows.str()] = (ports.lastLogits ? kLast : kAll).str();
}

void forgetDecoder(Module &module) {
  for (llvm::StringRef key : {kTokens, kLogits, kLength, kCount, kCapacity, kRows})
    module.facts.erase(key.str());
}

llvm::Optional<DecoderPorts> decoderPorts(const Module &module) {
  auto fact = [&](llvm::StringRef key) {
    const auto it = module.facts.find(key.str());
    return it == module.facts.end() ? std::string() : it->second;
  };
  DecoderPorts ports{fact(kTokens), fact(kLogits), fact(kLength), fact(kCount)};
  if (ports.tokens.empty() || llvm::StringRef(fact(kCapacity)).getAsInteger(10, ports.capacity))
    return llvm::None;
  ports.lastLogits = fact(kRows) == kLast;
  return ports;
}

} // namespace tenon
