// Implements what options say of schedules.
#include "compiler/ScheduleSelection.h"

#include "codegen/core/TargetFamily.h"
#include "codegen/memory/Pools.h"
#include "compiler/CodeOptions.h"

#include "llvm/Support/MemoryBuffer.h"

#include <set>

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
      diagnostics.error("cannot read '" + path + "': " + buffer.getError().message());
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

/// Notes the memories of --pool in the module.
bool notePools(Compiler &compiler, llvm::ArrayRef<std::string> words) {
  std::string text;
  std::set<std::string> names;
  for (const auto &[name, value] : keyValues(words)) {
    int64_t bytes;
    if (llvm::StringRef(value).getAsInteger(10, bytes) || bytes < 64 || identifier(name) != name ||
        !names.insert(name).second) {
      compiler.diagnostics().error(
          "--pool: expected NAME=BYTES with a C identifier of its own and at least 64 bytes, found "
          "'" +
          name + "=" + value + "'");
      return false;
    }
    text += (text.empty() ? "" : ",") + name + "=" + std::to_string(bytes / 64 * 64);
  }
  if (!text.empty())
    compiler.module().facts[kPoolsFact] = text;
  return true;
}

bool firmwareOptions(Compiler &compiler, const Target &target, const CodeOptions &code) {
  const char *used = !code.optimize.empty() ? "--optimize"
                     : code.ramLimit >= 0   ? "--ram-limit"
                     : !code.pool.empty()   ? "--pool"
                                            : nullptr;
  if (used && target.family->facts.hosted) {
    compiler.diagnostics().error(used + std::string(" is for microcontrollers, and ") +
                                 target.name + " is none");
    return false;
  }
  return notePools(compiler, code.pool);
}

} // namespace

bool scheduleSelection(Compiler &compiler, const Target &target, const CodeOptions &code,
                       ScheduleOptions &out) {
  if (!firmwareOptions(compiler, target, code))
    return false;
  if (!scheduleOptions(code, compiler.passContext(), out, compiler.diagnostics()))
    return false;
  return (code.tuning.empty() && code.measured.empty()) ||
         (out.tuning = readTuning(code, target, compiler.diagnostics()));
}

} // namespace tenon
