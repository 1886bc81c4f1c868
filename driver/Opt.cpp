// Implements `tenon opt`: IR to IR through a list of passes.
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "tools/Files.h"
#include "tools/Report.h"

#include "ir/Text.h"

namespace tenon {
namespace {

struct OptOptions {
  ConsoleOptions console;
  ModelOptions model;
  PipelineOptions passes;
  std::string pipeline, output = "-";
  bool elide = false;
};

bool optimise(const OptOptions &options, Compiler &compiler, int &status) {
  Diagnostics &diagnostics = compiler.diagnostics();
  status = Usage;
  if (options.console.json && options.output == "-") {
    diagnostics.error("--json: standard output is taken by the IR; give it a file with -o OUT.tn");
    return false;
  }
  Pipeline pipeline;
  if (!parsePipeline(options.pipeline, pipeline, diagnostics))
    return false;
  if (!compiler.open() || !compiler.load() || !compiler.runPasses(pipeline)) {
    status = compiler.status();
    return false;
  }
  status = Failed;
  if (options.output == "-") {
    // Standard output has no side file: literals stay in the text unless they are not wanted.
    PrintOptions print;
    if (!options.elide)
      print.inlineElements = INT64_MAX;
    tenon::print(compiler.module(), llvm::outs(), print);
    return true;
  }
  OutputFiles files(diagnostics);
  if (!addModule(files, compiler.module(), options.output) || !files.commit())
    return false;
  if (options.console.json) {
    llvm::json::OStream json(llvm::outs(), 1);
    json.object([&] {
      json.attribute("wrote", llvm::json::fixUTF8(options.output));
      writeReport(json, ReportKind::Passes, compiler);
    });
    llvm::outs() << '\n';
  }
  return true;
}

int run(const CommandLine &sub, const OptOptions &options) {
  Console console(options.console);
  if (!console.accepts(sub.givenInVain(
          {{"--elide", options.output != "-", "a file's large literals stand beside it"}})))
    return Usage;
  console.warn(sub.givenInVain(
      {{"-O", true, "the passes are those of --passes; `tenon compile` runs those of a level"}}));
  Compiler compiler(console, options.model, options.passes);
  int status = Done;
  const bool ok = optimise(options, compiler, status);
  console.report(compiler.diagnostics());
  return ok ? int(Done) : status;
}

} // namespace

void declareOpt(CommandLine &app) {
  auto options = std::make_shared<OptOptions>();
  CommandLine sub = app.command("opt", "runs passes: IR to IR");
  sub.option("--passes", options->pipeline,
             "passes in order, with options: 'fold,fuse{max-inputs=16}'; an empty list reads, "
             "verifies and prints")
      .type("LIST")
      .mayBeEmpty();
  sub.option("-o,--output", options->output, "where to write; '-' is standard output")
      .moduleFile()
      .writesFile();
  sub.flag("--elide", options->elide,
           "leaves large literals out of standard output; such text cannot be read back");
  declare(sub, options->model);
  declare(sub, options->passes);
  declare(sub, options->console);
  sub.runs([options, sub] { return run(sub, *options); });
}

} // namespace tenon
