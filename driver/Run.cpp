// Implements `tenon run`: executes a model and compares what comes out.
#include "driver/Commands.h"
#include "driver/Runner.h"

#include <CLI/CLI.hpp>

namespace tenon {
namespace {

int run(const RunOptions &options) {
  Console console(options.console);
  Runner runner(options, console);
  const bool ok = runner.load() && runner.run();
  console.report(runner.diagnostics());
  if (!ok)
    return runner.status == Done ? int(Failed) : runner.status;
  if (console.json())
    runner.report.printJson(llvm::outs());
  else if (!console.quiet())
    runner.report.print(llvm::outs(), console.verbose());
  else
    llvm::outs() << (runner.report.pass() ? "PASS\n" : "FAIL\n");
  if (!runner.report.pass())
    console.error(runner.report.reason());
  return runner.report.pass() ? Done : Failed;
}

} // namespace

void declareRun(CLI::App &app, Command &command) {
  auto options = std::make_shared<RunOptions>();
  CLI::App *sub = app.add_subcommand("run", "executes a model and compares its outputs");
  declare(*sub, options->model);
  declare(*sub, options->data);
  declare(*sub, options->code);
  declare(*sub, options->passes);
  declare(*sub, options->console);
  sub->callback([options, &command] { command = [options] { return run(*options); }; });
}

} // namespace tenon
