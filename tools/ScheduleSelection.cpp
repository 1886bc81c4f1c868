// Implements how commands choose schedules: as options say, or measuring first.
#include "tools/ScheduleSelection.h"

#include "compiler/ScheduleSelection.h"
#include "tools/Tuner.h"

namespace tenon {

bool scheduleChoices(ToolHost &host, Compiler &compiler, const Target &target,
                     const CodeOptions &code, llvm::ArrayRef<Tensor> data, ScheduleOptions &out) {
  if (!scheduleSelection(compiler, target, code, out))
    return false;
  if (code.search != "exhaustive")
    return true;
  auto tuning = std::make_shared<Tuning>();
  TuningReports reports;
  if (!tuneRuns(host, compiler, target, code, out, {}, data, *tuning, reports))
    return false;
  out.tuning = std::move(tuning);
  return true;
}

bool scheduleAsAsked(ToolHost &host, Compiler &compiler, const Target &target,
                     const CodeOptions &code, llvm::ArrayRef<Tensor> data) {
  ScheduleOptions options;
  return scheduleChoices(host, compiler, target, code, data, options) &&
         compiler.schedule(target, options);
}

} // namespace tenon
