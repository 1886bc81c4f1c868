// Implements the traits of targets; thresholds with what was measured for them.
#include "codegen/TargetTraits.h"

#include "codegen/StepOrder.h"
#include "codegen/cuda/ConvPatch.h"
#include "codegen/cuda/ExpandDepthwise.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

namespace tenon {

TargetTraits traitsOf(const Target &target) {
  TargetTraits traits;
  // Without vectors the products and the softmax apart are as fast (docs/performance.md).
  if (target.family != Family::Cpu || target.levels.front()->simdWidth == 1)
    traits.attentionHead = traits.attentionHeadOfHalves = 0;
  if (target.family == Family::Cuda) {
    // All levels run what is optimised once: a kernel must be there for each.
    const auto startAt = [&](unsigned sm) {
      return llvm::all_of(target.levels, [=](const TargetLevel *l) { return l->sm >= sm; });
    };
    if (startAt(80))
      traits.attentionHeadOfHalves = 128;
    traits.controlFlow = false;
    traits.viewAlignment = 16; // loads of four floats trap when they are not aligned
    traits.branches = kMaxBranches;
    traits.wideIntegerSums = false; // they run on contract_any
    traits.narrowWeightRows = 2;    // with 4 dense weights on Tensor Cores win
    // Every block that reads a tile computes its prologue. DenseNet-121 in fp16 on one H200, ms at
    // batch 1, 8, 64: without 0.538, 0.774, 3.035; from 8 MiB on 0.537, 0.762, 2.512; from 1 MiB on
    // 0.548, 0.829, 2.507. With the kernels of sm_80 it loses at all three.
    traits.prologueBytes = std::numeric_limits<int64_t>::max();
    // A cluster of blocks adds up the channels of an image.
    if (startAt(90))
      traits.squeezeBytes = 3 << 19;
    auto hasWarpgroups = [](const TargetLevel *l) { return l->sm == 90 && l->archSpecific; };
    if (startAt(80))
      traits.convChain = [levels = target.levels](const Operation &conv, const Operation &next,
                                                  std::string &why) {
        const auto first = convProblem(conv), second = convProblem(next);
        return first && second && llvm::all_of(levels, [&](const TargetLevel *l) {
                 const Result<> taken = next.is(Op::Pool)
                                            ? cuda::takesPool(*first, *second, *l)
                                            : cuda::takesDepthwise(*first, *second, *l);
                 if (!taken)
                   why = taken.refusal().reason;
                 return bool(taken);
               });
      };
    traits.zeroPoints = llvm::none_of(target.levels, hasWarpgroups);
    traits.prologueBytesOfHalves =
        llvm::all_of(target.levels, hasWarpgroups) ? 8 << 20 : traits.prologueBytes;
  }
  return traits;
}

} // namespace tenon
