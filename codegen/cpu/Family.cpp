// Implements the family of cpu targets: the table of its tactics, and its descriptor.
#include "codegen/cpu/Family.h"

#include "codegen/cpu/program/Program.h"
#include "passes/Pass.h"

namespace tenon::cpu {

#define TENON_TACTIC(family, constant) extern const Tactic &constant;
#include "codegen/cpu/Families.def"

llvm::ArrayRef<const Tactic *> tactics() {
  static const Tactic *const kTable[] = {
#define TENON_TACTIC(family, constant) &constant,
#include "codegen/cpu/Families.def"
  };
  return kTable;
}

namespace {

void setTraits(llvm::ArrayRef<const TargetLevel *> levels, TargetTraits &traits) {
  traits.gatheredRows = false;
  traits.bundledVolumeChannels = 0; // convolutions have their groups
  traits.leftWeights = false;       // only those on the right are packed
  traits.mergedReductions = true;
  traits.zeroPointsOfChannels = levels.front()->simdWidth > 1;
  // Without vectors the products and the softmax apart are as fast (docs/kernels.md).
  if (levels.front()->simdWidth == 1)
    traits.attentionHead = traits.attentionHeadOfHalves = 0;
}

constexpr FamilyFacts facts() {
  FamilyFacts f;
  f.text = f.entries = true;
  return f;
}

} // namespace

const TargetFamily kFamily = {"cpu",     ".cpp",  facts(), levels,  tactics, {},
                              setTraits, nullptr, nullptr, nullptr, nullptr, emitCpp};

} // namespace tenon::cpu
