// Implements runs of compiled models: expected values from the interpreter on the scheduled module,
// found ones from the memory of the running program.
#include "driver/Choice.h"
#include "driver/CodeOptions.h"
#include "driver/NativeTarget.h"
#include "driver/OptionForms.h"
#include "driver/Program.h"
#include "driver/Runner.h"

#include "ir/Names.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace tenon {
namespace {

constexpr int64_t kTimedRuns = 50, kTimedMilliseconds = 300;

/// The run as a whole in place of a step (`whole_run` of the runtimes).
constexpr int kWholeRun = -1;

/// One value that a group makes, and where to find it after the step.
struct Watched {
  std::string name;
  Operation *group;
  Transfer transfer;
};

/// One value that a group reads, and where to put it before the step.
struct Fed {
  std::string name;
  Transfer transfer;
};

/// What an output carries to the next run, and where to find it after the run.
struct Carried {
  unsigned output;
  Transfer transfer;
};

/// What is watched and fed in a scheduled graph, for given values of its symbols.
class Watch {
public:
  Watch(Graph &graph, const SymbolValues &symbols) : names_(graph), plan_(planMemory(graph)) {
    for (const Step &step : plan_.steps) {
      if (!step.op->is(Op::Group) || step.op->parent() != &graph.body())
        continue;
      for (Value *v : step.op->results())
        if (auto t = transfer(v, step.number, /*read=*/true, symbols))
          watched.push_back({names_[v].str(), step.op, std::move(*t)});
      llvm::SmallPtrSet<Value *, 8> seen;
      for (Value *v : step.op->operands())
        if (seen.insert(v).second && feedable(v))
          if (auto t = transfer(v, step.number, /*read=*/false, symbols))
            fed.push_back({names_[v].str(), std::move(*t)});
    }
    // After the run a state is what it becomes; what is appended to lies elsewhere while it is
    // longer than the input, and stays there until the end (see Plan.cpp).
    for (const State &s : graph.states) {
      Value *in = graph.body().argument(s.input), *out = graph.returnOp()->operand(s.output);
      if (auto t = transfer(in, kWholeRun, /*read=*/false, symbols))
        states.push_back({std::to_string(s.input), std::move(*t)});
      if (auto t = transfer(s.appendAxis < 0 ? in : out, kWholeRun, /*read=*/true, symbols))
        carried.push_back({s.output, std::move(*t)});
    }
  }

  std::vector<Watched> watched;
  std::vector<Fed> fed, states;
  std::vector<Carried> carried;

private:
  bool feedable(Value *v) const {
    const Home home = plan_[v].home;
    return home == Home::Arena || home == Home::Output;
  }
  llvm::Optional<Transfer> transfer(Value *v, int step, bool read, const SymbolValues &symbols) {
    auto form = PhysicalForm::of(v->type(), symbols);
    auto place = plan_.placements.find(v);
    if (!form || place == plan_.placements.end() || place->second.home == Home::Weights ||
        place->second.home == Home::Text)
      return llvm::None;
    Transfer t;
    t.step = step;
    t.read = read;
    t.place = place->second;
    if (t.place.start) {
      auto start = valueOf(t.place.start, symbols);
      if (!start)
        return llvm::None;
      const bool indexed = t.place.home == Home::Input || t.place.home == Home::Output;
      (indexed ? t.place.offset : t.place.at) += byteSize(v->type().element(), *start);
    }
    t.form = std::move(*form);
    return t;
  }

  ValueNames names_;
  Plan plan_;
};

bool fits(const PhysicalForm &form, const Tensor &t) {
  return !t.isNull() && form.bytes() == int64_t(t.bytes().size());
}

} // namespace

bool Runner::runCompiled(const Target &target) {
  const bool groups = options.data.check == "groups";
  if (!scheduleAsAsked(console, compilation, target, options.code, data.inputs))
    return fail(compilation.status() == Done ? Failed : compilation.status());
  Module &module = compilation.module();
  Graph &graph = module.graph();
  const bool trace = groups || !graph.states.empty();
  Program program(console, compilation, target);
  if (options.data.keep) {
    program.folder().keep();
    llvm::errs() << "generated code and program: " << program.folder().path() << '\n';
  }
  if (!program.build(options.code, trace ? Program::Watch::Transfers : Program::Watch::Nothing))
    return fail(compilation.status() == Done ? Failed : compilation.status());

  // Where expected values come from.
  std::unique_ptr<Compilation> other;
  if (!options.data.reference.empty()) {
    other = loadReference(*this, options.data.reference);
    if (!other)
      return fail(Failed);
    ScheduleOptions theirs;
    if (!scheduleOptions(options.code, other->passContext(), theirs, diagnostics()) ||
        !other->schedule(target, theirs)) {
      console.report(other->diagnostics());
      return fail(other->status());
    }
  }
  const bool interpret = groups || other || options.data.against == "interpreter";
  std::unique_ptr<Program> against;
  if (!options.data.against.empty() && !interpret) {
    CodeOptions code = options.code;
    if (isPrecision(options.data.against))
      code.precision = options.data.against;
    else
      code.target = options.data.against;
    auto theirTarget = resolveTarget(code.target, diagnostics());
    if (!theirTarget)
      return fail(Usage);
    other = loadReference(*this, options.model.model);
    if (!other)
      return fail(Failed);
    against = std::make_unique<Program>(console, *other, *theirTarget);
    ScheduleOptions theirs;
    if (!scheduleOptions(code, other->passContext(), theirs, diagnostics()) ||
        !other->schedule(*theirTarget, theirs) || !against->build(code, Program::Watch::Nothing)) {
      console.report(other->diagnostics());
      return fail(other->status() == Done ? Failed : other->status());
    }
  }

  llvm::Optional<CommonNames> common;
  if (other && groups)
    common.emplace(graph, other->module().graph());
  llvm::Optional<Watch> watch;
  SymbolValues watchedFor;
  for (uint64_t seed : seeds()) {
    ProgramRun run;
    if (!inputsFor(graph, seed, run.inputs))
      return false;
    const SymbolValues symbols = symbolValues(graph, run.inputs);
    OracleRun expected;
    if (interpret) {
      console.progress("interpreting " + setName(seed));
      if (!interpretModule(other ? other->module() : module, run.inputs, groups, expected,
                           other ? other->diagnostics() : diagnostics())) {
        if (other)
          console.report(other->diagnostics());
        return fail(Failed);
      }
    }
    if (against) {
      ProgramRun theirs;
      theirs.inputs = run.inputs;
      if (!against->run(theirs)) {
        console.report(other->diagnostics());
        return fail(Failed);
      }
      expected.outputs = theirs.outputs;
    }
    if (trace && (!watch || watchedFor != symbols)) {
      watch.reset();
      watch.emplace(graph, symbols);
      watchedFor = symbols;
    }
    if (watch)
      for (const Fed &f : watch->states) {
        unsigned index = 0;
        (void)llvm::StringRef(f.name).getAsInteger(10, index);
        if (!fits(f.transfer.form, run.inputs[index]))
          continue;
        run.transfers.push_back(f.transfer);
        run.transfers.back().bytes = f.transfer.form.pack(run.inputs[index]);
      }
    const size_t fedStates = run.transfers.size();

    // Groups are compared on the interpreter's inputs, in a run of their own: a rounding difference
    // that a logarithm or a quantisation magnifies is then seen where it arises, and nowhere else.
    ProgramRun isolated;
    if (groups) {
      isolated.inputs = run.inputs;
      isolated.transfers = run.transfers;
      for (const Fed &f : watch->fed) {
        auto it = expected.values.find(common ? common->inB(f.name).str() : f.name);
        if (it == expected.values.end() || !fits(f.transfer.form, it->second))
          continue;
        isolated.transfers.push_back(f.transfer);
        isolated.transfers.back().bytes = f.transfer.form.pack(it->second);
      }
    }
    if (watch)
      for (const Carried &c : watch->carried)
        run.transfers.push_back(c.transfer);
    const size_t firstWatched = isolated.transfers.size();
    if (groups)
      for (const Watched &w : watch->watched)
        isolated.transfers.push_back(w.transfer);
    if (seed == seeds().front()) {
      run.runs = kTimedRuns;
      run.warmup = 1;
      run.budgetMilliseconds = kTimedMilliseconds;
    }
    console.progress("running " + setName(seed));
    if (!program.run(run) || (groups && !program.run(isolated)))
      return fail(Failed);
    for (size_t i = fedStates; i < run.transfers.size(); ++i)
      if (const Transfer &t = run.transfers[i]; t.done)
        run.outputs[watch->carried[i - fedStates].output] = t.form.unpack(t.bytes);
    for (double ns : run.nanoseconds)
      report.milliseconds.push_back(ns / 1e6);
    if (seed == seeds().front())
      report.instructions = run.instructions;
    if (report.outputs.empty())
      outputs = run.outputs;
    // With groups compared, whole runs are held against the data set alone.
    if (!groups || seed == seeds().front())
      checkOutputs(graph, run.outputs, expected.outputs.empty() ? nullptr : &expected, seed);

    for (size_t i = 0; groups && i < watch->watched.size(); ++i) {
      const Watched &w = watch->watched[i];
      const Transfer &t = isolated.transfers[firstWatched + i];
      auto it = expected.values.find(common ? common->inB(w.name).str() : w.name);
      if (it == expected.values.end() || !fits(t.form, it->second)) {
        if (seed == seeds().front())
          report.unmatched.push_back(w.name);
        continue;
      }
      TensorCheck c = check(w.name, t.done ? t.form.unpack(t.bytes) : Tensor(), it->second,
                            options.data.groupTolerance);
      c.step = t.step;
      c.set = setName(seed);
      c.nodes = w.group->loc();
      addGroupCheck(std::move(c));
    }
  }
  return true;
}

} // namespace tenon
