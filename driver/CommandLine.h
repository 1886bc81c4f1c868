// Defines the declaration of subcommands and their options, and the parsing of a command line. The
// library behind it shows in CommandLine.cpp only: its headers take longer to compile than most of
// the driver's files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace tenon {

/// Refuses a word by a message; accepts it by an empty one.
using WordCheck = std::function<std::string(const std::string &)>;

/// What the declarations of one command line add up to.
struct CommandState;

/// An option that was declared; each function narrows or documents it.
class CommandOption {
public:
  CommandOption(CLI::Option *option, CommandState *state) : option_(option), state_(state) {}

  CommandOption &required();
  /// What --help shows for the value.
  CommandOption &type(const char *name);
  /// The heading under which --help lists the option.
  CommandOption &group(const char *name);
  /// --help shows the value that the variable has now.
  CommandOption &showDefault();
  /// Of numbers, which are refused otherwise.
  CommandOption &positive();
  CommandOption &nonNegative();
  CommandOption &range(int64_t low, int64_t high);
  CommandOption &oneOf(std::vector<std::string> words);
  CommandOption &check(WordCheck check);
  /// Wrong usage where the other is given, too.
  CommandOption &excludes(const CommandOption &other);
  /// Texts are no empty ones otherwise.
  CommandOption &mayBeEmpty();
  /// The value names a module to write, which later commands know by its ending; '-' is none.
  CommandOption &moduleFile();
  /// The value is a file, or a folder, that the command writes where `when` holds: what cannot be
  /// written is told before the work, not after it. '-' is standard output.
  CommandOption &writesFile(std::function<bool()> when = nullptr);
  CommandOption &writesFolder();

private:
  CLI::Option *option_;
  CommandState *state_;
};

/// An option that does nothing beside what else was given (`idle`), and why.
struct IdleOption {
  std::string name;
  bool idle;
  std::string why;
};

/// The words after `tenon`, or after a subcommand's name. A handle: copies declare on the same one.
/// Variables that options fill have to live until the command has run.
class CommandLine {
public:
  CommandLine(CLI::App *app, CommandState *state) : app_(app), state_(state) {}

  CommandLine command(const char *name, const char *summary) const;

  /// Names are written as in --help: "-o,--output". A name without a dash is a word in that place.
  CommandOption option(const char *name, std::string &to, const std::string &summary) const;
  CommandOption option(const char *name, int64_t &to, const std::string &summary) const;
  CommandOption option(const char *name, unsigned &to, const std::string &summary) const;
  CommandOption option(const char *name, double &to, const std::string &summary) const;
  /// One that may be repeated, a word each time.
  CommandOption option(const char *name, std::vector<std::string> &to,
                       const std::string &summary) const;
  CommandOption flag(const char *name, bool &to, const std::string &summary) const;
  /// A flag that may have a value: "--name{value without one}".
  CommandOption flag(const char *name, std::string &to, const std::string &summary) const;

  /// Whether the option was given, once the command line is parsed.
  bool given(const std::string &name) const;
  /// A message about each of these options that was given though it is idle.
  std::vector<std::string> givenInVain(const std::vector<IdleOption> &options) const;
  /// All options under a heading of --help but for `others`.
  std::vector<IdleOption> idleGroup(const char *group, bool idle, const std::string &why,
                                    const std::vector<std::string> &others = {}) const;

  /// What the subcommand does; the result is the process's exit status.
  void runs(std::function<int()> action) const;

private:
  CLI::App *app_;
  CommandState *state_;
};

/// Parses the command line of a program with subcommands, which `declare` names, and runs the one
/// that was chosen. Wrong usage is reported with the status `usage`, unknown words with what is
/// near, places that cannot be written with the status `failed`.
int runCommandLine(int argc, char **argv, const std::string &summary, const std::string &footer,
                   const std::string &version, int usage, int failed,
                   const std::function<void(CommandLine &)> &declare);

} // namespace tenon
