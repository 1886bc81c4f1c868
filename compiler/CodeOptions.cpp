// Implements what the options of code generation mean.
#include "compiler/CodeOptions.h"

#include "codegen/core/TargetFamily.h"
#include "compiler/NativeTarget.h"
#include "passes/AssignPrecision.h"

namespace tenon {

llvm::Optional<Target> codeTarget(const CodeOptions &options, Diagnostics &diagnostics) {
  if (options.target == "interpreter") {
    diagnostics.error("target 'interpreter' runs and compares only; use it with `tenon run`");
    return llvm::None;
  }
  return resolveTarget(options.target, diagnostics);
}

bool precisionRules(const CodeOptions &code, PassContext &passes, Diagnostics &diagnostics) {
  std::vector<PrecisionRule> rules;
  if (!parsePrecision(code.precision, rules, diagnostics))
    return false;
  passes.precision.clear();
  if (llvm::any_of(rules, [](const PrecisionRule &r) { return r.isReduced(); }))
    passes.precision = std::move(rules);
  return true;
}

bool checkPrecision(llvm::ArrayRef<PrecisionRule> rules, const Target &target,
                    Diagnostics &diagnostics) {
  bool ok = true;
  for (const PrecisionRule &r : rules) {
    if (r.isReduced() && !target.family->facts.reducedPrecision) {
      diagnostics.error("--precision: " + r.name() + " is for cuda targets; " + target.name +
                        " multiplies and adds in fp32, and stores in 16 bits what the model does");
      return false;
    }
    for (const TargetLevel *level : target.levels)
      if (r.isReduced() && r.element != Element::F16 && level->sm < 80) {
        diagnostics.error("--precision=" + r.name() + ": the Tensor Cores of " + level->name.str() +
                          " multiply fp16 only; use --precision=fp16, or sm_80 and up");
        ok = false;
      }
  }
  return ok;
}

bool scheduleOptions(const CodeOptions &code, PassContext &passes, ScheduleOptions &out,
                     Diagnostics &diagnostics) {
  if (!precisionRules(code, passes, diagnostics))
    return false;
  out.search = code.search == "none" ? ScheduleOptions::None : ScheduleOptions::Heuristic;
  out.enabled = [&passes](llvm::ArrayRef<llvm::StringRef> names) {
    return passes.enabledUnder(names);
  };
  out.restart = [&passes](llvm::StringRef id) { passes.restart(id); };
  out.fire = [&passes](llvm::StringRef id, const Operation &op) { return passes.fire(id, op); };
  out.workspace = code.workspace;
  out.ramLimit = code.ramLimit;
  out.shareCode = code.optimize == "size";
  return true;
}

CompileOptions compileOptions(const CodeOptions &code, llvm::StringRef stem) {
  CompileOptions out;
  out.stem = stem.str();
  out.prefix = code.prefix.empty() ? identifier(stem) : code.prefix;
  out.weights = code.weights == "inline"   ? CompileOptions::Inline
                : code.weights == "incbin" ? CompileOptions::Incbin
                : code.weights == "file"   ? CompileOptions::File
                                           : CompileOptions::Auto;
  out.size = code.optimize == "size";
  out.textBytes = code.textBytes;
  out.kernels = code.kernels;
  out.threads = code.threads;
  out.runtime = code.runtime == "include" ? CompileOptions::Include : CompileOptions::Embed;
  return out;
}

bool checkHooks(const CodeOptions &code, const Target &target, Diagnostics &diagnostics) {
  if (!code.hooks || target.family->facts.hooks)
    return true;
  diagnostics.error("--hooks: layers of " + target.name +
                    " run on the device; `tenon bench --profile` times them");
  return false;
}

bool checkThreads(const CodeOptions &code, const Target &target, Diagnostics &diagnostics) {
  const FamilyFacts &facts = target.family->facts;
  if (code.threads <= 1 || (facts.hosted && !facts.device))
    return true;
  diagnostics.error("--threads=" + std::to_string(code.threads) + ": programs for " + target.name +
                    " compute " + (facts.device ? "on the device" : "with one thread"));
  return false;
}

std::string optionsNoted(const Module &module, const CompileOptions &options) {
  auto noted = module.facts.find("options");
  std::string text = noted != module.facts.end() ? noted->second : "";
  if (options.size)
    text += (text.empty() ? "" : " ") + std::string("--optimize=size");
  if (options.threads > 1)
    text += (text.empty() ? "" : " ") + ("--threads=" + std::to_string(options.threads));
  return text;
}

int nodesRead(const Module &module) {
  int nodes = 0;
  if (auto noted = module.facts.find("nodes"); noted != module.facts.end())
    (void)llvm::StringRef(noted->second).getAsInteger(10, nodes);
  return nodes;
}

std::string identifier(llvm::StringRef text) {
  std::string out;
  for (char c : text)
    out += isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (out.empty() || isdigit(static_cast<unsigned char>(out[0])))
    out.insert(0, "m");
  return out;
}

} // namespace tenon
