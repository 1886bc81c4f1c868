// Implements `tenon inspect`: what a model is and what became of it.
#include "codegen/core/TargetFamily.h"
#include "compiler/CodeOptions.h"
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "tools/Files.h"
#include "tools/Inspection.h"
#include "tools/ScheduleSelection.h"
#include "tools/TensorCores.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

namespace tenon {
namespace {

struct InspectOptions {
  ConsoleOptions console;
  ModelOptions model;
  PipelineOptions passes;
  CodeOptions code;
  std::string format = "text", output = "-", profile;
  bool tensorCores = false, formatGiven = false;
};

class InspectRun {
public:
  InspectRun(const InspectOptions &options, Console &console)
      : options_(options), console_(console), compiler_(console, options.model, options.passes) {}

  int run() {
    const bool ok = inspect();
    console_.report(diagnostics());
    if (ok)
      return Done;
    return status_ != Done ? status_ : compiler_.status() != Done ? compiler_.status() : Failed;
  }

private:
  Diagnostics &diagnostics() { return compiler_.diagnostics(); }
  bool usage(const std::string &message) {
    diagnostics().error(message);
    return status_ = Usage, false;
  }
  bool isPage() const { return options_.format == "html"; }
  bool isJson() const { return options_.format == "json" || console_.json(); }

  bool inspect() {
    const auto target = codeTarget(options_.code, diagnostics());
    if (!target)
      return status_ = Usage, false;
    if (options_.tensorCores && !target->family->worthTensorCores)
      return usage("--tensor-cores: target " + target->name +
                   " has none; name a GPU, as in --target=cuda:sm_90a");
    if (options_.tensorCores && options_.format == "dot")
      return usage("--tensor-cores: --format is text, json or html, not dot");
    if (console_.json() && options_.format != "json" && options_.formatGiven)
      return usage("--json: --format=" + options_.format + " says otherwise; give one of them");
    if (!options_.profile.empty() && !isPage())
      return usage("--profile: the page draws it; add --format=html");
    if (!compiler_.open() || !compiler_.load())
      return false;
    Inspection inspection;
    inspection.model = options_.model.model;
    inspection.target = target->name;
    inspection.levels = target->levels;
    if (!readProfile(target->name, inspection.profile))
      return false;
    inspection.lookAtModel(compiler_.module());
    ScheduleOptions schedule;
    if (!scheduleChoices(console_, compiler_, *target, options_.code, {}, schedule))
      return false;
    // A model that this target cannot run is still looked at.
    inspection.scheduled = compiler_.schedule(*target, schedule);
    if (inspection.scheduled && !target->family->facts.hosted) {
      inspection.footprint.emplace();
      if (!takeFootprint(console_, compiler_, *target, options_.code, *inspection.footprint))
        return false;
    }
    std::string text;
    llvm::raw_string_ostream os(text);
    bool ok = inspection.scheduled;
    if (options_.tensorCores && ok) {
      llvm::raw_string_ostream proof(inspection.tensorCores);
      ok = prove(*target, schedule, isPage() ? proof : os);
    }
    if (!options_.tensorCores || isPage())
      print(inspection, os);
    console_.endProgress();
    os.flush();
    return write(text) && ok;
  }

  /// What `bench --profile --json` wrote.
  bool readProfile(llvm::StringRef target, std::string &text) {
    if (options_.profile.empty())
      return true;
    auto buffer = llvm::MemoryBuffer::getFile(options_.profile);
    if (!buffer) {
      diagnostics().error("cannot read '" + options_.profile + "': " + buffer.getError().message());
      return false;
    }
    auto parsed = llvm::json::parse((*buffer)->getBuffer());
    const llvm::json::Object *object = parsed ? parsed->getAsObject() : nullptr;
    if (!parsed)
      llvm::consumeError(parsed.takeError());
    if (!object || !object->getArray("profile")) {
      diagnostics().error("--profile: expected what `tenon bench --profile --json` prints, found "
                          "no profile in '" +
                          options_.profile + "'");
      return false;
    }
    if (const auto of = object->getString("target"); of && *of != target) {
      diagnostics().error("--profile: '" + options_.profile + "' was measured for " + of->str() +
                          ", this is for " + target.str() +
                          ": measure again with the same --target");
      return false;
    }
    text = llvm::formatv("{0}", *parsed).str();
    return true;
  }

  void print(const Inspection &inspection, llvm::raw_ostream &os) {
    if (isJson())
      inspection.printJson(os, compiler_);
    else if (options_.format == "dot")
      inspection.printDot(os, compiler_);
    else if (options_.format == "html")
      inspection.printHtml(os, compiler_);
    else
      inspection.printText(os, compiler_);
  }

  bool prove(const Target &target, const ScheduleOptions &schedule, llvm::raw_ostream &os) {
    TensorCoreProof proof(console_, compiler_, target);
    const bool ok = proof.take(options_.code, schedule);
    if (proof.hasLayers() && (isJson() || isPage()))
      proof.printJson(os);
    else if (proof.hasLayers())
      proof.printText(os);
    return ok;
  }

  bool write(llvm::StringRef text) {
    if (text.empty())
      return true;
    if (options_.output == "-") {
      llvm::outs() << text;
      return true;
    }
    OutputFiles files(diagnostics());
    return files.add(options_.output, text) && files.commit();
  }

  const InspectOptions &options_;
  Console &console_;
  Compiler compiler_;
  Status status_ = Done;
};

} // namespace

void declareInspect(CommandLine &app) {
  auto options = std::make_shared<InspectOptions>();
  CommandLine sub = app.command("inspect", "says what a model is and what became of it");
  sub.option("--format", options->format, "text, json, dot or html")
      .oneOf({"text", "json", "dot", "html"})
      .type("F")
      .showDefault();
  sub.option("-o,--output", options->output, "where to write; '-' is standard output")
      .type("FILE")
      .writesFile();
  sub.flag("--tensor-cores", options->tensorCores, "proves their use from machine code");
  sub.option(
         "--profile", options->profile,
         "with --format=html: times that `bench --profile --json` measured, in place of estimates")
      .type("FILE");
  declare(sub, options->model);
  declare(sub, options->code);
  declare(sub, options->passes);
  declare(sub, options->console);
  sub.runs([options, sub] {
    options->formatGiven = sub.given("--format");
    Console console(options->console);
    console.warn(sub.givenInVain(idleOutputs()));
    return InspectRun(*options, console).run();
  });
}

} // namespace tenon
