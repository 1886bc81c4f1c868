// Implements `tenon inspect`: what a model is and what became of it.
#include "driver/Commands.h"
#include "driver/Inspection.h"

#include <CLI/CLI.hpp>

namespace tenon {
namespace {

struct InspectOptions {
  ConsoleOptions console;
  ModelOptions model;
  PassOptions passes;
  CodeOptions code;
  std::string format = "text", output = "-";
  bool tensorCores = false;
};

bool inspect(const InspectOptions &options, Console &console, Compilation &c, Status &status) {
  Diagnostics &diagnostics = c.diagnostics();
  status = Failed;
  if (options.tensorCores) {
    diagnostics.error("--tensor-cores is not available in this version; --report=kernels names "
                      "each group's kernel");
    return false;
  }
  if (!refuseUnavailable(options.model, options.code, diagnostics))
    return false;
  auto target = codeTarget(options.code, diagnostics);
  if (!target)
    return status = Usage, false;
  if (!c.open() || !c.load())
    return status = c.status(), false;
  Inspection inspection;
  inspection.model = options.model.model;
  inspection.target = target->name;
  inspection.lookAtModel(c.module());
  ScheduleOptions schedule;
  if (!scheduleOptions(options.code, c.passContext(), schedule, diagnostics))
    return false;
  // A model that this target cannot run is still looked at.
  inspection.scheduled = c.schedule(*target, schedule);
  console.endProgress();
  std::string text;
  llvm::raw_string_ostream os(text);
  if (options.format == "json" || console.json())
    inspection.printJson(os, c);
  else if (options.format == "dot")
    inspection.printDot(os, c);
  else if (options.format == "html")
    inspection.printHtml(os, c);
  else
    inspection.printText(os, c);
  os.flush();
  if (options.output == "-") {
    llvm::outs() << text;
  } else {
    OutputFiles files(diagnostics);
    if (!files.add(options.output, text) || !files.commit())
      return false;
  }
  status = c.status();
  return inspection.scheduled;
}

} // namespace

void declareInspect(CLI::App &app, Command &command) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App *sub = app.add_subcommand("inspect", "says what a model is and what became of it");
  sub->add_option("--format", options->format, "text, json, dot or html")
      ->check(CLI::IsMember({"text", "json", "dot", "html"}))
      ->type_name("F")
      ->capture_default_str();
  sub->add_option("-o,--output", options->output, "where to write; '-' is standard output")
      ->type_name("FILE");
  sub->add_flag("--tensor-cores", options->tensorCores, "proves their use from machine code");
  declare(*sub, options->model);
  declare(*sub, options->code);
  declare(*sub, options->passes);
  declare(*sub, options->console);
  sub->callback([options, &command] {
    command = [options] {
      Console console(options->console);
      Compilation compilation(console, options->model, options->passes);
      Status status = Done;
      const bool ok = inspect(*options, console, compilation, status);
      console.report(compilation.diagnostics());
      return ok ? Done : status == Done ? Failed : status;
    };
  });
}

} // namespace tenon
