// Implements the question for a GPU: a small program (runtime/harness/devices.cpp) asks the driver.
#include "tools/Devices.h"

#include "codegen/core/TargetFamily.h"
#include "codegen/emit/EmbeddedRuntime.h"
#include "compiler/ProgramOutput.h"
#include "tools/Files.h"
#include "tools/Tools.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Process.h"

namespace tenon {
namespace {

/// A compiler named in NVCC that answers "emulated" to this builds programs that need no GPU.
constexpr llvm::StringLiteral kQuestion = "--tenon-devices";

bool needsNoGpu() {
  if (llvm::sys::Process::GetEnv("TENON_RUN_WITH"))
    return true;
  if (!llvm::sys::Process::GetEnv("NVCC"))
    return false;
  const auto answer = outputOf(findNvcc(), {kQuestion});
  return answer && *answer == "emulated";
}

/// What the program says; empty where it cannot be built or run.
std::string askDriver() {
  const TemporaryFolder folder;
  const std::string compiler = findCxx(), source = folder.valid() ? folder.file("devices.cpp") : "";
  const auto *const text = llvm::find_if(
      llvm::makeArrayRef(kEmbeddedRuntime, kEmbeddedRuntimeCount),
      [](const EmbeddedFile &f) { return llvm::StringRef(f.path) == "harness/devices.cpp"; });
  Diagnostics unsaid;
  OutputFiles files(unsaid);
  if (source.empty() || compiler.empty() ||
      !files.add(source, llvm::StringRef(text->data, text->size)) || !files.commit())
    return "";
  const std::string program = folder.file("devices");
  if (!runTool(
          {compiler, {"-std=c++17", source, "-o", program, "-ldl"}, folder.file("log.txt"), ""},
          "building", unsaid))
    return "";
  return outputOf(program, {}).getValueOr("");
}

/// Whether code of one of the target's levels, or its PTX, runs on a GPU of this capability.
bool hasCodeFor(const Target &target, unsigned capability) {
  const TargetLevel *ptx = target.ptxLevel();
  return (ptx && ptx->sm <= capability) || llvm::any_of(target.levels, [&](const TargetLevel *l) {
           return l->archSpecific ? l->sm == capability
                                  : l->sm / 10 == capability / 10 && l->sm <= capability;
         });
}

} // namespace

bool canRunHere(const Target &target, Diagnostics &diagnostics) {
  if (!target.family->facts.device || needsNoGpu())
    return true;
  const std::string answer = askDriver();
  llvm::StringRef line = llvm::StringRef(answer).split('\n').first;
  if (line.consume_front("none ")) {
    diagnostics.error("target '" + target.name + "': no GPU is here to run it: " + line.str() +
                      "; run this command where the GPU is, or name another target such as "
                      "cpu:native (`tenon compile` needs no GPU)");
    return false;
  }
  unsigned capability = 0;
  if (!line.consume_front("gpu ") || line.consumeInteger(10, capability) ||
      hasCodeFor(target, capability))
    return true;
  const TargetLevel *level = cudaLevelOf(capability);
  diagnostics.error(
      "target '" + target.name + "' has no code for the GPU here, " + line.trim().str() +
      " of compute capability " + std::to_string(capability / 10) + "." +
      std::to_string(capability % 10) + "; " +
      (level ? "name cuda:" + level->name.str() + ", or cuda:native, which is the same here"
             : "no target has (`tenon targets` lists them)"));
  return false;
}

} // namespace tenon
