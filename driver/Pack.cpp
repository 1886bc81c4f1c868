// Implements `tenon pack`: a folder with a model's firmware sources that a project of another
// build system takes as it is.
#include "codegen/core/Bytes.h"
#include "codegen/core/TargetFamily.h"
#include "compiler/CodeOptions.h"
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "tools/Files.h"
#include "tools/PackTemplates.h"
#include "tools/Report.h"
#include "tools/ScheduleSelection.h"
#include "tools/SelfTestFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

namespace tenon {
namespace {

struct PackArguments {
  ConsoleOptions console;
  ModelOptions model;
  PipelineOptions passes;
  CodeOptions code;
  std::string output, kind;
};

/// A kind of project: where its sources and headers lie, and what compiles them.
struct ProjectKind {
  llvm::StringRef name, sources, headers;
  /// Its compilers are for Arm's cores, too.
  bool arm;
};

constexpr ProjectKind kKinds[] = {
    {"arduino", "src", "src", true},      {"zephyr", "src", "include", true},
    {"esp-idf", "src", "include", false}, {"cmsis", "src", "include", true},
    {"platformio", "src", "src", true},   {"stm32cube", "Src", "Inc", true},
};

/// What stands for the words of templates, in the order in which they are tried.
using Words = std::vector<std::pair<std::string, std::string>>;

std::string filled(llvm::StringRef text, const Words &words) {
  std::string out;
  while (!text.empty()) {
    const auto word = llvm::find_if(words, [&](auto &w) { return text.startswith(w.first); });
    out += word == words.end() ? text.take_front().str() : word->second;
    text = text.drop_front(word == words.end() ? 1 : word->first.size());
  }
  return out;
}

std::string inXml(llvm::StringRef text) {
  return filled(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

/// Folders that are taken away again unless they are kept.
class NewFolders {
public:
  explicit NewFolders(Diagnostics &diagnostics) : diagnostics_(diagnostics) {}
  NewFolders(const NewFolders &) = delete;
  ~NewFolders() {
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder)
      llvm::sys::fs::remove(*folder); // of files, each is empty
  }
  /// Makes the folder of a file, and those that it lies in.
  bool forFile(llvm::StringRef path) {
    std::vector<std::string> missing;
    for (llvm::StringRef f = llvm::sys::path::parent_path(path);
         !f.empty() && !llvm::sys::fs::exists(f); f = llvm::sys::path::parent_path(f))
      missing.push_back(f.str());
    for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
      if (!makeFolder(*folder, diagnostics_))
        return false;
      made_.push_back(*folder);
    }
    return true;
  }
  void keep() { made_.clear(); }

private:
  Diagnostics &diagnostics_;
  std::vector<std::string> made_;
};

class PackRun {
public:
  PackRun(const PackArguments &command, Console &console)
      : command_(command),
        kind_(*llvm::find_if(kKinds, [&](const ProjectKind &k) { return k.name == command.kind; })),
        console_(console), compiler_(console, command.model, command.passes) {}

  int run() {
    const bool ok = work();
    console_.endProgress();
    console_.report(compiler_.diagnostics());
    if (ok)
      return Done;
    return status_ != Done ? status_ : compiler_.status() != Done ? compiler_.status() : Failed;
  }

private:
  bool usage(const std::string &message) {
    compiler_.diagnostics().error(message);
    return status_ = Usage, false;
  }

  bool work() {
    llvm::StringRef folder = llvm::sys::path::remove_leading_dotslash(command_.output);
    while (folder.size() > 1 && folder.consume_back("/"))
      ;
    folder_ = folder.str();
    const llvm::StringRef stem = llvm::sys::path::filename(folder);
    if (stem.empty() || stem == "." || stem == ".." || stem == "/")
      return usage("-o: expected the name of a folder, found '" + command_.output + "'");
    const auto target = codeTarget(command_.code, compiler_.diagnostics());
    if (!target)
      return status_ = Usage, false;
    if (!fits(*target))
      return false;
    CompileOptions options = compileOptions(command_.code, stem);
    options.stem = options.prefix;
    options.selfTest = true;
    std::vector<CompiledFile> files;
    CompileSummary summary;
    if (!compiled(*target, options, files, summary))
      return false;
    checkFlash(*target, summary.weightBytes, compiler_.diagnostics());
    return write(words(*target, options.prefix, summary), options.prefix, files) &&
           say(*target, summary);
  }

  bool fits(const Target &target) {
    if (target.family->facts.hosted)
      return usage("--target=" + target.name +
                   ": packs are for microcontrollers: expected mcu:generic, a core such as "
                   "mcu:cortex-m4, or a chip (`tenon targets`)");
    if (!kind_.arm && target.levels.front()->isCross())
      return usage("--target=" + target.name + ": the chips of " + kind_.name.str() +
                   " have other cores; take --target=mcu:generic");
    if (!command_.code.pool.empty())
      return usage(
          "--pool: a pack's program places the arena in one memory; `tenon compile` writes "
          "sources for several");
    return true;
  }

  bool compiled(const Target &target, CompileOptions &options, std::vector<CompiledFile> &files,
                CompileSummary &summary) {
    if (!compiler_.open())
      return false;
    compiler_.aim(target);
    if (!compiler_.load() || !scheduleAsAsked(console_, compiler_, target, command_.code))
      return false;
    options.hooks = command_.code.hooks;
    options.commandLine = optionsNoted(compiler_.module(), options);
    std::vector<std::string> read;
    const std::string &data = command_.code.selfTest;
    return compiler_.emit(target, options, files, summary) &&
           addSelfTest(console_, compiler_, target, options, data.empty() ? "seeded" : data, files,
                       read);
  }

  Words words(const Target &target, const std::string &name, const CompileSummary &summary) {
    const std::string model = llvm::json::fixUTF8(compiler_.module().name);
    std::string quoted = llvm::formatv("{0}", llvm::json::Value(model)).str();
    quoted = quoted.substr(1, quoted.size() - 2);
    Words words = {{"@name@", name},
                   {"@NAME@", llvm::StringRef(name).upper()},
                   {"@model@", filled(model, {{"\n", " "}, {"'", ""}, {"\"", ""}, {"*/", ""}})},
                   {"@xml_model@", inXml(model)},
                   {"@json_model@", quoted},
                   {"@target@", target.name},
                   {"@version@", TENON_VERSION},
                   {"@weights@", formatBytes(summary.weightBytes)},
                   {"@arena@", formatBytes(summary.arenaBytes)}};
    for (const PackTemplate &t : packTemplates())
      if (llvm::StringRef(t.path) == "use.md")
        words.push_back({"@use@", llvm::StringRef(filled(t.text, words)).rtrim('\n').str()});
    return words;
  }

  bool write(const Words &words, llvm::StringRef name, const std::vector<CompiledFile> &compiled) {
    NewFolders folders(compiler_.diagnostics());
    OutputFiles files(compiler_.diagnostics());
    auto path = [&](const llvm::Twine &inside) { return (folder_ + "/" + inside).str(); };
    for (const PackTemplate &t : packTemplates()) {
      llvm::StringRef inside(t.path);
      if (!inside.consume_front(kind_.name) || !inside.consume_front("/"))
        continue;
      paths_.push_back(path(filled(inside, words)));
      if (!folders.forFile(paths_.back()) || !files.add(paths_.back(), filled(t.text, words)))
        return false;
    }
    const auto pathOf = [&](const CompiledFile &f) {
      const bool header = f.suffix == ".h" || f.suffix == ".hpp";
      return path((header ? kind_.headers : kind_.sources) + "/" + name + f.suffix);
    };
    for (const CompiledFile &f : compiled) {
      paths_.push_back(pathOf(f));
      if (!folders.forFile(paths_.back()))
        return false;
    }
    if (!files.add(compiled, pathOf) || !compiler_.externalDataUnchanged() || !files.commit())
      return false;
    folders.keep();
    return true;
  }

  bool say(const Target &target, CompileSummary &summary) {
    console_.endProgress();
    llvm::sort(paths_);
    summary.nodes = nodesRead(compiler_.module());
    summary.megahertz = target.levels.front()->megahertz;
    if (console_.json()) {
      llvm::json::OStream json(llvm::outs(), 1);
      json.object([&] {
        json.attributeObject("summary",
                             [&] { writeSummary(json, compiler_, target, summary, paths_); });
      });
      llvm::outs() << '\n';
    } else if (!console_.quiet()) {
      printSummary(llvm::outs(), compiler_, target, summary, paths_);
      llvm::outs() << "read " << folder_ << "/README.md for what comes next\n";
    }
    return true;
  }

  const PackArguments &command_;
  const ProjectKind &kind_;
  Console &console_;
  Compiler compiler_;
  std::string folder_;
  std::vector<std::string> paths_;
  Status status_ = Done;
};

} // namespace

void declarePack(CommandLine &app) {
  auto options = std::make_shared<PackArguments>();
  options->code.target = "mcu:generic";
  CommandLine sub = app.command("pack", "writes a folder for a firmware project");
  std::vector<std::string> kinds;
  for (const ProjectKind &k : kKinds)
    kinds.push_back(k.name.str());
  sub.option("--for", options->kind, "what the folder is dropped into")
      .oneOf(kinds)
      .required()
      .type("KIND");
  sub.option("-o,--output", options->output, "the folder; its name is that of the network")
      .required()
      .type("DIR")
      .writesFolder();
  declare(sub, options->model);
  declare(sub, options->code);
  declare(sub, options->passes);
  declare(sub, options->console);
  sub.runs([options, sub] {
    Console console(options->console);
    if (!console.accepts(
            sub.givenInVain({{"--runtime", options->code.runtime == "include",
                              "a pack stands alone: its sources have the runtime inside"}})))
      return int(Usage);
    console.warn(sub.givenInVain({idleReport()}));
    return PackRun(*options, console).run();
  });
}

} // namespace tenon
