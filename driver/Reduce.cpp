// Implements `tenon reduce`: shrinks a module that makes something fail.
#include "compiler/Compiler.h"
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "tools/Files.h"
#include "tools/ModuleShrinker.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

namespace tenon {
namespace {

struct ReduceOptions {
  ConsoleOptions console;
  ModelOptions model;
  std::string output, test, passes;
  bool passesGiven = false;
};

/// How a candidate is judged: a shell command in which {} is the candidate's path. Interesting is
/// what ends with the same exit status as the original.
class Judge {
public:
  Judge(std::string command, Diagnostics &diagnostics)
      : command_(std::move(command)), diagnostics_(diagnostics) {}

  bool judge(const Module &module, int &status) {
    if (!folder_.valid()) {
      diagnostics_.error(folder_.whyNot());
      return false;
    }
    OutputFiles files(diagnostics_);
    const std::string path = folder_.file("candidate.tn");
    if (!addModule(files, module, path) || !files.commit())
      return false;
    std::string command = command_;
    for (size_t at = 0; (at = command.find("{}", at)) != std::string::npos; at += path.size())
      command.replace(at, 2, path);
    auto shell = llvm::sys::findProgramByName("sh");
    const llvm::Optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(""),
                                                         llvm::StringRef("")};
    // Whatever the command writes stays in the folder that goes away.
    const std::string script = "cd '" + folder_.path().str() + "' && " + command;
    status =
        shell ? llvm::sys::ExecuteAndWait(*shell, {"sh", "-c", script}, llvm::None, redirects) : -1;
    return true;
  }

private:
  std::string command_;
  Diagnostics &diagnostics_;
  TemporaryFolder folder_;
};

/// The command in the head of a reproducer, for any candidate.
std::string commandOfReproducer(llvm::StringRef path, llvm::StringRef self) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return "";
  llvm::StringRef text = (*buffer)->getBuffer();
  for (int i = 0; i < 2; ++i) {
    auto [line, rest] = text.split('\n');
    if (!line.consume_front("//"))
      return "";
    line = line.trim();
    const bool opt = line.consume_front("tenon opt ");
    if (opt || line.consume_front("tenon compile ")) {
      auto [file, options] = line.split(' ');
      return "'" + self.str() + "' " + (opt ? "opt" : "compile") + " {} -o out" +
             (opt ? ".tn " : ".cpp ") + options.str();
    }
    text = rest;
  }
  return "";
}

class ReduceRun {
public:
  ReduceRun(const ReduceOptions &options, Console &console)
      : options_(options), console_(console), compiler_(console, options.model, {}) {}

  int run() {
    const Status status = reduce();
    console_.report(compiler_.diagnostics());
    return status;
  }

private:
  Status usage(std::string message) {
    compiler_.diagnostics().error(std::move(message));
    return Usage;
  }

  Status reduce() {
    const std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
    std::string command = options_.test;
    if (options_.passesGiven)
      command = "'" + self + "' opt {} -o out.tn --verify-each --passes='" + options_.passes + "'";
    if (command.empty())
      command = commandOfReproducer(options_.model.model, self);
    if (command.empty() && !llvm::sys::fs::exists(options_.model.model))
      return compiler_.open(), compiler_.status();
    if (command.empty())
      return usage("'" + options_.model.model +
                   "' is no reproducer that says what fails; give "
                   "--passes=LIST or --test='COMMAND {}'");
    if (!compiler_.open() || !compiler_.load())
      return compiler_.status();
    if (compiler_.module().graphs.size() != 1)
      return usage("a module with several variants cannot be reduced; compile it for one target");

    Judge judge(command, compiler_.diagnostics());
    int wanted = 0;
    if (!judge.judge(compiler_.module(), wanted))
      return Failed;
    if (wanted == 0)
      return usage("nothing fails: `" + command + "` ends with status 0");
    ShrinkStatistics statistics;
    const unsigned before = countOperations(compiler_.module());
    auto smaller = shrinkModule(
        compiler_.module(),
        [&](Module &candidate) {
          console_.progress(std::to_string(countOperations(candidate)) + " operations, " +
                            std::to_string(statistics.tried) + " candidates");
          int status = 0;
          return judge.judge(candidate, status) && status == wanted;
        },
        statistics);
    console_.endProgress();
    OutputFiles files(compiler_.diagnostics());
    if (!addModule(files, *smaller, options_.output) || !files.commit())
      return Failed;
    if (console_.json()) {
      llvm::json::OStream json(llvm::outs(), 1);
      json.object([&] {
        json.attribute("wrote", llvm::json::fixUTF8(options_.output));
        json.attribute("before", int64_t(before));
        json.attribute("after", int64_t(countOperations(*smaller)));
        json.attribute("candidates", int64_t(statistics.tried));
      });
      llvm::outs() << '\n';
    } else if (!console_.quiet())
      llvm::outs() << before << " operations became " << countOperations(*smaller) << " ("
                   << statistics.tried << " candidates); wrote " << options_.output << '\n';
    return Done;
  }

  const ReduceOptions &options_;
  Console &console_;
  Compiler compiler_;
};

} // namespace

void declareReduce(CommandLine &app) {
  auto options = std::make_shared<ReduceOptions>();
  CommandLine sub = app.command("reduce", "shrinks a module that makes something fail");
  sub.option("MODEL", options->model.model, "a .tn file").required().type("");
  sub.option("-o,--output", options->output, "where to write the small module")
      .required()
      .moduleFile()
      .writesFile();
  sub.option("--passes", options->passes,
             "what fails: these passes, verified each (default: what the file's head says)")
      .type("LIST");
  sub.option("--test", options->test,
             "what fails: a shell command with {} for the file; its exit status is kept")
      .type("COMMAND");
  declare(sub, options->console);
  sub.runs([options, sub] {
    options->passesGiven = sub.given("--passes");
    Console console(options->console);
    if (!console.accepts(sub.givenInVain(
            {{"--test", options->passesGiven, "--passes says what fails; give one of them"}})))
      return int(Usage);
    return ReduceRun(*options, console).run();
  });
}

} // namespace tenon
