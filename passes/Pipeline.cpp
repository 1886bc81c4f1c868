// The pipelines of the optimisation levels, as text that `tenon opt --passes` takes, too.
#include "passes/PassManager.h"

#include "llvm/ADT/Twine.h"

namespace tenon {

llvm::StringRef optimizationPipeline(unsigned level) {
  switch (level) {
  case 0: return "";
  case 1: return "canonicalize,fold,canonicalize,cse,dce";
  default: break;
  }
  // Islands of few bits first; then operations that kernels exist for.
  constexpr llvm::StringLiteral islands =
      "canonicalize,fold{keep-quantized=1},canonicalize,cse,integer-arithmetic,"
      "float8-arithmetic,narrow-weights,canonicalize,fold,canonicalize,cse,constant-channels,"
      "raise-normalize,";
  constexpr llvm::StringLiteral kernels = "raise-attention,causal-attention,fold-conv-scale,"
                                          "decompose-conv-transpose,absorb-pad,eliminate-transpose,"
                                          "gather-rows,canonicalize,fold,cse,dce";
  static const std::string of2 = (llvm::Twine(islands) + kernels).str(),
                           of3 = (llvm::Twine(islands) + "merge-siblings," + kernels).str();
  return level == 2 ? of2 : of3;
}

std::string optimizationPipeline(const TargetTraits &target, unsigned level) {
  std::string passes = optimizationPipeline(level == 2 && target.mergedProducts ? 3 : level).str();
  if (target.bundledVolumeChannels > 0 && level >= 2)
    passes += ",bundle-groups";
  if (target.productsInPlace && level >= 2)
    passes += ",pointwise-products,canonicalize,fold,cse,dce";
  if (target.mergedReductions && level >= 2)
    passes += ",merge-reductions,dce";
  if (target.controlFlow)
    return passes;
  // Conditions and trip counts are constants once shape arithmetic is folded.
  return level == 0
             ? "flatten-control-flow"
             : "canonicalize,fold{keep-quantized=1},raise-recurrent,flatten-control-flow," + passes;
}

llvm::StringRef preparationPipeline() {
  return "canonicalize,fold,canonicalize,cse,fold-conv-scale,eliminate-transpose,canonicalize,fold,"
         "cse,dce";
}

llvm::StringRef groupingPipeline(unsigned level) {
  switch (level) {
  case 0: return "isolate{apart=1}";
  case 1: return "fuse,isolate";
  default: return "assign-layout,fuse,concat-in-place,isolate,center-channels,assign-branches";
  }
}

std::string groupingPipeline(const TargetTraits &target, unsigned level) {
  // Behind assign-precision, since it is for elements of 16 bits.
  return (target.pairedProducts && level >= 2 ? "split-products,dce," : "") +
         groupingPipeline(level).str();
}

} // namespace tenon
