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

int run(const CommandOptions &options) {
  Console console(options.console);
  if (options.code.target == "interpreter" && !options.code.report.empty()) {
    console.error("--report: nothing is compiled for the interpreter; name another target");
    return Usage;
  }
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
  sub.runs([options] { return run(*options); });
}

} // namespace tenon
