// Implements the tuner: rounds of one model, each with other candidates, are emitted, built side by
// side and timed by one program (runtime/harness/tuner.inc). What wins form by form is then built
// as a whole and timed against the cost model's choice, where it runs.
#include "tools/Tuner.h"

#include "codegen/core/TargetFamily.h"
#include "codegen/emit/EmbeddedRuntime.h"
#include "codegen/memory/Plan.h"
#include "compiler/CodeOptions.h"
#include "ir/Entries.h"
#include "tools/MemoryImage.h"
#include "tools/Oracle.h"
#include "tools/Program.h"
#include "tools/Tools.h"

#include "llvm/Support/Path.h"
#include "llvm/Support/Threading.h"

#include <set>

namespace tenon {
namespace {

/// Some of the nodes, fit for a comment of one line.
std::string commentOf(const Location &nodes) {
  std::string text;
  for (size_t i = 0; i < nodes.size() && i < 3; ++i)
    text += (i ? ", " : "") + nodes[i];
  if (text.size() > 80) // names of some exporters are long
    text = text.substr(0, 77) + "...";
  for (char &c : text)
    if (static_cast<unsigned char>(c) < ' ')
      c = ' ';
  return text;
}

/// The best estimates, and of every tactic the best one unless it is far off: estimates of
/// different kernels compare worse than those of one.
std::vector<TunerProgram::Entry> shortlist(llvm::ArrayRef<Candidate> all, size_t most) {
  constexpr double kFarOff = 10;
  std::vector<bool> taken(all.size());
  std::set<const Tactic *> tactics;
  size_t count = 0;
  for (size_t i = 0; i < all.size() && count < most; ++i)
    if (all[i].price.rank <= kFarOff * all.front().price.rank &&
        tactics.insert(&all[i].tactic()).second)
      taken[i] = true, ++count;
  for (size_t i = 0; i < all.size() && count < most; ++i)
    if (!taken[i])
      taken[i] = true, ++count;
  std::vector<TunerProgram::Entry> out;
  for (size_t i = 0; i < all.size(); ++i)
    if (taken[i])
      out.push_back({all[i].schedule(), all[i].price.microseconds});
  return out;
}

/// The chains that the cost model does not take.
bool isSlower(const ChainOffer &offer) { return !offer.isFaster(); }
/// Those that were measured to be faster; `times` by key, 0 for what did not build.
std::function<bool(const ChainOffer &)> fasterBy(std::map<std::string, double> times) {
  return [times = std::move(times)](const ChainOffer &offer) {
    const auto timeOf = [&](const std::string &key) {
      const auto it = times.find(key);
      return it == times.end() ? 0 : it->second;
    };
    double apart = 0;
    bool all = timeOf(offer.key) > 0;
    for (const std::string &part : offer.parts) {
      apart += timeOf(part);
      all &= timeOf(part) > 0;
    }
    return all ? timeOf(offer.key) < apart : offer.isFaster();
  };
}

} // namespace

Tuner::Tuner(ToolHost &host, Compiler &compiler, const Target &target, const CodeOptions &code,
             const ScheduleOptions &options, const TunerSettings &settings)
    : host_(host), compiler_(compiler), target_(target), code_(code), options_(options),
      settings_(settings) {
  options_.tuning = nullptr;
  settings_.candidates = std::max(settings_.candidates, 1u);
  if (settings_.jobs == 0)
    settings_.jobs = std::max(llvm::hardware_concurrency().compute_thread_count(), 1u);
}

bool Tuner::check() {
  Diagnostics &d = diagnostics();
  if (!canTune(target_, d))
    return false;
  if (compiler_.module().stage == Stage::Scheduled)
    d.error("the module is scheduled already; tune the model, or a .tn file of an earlier stage");
  else
    return true;
  return false;
}

//===----------------------------------------------------------------------===//
// Rounds
//===----------------------------------------------------------------------===//

/// Collects the forms and their candidates.
bool Tuner::begin() {
  if (!check() || !compiler_.groupFor(target_))
    return false;
  if (!folder_.valid()) {
    diagnostics().error(folder_.whyNot());
    return false;
  }
  if (settings_.tokens > 0)
    takeGraph();
  grouped_ = compiler_.module().clone();
  const bool ok = collect(false,
                          [&](const ChainOffer &offer) {
                            chains_.push_back(offer);
                            return offer.isFaster();
                          }) &&
                  (chains_.empty() || collect(true, isSlower));
  if (ok && forms_.empty())
    diagnostics().error("the model has nothing to measure");
  return ok && !forms_.empty();
}

/// Goes on with the graph of the settings' tokens alone: as many of them as it takes, behind caches
/// that are half full.
void Tuner::takeGraph() {
  Graph &graph = graphOfRun(compiler_.module(), settings_.tokens);
  const Dim count = tokensOf(graph);
  if (count.isSymbol())
    extents_[count.symbol().str()] = count.upper();
  for (const State &s : graph.states)
    if (s.appendAxis >= 0) {
      const Dim length = graph.body().argument(s.input)->type().dim(unsigned(s.appendAxis));
      if (length.isSymbol())
        extents_[length.symbol().str()] =
            std::min(length.upper() / 2, (length + count).upper() - count.upper());
    }
  compiler_.exchange(aloneForRun(compiler_.module(), settings_.tokens));
}

bool Tuner::collect(bool otherwise, const TakeChain &takeChain) {
  ScheduleOptions options = options_;
  options.takeChain = takeChain;
  options.pick = [&](const Operation &group, const std::string &key,
                     llvm::ArrayRef<Candidate> candidates) {
    Collected &form = forms_[key];
    if (form.candidates.empty()) {
      form.level = target_.levels.front()->name.str();
      form.nodes = commentOf(group.loc());
      form.candidates = shortlist(candidates, settings_.candidates);
      form.otherwise = otherwise;
    }
    return size_t(0);
  };
  const bool ok = compiler_.choose(target_, options);
  compiler_.exchange(grouped_->clone());
  return ok;
}

/// Forms in the order of the file, each with its candidates.
void Tuner::layOut(TunerProgram &program) {
  program.target = &target_;
  for (const auto &[key, form] : forms_) {
    TunerForm f{key, form.level, form.nodes, int(program.candidates.size()),
                int(form.candidates.size())};
    program.candidates.insert(program.candidates.end(), form.candidates.begin(),
                              form.candidates.end());
    program.forms.push_back(std::move(f));
  }
}

bool Tuner::addRound(const std::string &name, CompileOptions::Runtime runtime,
                     TunerProgram &program, const TakeChain &takeChain,
                     llvm::function_ref<int(const std::string &)> pick) {
  std::map<const Operation *, int> ran;
  ScheduleOptions options = options_;
  options.takeChain = takeChain;
  options.pick = [&](const Operation &group, const std::string &key,
                     llvm::ArrayRef<Candidate> candidates) {
    const int candidate = pick(key);
    const Schedule &wanted = program.candidates[size_t(candidate)].schedule;
    const auto *it =
        llvm::find_if(candidates, [&](const Candidate &c) { return c.schedule() == wanted; });
    if (it == candidates.end())
      return size_t(0);
    ran[&group] = candidate;
    return size_t(it - candidates.begin());
  };
  CompileOptions emission = compileOptions(code_, name);
  emission.prefix = emission.stem = name;
  emission.runtime = runtime;
  TunerRound round;
  round.name = name;
  CompileSummary summary;
  compiler_.exchange(grouped_->clone());
  if (!compiler_.choose(target_, options) ||
      !compiler_.emit(target_, emission, round.files, summary))
    return false;
  round.weightsInFile = summary.weightsMode == "file" && summary.weightBytes > 0;
  for (const Step &s : planMemory(compiler_.module().graph()).steps) {
    auto it = ran.find(s.op);
    round.candidates.resize(size_t(s.number) + 1, -1);
    round.candidates[size_t(s.number)] = it == ran.end() ? -1 : it->second;
  }
  program.rounds.push_back(std::move(round));
  return true;
}

bool Tuner::addRounds(CompileOptions::Runtime runtime, TunerProgram &program) {
  // First with the chains of the cost model, then with the others, for what is met there alone.
  int rounds = 0, otherRounds = 0;
  std::map<std::string, const TunerForm *> byKey;
  for (const TunerForm &f : program.forms) {
    int &most = forms_.at(f.key).otherwise ? otherRounds : rounds;
    most = std::max(most, f.count);
    byKey[f.key] = &f;
  }
  for (int i = 0; i < rounds + otherRounds; ++i) {
    // A form with fewer candidates runs its first ones again.
    const int turn = i < rounds ? i : i - rounds;
    const bool ok = addRound("round" + std::to_string(i), runtime, program,
                             i < rounds ? TakeChain() : isSlower, [&](const std::string &key) {
                               const TunerForm &f = *byKey.at(key);
                               return f.first + turn % f.count;
                             });
    if (!ok)
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Here
//===----------------------------------------------------------------------===//

/// Builds the rounds from the one numbered `built` on, and the program. Rounds whose code does not
/// build are left out by `good`.
bool Tuner::build(const TunerProgram &program, size_t built, std::vector<bool> &good) {
  auto command = buildCommand(target_, code_, compiler_.modelOptions(), diagnostics());
  if (!command || !makeFolder(folder_.file("harness"), diagnostics()))
    return false;
  const bool cuda = target_.family->facts.device;
  const std::string suffix = target_.family->suffix.str();
  OutputFiles files(diagnostics());
  for (const TunerRound &r : program.rounds)
    if (!files.add(r.files, [&](const CompiledFile &f) { return folder_.file(r.name + f.suffix); }))
      return false;
  for (size_t i = 0; i < kEmbeddedRuntimeCount; ++i)
    if (const EmbeddedFile &f = kEmbeddedRuntime[i]; llvm::StringRef(f.path).startswith("harness/"))
      if (!files.add(folder_.file(f.path), llvm::StringRef(f.data, f.size)))
        return false;
  if (!files.commit())
    return false;

  std::vector<std::string> words = command->words;
  words.push_back(cuda ? "-DTENON_PROFILE" : "-DTENON_TRACE");
  words.push_back("-I" + folder_.path().str());
  auto object = [&](const std::string &stem) {
    ToolCall call;
    call.program = command->compiler;
    call.arguments = words;
    call.arguments.insert(call.arguments.end(),
                          {"-c", folder_.file(stem + suffix), "-o", folder_.file(stem + ".o")});
    call.log = folder_.file(stem + ".log");
    return call;
  };
  std::vector<ToolCall> calls;
  for (size_t i = built; i < program.rounds.size(); ++i)
    calls.push_back(object(program.rounds[i].name));
  host_.progress("building " + std::to_string(calls.size()) + " rounds");
  Diagnostics trouble;
  good = runTools(calls, settings_.jobs, "building a round", trouble);
  good.insert(good.begin(), built, true);
  // Without the cost model's own choice there is nothing to compare with; others are worth losing.
  for (Diagnostic &d : trouble.list()) {
    d.severity = good.front() ? Severity::Warning : Severity::Error;
    if (good.front())
      d.message += "; its candidates are left out";
    Diagnostic &copy = diagnostics().report(d.severity, d.message);
    copy.notes = d.notes;
  }
  return good.front();
}

bool Tuner::run(const TunerProgram &program, const std::string &name, llvm::ArrayRef<Tensor> data,
                TuningReport &report) {
  auto command = buildCommand(target_, code_, compiler_.modelOptions(), diagnostics());
  if (!command)
    return false;
  const bool cuda = target_.family->facts.device;
  Graph &graph = compiler_.module().graph();
  std::vector<Tensor> inputs;
  const bool given = llvm::any_of(data, [](const Tensor &t) { return !t.isNull(); });
  if (!graphInputs(graph, compiler_.inputs(), data, given ? 0 : 1, inputs, diagnostics(), extents_))
    return false;
  const SymbolValues symbols = symbolValues(graph, inputs);
  std::string bytes;
  for (unsigned i = 0; i < inputs.size(); ++i) {
    if (graph.stateOfInput(i))
      continue;
    const Type t = graph.body().argument(i)->type();
    const size_t before = bytes.size();
    if (t.element() != Element::String) // zeros are empty text
      bytes += physicalBytes(inputs[i], t, symbols);
    bytes.resize(std::max(bytes.size(), before + size_t(byteSize(t.element(), t.upperElements()))));
  }
  const std::string main = name + target_.family->suffix.str();
  OutputFiles files(diagnostics());
  if (!files.add(folder_.file("inputs"), bytes) ||
      !files.add(folder_.file(main), tunerMain(program, compiler_.module(), symbols)) ||
      !files.commit())
    return false;
  const std::string log = folder_.file(name + ".log");
  std::vector<std::string> words = command->words;
  words.insert(words.end(), {"-I" + folder_.path().str(), "-c", folder_.file(main), "-o",
                             folder_.file(name + ".o")});
  std::vector<std::string> link;
  for (const TunerRound &r : program.rounds)
    link.push_back(folder_.file(r.name + ".o"));
  link.insert(link.end(), {folder_.file(name + ".o"), "-o", folder_.file(name)});
  if (!cuda)
    link.push_back("-pthread");
  char seconds[32];
  snprintf(seconds, sizeof seconds, "--seconds=%.3f", settings_.seconds);
  const std::string json = folder_.file(name + ".json");
  const std::vector<std::string> arguments{folder_.file(name + ".tuning"),
                                           "--json=" + json,
                                           "--inputs=" + folder_.file("inputs"),
                                           "--folder=" + folder_.path().str(),
                                           "--threads=" + std::to_string(code_.threads),
                                           seconds};
  if (!runTool({command->compiler, words, log, ""}, "building the tuner", diagnostics()) ||
      !runTool({command->compiler, link, log, ""}, "linking the tuner", diagnostics()))
    return false;
  host_.progress("measuring");
  if (!runTool({folder_.file(name), arguments, log, ""}, "running the tuner", diagnostics()))
    return false;
  return report.read(json, diagnostics());
}

bool Tuner::measure(llvm::ArrayRef<Tensor> data, Tuning &tuning, TuningReport &report) {
  if (!begin())
    return false;
  TunerProgram program;
  std::vector<bool> good;
  layOut(program);
  if (!addRounds(CompileOptions::Embed, program) || !build(program, 0, good))
    return false;
  for (size_t i = program.rounds.size(); i-- > 0;)
    if (!good[i])
      program.rounds.erase(program.rounds.begin() + ptrdiff_t(i));
  if (!run(program, "tuner", data, report))
    return false;
  report.heuristic = report.tuned = report.rounds.front();

  // The whole choice against the cost model's, where each runs among its own neighbours.
  std::map<std::string, size_t> chosen;
  bool changed = false;
  std::map<std::string, double> times;
  for (const TunedForm &f : report.forms) {
    chosen[f.key] = f.chosen;
    changed |= f.chosen != 0;
    times[f.key] = f.candidates[f.chosen].measured;
  }
  const TakeChain takeChain = fasterBy(std::move(times));
  for (const ChainOffer &offer : chains_)
    changed |= takeChain(offer) != offer.isFaster();
  TunerProgram last;
  last.target = &target_;
  last.assembled = true;
  std::map<std::string, const TunerForm *> byKey;
  for (const TunerForm &f : program.forms) {
    TunerForm g = f;
    g.first = int(last.candidates.size());
    last.candidates.push_back(program.candidates[size_t(f.first)]);
    if (const size_t c = chosen[f.key])
      last.candidates.push_back(program.candidates[size_t(f.first) + c]);
    g.count = int(last.candidates.size()) - g.first;
    last.forms.push_back(std::move(g));
  }
  for (const TunerForm &f : last.forms)
    byKey[f.key] = &f;
  TuningReport whole;
  if (changed) {
    last.rounds.push_back(program.rounds.front());
    for (int &c : last.rounds.front().candidates)
      if (c >= 0)
        c = byKey[llvm::find_if(
                      program.forms,
                      [&](const TunerForm &f) { return f.first <= c && c < f.first + f.count; })
                      ->key]
                ->first;
    if (!addRound("assembled", CompileOptions::Embed, last, takeChain,
                  [&](const std::string &key) {
                    const TunerForm &f = *byKey.at(key);
                    return f.first + f.count - 1;
                  }) ||
        !build(last, 1, good))
      return false;
    if (!good.back())
      return false;
    if (!run(last, "comparison", data, whole))
      return false;
    report.heuristic = whole.rounds.front();
    report.tuned = whole.rounds.back();
  }
  const auto keeps = [](const TunedForm &f) { return f.chosen == 0; };
  const bool wasWorth = changed && !llvm::all_of(whole.forms, keeps);
  for (size_t i = 0; i < report.forms.size(); ++i) {
    TunedForm &f = report.forms[i];
    // Without times of both, a chain is what the cost model makes it.
    if (changed && !wasWorth && forms_.at(f.key).otherwise) {
      f.chosen = 0;
      continue;
    }
    // Of a chain and its parts, one of the two programs may have no kernel at all.
    const bool compared = changed && llvm::all_of(whole.forms[i].candidates,
                                                  [](const auto &c) { return c.measured > 0; });
    if (compared && whole.forms[i].chosen == 0)
      f.chosen = 0;
    const TunedForm &measured = compared ? whole.forms[i] : f;
    TuningEntry entry;
    entry.schedule = *parseSchedule(f.candidates[f.chosen].schedule);
    entry.microseconds = measured.candidates[measured.chosen].measured;
    entry.heuristicMicroseconds = measured.candidates.front().measured;
    entry.nodes = f.nodes;
    tuning.add(f.level, f.key, std::move(entry));
  }
  if (changed && !wasWorth)
    report.tuned = report.heuristic;
  tuning.version = TENON_VERSION;
  tuning.target = target_.name;
  tuning.device = report.device;
  compiler_.exchange(std::move(grouped_));
  return true;
}

bool tuneRuns(ToolHost &host, Compiler &compiler, const Target &target, const CodeOptions &code,
              const ScheduleOptions &options, const TunerSettings &settings,
              llvm::ArrayRef<Tensor> data, Tuning &tuning, TuningReports &reports) {
  std::vector<int64_t> runs;
  std::unique_ptr<Module> whole;
  if (!tokensOfRuns(compiler.module()).empty() && compiler.module().stage != Stage::Scheduled) {
    if (!compiler.groupFor(target))
      return false;
    runs = tokensOfRuns(compiler.module());
    whole = compiler.module().clone();
  }
  if (runs.empty()) {
    reports.emplace_back();
    return Tuner(host, compiler, target, code, options, settings)
        .measure(data, tuning, reports.back().second);
  }
  TunerSettings own = settings;
  own.seconds /= double(runs.size());
  for (const int64_t tokens : runs) {
    own.tokens = tokens;
    reports.emplace_back(runTitle(graphOfRun(*whole, tokens)), TuningReport());
    const bool ok = Tuner(host, compiler, target, code, options, own)
                        .measure(data, tuning, reports.back().second);
    compiler.exchange(whole->clone());
    if (!ok)
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Elsewhere
//===----------------------------------------------------------------------===//

bool Tuner::writeProgram(llvm::StringRef path, llvm::StringRef output) {
  const bool cuda = target_.family->facts.device;
  const llvm::StringRef extension = llvm::sys::path::extension(path);
  if (extension != target_.family->suffix) {
    diagnostics().error("--program=" + path.str() + ": target " + target_.name + " takes a " +
                        target_.family->suffix.str() + " file");
    return false;
  }
  if (!begin())
    return false;
  TunerProgram program;
  program.file = output.str();
  layOut(program);
  if (!addRounds(CompileOptions::Include, program))
    return false;
  Graph &graph = compiler_.module().graph();
  std::vector<Tensor> inputs;
  if (!graphInputs(graph, compiler_.inputs(), {}, 1, inputs, diagnostics()))
    return false;
  std::string command = cuda ? "nvcc" : target_.levels.front()->compiler.str();
  if (cuda) {
    for (const std::string &word : target_.family->compilerOptions(target_))
      command += " " + word;
  } else {
    command += " -std=c++17 " + target_.levels.front()->buildFlags.str() + " -ffp-contract=off";
  }
  const llvm::StringRef stem = llvm::sys::path::stem(path);
  command += " " + llvm::sys::path::filename(path).str() + " -o " + stem.str();
  if (code_.threads > 1 && !cuda)
    command += " -DTENON_THREADS -pthread";
  OutputFiles files(diagnostics());
  const llvm::StringRef folder = llvm::sys::path::parent_path(path);
  for (const TunerRound &r : program.rounds) // before the text that has their hash
    for (const CompiledFile &f : r.files)
      if (f.suffix == ".weights" &&
          !files.add((folder.empty() ? "" : folder.str() + "/") + r.name + f.suffix, f))
        return false;
  return files.add(path,
                   tunerFile(program, compiler_.module(), symbolValues(graph, inputs), command)) &&
         files.commit();
}

} // namespace tenon
