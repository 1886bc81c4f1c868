// Implements the command line with CLI11.
#include "driver/CommandLine.h"

#include "driver/Completion.h"
#include "driver/HelpText.h"
#include "ir/Suggestion.h"
#include "tools/Files.h"

#include <CLI/CLI.hpp>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon {
namespace {

struct WrittenPlace {
  const CLI::Option *option;
  bool isFolder;
  std::function<bool()> when;
};

struct LowerBound {
  double value;
  bool open;
};

/// A message about `word` unless it is a number beyond the bound, which `expected` says in words.
std::string refuseNumber(const std::string &word, const char *expected, LowerBound bound) {
  double v;
  if (!llvm::StringRef(word).getAsDouble(v) && (bound.open ? v > bound.value : v >= bound.value))
    return "";
  return std::string("expected a number, ") + expected + ", found '" + word + "'";
}

template <typename Integer> std::string refuseOtherThanInteger(const std::string &word) {
  Integer v;
  if (!llvm::StringRef(word).getAsInteger(10, v))
    return "";
  return std::string("expected an integer") + (std::is_signed<Integer>() ? "" : ", 0 or more") +
         ", found '" + word + "'";
}

std::vector<llvm::StringRef> references(const std::vector<std::string> &words) {
  return {words.begin(), words.end()};
}

constexpr const char *kNotEmpty = "not empty";

CLI::Option *text(CLI::Option *option) {
  return option->check(CLI::Validator(
      [option](std::string &word) {
        const std::string type = option->get_type_name();
        return word.empty() ? "expected " + (type.empty() ? "a word" : type) + ", found ''"
                            : std::string();
      },
      "", kNotEmpty));
}

} // namespace

struct CommandState {
  std::function<int()> chosen;
  std::vector<WrittenPlace> places;
};

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
  return check([](const std::string &word) {
    return refuseNumber(word, "more than 0", {0, true});
  });
}

CommandOption &CommandOption::nonNegative() {
  return check([](const std::string &word) { return refuseNumber(word, "0 or more", {0, false}); });
}

CommandOption &CommandOption::range(int64_t low, int64_t high) {
  return check([low, high](const std::string &word) {
    int64_t v;
    if (!llvm::StringRef(word).getAsInteger(10, v) && v >= low && v <= high)
      return std::string();
    return "expected an integer from " + std::to_string(low) + " to " + std::to_string(high) +
           ", found '" + word + "'";
  });
}

CommandOption &CommandOption::oneOf(std::vector<std::string> words) {
  // Its name is what shells complete with (driver/Completion.h).
  const std::string name = "one of " + llvm::join(words, " ");
  option_->check(CLI::Validator(
      [words = std::move(words)](std::string &word) {
        if (llvm::is_contained(words, word))
          return std::string();
        return "expected " + tenon::oneOf(references(words)) + ", found '" + word + "'";
      },
      "", name));
  return *this;
}

CommandOption &CommandOption::check(WordCheck check) {
  option_->check(CLI::Validator([check](std::string &word) { return check(word); }, ""));
  return *this;
}

CommandOption &CommandOption::excludes(const CommandOption &other) {
  option_->excludes(other.option_);
  return *this;
}

CommandOption &CommandOption::mayBeEmpty() {
  option_->get_validator(kNotEmpty)->active(false);
  return *this;
}

CommandOption &CommandOption::moduleFile() {
  return type("OUT.tn").check([](const std::string &word) {
    const bool isDevice = llvm::sys::fs::exists(word) && !llvm::sys::fs::is_regular_file(word) &&
                          !llvm::sys::fs::is_directory(word);
    return word == "-" || isDevice || llvm::StringRef(word).endswith(".tn")
               ? std::string()
               : "expected a name that ends in .tn, which later commands know IR by, found '" +
                     word + "'";
  });
}

CommandOption &CommandOption::writesFile(std::function<bool()> when) {
  state_->places.push_back({option_, false, std::move(when)});
  return *this;
}

CommandOption &CommandOption::writesFolder() {
  state_->places.push_back({option_, true, nullptr});
  return *this;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

CommandLine CommandLine::command(const char *name, const char *summary) const {
  return CommandLine(app_->add_subcommand(name, summary), state_);
}

CommandOption CommandLine::option(const char *name, std::string &to,
                                  const std::string &summary) const {
  return CommandOption(text(app_->add_option(name, to, summary)), state_);
}

CommandOption CommandLine::option(const char *name, int64_t &to, const std::string &summary) const {
  return CommandOption(app_->add_option(name, to, summary), state_)
      .check(refuseOtherThanInteger<int64_t>);
}

CommandOption CommandLine::option(const char *name, unsigned &to,
                                  const std::string &summary) const {
  return CommandOption(app_->add_option(name, to, summary), state_)
      .check(refuseOtherThanInteger<unsigned>);
}

CommandOption CommandLine::option(const char *name, double &to, const std::string &summary) const {
  return CommandOption(app_->add_option(name, to, summary), state_);
}

CommandOption CommandLine::option(const char *name, std::vector<std::string> &to,
                                  const std::string &summary) const {
  return CommandOption(text(app_->add_option(name, to, summary)->allow_extra_args(false)), state_);
}

CommandOption CommandLine::flag(const char *name, bool &to, const std::string &summary) const {
  return CommandOption(app_->add_flag(name, to, summary), state_);
}

CommandOption CommandLine::flag(const char *name, std::string &to,
                                const std::string &summary) const {
  return CommandOption(app_->add_flag(name, to, summary), state_);
}

bool CommandLine::given(const std::string &name) const { return app_->count(name) > 0; }

std::vector<std::string> CommandLine::givenInVain(const std::vector<IdleOption> &options) const {
  std::vector<std::string> messages;
  for (const IdleOption &option : options)
    if (option.idle && given(option.name))
      messages.push_back(option.name + ": " + option.why);
  return messages;
}

std::vector<IdleOption> CommandLine::idleGroup(const char *group, bool idle, const std::string &why,
                                               const std::vector<std::string> &others) const {
  std::vector<IdleOption> options;
  for (const CLI::Option *option : app_->get_options()) {
    const std::string bare = option->get_single_name(),
                      name = (bare.size() > 1 ? "--" : "-") + bare;
    if (option->get_group() == group && !llvm::is_contained(others, name))
      options.push_back({name, idle, why});
  }
  return options;
}

void CommandLine::runs(std::function<int()> action) const {
  app_->callback([state = state_, action = std::move(action)] { state->chosen = action; });
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

std::string unknownCommand(const CLI::App &app, const std::string &word) {
  std::vector<std::string> names;
  for (const CLI::App *c : app.get_subcommands({}))
    names.push_back(c->get_name());
  return "unknown command '" + word + "'" + didYouMean(word, references(names));
}

/// "; `tenon compile` and `tenon pack` have it", where other commands do.
std::string whoseOption(const CLI::App &app, const std::string &name) {
  std::vector<std::string> owners;
  for (const CLI::App *command : app.get_subcommands({}))
    if (command->get_option_no_throw(name))
      owners.push_back('`' + app.get_name() + ' ' + command->get_name() + '`');
  if (owners.empty())
    return "";
  const std::string last = owners.back();
  owners.pop_back();
  return owners.empty() ? "; " + last + " has it"
                        : "; " + llvm::join(owners, ", ") + " and " + last + " have it";
}

/// Of an option that was given too often, or without its value.
std::string wrongCount(const CLI::App &command, const CLI::ParseError &error) {
  const llvm::StringRef said = error.what();
  for (const CLI::Option *option : command.get_options())
    if (const std::string name = option->get_name(); said.startswith(name + ": "))
      return option->count() > 1
                 ? name + ": given " + std::to_string(option->count()) + " times, expected once"
                 : name + ": expected " + option->get_type_name() + " after it";
  return said.str();
}

/// Why a command line that the library refused is wrong.
std::string complaint(const CLI::App &app, const CLI::ParseError &error) {
  const auto chosen = app.get_subcommands();
  const CLI::App &command = chosen.empty() ? app : *chosen.front();
  const std::vector<std::string> unknown = command.remaining();
  if (error.get_exit_code() == int(CLI::ExitCodes::ArgumentMismatch))
    return wrongCount(command, error);
  if (!chosen.empty() && error.get_exit_code() != int(CLI::ExitCodes::ExtrasError))
    return error.what();
  if (unknown.empty())
    return "expected a command";
  const std::string &first = unknown.front();
  std::vector<std::string> names;
  if (first.size() > 1 && first[0] == '-') {
    for (const CLI::Option *option : command.get_options())
      for (const std::string &name : option->get_lnames())
        names.push_back("--" + name);
    const std::string name = first.substr(0, first.find('='));
    const std::string others = chosen.empty() ? "" : whoseOption(app, name);
    return others.empty() ? "unknown option '" + name + "'" + didYouMean(name, references(names))
                          : "`" + app.get_name() + ' ' + command.get_name() + "` has no option '" +
                                name + "'" + others;
  }
  if (!chosen.empty())
    return "unexpected '" + first + "'" +
           (command.get_option_no_throw("MODEL") ? ": expected one MODEL" : "");
  return unknownCommand(app, first);
}

/// Whether the place may be written, or is not to be.
bool canWrite(const WrittenPlace &place, Diagnostics &diagnostics) {
  if (place.option->empty() || (place.when && !place.when()))
    return true;
  const std::string path = place.option->results().back();
  return path == "-" ||
         (place.isFolder ? canWriteFolder(path, diagnostics) : canWriteFile(path, diagnostics));
}

} // namespace

int runCommandLine(int argc, char **argv, const std::string &summary, const std::string &footer,
                   const std::string &version, int usage, int failed,
                   const std::function<void(CommandLine &)> &declare) {
  CLI::App app(summary, "tenon");
  app.footer(footer);
  app.set_version_flag("-V,--version", version);
  app.require_subcommand(1);
  app.formatter(helpText());
  CommandState state;
  std::function<int()> &chosen = state.chosen;
  CommandLine root(&app, &state);
  declare(root);
  std::string topic;
  bool markdown = false, manual = false;
  CLI::App *help = app.add_subcommand("help", "explains a command, as its --help does");
  help->add_option("COMMAND", topic, "the command; without one, all are listed")->type_name("");
  help->add_flag("--markdown", markdown, "all commands as one reference page");
  help->add_flag("--man", manual, "the manual page");
  std::string shell;
  CLI::App *completion =
      app.add_subcommand("completion", "prints the script that completes these words in a shell");
  CommandOption(completion->add_option("SHELL", shell, "bash, zsh or fish")->type_name(""), &state)
      .required()
      .oneOf({"bash", "zsh", "fish"});
  completion->callback([&] {
    chosen = [&] {
      llvm::outs() << completionScript(app, shell);
      return 0;
    };
  });
  help->callback([&] {
    if (int(manual) + int(markdown) + int(!topic.empty()) > 1) {
      chosen = [&] {
        llvm::errs() << "error: expected one of COMMAND, --markdown and --man, which are about all "
                        "commands\nsee `tenon help --help`\n";
        return usage;
      };
      return;
    }
    if (manual) {
      chosen = [&] {
        llvm::outs() << manualPage(app, version);
        return 0;
      };
      return;
    }
    if (markdown) {
      chosen = [&] {
        llvm::outs() << helpMarkdown(app);
        return 0;
      };
      return;
    }
    const CLI::App *command = topic.empty() ? &app : nullptr;
    for (const CLI::App *c : app.get_subcommands({}))
      if (c->get_name() == topic)
        command = c;
    if (command)
      chosen = [&app, command] { // App::help would explain `help`, which is the command in use
        const std::string name =
            app.get_name() + (command == &app ? "" : " " + command->get_name());
        llvm::outs() << app.get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal);
        return 0;
      };
    else
      chosen = [&] {
        llvm::errs() << "error: " << unknownCommand(app, topic) << "\nsee `tenon --help`\n";
        return usage;
      };
  });
  try {
    app.parse(words(argc, argv));
  } catch (const CLI::ParseError &e) {
    if (e.get_exit_code() == 0)
      return app.exit(e); // --help, --version
    llvm::errs() << "error: " << complaint(app, e) << '\n';
    const auto commands = app.get_subcommands();
    llvm::errs() << "see `tenon " << (commands.empty() ? "" : commands.front()->get_name() + " ")
                 << "--help`\n";
    return usage;
  }
  Diagnostics diagnostics;
  if (llvm::all_of(state.places,
                   [&](const WrittenPlace &place) { return canWrite(place, diagnostics); }))
    return chosen();
  diagnostics.print(llvm::errs());
  return failed;
}

} // namespace tenon
