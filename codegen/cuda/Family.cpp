// Implements the family of CUDA targets: the table of its tactics, its traits, with what was
// measured for them, and its descriptor.
#include "codegen/cuda/Family.h"

#include "codegen/cuda/TensorCores.h"
#include "codegen/cuda/program/Program.h"
#include "codegen/cuda/shared/Contraction.h"
#include "codegen/cuda/shared/Recurrent.h"
#include "codegen/memory/StepOrder.h"
#include "passes/Pass.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

namespace tenon::cuda {

#define TENON_TACTIC(family, constant) extern const Tactic &constant;
#include "codegen/cuda/Families.def"

namespace {

llvm::ArrayRef<const Tactic *> tactics() {
  static const Tactic *const kTable[] = {
#define TENON_TACTIC(family, constant) &constant,
#include "codegen/cuda/Families.def"
  };
  return kTable;
}

void setTraits(llvm::ArrayRef<const TargetLevel *> levels, TargetTraits &traits) {
  // Attention of f32 elements stays apart: there is no kernel of it on this device.
  traits.attentionHead = traits.attentionHeadOfHalves = 0;
  traits.mergedProducts = true;
  traits.depthwiseRows = traits.productsInPlace = true;
  // All levels run what is optimised once: a kernel must be there for each.
  const auto startAt = [&](unsigned sm) {
    return llvm::all_of(levels, [=](const TargetLevel *l) { return l->sm >= sm; });
  };
  const std::vector<const TargetLevel *> all(levels.begin(), levels.end());
  traits.runsRecurrent = [all](const RecurrentShape &shape) {
    return llvm::all_of(all, [&](const TargetLevel *l) { return runsRecurrent(*l, shape); });
  };
  traits.controlFlow = false;
  traits.viewAlignment = 16; // loads of four floats trap when they are not aligned
  traits.branches = kMaxBranches;
  traits.wideIntegerSums = false; // they run on contract_any
  // By machine code: 2.5 instructions an element (I2FP, FFMA, half an F2IP) instead of some 18, of
  // which the product is at half the rate.
  traits.floatRescale = true;
  traits.narrowWeightRows = 2; // with 4 dense weights on Tensor Cores win
  if (startAt(80))
    traits.narrowWeightRowsOfHalves = 16; // of strip's kernel
  traits.float8Products = startAt(kMmaSm89.firstSm);
  for (const TargetLevel *l : levels)
    if (l->sm < kMmaSm89.firstSm)
      traits.whyNoFloat8Products = l->name.str() + " multiplies no floats of 8 bits";
  // Every block that reads a tile computes its prologue. DenseNet-121 in fp16 on one H200, ms at
  // batch 1, 8, 64: without 0.538, 0.774, 3.035; from 8 MiB on 0.537, 0.762, 2.512; from 1 MiB on
  // 0.548, 0.829, 2.507. With the kernels of sm_80 it loses at all three.
  traits.prologueBytes = std::numeric_limits<int64_t>::max();
  auto hasWarpgroups = [](const TargetLevel *l) { return l->sm == 90 && l->archSpecific; };
  if (startAt(80))
    traits.attentionHeadOfHalves = llvm::all_of(levels, hasWarpgroups) ? 256 : 128;
  traits.pairedProducts = llvm::all_of(levels, hasWarpgroups); // contract_pair_sm90a
  traits.attentionQueriesBeforeMaps = 16; // up to them decode_attention is faster
  traits.zeroPoints = llvm::none_of(levels, hasWarpgroups);
  traits.prologueBytesOfHalves =
      llvm::all_of(levels, hasWarpgroups) ? 8 << 20 : traits.prologueBytes;
}

/// Functions of users are called by the host.
bool supports(Graph &graph, Diagnostics &diagnostics) {
  bool ok = true;
  graph.body().walk([&](Operation *op) {
    if (!op->is(Op::User))
      return;
    ok = false;
    diagnostics.error(*op, op->name().str() +
                               ": functions of users are not supported on cuda targets in this "
                               "version; leave the fact 'function' out of the declaration, or use "
                               "a cpu target");
  });
  return ok;
}

constexpr ScheduleAlias kAliases[] = {
#define TENON_ALIAS(old, key, today) {old, key, today},
#include "codegen/cuda/Families.def"
};

constexpr FamilyFacts facts() {
  FamilyFacts f;
  f.device = f.reducedPrecision = f.joinsLevels = f.entries = f.alignsPorts = true;
  f.hooks = false;
  return f;
}

} // namespace

const TargetFamily kFamily = {"cuda",      ".cu",     facts(),  levels,           tactics,
                              kAliases,    setTraits, supports, worthTensorCores, judgeTensorCores,
                              nvccOptions, emitCuda};

} // namespace tenon::cuda
