// Implements `tenon export`: a module as an ONNX model.
#include "exporter/Export.h"
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "tools/Files.h"
#include "tools/Report.h"

#include "llvm/Support/Path.h"

namespace tenon {
namespace {

struct ExportCommand {
  ConsoleOptions console;
  ModelOptions model;
  PipelineOptions passes;
  std::string output, weights = "auto", stage = "imported";

  /// The file of weights, where there is one.
  std::string weightsFile() const { return output + ".data"; }
};

ExportOptions exportOptions(const ExportCommand &command) {
  ExportOptions options;
  options.weights = command.weights == "inline" ? ExportOptions::Weights::Inline
                    : command.weights == "file" ? ExportOptions::Weights::File
                                                : ExportOptions::Weights::Auto;
  options.weightsFile = llvm::sys::path::filename(command.weightsFile()).str();
  return options;
}

class ExportRun {
public:
  ExportRun(const ExportCommand &command, Console &console)
      : command_(command), console_(console), compiler_(console, command.model, command.passes) {}

  int run() {
    const bool ok = work();
    console_.endProgress();
    console_.report(compiler_.diagnostics());
    if (ok)
      return Done;
    return status_ != Done ? status_ : compiler_.status() != Done ? compiler_.status() : Failed;
  }

private:
  bool work() {
    Diagnostics &diagnostics = compiler_.diagnostics();
    if (command_.output == "-") {
      diagnostics.error("a model is no text for standard output: give it a file with -o Q.onnx");
      return status_ = Usage, false;
    }
    if (!compiler_.open() || !compiler_.load())
      return false;
    if (command_.stage == "optimized" && compiler_.module().stage == Stage::Imported &&
        !compiler_.optimize())
      return false;
    const ExportOptions options = exportOptions(command_);
    ExportedModel exported;
    if (!exportModule(compiler_.module(), options, exported, diagnostics) ||
        !compiler_.externalDataUnchanged())
      return false;
    std::vector<std::string> paths{command_.output};
    OutputFiles files(diagnostics);
    if (!files.add(command_.output, exported.bytes))
      return false;
    if (!exported.weights.empty()) {
      paths.push_back(command_.weightsFile());
      if (!files.add(paths.back(), [&](llvm::raw_ostream &os) { exported.writeWeights(os); }))
        return false;
    }
    if (!files.commit())
      return false;
    say(exported, paths);
    return true;
  }

  void say(const ExportedModel &exported, const std::vector<std::string> &paths) {
    if (console_.json()) {
      llvm::json::OStream json(llvm::outs(), 1);
      json.object([&] {
        json.attribute("opset", exported.opset);
        json.attribute("nodes", exported.nodes);
        json.attributeArray("files", [&] {
          for (const std::string &path : paths)
            json.value(llvm::json::fixUTF8(path));
        });
      });
      llvm::outs() << '\n';
    } else if (!console_.quiet()) {
      llvm::outs() << "wrote";
      for (const std::string &path : paths)
        llvm::outs() << ' ' << path;
      llvm::outs() << ": " << exported.nodes << " nodes of opset " << exported.opset << '\n';
    }
  }

  const ExportCommand &command_;
  Console &console_;
  Compiler compiler_;
  Status status_ = Done;
};

} // namespace

void declareExport(CommandLine &app) {
  auto options = std::make_shared<ExportCommand>();
  CommandLine sub = app.command("export", "writes a module as an ONNX model");
  sub.option("-o,--output", options->output, "the model to write")
      .type("Q.onnx")
      .required()
      .check([](const std::string &word) {
        return llvm::StringRef(word).endswith(".tn")
                   ? "expected a name such as Q.onnx (.tn is what later commands know IR by), "
                     "found '" +
                         word + "'"
                   : std::string();
      })
      .writesFile();
  sub.option("--stage", options->stage,
             "imported: as the model is, or optimized: after the passes; a module of a later stage "
             "is written as it stands")
      .oneOf({"imported", "optimized"})
      .type("S")
      .showDefault();
  sub.option("--weights", options->weights,
             "inline, file: in Q.onnx.data, or auto: in the model up to 2 GB")
      .oneOf({"auto", "inline", "file"})
      .type("M")
      .showDefault();
  declare(sub, options->model);
  declare(sub, options->passes);
  declare(sub, options->console);
  sub.runs([options, sub] {
    Console console(options->console);
    console.warn(sub.givenInVain(sub.idleGroup(kPassGroup, options->stage == "imported",
                                               "no pass runs before --stage=optimized")));
    return ExportRun(*options, console).run();
  });
}

} // namespace tenon
