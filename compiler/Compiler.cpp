// Implements the steps from a model file to generated text.
#include "compiler/Compiler.h"

#include "codegen/core/Bytes.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/memory/Pools.h"
#include "compiler/CodeOptions.h"
#include "ir/Entries.h"
#include "ir/Text.h"
#include "ir/Verifier.h"

#include "llvm/Support/FileSystem.h"

#include <utility>

namespace tenon {

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

ExternalFile::ExternalFile(std::string name) : path(std::move(name)) {
  llvm::sys::fs::file_status status;
  if (!llvm::sys::fs::status(path, status)) {
    size = status.getSize();
    modified = status.getLastModificationTime();
  }
}

bool ExternalFile::isUnchanged() const {
  const ExternalFile now(path);
  return now.size == size && now.modified == modified;
}

Compiler::Compiler(CompilerHost &host, const ModelOptions &model, const PipelineOptions &passes)
    : host_(host), model_(model), options_(passes), passContext_(diagnostics_) {}

bool Compiler::readControls() {
  PassControls controls;
  controls.disable = listItems(options_.disable);
  controls.only = listItems(options_.only);
  controls.counters = listItems(options_.debugCounter);
  controls.printAfter = listItems(options_.printAfter);
  // Tactics are switched in the same way: they are ids of their own.
  std::vector<std::string> ids;
  for (const TargetFamily *family : familiesWithOwnTactics())
    for (const Tactic *t : family->tactics()) {
      ids.push_back("tactic." + t->info.id.str());
      for (const Chain &chain : t->info.chains)
        ids.push_back(chain.id.str());
    }
  for (const ScheduleFeature &f : scheduleFeatures())
    ids.push_back(f.id.str());
  const std::vector<llvm::StringRef> extra(ids.begin(), ids.end());
  return passContext_.setControls(controls, extra) || fail(Usage);
}

bool Compiler::open() {
  if (!readControls())
    return false;
  if (!portRequests(model_, ports_, quantizedIo_, diagnostics_))
    return fail(Usage);
  if (!givenOnce(model_, diagnostics_))
    return fail(Usage);
  if (!importOptions(model_, import_, diagnostics_))
    return fail(Failed);
  llvm::StringRef path(model_.model);
  if (path.endswith(".tn")) {
    if (!model_.bind.empty() || !model_.shape.empty() || !model_.range.empty() ||
        !model_.state.empty() || !model_.decoder.empty() || !model_.op.empty() ||
        !model_.operators.empty()) {
      diagnostics_.error("--bind, --shape, --range, --state, --decoder and --op act at import; '" +
                         model_.model + "' is past it: give them where the .tn file is made");
      return fail(Usage);
    }
    const bool ran = guarded("reading", nullptr, "", [&] {
      module_ = model_.bytes
                    ? readModule(context_, *llvm::MemoryBuffer::getMemBuffer(*model_.bytes->bytes),
                                 model_.bytes->literals, path, diagnostics_)
                    : readModule(context_, path, diagnostics_);
      return module_ != nullptr;
    });
    if (!ran)
      return false;
    const Graph &g = module_->graph();
    for (unsigned i = 0; i < g.inputNames.size(); ++i) {
      const Type t = g.body().arguments()[i]->type();
      DeclaredTensor d;
      d.name = g.inputNames[i];
      d.element = t.isTensor() ? t.element() : Element::F32;
      if (auto own = portForm(*module_, d.name))
        d.element = own->element;
      inputs_.push_back(std::move(d));
    }
    for (const std::string &name : g.outputNames) {
      DeclaredTensor d;
      d.name = name;
      outputs_.push_back(std::move(d));
    }
    return true;
  }
  return guarded("reading", nullptr, "", [&] {
    onnx_ = model_.bytes ? OnnxModel::parse(*model_.bytes->bytes, model_.folder, diagnostics_)
                         : OnnxModel::load(path, diagnostics_);
    if (!onnx_)
      return fail(Failed);
    outputs_ = onnx_->outputs();
    unfold(import_.bindDims, {});
    return readDecoder();
  });
}

bool Compiler::readDecoder() {
  if (model_.decoder.empty())
    return true;
  std::string why;
  const auto request = decoderRequest(model_.decoder, why);
  if (!request) {
    diagnostics_.error("--decoder: " + why);
    return fail(Usage);
  }
  return onnx_->readDecoder(*request, import_, diagnostics_) || fail(Failed);
}

void Compiler::unfold(const std::map<std::string, int64_t> &inputCounts,
                      const std::map<std::string, int64_t> &outputCounts) {
  if (!onnx_)
    return;
  onnx_->unfold(inputCounts);
  inputs_ = onnx_->inputs();
  outputs_ = unfolded(outputs_, outputCounts);
}

bool Compiler::load(llvm::ArrayRef<Tensor> data) {
  if (module_)
    return reshapePorts();
  host_.progress("importing");
  const bool ok = guarded("importing", nullptr, "", [&] {
    if (!data.empty() && !onnx_->bindFromData(data, import_, diagnostics_))
      return false;
    auto imported = onnx_->toModule(context_, import_, diagnostics_);
    if (!imported)
      return false;
    module_ = std::move(imported->module);
    names_ = std::move(imported->names);
    externalFiles_ = std::vector<ExternalFile>(imported->files.begin(), imported->files.end());
    onnx_.reset(); // weights would stay twice
    noteOptions(optionText(model_));
    return reshapePorts();
  });
  host_.endProgress();
  return ok ? verified("import") : fail(status_ == Done ? Failed : status_);
}

std::vector<std::string> Compiler::externalFiles() const {
  std::vector<std::string> paths;
  for (const ExternalFile &file : externalFiles_)
    paths.push_back(file.path);
  return paths;
}

bool Compiler::externalDataUnchanged() {
  for (const ExternalFile &file : externalFiles_)
    if (!file.isUnchanged()) {
      diagnostics_.error("external data '" + file.path + "' was changed while it was compiled: " +
                         "expected it as it was at first, of " + std::to_string(file.size) +
                         " bytes; compile again when nothing writes it");
      return fail(Failed);
    }
  return true;
}

bool Compiler::reshapePorts() {
  if (ports_.empty())
    return true;
  if (module_->stage != Stage::Imported) {
    diagnostics_.error("--io NAME=… acts at import; '" + model_.model +
                       "' is past it: give it where the .tn file is made");
    return fail(Usage);
  }
  names_.clear(); // inputs are no longer the model's
  const std::vector<PortRequest> ports = std::exchange(ports_, {});
  for (auto &graph : module_->graphs)
    if (!applyPortRequests(*graph, ports, diagnostics_))
      return fail(Failed);
  return true;
}

void Compiler::noteOptions(llvm::StringRef text) {
  if (text.empty())
    return;
  std::string &noted = module_->facts["options"];
  if (!llvm::StringRef(noted).contains(text))
    noted += (noted.empty() ? "" : " ") + text.str();
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

void Compiler::aim(const Target &target) {
  passContext_.target = traitsOf(target);
  quantizedByDefault_ = target.family->facts.quantizedPorts;
  entries_ = target.family->facts.entries;
}

bool Compiler::hasQuantizedIo() const { return quantizedIo_.getValueOr(quantizedByDefault_); }

bool Compiler::optimize() {
  if (!entries_ && module_->stage != Stage::Scheduled)
    dropEntries(*module_);
  if (module_->stage != Stage::Imported)
    return true;
  noteOptions(optionText(options_));
  for (const std::string &word : model_.io)
    noteOptions("--io=" + word);
  Pipeline pipeline;
  const std::string passes = optimizationPipeline(passContext_.target, options_.level);
  if (!parsePipeline(passes, pipeline, diagnostics_))
    return fail(Defect);
  if (!runPasses(pipeline))
    return false;
  // No optimisation, therefore at every level.
  if (!passContext_.precision.empty()) {
    Pipeline precision;
    if (!parsePipeline("assign-precision", precision, diagnostics_) || !runPasses(precision))
      return fail(status_ == Done ? Defect : status_);
  }
  if (hasQuantizedIo()) {
    Pipeline io;
    if (!parsePipeline("quantized-io", io, diagnostics_) || !runPasses(io))
      return fail(status_ == Done ? Defect : status_);
  }
  module_->stage = Stage::Optimized;
  return true;
}

bool Compiler::group() {
  if (!optimize())
    return false;
  if (grouped_ || module_->stage == Stage::Scheduled)
    return true;
  noteOptions(optionText(options_));
  Pipeline pipeline;
  const std::string passes = groupingPipeline(passContext_.target, options_.level);
  if (!parsePipeline(passes, pipeline, diagnostics_))
    return fail(Defect);
  return grouped_ = runPasses(pipeline);
}

bool Compiler::groupFor(const Target &target) {
  aim(target);
  if (!checkPrecision(passContext_.precision, target, diagnostics_))
    return fail(Failed);
  return group() && lookForOverflows();
}

bool Compiler::lookForOverflows() {
  std::map<std::string, Interval> ranges;
  if (!inputRanges(model_, ranges, diagnostics_))
    return fail(Usage);
  Graph &graph = module_->graph();
  for (auto &[name, range] : ranges)
    if (!llvm::is_contained(graph.inputNames, name)) {
      std::string known;
      for (const std::string &n : graph.inputNames)
        known += (known.empty() ? "'" : ", '") + n + "'";
      diagnostics_.error("--input-range: the model has no input '" + name + "'; it has " + known);
      return fail(Failed);
    }
  OverflowReport report = findOverflows(graph, ranges);
  if (report.results > 0)
    overflows_ = std::move(report);
  return true;
}

bool Compiler::choose(const Target &target, const ScheduleOptions &given) {
  host_.progress("scheduling");
  *log_ = {};
  ScheduleOptions options = given;
  options.log = log_;
  std::unique_ptr<Module> before = module_->clone();
  const bool ok =
      guarded("scheduling", before.get(), "tenon compile FILE -o OUT --target=" + target.name,
              [&] { return scheduleModule(*module_, target, options, diagnostics_); });
  if (!ok)
    return fail(status_ == Done ? Failed : status_);
  return verified("scheduling");
}

bool Compiler::fitsPools() {
  const std::vector<Pool> pools = poolsOf(*module_);
  if (pools.empty())
    return true;
  const Plan plan = planMemory(module_->graph());
  const std::vector<std::string> beyond = beyondPools(plan, pools);
  if (beyond.empty())
    return true;
  Diagnostic &d = diagnostics_.error("--pool: " + pools.back().name + " has " +
                                     std::to_string(pools.back().size) +
                                     " bytes; with the others as they are it takes " +
                                     std::to_string(poolUse(plan, pools).back()));
  for (const std::string &what : beyond)
    d.notes.push_back(what + " does not fit");
  return false;
}

bool Compiler::schedule(const Target &target, const ScheduleOptions &options) {
  if (options.ramLimit >= 0)
    return scheduleWithin(target, options);
  return groupFor(target) && choose(target, options) && (fitsPools() || fail(Failed));
}

std::vector<FusionDecision> Compiler::fusions() const {
  std::vector<FusionDecision> all = passContext_.fusions;
  llvm::append_range(all, log_->fusions);
  return all;
}

std::unique_ptr<Module> Compiler::exchange(std::unique_ptr<Module> other) {
  names_.clear();
  std::swap(module_, other);
  return other;
}

bool Compiler::emit(const Target &target, const CompileOptions &options,
                    std::vector<CompiledFile> &files, CompileSummary &summary) {
  host_.progress("writing code");
  const bool ok =
      guarded("emission", module_.get(), "tenon compile FILE -o OUT --target=" + target.name,
              [&] { return emitModule(*module_, target, options, files, summary, diagnostics_); });
  if (!ok)
    return fail(status_ == Done ? Failed : status_);
  constexpr int64_t much = int64_t(64) << 30;
  if (summary.arenaBytes >= much)
    warnOfMemory(much);
  return true;
}

void Compiler::warnOfMemory(int64_t much) {
  for (const auto &graph : module_->graphs) {
    const Plan plan = planMemory(*graph);
    if (plan.arenaBytes < much)
      continue;
    const BufferInfo *largest = nullptr;
    for (const BufferInfo &b : plan.buffers)
      if (b.home == Home::Arena && (!largest || b.bytes > largest->bytes))
        largest = &b;
    const Value *v = largest ? largest->values.front() : nullptr;
    if (!v)
      continue; // scratch alone
    std::string extents;
    for (int64_t n : v->type().upperShape())
      extents += (extents.empty() ? "" : "x") + std::to_string(n);
    Diagnostic &d = diagnostics_.warning(
        "a result of at most " + extents + " elements takes " + formatBytes(largest->bytes) +
        " of the " + formatBytes(plan.arenaBytes) + " of memory that a run needs");
    if (v->def())
      d.nodes = v->def()->loc();
    if (!v->type().hasStaticShape())
      d.notes.push_back("memory is for the largest extents there can be: lower their bounds with "
                        "--bind or --range");
    return;
  }
}

bool Compiler::runPasses(const Pipeline &pipeline) {
  if (!std::exchange(nodesLookedUp_, true))
    passContext_.warnOfUnknownNodes(*module_);
  if (pipeline.empty())
    return true;
  PassManagerOptions options;
  options.verifyEach = options_.verifyEach;
  options.printAfter = listItems(options_.printAfter);
  options.printAfterChange = options_.printAfterChange;
  options.out = host_.printed();
  PassManager manager(passContext_, options);
  host_.progress("optimising");
  std::unique_ptr<Module> before = module_->clone();
  const std::string command = "tenon opt FILE --passes='" + toString(pipeline) + "'";
  names_.clear();
  const bool ok = guarded("optimisation", before.get(), command,
                          [&] { return manager.run(*module_, pipeline); });
  runs_.insert(runs_.end(), manager.runs().begin(), manager.runs().end());
  if (llvm::raw_ostream *os = host_.printed(); os && options_.timePasses) {
    host_.endProgress();
    manager.printTimes(*os);
  }
  if (!ok) {
    if (status_ != Defect && manager.reproducer().module)
      host_.keep(*manager.reproducer().module, model_.model,
                 "tenon opt FILE --verify-each --passes='" + manager.reproducer().pipeline + "'",
                 diagnostics_);
    return fail(Defect);
  }
  return verified("passes '" + toString(pipeline) + "'");
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

bool Compiler::verified(llvm::StringRef after) {
  if (verify(*module_, diagnostics_))
    return true;
  diagnostics_.error("the module does not verify after " + after.str() + ": a defect of tenon");
  host_.keep(*module_, model_.model, "tenon opt FILE --passes=''", diagnostics_);
  return fail(Defect);
}

bool Compiler::guarded(llvm::StringRef what, const Module *reproducer, llvm::StringRef command,
                       llvm::function_ref<bool()> work) {
  bool result = false;
  const llvm::Optional<int> crash = host_.survive([&] { result = work(); });
  if (!crash)
    return result || fail(status_ == Done ? Failed : status_);
  diagnostics_.error("tenon crashed during " + what.str() + " (" + std::to_string(*crash) +
                     "): a defect of tenon");
  if (reproducer)
    host_.keep(*reproducer, model_.model, command, diagnostics_);
  else
    host_.keepModel(model_.model, diagnostics_);
  return fail(Defect);
}

} // namespace tenon
