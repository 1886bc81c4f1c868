// Implements what the options of code generation mean.
#include "compiler/CodeOptions.h"

#include "codegen/core/Bytes.h"
#include "codegen/core/Chips.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/memory/ArenaLayout.h"
#include "compiler/NativeTarget.h"
#include "passes/AssignPrecision.h"

#include <set>

namespace tenon {

/// Refuses options that mean nothing to programs of the target's family.
static bool checkFamily(const CodeOptions &code, const Target &target, Diagnostics &diagnostics) {
  const CodeOptions usual;
  const FamilyFacts &facts = target.family->facts;
  const std::string programs = "programs for " + target.name;
  const std::string firmware = " is for microcontrollers, and " + target.name + " is none";
  const struct {
    bool given, used;
    std::string message;
  } rows[] = {
      {code.threads > 1, facts.hosted && !facts.device,
       "--threads=" + std::to_string(code.threads) + ": " + programs + " compute " +
           (facts.device ? "on the device" : "with one thread")},
      {code.kernels != usual.kernels, facts.device,
       "--kernels is for cuda targets, and " + target.name + " is none"},
      {code.textBytes != usual.textBytes, facts.text,
       "--text-bytes: " + programs + " take no text"},
      {code.weights == "incbin" || code.weights == "file", facts.hosted,
       "--weights: " + programs + " have their weights in the image: expected inline"},
      {!code.optimize.empty(), !facts.hosted, "--optimize" + firmware},
      {code.ramLimit >= 0, !facts.hosted, "--ram-limit" + firmware},
      {!code.pool.empty(), !facts.hosted, "--pool" + firmware},
      {code.hooks, facts.hooks,
       "--hooks: layers of " + target.name +
           " run on the device; `tenon bench --profile` times them"},
  };
  for (const auto &row : rows)
    if (row.given && !row.used) {
      diagnostics.error(row.message);
      return false;
    }
  return true;
}

/// Refuses precisions that are none, and those that the target does not have.
static bool checkPrecision(const CodeOptions &code, const Target &target,
                           Diagnostics &diagnostics) {
  std::vector<PrecisionRule> rules;
  return parsePrecision(code.precision, rules, diagnostics) &&
         checkPrecision(rules, target, diagnostics);
}

llvm::Optional<Target> codeTarget(const CodeOptions &options, Diagnostics &diagnostics) {
  if (options.target == "interpreter") {
    diagnostics.error("target 'interpreter' runs and compares only; use it with `tenon run`");
    return llvm::None;
  }
  auto target = resolveTarget(options.target, diagnostics);
  const bool ok = target && checkFamily(options, *target, diagnostics) &&
                  checkPrecision(options, *target, diagnostics) &&
                  (options.search != "exhaustive" || canTune(*target, diagnostics)) &&
                  poolsOf(options, *target, diagnostics);
  return ok ? target : llvm::None;
}

bool canTune(const Target &target, Diagnostics &diagnostics) {
  if (!target.family->facts.tunable)
    diagnostics.error(
        "schedules of " + target.name +
        " are not measured: its kernels leave nothing to choose; tune a cpu or cuda target");
  else if (target.levels.size() != 1)
    diagnostics.error("one machine level is tuned at a time, " + target.name +
                      " has several; tune each and give all files to --tuning");
  return target.family->facts.tunable && target.levels.size() == 1;
}

/// Bytes of a memory of --pool: those that are given, else the chip's; 0 where there are none.
static int64_t poolBytes(llvm::StringRef name, llvm::StringRef value, const Chip *chip) {
  int64_t bytes = 0;
  if (!value.empty())
    return value.getAsInteger(10, bytes) ? 0 : bytes;
  const ChipMemory *memory = chip ? chip->memory(name) : nullptr;
  return memory ? memory->bytes : 0;
}

llvm::Optional<std::string> poolsOf(const CodeOptions &code, const Target &target,
                                    Diagnostics &diagnostics) {
  const Chip *chip = chipOf(*target.levels.front());
  std::string text;
  std::set<std::string> names;
  for (const std::string &word : listItems(code.pool)) {
    const auto [first, value] = llvm::StringRef(word).split('=');
    const std::string name = first.str();
    const int64_t bytes = poolBytes(name, value, chip);
    if (bytes < kArenaAlignment || identifier(name) != name || !names.insert(name).second) {
      Diagnostic &d = diagnostics.error("--pool: expected NAME=BYTES with a C identifier of its "
                                        "own and at least 64 bytes, or the "
                                        "name of a memory of the chip, found '" +
                                        word + "'");
      for (const ChipMemory &m : chip ? chip->memories : std::vector<ChipMemory>())
        d.notes.push_back(target.name + " has " + m.name.str() + " of " + std::to_string(m.bytes) +
                          " bytes");
      return llvm::None;
    }
    text += (text.empty() ? "" : ",") + name + "=" + std::to_string(bytes);
  }
  return text;
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
  const bool all = target.family->facts.reducedPrecision;
  for (const PrecisionRule &r : rules) {
    if (!r.isReduced())
      continue;
    // Vectors of C++ targets multiply bf16 by pairs.
    const bool pairs = llvm::all_of(target.levels, [](auto *l) { return l->simdWidth > 1; });
    if (!all && !(pairs && r.element == Element::BF16)) {
      diagnostics.error(
          "--precision: " + r.name() + " is for cuda targets; " + target.name +
          (pairs ? " multiplies fp32 and bf16, adds in fp32" : " multiplies and adds in fp32") +
          ", and stores in 16 bits what the model does");
      return false;
    }
    for (const TargetLevel *level : target.levels)
      if (all && r.element != Element::F16 && level->sm < 80) {
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

void checkFlash(const Target &target, int64_t weightBytes, Diagnostics &diagnostics) {
  const Chip *chip = chipOf(*target.levels.front());
  const int64_t flash = chip ? chip->flashBytes : 0;
  if (flash && weightBytes > flash)
    diagnostics.warning(
        "weights of " + formatBytes(weightBytes) + " do not fit into the flash of " + target.name +
        ", " + formatBytes(flash) +
        ": `tenon calibrate` makes bytes of floats, or place them in another memory "
        "with -DTENON_WEIGHTS_SECTION");
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
