// The `tenon` command: declares the subcommands, parses the command line, runs the chosen one.
#include "driver/Commands.h"
#include "driver/Options.h"

#include <CLI/CLI.hpp>

#include "llvm/Support/raw_ostream.h"

#include <exception>

namespace {

constexpr const char *kFooter =
    "\nMODEL is an .onnx file, or a .tn file of any stage: the work goes on from there.\n"
    "`tenon COMMAND --help` lists the options of one command.\n\n"
    "Exit status: 0 done (and outputs matched, where compared); 1 the model or input cannot be\n"
    "handled, or a comparison failed; 2 wrong usage; 3 a defect of tenon.";

/// CLI11 takes the next word as the value of `--name=`; written so, the value is empty.
std::vector<std::string> words(int argc, char **argv) {
  std::vector<std::string> out;
  for (int i = argc; i-- > 1;) { // CLI11 wants them in reverse
    std::string word = argv[i];
    if (word.size() > 3 && word.compare(0, 2, "--") == 0 && word.find('=') == word.size() - 1) {
      out.push_back("");
      word.pop_back();
    }
    out.push_back(word);
  }
  return out;
}

} // namespace

int main(int argc, char **argv) {
  using namespace tenon;
  CLI::App app("Compiles one ONNX model to one C++ or CUDA file that needs nothing but a compiler.",
               "tenon");
  app.footer(kFooter);
  app.set_version_flag("--version", "tenon " TENON_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  Command command;
  for (auto declare : kCommands)
    declare(app, command);
  try {
    app.parse(words(argc, argv));
  } catch (const CLI::ParseError &e) {
    if (e.get_exit_code() == 0)
      return app.exit(e); // --help, --version
    llvm::errs() << "error: " << e.what() << '\n';
    const auto chosen = app.get_subcommands();
    llvm::errs() << "see `tenon " << (chosen.empty() ? "" : chosen.front()->get_name() + " ")
                 << "--help`\n";
    return Usage;
  }
  try {
    return command();
  } catch (const std::exception &e) { // memory, mostly: nothing of ours throws
    llvm::errs() << "error: " << e.what() << '\n';
    return Failed;
  }
}
