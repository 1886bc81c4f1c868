// Implements `tenon bench`: builds a model and measures it.
#include "codegen/core/TargetFamily.h"
#include "compiler/CodeOptions.h"
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "tools/Devices.h"
#include "tools/Emulator.h"
#include "tools/Files.h"
#include "tools/Program.h"
#include "tools/Report.h"
#include "tools/Runner.h"
#include "tools/ScheduleSelection.h"
#include "tools/TraceEvents.h"

#include "codegen/core/Work.h"
#include "ir/Entries.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon {
namespace {

struct BenchOptions : RunOptions {
  ConsoleOptions console;
  int64_t runs = 100000, warmup = 5;
  unsigned contexts = 1;
  double seconds = 2;
  bool profile = false;
  std::string trace;
  std::string timing; // the option that says how long to measure, where one was given
};

/// Order statistics of a list of times.
struct Distribution {
  explicit Distribution(std::vector<double> values) : sorted(std::move(values)) {
    std::sort(sorted.begin(), sorted.end());
  }
  double at(double share) const {
    if (sorted.empty())
      return 0;
    return sorted[size_t(std::ceil(share * double(sorted.size() - 1)))];
  }
  double mean() const {
    return sorted.empty()
               ? 0
               : std::accumulate(sorted.begin(), sorted.end(), 0.0) / double(sorted.size());
  }
  std::vector<double> sorted;
};

std::string rate(double perSecond) {
  std::string s;
  llvm::raw_string_ostream(s) << llvm::format(perSecond < 1000 ? "%.4g runs/s" : "%.0f runs/s",
                                              perSecond);
  return s;
}

struct StepProfile {
  int step;
  std::string name, nodes;
  Location all; // nodes
  double milliseconds, instructions, flops;
  int64_t bytes;
};

class Bench {
public:
  Bench(const BenchOptions &options, Console &console)
      : options_(options), runner_(options, console), console_(console) {}

  int run() {
    const bool ok = measure();
    console_.report(runner_.diagnostics());
    if (!ok)
      return runner_.status != Done ? runner_.status : Failed;
    if (!options_.trace.empty() && !writeTrace()) {
      console_.report(runner_.diagnostics());
      return Failed;
    }
    console_.json() ? printJson() : printText();
    if (!console_.json())
      for (ReportKind k : reportKinds(options_.code.report))
        printReport(llvm::outs() << '\n', k, runner_.compiler);
    return Done;
  }

private:
  bool fail(Status s) { return runner_.fail(s); }

  bool measure() {
    Diagnostics &diagnostics = runner_.diagnostics();
    Compiler &c = runner_.compiler;
    auto target = codeTarget(options_.code, diagnostics);
    if (!target)
      return fail(Usage);
    if (!canRunHere(*target, diagnostics))
      return fail(Failed);
    target_ = *target;
    if (options_.contexts > 1 && !target_.family->facts.hosted) {
      diagnostics.error("--contexts: " + target_.name +
                        " has one context; contexts side by side are for cpu and cuda targets");
      return fail(Usage);
    }
    const std::string emulated =
        ": " + target_.name + " is emulated, which counts the instructions of one run";
    if (!options_.trace.empty() && emulatedBoard(target_)) {
      diagnostics.error("--trace" + emulated + " and takes no time");
      return fail(Usage);
    }
    if (!options_.timing.empty() && emulatedBoard(target_))
      diagnostics.warning(options_.timing + emulated);
    if (!runner_.load())
      return false;
    if (!scheduleAsAsked(console_, c, target_, options_.code, runner_.data.inputs))
      return fail(c.status() == Done ? Failed : c.status());
    Program program(console_, c, target_);
    if (!program.build(options_.code,
                       profiles() ? Program::Watch::Profile : Program::Watch::Nothing,
                       options_.contexts > 1))
      return fail(Failed);
    buildSeconds_ = program.buildSeconds();
    summary_ = program.summary();
    Module &module = c.module();
    const std::vector<int64_t> tokens = tokensOfRuns(module);
    Graph &graph = graphOfRun(module, 1);
    title_ = runTitle(graph);
    if (!runner_.inputsFor(graph, runner_.seeds().front(), run_.inputs,
                           tokens.empty() ? 0 : tokens.front()))
      return false;
    run_.runs = options_.runs;
    run_.warmup = options_.warmup;
    run_.budgetMilliseconds = int64_t(options_.seconds * 1000);
    run_.contexts = options_.contexts;
    if (profiles())
      run_.profileSteps = unsigned(planMemory(graph).steps.size());
    console_.progress("measuring");
    if (!program.run(run_))
      return fail(Failed);
    collectProfile(graph);
    return llvm::all_of(llvm::makeArrayRef(tokens).drop_front(tokens.empty() ? 0 : 1),
                        [&](int64_t fewest) { return measureEntry(program, fewest); });
  }

  /// Runs of as many tokens as the graph takes that a run of `fewest` takes.
  bool measureEntry(Program &program, int64_t fewest) {
    Graph &graph = graphOfRun(runner_.compiler.module(), fewest);
    ProgramRun run;
    EntryTime time{runTitle(graph), tokensOf(graph).upper(), 0};
    if (!runner_.inputsFor(graph, runner_.seeds().front(), run.inputs, time.tokens))
      return false;
    run.runs = run_.runs;
    run.warmup = run_.warmup;
    run.budgetMilliseconds = run_.budgetMilliseconds;
    if (!program.run(run))
      return fail(Failed);
    time.milliseconds = Distribution(run.nanoseconds).at(0.5) / 1e6;
    entries_.push_back(std::move(time));
    return true;
  }

  bool profiles() const { return options_.profile || !options_.trace.empty(); }

  bool writeTrace() {
    std::vector<TracedStep> steps;
    for (const StepProfile &s : inOrder_)
      steps.push_back({s.step, s.name, s.all, s.milliseconds * 1e3, s.flops, s.bytes});
    std::string text;
    llvm::raw_string_ostream os(text);
    writeTraceEvents(os, options_.model.model, target_.name, steps,
                     planMemory(graphOfRun(runner_.compiler.module(), 1)));
    OutputFiles files(runner_.diagnostics());
    return files.add(options_.trace, os.str()) && files.commit();
  }

  void collectProfile(Graph &graph) {
    auto of = [](const std::vector<double> &all, const Step &s) {
      return size_t(s.number) < all.size() ? all[size_t(s.number)] : 0;
    };
    for (const Step &s : planMemory(graph).steps) {
      if (size_t(s.number) >= std::max(run_.stepNanoseconds.size(), run_.stepInstructions.size()) ||
          !s.op->is(Op::Group))
        continue;
      const Work work = workOf(*s.op);
      const Attribute *a = s.op->find("schedule");
      const Schedule *schedule = a ? a->get<Schedule>() : nullptr;
      steps_.push_back({s.number, schedule ? schedule->tactic : "", nodesText(s.op->loc()),
                        s.op->loc(), of(run_.stepNanoseconds, s) / 1e6,
                        of(run_.stepInstructions, s), work.flops, work.bytes});
    }
    inOrder_ = steps_;
    std::stable_sort(steps_.begin(), steps_.end(), [](const StepProfile &a, const StepProfile &b) {
      return a.milliseconds + a.instructions > b.milliseconds + b.instructions;
    });
  }

  /// The median of the hundred runs before the thousandth, or of the last of fewer: on the same
  /// clock as the first, from the call to the end of waiting.
  double thousandthMilliseconds() const {
    const std::vector<double> &all = run_.nanoseconds;
    const size_t end = std::min<size_t>(all.size(), 1000), count = std::min<size_t>(end, 100);
    return Distribution({all.begin() + long(end - count), all.begin() + long(end)}).at(0.5) / 1e6;
  }

  /// How many times one context's throughput all together reach.
  double overlap() const {
    return run_.allContextsNanoseconds > 0
               ? run_.oneContextNanoseconds / run_.allContextsNanoseconds
               : 0;
  }
  /// The same in words.
  std::string overlapText() const {
    const bool cuda = target_.family->facts.device;
    char text[256];
    if (overlap() < 1.05)
      snprintf(text, sizeof text, "%u contexts add nothing: one fills the %s", options_.contexts,
               cuda ? "device" : "machine");
    else
      snprintf(text, sizeof text,
               "%u contexts do %.2f times the work of one: %s, where %u would be perfect",
               options_.contexts, overlap(),
               cuda ? "their kernels run side by side" : "each has a core for a part of the time",
               options_.contexts);
    return text;
  }

  /// What stands out, in words.
  std::vector<std::string> diagnoses(const Distribution &ms) const {
    std::vector<std::string> out;
    auto say = [&](const char *format, auto... values) {
      char text[256];
      snprintf(text, sizeof text, format, values...);
      out.push_back(text);
    };
    if (ms.at(0.5) > 0 && ms.at(0.99) > 1.5 * ms.at(0.5))
      say("the slowest runs take %.1f times the median: the machine is busy with something else",
          ms.at(0.99) / ms.at(0.5));
    if (run_.firstNanoseconds / 1e6 > 3 * thousandthMilliseconds())
      say("the first run takes %.1f times the thousandth: memory is touched for the first time",
          run_.firstNanoseconds / 1e6 / thousandthMilliseconds());
    if (overlap() > 0)
      out.push_back(overlapText());
    const double estimate = summary_.estimatedMicroseconds / 1e3;
    if (estimate > 0 && ms.at(0.5) > 3 * estimate)
      say("the median is %.1f times the cost model's estimate of %.3g ms", ms.at(0.5) / estimate,
          estimate);
    double total = 0;
    for (const StepProfile &s : steps_)
      total += s.milliseconds;
    if (!steps_.empty() && steps_.front().milliseconds > 0.3 * total)
      say("step %d (%s) takes %.0f %% of the time", steps_.front().step,
          steps_.front().nodes.substr(0, 80).c_str(), 100 * steps_.front().milliseconds / total);
    return out;
  }

  /// An emulator counts instructions; its time says nothing.
  bool counted() const { return run_.instructions > 0; }

  void printInstructions(llvm::raw_ostream &os) const {
    os << "target      " << target_.name << ", emulated\n"
       << llvm::format("one run     %.0f instructions (not cycles), build %.3g s\n",
                       run_.instructions, buildSeconds_);
    if (steps_.empty())
      return;
    os << "profile\n    step  instructions      %  a multiply-add\n";
    for (const StepProfile &s : steps_) {
      os << llvm::format("  %6d %13.0f %6.1f %15.2f  ", s.step, s.instructions,
                         100 * s.instructions / run_.instructions,
                         s.flops > 0 ? 2 * s.instructions / s.flops : 0.0);
      os << s.name << "  ";
      os.write_escaped(s.nodes) << '\n';
    }
  }

  void printInstructions(llvm::json::OStream &json) const {
    json.attribute("model", llvm::json::fixUTF8(options_.model.model));
    json.attribute("target", target_.name);
    json.attribute("instructions", run_.instructions);
    printSteps(json, [&](const StepProfile &s) {
      json.attribute("instructions", s.instructions);
      json.attribute("flops", s.flops);
    });
  }

  /// The build, sizes, and each step with what was measured of it.
  void printSteps(llvm::json::OStream &json,
                  llvm::function_ref<void(const StepProfile &)> measured) const {
    json.attribute("build_s", buildSeconds_);
    json.attribute("arena_bytes", summary_.arenaBytes);
    json.attribute("weight_bytes", summary_.weightBytes);
    json.attributeArray("profile", [&] {
      for (const StepProfile &s : steps_)
        json.object([&] {
          json.attribute("step", s.step);
          json.attribute("tactic", s.name);
          json.attribute("nodes", llvm::json::fixUTF8(s.nodes));
          measured(s);
        });
    });
  }

  void printText() {
    if (counted())
      return printInstructions(llvm::outs());
    std::vector<double> ms;
    for (double ns : run_.nanoseconds)
      ms.push_back(ns / 1e6);
    const Distribution d(ms);
    llvm::raw_ostream &os = llvm::outs();
    os << "target      " << target_.name << ", " << options_.code.threads << " thread"
       << (options_.code.threads > 1 ? "s" : "") << '\n';
    if (!title_.empty())
      os << "run         of 1 token, by the graph for " << title_ << '\n';
    os << "throughput  " << rate(d.mean() > 0 ? 1e3 / d.mean() : 0.0)
       << llvm::format(" (%zu runs)\n", ms.size());
    os << llvm::format(
        "latency ms  min %.4g, mean %.4g, median %.4g, p90 %.4g, p95 %.4g, p99 %.4g, "
        "max %.4g\n",
        d.at(0), d.mean(), d.at(0.5), d.at(0.9), d.at(0.95), d.at(0.99), d.at(1));
    os << llvm::format("first run   %.4g ms, thousandth %.4g ms, creation %.4g ms, build %.3g s\n",
                       run_.firstNanoseconds / 1e6, thousandthMilliseconds(),
                       run_.createNanoseconds / 1e6, buildSeconds_);
    if (overlap() > 0)
      os << "contexts    1: " << rate(1e9 / run_.oneContextNanoseconds) << ", " << options_.contexts
         << ": " << rate(1e9 / run_.allContextsNanoseconds) << ", back to back\n";
    for (const EntryTime &e : entries_)
      os << llvm::format("tokens      %lld: median %.4g ms, by the graph for ",
                         static_cast<long long>(e.tokens), e.milliseconds)
         << e.title << '\n';
    if (!steps_.empty()) {
      double total = 0;
      for (const StepProfile &s : steps_)
        total += s.milliseconds;
      os << (target_.family->facts.device ? "profile (overlap counted once)"
                                          : "profile (each step timed alone)")
         << "\n    step       ms      %   GFLOP/s     GB/s\n";
      for (const StepProfile &s : steps_) {
        const double seconds = s.milliseconds / 1e3;
        os << llvm::format("  %6d %8.4f %6.1f %9.2f %8.2f  ", s.step, s.milliseconds,
                           total > 0 ? 100 * s.milliseconds / total : 0.0,
                           seconds > 0 ? s.flops / seconds / 1e9 : 0.0,
                           seconds > 0 ? double(s.bytes) / seconds / 1e9 : 0.0);
        os << s.name << "  ";
        os.write_escaped(s.nodes) << '\n';
      }
      os << llvm::format("   total %8.4f\n", total);
    }
    for (const std::string &text : diagnoses(d))
      os << "note: " << text << '\n';
  }

  void printJson() {
    std::vector<double> ms;
    for (double ns : run_.nanoseconds)
      ms.push_back(ns / 1e6);
    const Distribution d(ms);
    llvm::json::OStream json(llvm::outs(), 1);
    json.object([&] {
      for (ReportKind k : reportKinds(options_.code.report))
        writeReport(json, k, runner_.compiler);
      if (counted())
        return printInstructions(json);
      json.attribute("model", llvm::json::fixUTF8(options_.model.model));
      json.attribute("target", target_.name);
      json.attribute("threads", options_.code.threads);
      json.attribute("runs", int64_t(ms.size()));
      json.attribute("runs_per_second", d.mean() > 0 ? 1e3 / d.mean() : 0.0);
      json.attribute("min_ms", d.at(0));
      json.attribute("mean_ms", d.mean());
      json.attribute("median_ms", d.at(0.5));
      json.attribute("p90_ms", d.at(0.9));
      json.attribute("p95_ms", d.at(0.95));
      json.attribute("p99_ms", d.at(0.99));
      json.attribute("max_ms", d.at(1));
      json.attribute("first_ms", run_.firstNanoseconds / 1e6);
      json.attribute("thousandth_ms", thousandthMilliseconds());
      json.attribute("create_ms", run_.createNanoseconds / 1e6);
      if (!title_.empty())
        json.attribute("graph", title_);
      if (!entries_.empty())
        json.attributeArray("runs_of_tokens", [&] {
          for (const EntryTime &e : entries_)
            json.object([&] {
              json.attribute("tokens", e.tokens);
              json.attribute("graph", e.title);
              json.attribute("median_ms", e.milliseconds);
            });
        });
      if (overlap() > 0) {
        json.attribute("contexts", options_.contexts);
        json.attribute("one_context_runs_per_second", 1e9 / run_.oneContextNanoseconds);
        json.attribute("all_contexts_runs_per_second", 1e9 / run_.allContextsNanoseconds);
        json.attribute("overlap", overlap());
      }
      printSteps(json, [&](const StepProfile &s) {
        json.attribute("ms", s.milliseconds);
        json.attribute("flops", s.flops);
        json.attribute("bytes", s.bytes);
      });
      json.attributeArray("diagnoses", [&] {
        for (const std::string &text : diagnoses(d))
          json.value(llvm::json::fixUTF8(text));
      });
    });
    llvm::outs() << '\n';
  }

  /// A run of another graph of a decoder's program.
  struct EntryTime {
    std::string title;
    int64_t tokens;
    double milliseconds;
  };

  const BenchOptions &options_;
  Runner runner_;
  Console &console_;
  Target target_;
  ProgramRun run_;
  CompileSummary summary_;
  double buildSeconds_ = 0;
  std::string title_; // of the graph that is measured, where there are several
  std::vector<EntryTime> entries_;
  std::vector<StepProfile> steps_, inOrder_; // the longest first, and as they run
};

} // namespace

void declareBench(CommandLine &app) {
  auto options = std::make_shared<BenchOptions>();
  CommandLine sub = app.command("bench", "builds a model and measures it");
  sub.option("--seconds", options->seconds, "how long to measure")
      .positive()
      .type("S")
      .showDefault();
  sub.option("--runs", options->runs, "at most so many runs").positive().type("N");
  sub.option("--warmup", options->warmup, "runs before the measurement")
      .nonNegative()
      .type("N")
      .showDefault();
  sub.flag("--profile", options->profile, "time of every kernel");
  sub.option("--trace", options->trace,
             "writes the profile as trace events, which Perfetto and chrome://tracing show")
      .type("FILE.json")
      .writesFile();
  sub.option("--contexts", options->contexts,
             "also measures so many contexts of the model side by side against one")
      .range(1, 64)
      .type("N");
  sub.option("--data", options->data.data, "a test data set whose inputs are used").type("DIR");
  declare(sub, options->model);
  declare(sub, options->code);
  declare(sub, options->passes);
  declare(sub, options->console);
  sub.runs([options, sub] {
    for (const char *name : {"--warmup", "--runs", "--seconds"})
      if (sub.given(name))
        options->timing = name;
    Console console(options->console);
    console.warn(sub.givenInVain(idleInterface()));
    return Bench(*options, console).run();
  });
}

} // namespace tenon
