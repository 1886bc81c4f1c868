// Implements runs of compiled models: expected values from the interpreter on the scheduled module,
// from a reference or from another program; found ones from the memory of the running program.
#include "compiler/CodeOptions.h"
#include "compiler/NativeTarget.h"
#include "compiler/OptionForms.h"
#include "ir/Entries.h"
#include "tools/GroupCheck.h"
#include "tools/ScheduleSelection.h"

namespace tenon {
namespace {

constexpr int64_t kTimedRuns = 50, kTimedMilliseconds = 300;

/// The states that `run.inputs` holds, put into the program's memory.
void writeStates(const Watch &watch, ProgramRun &run) {
  for (const WatchedState &s : watch.states)
    if (auto t = watch.write(s.spot, run.inputs[s.number]))
      run.transfers.push_back(std::move(*t));
}

/// Runs with what outputs carry read from the program's memory. `watch`: null without states.
bool runCarried(Program &program, const Watch *watch, ProgramRun &run) {
  const size_t carried = run.transfers.size();
  if (watch)
    for (const WatchedState &s : watch->carried)
      run.transfers.push_back(watch->read(s.spot));
  if (!program.run(run))
    return false;
  for (size_t i = carried; i < run.transfers.size(); ++i)
    if (const Transfer &t = run.transfers[i]; t.done)
      run.outputs[watch->carried[i - carried].number] = t.form.unpack(t.bytes);
  return true;
}

/// The programs and modules of one `tenon run`.
class CompiledRun {
public:
  CompiledRun(Runner &runner, const Target &target)
      : runner_(runner), target_(target), program_(runner.host, runner.compiler, target) {}

  bool run() {
    if (!prepare() || !prepareReference())
      return false;
    narrow_ = isNarrow(oracleModule());
    // A decoder's entries are run one after another, where the data does not say how many tokens.
    std::vector<int64_t> tokens = tokensOfRuns(module());
    for (uint64_t seed : runner_.seeds())
      for (int64_t count : seed && !tokens.empty() ? tokens : std::vector<int64_t>{0})
        if (!runOn(seed, count))
          return false;
    return true;
  }

private:
  const RunOptions &options() const { return runner_.options; }
  Module &module() { return runner_.compiler.module(); }
  /// What is interpreted.
  Module &oracleModule() { return other_ && !against_ ? other_->module() : module(); }
  Graph &oracle() { return graphOfRun(oracleModule(), tokens_); }
  bool groups() const { return options().data.check == "groups"; }
  bool fail(const Compiler &c) { return runner_.fail(c.status() == Done ? Failed : c.status()); }
  bool failOther() {
    runner_.host.report(other_->diagnostics());
    return fail(*other_);
  }

  bool prepare();
  bool prepareReference();
  bool prepareAgainst();
  bool runOn(uint64_t seed, int64_t tokens);
  bool expectedOf(const std::string &set, const ProgramRun &run, OracleRun &expected);
  Runner &runner_;
  Target target_;
  Program program_;
  /// The reference's module, or that of the program in `against_`.
  std::unique_ptr<Compiler> other_;
  std::unique_ptr<Program> against_;
  std::string with_ = kWithInterpreter.str(); // what outputs are compared with
  llvm::Optional<CommonNames> common_;
  llvm::Optional<Watch> watch_;
  SymbolValues watchedFor_;
  bool interpret_ = false, narrow_ = false, first_ = true;
  int64_t tokens_ = 0; // of the run, where there are entries
};

bool CompiledRun::prepare() {
  Compiler &c = runner_.compiler;
  if (!scheduleAsAsked(runner_.host, c, target_, options().code, runner_.data.inputs))
    return fail(c);
  if (options().data.keep) {
    program_.folder().keep();
    runner_.host.endProgress();
    llvm::errs() << "generated code and program: " << program_.folder().path() << '\n';
  }
  const bool trace = groups() || !module().graph().states.empty();
  return program_.build(options().code,
                        trace ? Program::Watch::Transfers : Program::Watch::Nothing) ||
         fail(c);
}

/// Where expected values come from.
bool CompiledRun::prepareReference() {
  const DataOptions &data = options().data;
  interpret_ = groups() || !data.reference.empty() || data.against == "interpreter";
  if (data.reference.empty())
    return interpret_ || data.against.empty() || prepareAgainst();
  with_ = "the interpreter on the reference";
  other_ = loadReference(runner_, data.reference);
  if (!other_)
    return runner_.fail(Failed);
  ScheduleOptions theirs;
  if (!scheduleOptions(options().code, other_->passContext(), theirs, runner_.diagnostics()) ||
      !other_->schedule(target_, theirs))
    return failOther();
  return true;
}

/// Another target or precision.
bool CompiledRun::prepareAgainst() {
  const DataOptions &data = options().data;
  CodeOptions code = options().code;
  (isPrecision(data.against) ? code.precision : code.target) = data.against;
  auto target = resolveTarget(code.target, runner_.diagnostics());
  if (!target)
    return runner_.fail(Usage);
  with_ = target->name + (isPrecision(data.against) ? " in " + data.against : "");
  other_ = loadReference(runner_, options().model.model);
  if (!other_)
    return runner_.fail(Failed);
  against_ = std::make_unique<Program>(runner_.host, *other_, *target);
  ScheduleOptions theirs;
  if (!scheduleOptions(code, other_->passContext(), theirs, runner_.diagnostics()) ||
      !other_->schedule(*target, theirs) ||
      !against_->build(code, other_->module().graph().states.empty() ? Program::Watch::Nothing
                                                                     : Program::Watch::Transfers))
    return failOther();
  return true;
}

/// What the run should give; groups are compared on the way.
bool CompiledRun::expectedOf(const std::string &set, const ProgramRun &run, OracleRun &expected) {
  bool good = true;
  if (interpret_)
    runner_.host.progress("interpreting " + set);
  if (groups()) {
    GroupCheck check(runner_, program_, *watch_, oracle(), common_ ? common_.getPointer() : nullptr,
                     narrow_);
    good = check.run(run.inputs, run.transfers, set, expected);
  } else if (interpret_) {
    good = interpretGraph(oracle(), run.inputs, expected, runner_.diagnostics());
  } else if (against_) {
    ProgramRun theirs;
    theirs.inputs = run.inputs;
    llvm::Optional<Watch> watch;
    if (Graph &graph = graphOfRun(other_->module(), tokens_); !graph.states.empty()) {
      watch.emplace(graph, symbolValues(graph, run.inputs));
      writeStates(*watch, theirs);
    }
    good = runCarried(*against_, watch ? watch.getPointer() : nullptr, theirs);
    expected.outputs = theirs.outputs;
  }
  if (!good && other_)
    runner_.host.report(other_->diagnostics());
  return good || runner_.fail(Failed);
}

bool CompiledRun::runOn(uint64_t seed, int64_t tokens) {
  const bool first = std::exchange(first_, false);
  std::string set = runner_.setName(seed);
  tokens_ = tokens;
  ProgramRun run;
  if (tokens == 0 && !tokensOfRuns(module()).empty()) { // as many as the data has
    Graph &most = module().graph();
    if (!runner_.inputsFor(most, seed, run.inputs))
      return false;
    tokens_ = symbolValues(most, run.inputs)[tokensOf(most).symbol().str()];
  }
  Graph &graph = graphOfRun(module(), tokens_);
  if (const std::string title = runTitle(graph); !title.empty())
    set += ", the graph for " + title;
  if (!runner_.inputsFor(graph, seed, run.inputs, tokens_))
    return false;
  const SymbolValues symbols = symbolValues(graph, run.inputs);
  if ((groups() || !graph.states.empty()) && (!watch_ || watchedFor_ != symbols)) {
    watch_.reset();
    watch_.emplace(graph, symbols);
    watchedFor_ = symbols;
    if (other_ && !against_ && groups())
      common_.emplace(graph, oracle());
  }
  if (watch_)
    writeStates(*watch_, run);
  OracleRun expected;
  if (!expectedOf(set, run, expected))
    return false;

  if (first) {
    run.runs = kTimedRuns;
    run.warmup = 1;
    run.budgetMilliseconds = kTimedMilliseconds;
  }
  runner_.host.progress("running " + set);
  if (!runCarried(program_, watch_ ? watch_.getPointer() : nullptr, run))
    return runner_.fail(Failed);
  for (double ns : run.nanoseconds)
    runner_.report.milliseconds.push_back(ns / 1e6);
  if (first)
    runner_.report.instructions = run.instructions;
  if (runner_.report.outputs.empty())
    runner_.outputs = run.outputs;
  // With groups compared, whole runs are held against the data set alone.
  if (!groups() || first) {
    OutputCheck check{graph, seed, with_, expected};
    check.set = set;
    check.interpreted = interpret_ && !against_;
    check.measure = [&](OracleRun &own) {
      if (!narrow_)
        return;
      runner_.host.progress("interpreting in fp64");
      if (own.outputs.empty() && !interpretGraph(oracle(), run.inputs, own, runner_.diagnostics()))
        return;
      interpretWide(oracle(), run.inputs, own);
    };
    runner_.checkOutputs(check, run.outputs);
  }
  return true;
}

} // namespace

bool Runner::runCompiled() { return CompiledRun(*this, *target).run(); }

} // namespace tenon
