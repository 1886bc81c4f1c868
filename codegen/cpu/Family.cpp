// Implements the family of cpu targets.
#include "codegen/cpu/Family.h"

#include "codegen/cpu/program/Program.h"
#include "passes/Pass.h"

namespace tenon::cpu {
namespace {

void setTraits(llvm::ArrayRef<const TargetLevel *> levels, TargetTraits &traits) {
  // Without vectors the products and the softmax apart are as fast (docs/kernels.md).
  if (levels.front()->simdWidth == 1)
    traits.attentionHead = traits.attentionHeadOfHalves = 0;
}

constexpr FamilyFacts facts() {
  FamilyFacts f;
  f.text = true;
  return f;
}

} // namespace

const TargetFamily kFamily = {"cpu",     ".cpp",  facts(), levels,  tactics, {},
                              setTraits, nullptr, nullptr, nullptr, nullptr, emitCpp};

} // namespace tenon::cpu
