// Implements the resolution of `cuda:native`, and what is said of microcontrollers without kernels.
#include "compiler/NativeTarget.h"

#include "codegen/core/TargetFamily.h"
#include "compiler/ProgramOutput.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

namespace tenon {
namespace {

std::vector<std::string> queryGpus(llvm::StringRef fields) {
  auto smi = llvm::sys::findProgramByName("nvidia-smi");
  if (!smi)
    return {};
  auto text = outputOf(*smi, {"--query-gpu=" + fields.str(), "--format=csv,noheader"});
  llvm::SmallVector<llvm::StringRef, 8> lines;
  if (text)
    llvm::StringRef(*text).split(lines, '\n', -1, /*KeepEmpty=*/false);
  return {lines.begin(), lines.end()};
}

/// Jetson boards, whose nvidia-smi does not know the capability, by their system on a chip.
unsigned capabilityOfBoard() {
  auto compatible = llvm::MemoryBuffer::getFileAsStream("/proc/device-tree/compatible");
  if (!compatible)
    return 0;
  const llvm::StringRef text = (*compatible)->getBuffer();
  return text.contains("tegra234") ? 87 : text.contains("tegra264") ? 110 : 0;
}

/// 10 x compute capability of the first GPU; 0 where none is found.
unsigned capabilityHere() {
  for (llvm::StringRef line : queryGpus("compute_cap")) {
    auto [major, minor] = line.trim().split('.');
    unsigned a, b;
    if (!major.getAsInteger(10, a) && !minor.getAsInteger(10, b) && b < 10)
      return 10 * a + b;
  }
  return capabilityOfBoard();
}

std::string digitsOf(llvm::StringRef text) {
  std::string digits;
  llvm::copy_if(text, std::back_inserter(digits), llvm::isDigit);
  return digits;
}

/// Whether `text` names a microcontroller that no level is for. A name with the number of a known
/// core or chip and few other letters is a slip for that one; another number is another one, whose
/// instructions may be fewer.
bool isOtherMicrocontroller(llvm::StringRef text) {
  constexpr unsigned kSlip = 3;
  if (!text.consume_front("mcu:") || text.empty())
    return false;
  return llvm::none_of(allTargetLevels(), [&](const TargetLevel *level) {
    const std::string known = level->spelling();
    return !level->family->facts.hosted && digitsOf(text) == digitsOf(known) &&
           (llvm::StringRef(known).contains(text) ||
            text.edit_distance(known, true, kSlip) <= kSlip);
  });
}

} // namespace

std::vector<std::string> describeGpus() { return queryGpus("name,compute_cap,memory.total"); }

llvm::Optional<Target> resolveTarget(llvm::StringRef text, Diagnostics &diagnostics) {
  llvm::StringRef levels = text;
  llvm::SmallVector<llvm::StringRef, 4> parts;
  if (levels.consume_front("cuda:"))
    levels.split(parts, '+');
  if (isOtherMicrocontroller(text)) {
    std::string known;
    for (const TargetLevel *level : allTargetLevels())
      if (!level->family->facts.hosted)
        known += (known.empty() ? "" : ", ") + level->fullName();
    Diagnostic &d = diagnostics.error(
        "no kernels are written for '" + text.str() +
        "': another core's may have instructions that it lacks; name its core where that is one of "
        "those below, else --target=mcu:generic is plain ISO "
        "C++17 for any 32-bit core, built with that core's own compiler and flags");
    d.notes.push_back("microcontrollers are " + known);
    return llvm::None;
  }
  if (!llvm::is_contained(parts, "native"))
    return parseTarget(text, diagnostics);
  const unsigned capability = capabilityHere();
  if (capability == 0) {
    diagnostics.error("target '" + text.str() +
                      "': no GPU was found here; for one elsewhere compile with its level, such "
                      "as cuda:sm_80 (`tenon targets` lists them), and here run on cpu:native");
    return llvm::None;
  }
  const TargetLevel *level = cudaLevelOf(capability);
  if (!level) {
    diagnostics.error("target '" + text.str() + "': this GPU has compute capability " +
                      std::to_string(capability / 10) + "." + std::to_string(capability % 10) +
                      ", which no level is for (`tenon targets` lists them)");
    return llvm::None;
  }
  for (llvm::StringRef &part : parts)
    if (part == "native")
      part = level->name;
  return parseTarget("cuda:" + llvm::join(parts, "+"), diagnostics);
}

} // namespace tenon
