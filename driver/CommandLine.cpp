// Implements the command line with CLI11.
#include "driver/CommandLine.h"

#include <CLI/CLI.hpp>

#include "llvm/Support/raw_ostream.h"

namespace tenon {

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

CommandOption &CommandOption::required() {
  option_->required();
  return *this;
}

CommandOption &CommandOption::type(const char *name) {
  option_->type_name(name);
  return *this;
}

CommandOption &CommandOption::group(const char *name) {
  option_->group(name);
  return *this;
}

CommandOption &CommandOption::showDefault() {
  option_->capture_default_str();
  return *this;
}

CommandOption &CommandOption::positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

CommandOption &CommandOption::nonNegative() {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

CommandOption &CommandOption::range(int64_t low, int64_t high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

CommandOption &CommandOption::oneOf(std::vector<std::string> words) {
  option_->check(CLI::IsMember(std::move(words)));
  return *this;
}

CommandOption &CommandOption::check(WordCheck check) {
  option_->check(CLI::Validator([check](std::string &word) { return check(word); }, ""));
  return *this;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

CommandLine CommandLine::command(const char *name, const char *summary) const {
  return CommandLine(app_->add_subcommand(name, summary), chosen_);
}

CommandOption CommandLine::option(const char *name, std::string &to,
                                  const std::string &summary) const {
  return CommandOption(app_->add_option(name, to, summary));
}

CommandOption CommandLine::option(const char *name, int64_t &to, const std::string &summary) const {
  return CommandOption(app_->add_option(name, to, summary));
}

CommandOption CommandLine::option(const char *name, unsigned &to,
                                  const std::string &summary) const {
  return CommandOption(app_->add_option(name, to, summary));
}

CommandOption CommandLine::option(const char *name, double &to, const std::string &summary) const {
  return CommandOption(app_->add_option(name, to, summary));
}

CommandOption CommandLine::option(const char *name, std::vector<std::string> &to,
                                  const std::string &summary) const {
  return CommandOption(app_->add_option(name, to, summary)->allow_extra_args(false));
}

CommandOption CommandLine::flag(const char *name, bool &to, const std::string &summary) const {
  return CommandOption(app_->add_flag(name, to, summary));
}

CommandOption CommandLine::flag(const char *name, std::string &to,
                                const std::string &summary) const {
  return CommandOption(app_->add_flag(name, to, summary));
}

bool CommandLine::given(const char *name) const { return app_->count(name) > 0; }

void CommandLine::runs(std::function<int()> action) const {
  app_->callback([chosen = chosen_, action = std::move(action)] { *chosen = action; });
}

namespace {

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

int runCommandLine(int argc, char **argv, const std::string &summary, const std::string &footer,
                   const std::string &version, int usage,
                   const std::function<void(CommandLine &)> &declare) {
  CLI::App app(summary, "tenon");
  app.footer(footer);
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  std::function<int()> chosen;
  CommandLine root(&app, &chosen);
  declare(root);
  try {
    app.parse(words(argc, argv));
  } catch (const CLI::ParseError &e) {
    if (e.get_exit_code() == 0)
      return app.exit(e); // --help, --version
    llvm::errs() << "error: " << e.what() << '\n';
    const auto commands = app.get_subcommands();
    llvm::errs() << "see `tenon " << (commands.empty() ? "" : commands.front()->get_name() + " ")
                 << "--help`\n";
    return usage;
  }
  return chosen();
}

} // namespace tenon
