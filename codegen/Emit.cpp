// Implements emitModule: one writer per target family.
#include "codegen/Compile.h"
#include "codegen/cpu/Program.h"
#include "codegen/cuda/Program.h"

#include "ir/Names.h"

namespace tenon {

bool emitModule(Module &module, const Target &target, const CompileOptions &options,
                std::vector<CompiledFile> &files, CompileSummary &summary,
                Diagnostics &diagnostics) {
  if (module.stage != Stage::Scheduled) {
    diagnostics.error("module is not scheduled");
    return false;
  }
  for (auto &graph : module.graphs)
    adoptNames(*graph);
  return target.family == Family::Cuda
             ? emitCuda(module, target, options, files, summary, diagnostics)
             : emitCpp(module, target, options, files, summary, diagnostics);
}

} // namespace tenon
