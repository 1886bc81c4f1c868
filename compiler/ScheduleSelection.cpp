// Implements what options say of schedules.
#include "compiler/ScheduleSelection.h"

#include "codegen/core/Chips.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/memory/Pools.h"
#include "compiler/CodeOptions.h"
#include "ir/NearFile.h"

#include "llvm/Support/MemoryBuffer.h"

namespace tenon {
namespace {

/// Adds what a tuning file says. One that knows none of the target's levels is an error, one of
/// another version a warning.
bool addTuning(llvm::StringRef text, const std::string &path, const Target &target, Tuning &all,
               Diagnostics &diagnostics) {
  Tuning one;
  if (!one.parse(text, path, diagnostics))
    return false;
  if (llvm::none_of(target.levels, [&](const TargetLevel *l) { return one.knowsLevel(l->name); })) {
    diagnostics.error("--tuning: '" + path + "' was measured for " + one.target + ", not for " +
                      target.name + "; run `tenon tune` for this target");
    return false;
  }
  if (one.version != TENON_VERSION)
    diagnostics.warning("--tuning: '" + path + "' was measured with tenon " + one.version +
                        ", this is " TENON_VERSION "; kernels may have changed since");
  (void)all.parse(text, path, diagnostics);
  return true;
}

/// Null after errors.
std::shared_ptr<const Tuning> readTuning(const CodeOptions &code, const Target &target,
                                         Diagnostics &diagnostics) {
  auto all = std::make_shared<Tuning>();
  for (const std::string &path : listItems(code.tuning)) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer) {
      diagnostics.error("cannot read '" + path + "': " + buffer.getError().message() +
                        nearFile(path));
      return nullptr;
    }
    if (!addTuning((*buffer)->getBuffer(), path, target, *all, diagnostics))
      return nullptr;
  }
  for (const InMemory &file : code.measured)
    if (!addTuning(*file.bytes, file.path, target, *all, diagnostics))
      return nullptr;
  return all;
}

} // namespace

bool scheduleSelection(Compiler &compiler, const Target &target, const CodeOptions &code,
                       ScheduleOptions &out) {
  const auto pools = poolsOf(code, target, compiler.diagnostics());
  if (!pools)
    return false;
  if (!pools->empty())
    compiler.module().facts[kPoolsFact] = *pools;
  if (!scheduleOptions(code, compiler.passContext(), out, compiler.diagnostics()))
    return false;
  if (const Chip *chip = chipOf(*target.levels.front());
      chip && code.ramLimit < 0 && code.pool.empty())
    out.ramLimit = chip->largest().bytes;
  return (code.tuning.empty() && code.measured.empty()) ||
         (out.tuning = readTuning(code, target, compiler.diagnostics()));
}

} // namespace tenon
