// Defines what `native` means in the name of a target, and which GPUs this machine has.
#pragma once

#include "codegen/core/Target.h"

namespace tenon {

/// parseTarget() with `cuda:native` resolved to the level of this machine's first GPU; reports
/// where there is none.
llvm::Optional<Target> resolveTarget(llvm::StringRef text, Diagnostics &diagnostics);

/// Name, compute capability and memory of each GPU, as nvidia-smi gives them.
std::vector<std::string> describeGpus();

} // namespace tenon
