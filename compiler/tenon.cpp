// Implements the library's interface over Compiler.
#include "compiler/tenon.h"

#include "codegen/core/Work.h"
#include "compiler/CodeOptions.h"
#include "compiler/LibraryInterface.h"
#include "compiler/ScheduleSelection.h"
#include "compiler/Settings.h"

#include "llvm/Support/raw_ostream.h"

#include <exception>

namespace tenon {
namespace {

std::vector<Fusion> fusionsOf(const Compiler &compiler) {
  std::vector<Fusion> out;
  for (const FusionDecision &f : compiler.fusions())
    out.push_back(
        {f.id, f.accepted, f.nodes, f.reason, f.bytesSaved, f.variant, f.together, f.apart});
  return out;
}

std::vector<Kernel> kernelsOf(Module &module) {
  std::vector<Kernel> out;
  for (auto &graph : module.graphs)
    for (const Step &step : planMemory(*graph).steps) {
      Kernel k;
      k.variant = graph->target;
      k.step = step.number;
      const Attribute *attribute = step.op->find("schedule");
      const Schedule *schedule = attribute ? attribute->get<Schedule>() : nullptr;
      k.schedule = !schedule                  ? step.op->name().str()
                   : schedule->params.empty() ? schedule->tactic
                                              : toString(*schedule);
      k.nodes.assign(step.op->loc().begin(), step.op->loc().end());
      const Work work = workOf(*step.op);
      k.operations = work.flops;
      k.trafficBytes = work.bytes;
      k.scratchBytes = step.scratchBytes;
      out.push_back(std::move(k));
    }
  return out;
}

/// One call of compile().
class Compilation {
public:
  Compilation(const Request &request, const RequestOptions &options, Diagnostics &diagnostics)
      : request_(request), options_(options), diagnostics_(diagnostics),
        compiler_(host_, options.model, options.passes) {}

  bool run(Output &out) {
    const bool ok = compile(out);
    moveDiagnostics(compiler_.diagnostics(), diagnostics_);
    return ok;
  }

private:
  bool compile(Output &out) {
    Diagnostics &diagnostics = compiler_.diagnostics();
    const auto target = codeTarget(options_.code, diagnostics);
    if (!target)
      return false;
    compiler_.aim(*target);
    if (!compiler_.open() || !compiler_.load())
      return false;
    const std::string &stem = request_.settings.name;
    CompileOptions options = compileOptions(options_.code, stem);
    options.hooks = options_.code.hooks;
    ScheduleOptions schedule;
    if (!scheduleSelection(compiler_, *target, options_.code, schedule) ||
        !compiler_.schedule(*target, schedule))
      return false;
    options.commandLine = optionsNoted(compiler_.module(), options);
    std::vector<CompiledFile> files;
    CompileSummary summary;
    if (!compiler_.emit(*target, options, files, summary))
      return false;
    out.files.resize(files.size());
    for (const size_t i : writingOrder(files))
      out.files[i] = {stem + files[i].suffix, files[i].text()};
    if (!compiler_.externalDataUnchanged())
      return false;
    report(*target, summary, out);
    return true;
  }

  void report(const Target &target, const CompileSummary &summary, Output &out) {
    Module &module = compiler_.module();
    out.interface = interfaceOf(module.graph());
    out.target = target.name;
    out.model = module.name;
    out.nodes = nodesRead(module);
    out.kernelCount = summary.kernels;
    out.weightBytes = summary.weightBytes;
    for (const WeightPiece &w : summary.weights)
      out.weights.push_back({w.name, w.at, w.bytes});
    out.arenaBytes = summary.arenaBytes;
    out.stateBytes = summary.stateBytes;
    out.estimatedMicroseconds = summary.estimatedMicroseconds;
    out.fusions = fusionsOf(compiler_);
    out.kernels = kernelsOf(module);
    out.filesRead = compiler_.externalFiles();
  }

  const Request &request_;
  const RequestOptions &options_;
  Diagnostics &diagnostics_;
  CompilerHost host_;
  Compiler compiler_;
};

} // namespace

std::optional<Output> compile(const Request &request, std::vector<Message> &messages) {
  Diagnostics diagnostics;
  std::optional<Output> result;
  try {
    RequestOptions options;
    Output out;
    if (readRequest(request, options, diagnostics) &&
        Compilation(request, options, diagnostics).run(out))
      result = std::move(out);
  } catch (const std::exception &e) { // memory, mostly: nothing of ours throws
    diagnostics.error(e.what());
  }
  addMessages(diagnostics, messages);
  return result;
}

std::string toString(const Message &message) {
  Diagnostics one;
  Diagnostic &d = one.report(Severity(int(message.severity)), message.text);
  d.nodes.assign(message.nodes.begin(), message.nodes.end());
  d.op = message.op;
  d.notes = message.notes;
  std::string text;
  llvm::raw_string_ostream os(text);
  one.print(os);
  return llvm::StringRef(os.str()).rtrim('\n').str();
}

const char *version() { return TENON_VERSION; }

std::vector<TargetInfo> targets() {
  std::vector<TargetInfo> out;
  for (const TargetLevel *level : allTargetLevels())
    out.push_back({level->fullName(), level->summary.str()});
  return out;
}

} // namespace tenon
