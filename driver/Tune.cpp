// Implements `tenon tune`: measures candidate schedules and writes the fastest to a file, or writes
// the program that measures them on another machine.
#include "compiler/CodeOptions.h"
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "ir/Entries.h"
#include "tools/Devices.h"
#include "tools/Runner.h"
#include "tools/Tuner.h"

namespace tenon {
namespace {

struct TuneOptions : RunOptions {
  ConsoleOptions console;
  std::string output, program;
  TunerSettings tuner;
};

class Tune {
public:
  Tune(const TuneOptions &options, Console &console)
      : options_(options), runner_(options, console), console_(console) {}

  int run() {
    const bool ok = tune();
    console_.endProgress();
    console_.report(runner_.diagnostics());
    if (!ok)
      return runner_.status != Done              ? runner_.status
             : runner_.compiler.status() != Done ? runner_.compiler.status()
                                                 : Failed;
    if (options_.program.empty())
      report();
    else if (!console_.quiet() && !console_.json())
      llvm::outs() << "wrote    " << options_.program << '\n';
    return Done;
  }

private:
  bool tune() {
    Diagnostics &diagnostics = runner_.diagnostics();
    if (options_.output.empty() && options_.program.empty()) {
      diagnostics.error(
          "name the tuning file with -o FILE, or with --program=FILE the program that "
          "writes one on another machine");
      return runner_.fail(Usage);
    }
    auto target = codeTarget(options_.code, diagnostics);
    if (!target || !canTune(*target, diagnostics))
      return runner_.fail(Usage);
    if (options_.program.empty() && !canRunHere(*target, diagnostics))
      return runner_.fail(Failed);
    target_ = *target;
    Compiler &c = runner_.compiler;
    ScheduleOptions schedule;
    if (!runner_.load() || !scheduleOptions(options_.code, c.passContext(), schedule, diagnostics))
      return false;
    if (!options_.program.empty())
      return write(schedule);
    Tuning tuning;
    OutputFiles files(diagnostics);
    return tuneRuns(console_, c, target_, options_.code, schedule, options_.tuner,
                    runner_.data.inputs, tuning, reports_) &&
           files.add(options_.output, tuning.text()) && files.commit();
  }

  bool write(const ScheduleOptions &schedule) {
    Compiler &c = runner_.compiler;
    if (const size_t graphs = tokensOfRuns(c.module()).size(); graphs > 1) {
      runner_.diagnostics().error(
          "--program measures one graph, this decoder's program has " + std::to_string(graphs) +
          "; bind the tokens of a run with --bind, and give all tuning files to --tuning");
      return runner_.fail(Failed);
    }
    Tuner tuner(console_, c, target_, options_.code, schedule, options_.tuner);
    return tuner.writeProgram(options_.program, options_.output);
  }

  void report() {
    if (console_.json())
      return printJson();
    if (console_.quiet())
      return;
    for (const auto &[title, report] : reports_) {
      if (!title.empty())
        llvm::outs() << "runs of " << title << '\n';
      report.print(llvm::outs(), console_.verbose() ? SIZE_MAX : 10);
    }
    llvm::outs() << "wrote    " << options_.output << '\n';
  }

  void printJson() {
    llvm::json::OStream json(llvm::outs(), 1);
    json.object([&] {
      json.attribute("model", llvm::json::fixUTF8(options_.model.model));
      if (reports_.size() == 1)
        return reports_.front().second.write(json);
      json.attributeArray("runs", [&] {
        for (const auto &[title, report] : reports_)
          json.object([&, &title = title, &report = report] {
            json.attribute("graph", title);
            report.write(json);
          });
      });
    });
    llvm::outs() << '\n';
  }

  const TuneOptions &options_;
  Runner runner_;
  Console &console_;
  Target target_;
  TuningReports reports_;
};

} // namespace

void declareTune(CommandLine &app) {
  auto options = std::make_shared<TuneOptions>();
  CommandLine sub = app.command("tune", "times candidate schedules on the target");
  sub.option("-o,--output", options->output,
             "the tuning file to write; `compile --tuning=FILE` uses it")
      .type("FILE")
      .writesFile([options] { return options->program.empty(); });
  sub.option("--program", options->program,
             "writes the program (.cpp or .cu) that measures on another machine instead; "
             "building and running it there writes the tuning file")
      .type("FILE")
      .writesFile();
  sub.option("--candidates", options->tuner.candidates, "at most so many for each kind of layer")
      .range(1, 64)
      .type("N")
      .showDefault();
  sub.option("--seconds", options->tuner.seconds, "how long to measure")
      .positive()
      .type("S")
      .showDefault();
  sub.option("--jobs", options->tuner.jobs, "compilers at a time (default: one a processor)")
      .positive()
      .type("N");
  sub.option("--data", options->data.data, "a test data set whose inputs are used").type("DIR");
  declare(sub, options->model);
  declare(sub, options->code);
  declare(sub, options->passes);
  declare(sub, options->console);
  sub.runs([options, sub] {
    Console console(options->console);
    const bool elsewhere = !options->program.empty();
    if (!console.accepts(sub.givenInVain(
            {{"--seconds", elsewhere,
              "give it to the program that --program writes, where it runs"},
             {"--jobs", elsewhere, "--program compiles nothing here"},
             {"--data", elsewhere, "the program that --program writes makes inputs of its own"}})))
      return int(Usage);
    console.warn(sub.givenInVain(idleOutputs()));
    return Tune(*options, console).run();
  });
}

} // namespace tenon
