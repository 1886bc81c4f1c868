// Implements `tenon compile`: a model to generated files, or to IR with --emit=tn.
#include "codegen/core/TargetFamily.h"
#include "codegen/emit/CppText.h"
#include "codegen/emit/SelfTest.h"
#include "compiler/CodeOptions.h"
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "tools/CalibrationSet.h"
#include "tools/Devices.h"
#include "tools/Files.h"
#include "tools/Oracle.h"
#include "tools/Report.h"
#include "tools/ScheduleSelection.h"

#include "ir/Text.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace tenon {
namespace {

struct CompileArguments {
  ConsoleOptions console;
  ModelOptions model;
  PipelineOptions passes;
  CodeOptions code;
  std::string output, emit = "code", stage = "scheduled", depfile;
  bool targetGiven = false, stageGiven = false;
};

/// A make rule that names every file that was read: those of the options, and `others`.
std::string depfileText(const CompileArguments &command, llvm::ArrayRef<std::string> others) {
  auto escape = [](llvm::StringRef path) {
    std::string s;
    for (char c : path) {
      if (c == ' ' || c == '#' || c == '\\')
        s += '\\';
      if (c == '$')
        s += '$';
      s += c;
    }
    return s;
  };
  std::string text = escape(command.output) + ":";
  auto add = [&](llvm::StringRef path) { text += " \\\n  " + escape(path); };
  auto addModel = [&](const std::string &path) {
    add(path);
    if (llvm::StringRef(path).endswith(".tn") && llvm::sys::fs::exists(path + ".data"))
      add(path + ".data");
  };
  addModel(command.model.model);
  for (const std::string &path : others)
    add(path);
  for (const auto &[key, value] : keyValues(command.model.bind))
    if (llvm::StringRef(value).startswith("@"))
      add(llvm::StringRef(value).drop_front());
  for (const std::string &path : command.model.op)
    addModel(path);
  for (const std::string &path : listItems(command.code.tuning))
    add(path);
  return text + "\n";
}

/// Name of the main file and of those beside it.
bool outputPaths(const CompileArguments &command, const Target &target, std::string &stem,
                 Diagnostics &diagnostics) {
  llvm::StringRef path(command.output);
  llvm::StringRef extension = llvm::sys::path::extension(path);
  const bool cuda = target.family->facts.device;
  const bool fits =
      cuda ? extension == ".cu" : extension == ".cpp" || extension == ".cc" || extension == ".cxx";
  if (!fits) {
    diagnostics.error("-o " + command.output + ": target " + target.name + " writes a " +
                      target.family->suffix.str() + " file, its header and weights beside it");
    return false;
  }
  if (llvm::any_of(path, [](unsigned char c) { return iscntrl(c); })) { // it goes into a comment
    diagnostics.error("-o: expected a name without control characters");
    return false;
  }
  stem = path.drop_back(extension.size()).str();
  return true;
}

class CompileRun {
public:
  CompileRun(const CompileArguments &command, Console &console)
      : command_(command), console_(console), compiler_(console, command.model, command.passes) {}

  int run() {
    const bool ok = coherent() && (command_.emit == "tn" ? emitText() : emitCode());
    console_.report(compiler_.diagnostics());
    if (ok)
      return Done;
    return status_ != Done ? status_ : compiler_.status() != Done ? compiler_.status() : Failed;
  }

private:
  Diagnostics &diagnostics() { return compiler_.diagnostics(); }
  bool usage() { return status_ = Usage, false; }

  /// The target, also of a module that is scheduled already and says so itself.
  llvm::Optional<Target> target() {
    CodeOptions code = command_.code;
    const Module &module = compiler_.module();
    if (!command_.targetGiven && module.stage == Stage::Scheduled) {
      std::vector<std::string> variants;
      for (auto &g : module.graphs)
        variants.push_back(g->target);
      if (llvm::none_of(variants, [](const std::string &name) { return name.empty(); }))
        code.target = joinVariantNames(variants);
    }
    auto t = codeTarget(code, diagnostics());
    if (!t)
      usage();
    return t;
  }

  bool loadFor(const Target *&out) {
    if (!compiler_.open() || !compiler_.load())
      return false;
    target_ = target();
    out = target_ ? &*target_ : nullptr;
    return out != nullptr;
  }

  bool scheduled(const Target &target) {
    return scheduleAsAsked(console_, compiler_, target, command_.code);
  }

  /// What the words of the command line do not go together with.
  bool coherent() {
    if (command_.emit != "tn" && command_.stageGiven) {
      diagnostics().error("--stage says which IR --emit=tn writes; code comes after all stages");
      return usage();
    }
    if (command_.code.search != "exhaustive")
      return true;
    auto measured = codeTarget(command_.code, diagnostics());
    if (!measured)
      return usage();
    // The tuner says that it takes one level.
    return measured->levels.size() > 1 || canRunHere(*measured, diagnostics());
  }

  /// Work goes on from the stage that a text states: nothing takes it back.
  bool ahead() {
    const Stage stage = compiler_.module().stage;
    const Stage wanted = command_.stage == "imported"    ? Stage::Imported
                         : command_.stage == "optimized" ? Stage::Optimized
                                                         : Stage::Scheduled;
    if (stage <= wanted)
      return true;
    diagnostics().error("--stage=" + command_.stage + ": '" + command_.model.model +
                        "' is past it, at stage=" + name(stage).str());
    return usage();
  }

  bool emitText() {
    if (command_.output == "-" && console_.json()) {
      diagnostics().error("--json: standard output is taken by the IR; give it a file with -o");
      return usage();
    }
    const Target *target = nullptr;
    if (!loadFor(target))
      return false;
    if (!precisionRules(command_.code, compiler_.passContext(), diagnostics()))
      return false;
    if (!ahead())
      return false;
    compiler_.aim(*target);
    if (command_.stage == "optimized" ? !compiler_.optimize()
                                      : command_.stage == "scheduled" && !scheduled(*target))
      return false;
    console_.endProgress();
    if (command_.output == "-") {
      PrintOptions print;
      print.inlineElements = INT64_MAX;
      tenon::print(compiler_.module(), llvm::outs(), print);
      return true;
    }
    OutputFiles files(diagnostics());
    if (!addModule(files, compiler_.module(), command_.output) || !addDepfile(files) ||
        !commit(files))
      return false;
    printReports({});
    return true;
  }

  bool emitCode() {
    const Target *target = nullptr;
    std::string stem;
    if (!loadFor(target))
      return false;
    if (!outputPaths(command_, *target, stem, diagnostics()))
      return usage();
    CompileOptions options = compileOptions(command_.code, llvm::sys::path::filename(stem));
    options.source = llvm::sys::path::filename(command_.output).str();
    std::vector<CompiledFile> compiled;
    CompileSummary summary;
    if (!checkHooks(command_.code, *target, diagnostics()))
      return false;
    options.hooks = command_.code.hooks;
    options.selfTest = !command_.code.selfTest.empty();
    if (!scheduled(*target))
      return false;
    options.commandLine = optionsNoted(compiler_.module(), options);
    if (!compiler_.emit(*target, options, compiled, summary) ||
        (options.selfTest && !addSelfTest(*target, options, compiled)))
      return false;
    summary.nodes = nodesRead(compiler_.module());

    OutputFiles files(diagnostics());
    std::vector<std::string> paths;
    for (const CompiledFile &f : compiled) {
      const bool main = f.suffix == ".cpp" || f.suffix == ".cu";
      paths.push_back(main ? command_.output : stem + f.suffix);
      if (!files.add(paths.back(), f))
        return false;
    }
    if (!addDepfile(files) || !commit(files))
      return false;
    console_.endProgress();
    if (!console_.json() && !console_.quiet())
      printSummary(llvm::outs(), compiler_, *target, summary, paths);
    printReports(
        [&](llvm::json::OStream &json) { writeSummary(json, compiler_, *target, summary, paths); });
    return true;
  }

  /// One set of inputs, and what the interpreter makes of it.
  bool addSelfTest(const Target &target, const CompileOptions &options,
                   std::vector<CompiledFile> &files) {
    Graph &graph = compiler_.module().graph();
    if (!DimSpelling(compiler_.module()).symbols().empty()) {
      diagnostics().error("--self-test needs extents known when compiling; give them with --bind "
                          "or --shape");
      return false;
    }
    auto isText = [](Value *v) { return v->type().element() == Element::String; };
    if (llvm::any_of(graph.body().arguments(), isText) ||
        llvm::any_of(graph.returnOp()->operands(), isText)) {
      diagnostics().error("--self-test compares numbers; this model's interface has text");
      return false;
    }
    DataSet data;
    const std::string &folder = command_.code.selfTest;
    std::vector<Tensor> inputs;
    if ((folder != "seeded" && !readFirstSample("--self-test", folder, compiler_.inputs(),
                                                compiler_.outputs(), data, diagnostics())) ||
        !graphInputs(graph, compiler_.inputs(), data.inputs, folder == "seeded", inputs,
                     diagnostics()))
      return false;
    selfTestFiles_ = data.files;
    for (const State &s : graph.states) // the first run finds zeros
      inputs[s.input] = Tensor(inputs[s.input].element(), inputs[s.input].shape());
    console_.progress("interpreting");
    OracleRun expected;
    if (!interpretModule(compiler_.module(), inputs, expected, diagnostics()))
      return false;
    files.push_back({"_self_test.c", writeSelfTest(compiler_.module(), target, options, inputs,
                                                   expected.outputs, diagnostics())});
    return !diagnostics().hasErrors();
  }

  bool addDepfile(OutputFiles &files) {
    std::vector<std::string> others = compiler_.externalFiles();
    others.insert(others.end(), selfTestFiles_.begin(), selfTestFiles_.end());
    return command_.depfile.empty() || files.add(command_.depfile, depfileText(command_, others));
  }

  bool commit(OutputFiles &files) { return compiler_.externalDataUnchanged() && files.commit(); }

  void printReports(llvm::function_ref<void(llvm::json::OStream &)> head) {
    const std::vector<ReportKind> kinds = reportKinds(command_.code.report);
    if (!console_.json()) {
      for (ReportKind k : kinds)
        printReport(llvm::outs() << '\n', k, compiler_);
      return;
    }
    llvm::json::OStream json(llvm::outs(), 1);
    json.object([&] {
      if (head)
        json.attributeObject("summary", [&] { head(json); });
      for (ReportKind k : kinds)
        writeReport(json, k, compiler_);
    });
    llvm::outs() << '\n';
  }

  const CompileArguments &command_;
  Console &console_;
  Compiler compiler_;
  llvm::Optional<Target> target_;
  std::vector<std::string> selfTestFiles_;
  Status status_ = Done;
};

} // namespace

void declareCompile(CommandLine &app) {
  auto options = std::make_shared<CompileArguments>();
  CommandLine sub = app.command("compile", "writes one C++ or CUDA file, its header and weights");
  sub.option("-o,--output", options->output,
             "x.cpp or x.cu; x.h and x.weights are written beside it")
      .required()
      .type("OUT");
  sub.option("--emit", options->emit, "code, or tn: the IR instead")
      .oneOf({"code", "tn"})
      .type("WHAT")
      .showDefault();
  sub.option("--stage", options->stage, "with --emit=tn: imported, optimized or scheduled")
      .oneOf({"imported", "optimized", "scheduled"})
      .type("STAGE")
      .showDefault();
  sub.option("--depfile", options->depfile, "writes a make rule that names the files read")
      .type("FILE");
  declare(sub, options->model);
  declare(sub, options->code);
  declare(sub, options->passes);
  declare(sub, options->console);
  sub.runs([options, sub] {
    options->targetGiven = sub.given("--target");
    options->stageGiven = sub.given("--stage");
    Console console(options->console);
    return CompileRun(*options, console).run();
  });
}

} // namespace tenon
