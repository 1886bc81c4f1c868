// Implements `tenon run`: executes a model and compares what comes out.
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "tools/Report.h"
#include "tools/Runner.h"

namespace tenon {
namespace {

struct CommandOptions : RunOptions {
  ConsoleOptions console;
};

/// Says which options make no difference; refuses those that contradict others.
bool accepts(Console &console, const CommandLine &sub, const CommandOptions &options) {
  const bool interpreter = options.code.target == "interpreter";
  const bool groups = options.data.check == "groups";
  const std::string nothing = "nothing is compiled for the interpreter";
  if (!console.accepts(sub.givenInVain({
          {"--group-tolerance", !groups,
           "is for --check=groups, which compares values between groups"},
          {"--against", !options.data.reference.empty(),
           "--reference says what is expected; give one of them"},
          {"--report", interpreter, nothing + "; name another target"},
      })))
    return false;
  console.warn(sub.givenInVain({{"--keep", interpreter, nothing}}));
  console.warn(sub.givenInVain(interpreter ? sub.idleGroup(kCodeGroup, true, nothing, {"--target"})
                                           : idleInterface()));
  console.warn(sub.givenInVain(sub.idleGroup(kPassGroup, interpreter && !groups,
                                             "the interpreter runs the model as imported")));
  return true;
}

int run(const CommandLine &sub, const CommandOptions &options) {
  Console console(options.console);
  if (!accepts(console, sub, options))
    return Usage;
  Runner runner(options, console);
  const bool ok = runner.aim() && runner.load() && runner.run();
  console.report(runner.diagnostics());
  if (!ok)
    return runner.status == Done ? int(Failed) : runner.status;
  const std::vector<ReportKind> kinds = reportKinds(options.code.report);
  if (!console.json())
    for (ReportKind k : kinds) {
      printReport(llvm::outs(), k, runner.compiler);
      llvm::outs() << '\n';
    }
  if (console.json())
    runner.report.printJson(llvm::outs(), [&](llvm::json::OStream &json) {
      for (ReportKind k : kinds)
        writeReport(json, k, runner.compiler);
    });
  else if (!console.quiet())
    runner.report.print(llvm::outs(), console.verbose());
  else
    llvm::outs() << runner.report.verdictLine() << '\n';
  if (runner.report.verdict() != Verdict::Fail)
    return Done;
  console.error(runner.report.reason());
  return Failed;
}

} // namespace

void declareRun(CommandLine &app) {
  auto options = std::make_shared<CommandOptions>();
  CommandLine sub = app.command("run", "executes a model and compares its outputs");
  declare(sub, options->model);
  declare(sub, options->data);
  declare(sub, options->code);
  declare(sub, options->passes);
  declare(sub, options->console);
  sub.runs([options, sub] {
    if (!sub.given("--seeds") && options->data.check == "groups")
      options->data.seeds = kGroupSeeds;
    return run(sub, *options);
  });
}

} // namespace tenon
