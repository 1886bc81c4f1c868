// Implements the family of mcu targets. Its kernels are those of cpu targets; which of them are for
// microcontrollers their matches say.
#include "codegen/mcu/Family.h"

#include "codegen/cpu/Family.h"
#include "codegen/cpu/program/Program.h"
#include "passes/Pass.h"

namespace tenon::mcu {
namespace {

void setTraits(llvm::ArrayRef<const TargetLevel *>, TargetTraits &traits) {
  traits.gatheredRows = false;
  traits.bundledVolumeChannels = 0;
  traits.leftWeights = false;                              // only those on the right are packed
  traits.attentionHead = traits.attentionHeadOfHalves = 0; // its blocks are too large for a stack
}

constexpr FamilyFacts facts() {
  FamilyFacts f;
  f.hosted = f.tunable = false;
  f.quantizedPorts = true;
  return f;
}

} // namespace

const TargetFamily kFamily = {"mcu",     ".cpp",  facts(), levels,  cpu::tactics, {},
                              setTraits, nullptr, nullptr, nullptr, nullptr,      emitCpp};

} // namespace tenon::mcu
