// Implements how commands choose schedules: by estimates, tuning files, or measuring first.
#include "driver/Choice.h"
#include "codegen/core/TargetFamily.h"

#include "codegen/Pools.h"
#include "driver/CodeOptions.h"
#include "driver/Tuner.h"

#include "llvm/Support/MemoryBuffer.h"

#include <set>

namespace tenon {
namespace {

/// Null after errors. A file that knows none of the target's levels is an error, one of another
/// version a warning.
std::shared_ptr<const Tuning> readTuning(llvm::ArrayRef<std::string> paths, const Target &target,
                                         Diagnostics &diagnostics) {
  auto all = std::make_shared<Tuning>();
  for (const std::string &path : paths) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer) {
      diagnostics.error("cannot read '" + path + "': " + buffer.getError().message());
      return nullptr;
    }
    Tuning one;
    if (!one.parse((*buffer)->getBuffer(), path, diagnostics))
      return nullptr;
    if (llvm::none_of(target.levels,
                      [&](const TargetLevel *l) { return one.knowsLevel(l->name); })) {
      diagnostics.error("--tuning: '" + path + "' was measured for " + one.target + ", not for " +
                        target.name + "; run `tenon tune` for this target");
      return nullptr;
    }
    if (one.version != TENON_VERSION)
      diagnostics.warning("--tuning: '" + path + "' was measured with tenon " + one.version +
                          ", this is " TENON_VERSION "; kernels may have changed since");
    (void)all->parse((*buffer)->getBuffer(), path, diagnostics);
  }
  return all;
}

/// Notes the memories of --pool in the module.
bool notePools(Compilation &compilation, llvm::ArrayRef<std::string> words) {
  std::string text;
  std::set<std::string> names;
  for (const auto &[name, value] : keyValues(words)) {
    int64_t bytes;
    if (llvm::StringRef(value).getAsInteger(10, bytes) || bytes < 64 || identifier(name) != name ||
        !names.insert(name).second) {
      compilation.diagnostics().error(
          "--pool: expected NAME=BYTES with a C identifier of its own and at least 64 bytes, found "
          "'" +
          name + "=" + value + "'");
      return false;
    }
    text += (text.empty() ? "" : ",") + name + "=" + std::to_string(bytes / 64 * 64);
  }
  if (!text.empty())
    compilation.module().facts[kPoolsFact] = text;
  return true;
}

bool firmwareOptions(Compilation &compilation, const Target &target, const CodeOptions &code) {
  const char *used = !code.optimize.empty() ? "--optimize"
                     : code.ramLimit >= 0   ? "--ram-limit"
                     : !code.pool.empty()   ? "--pool"
                                            : nullptr;
  if (used && target.family->facts.hosted) {
    compilation.diagnostics().error(used + std::string(" is for microcontrollers, and ") +
                                    target.name + " is none");
    return false;
  }
  return notePools(compilation, code.pool);
}

} // namespace

bool scheduleChoices(Console &console, Compilation &compilation, const Target &target,
                     const CodeOptions &code, llvm::ArrayRef<Tensor> data, ScheduleOptions &out) {
  if (!firmwareOptions(compilation, target, code))
    return false;
  if (!scheduleOptions(code, compilation.passContext(), out, compilation.diagnostics()))
    return false;
  if (!code.tuning.empty() &&
      !(out.tuning = readTuning(listItems(code.tuning), target, compilation.diagnostics())))
    return false;
  if (code.search != "exhaustive")
    return true;
  auto tuning = std::make_shared<Tuning>();
  TuningReport report;
  if (!Tuner(console, compilation, target, code, out, {}).measure(data, *tuning, report))
    return false;
  out.tuning = std::move(tuning);
  return true;
}

bool scheduleAsAsked(Console &console, Compilation &compilation, const Target &target,
                     const CodeOptions &code, llvm::ArrayRef<Tensor> data) {
  ScheduleOptions options;
  return scheduleChoices(console, compilation, target, code, data, options) &&
         compilation.schedule(target, options);
}

} // namespace tenon
