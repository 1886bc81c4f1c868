// Defines the declaration of options that several subcommands share on the command line. What the
// words mean stands in each command's --help.
#pragma once

#include "compiler/Options.h"
#include "driver/CommandLine.h"
#include "tools/DataOptions.h"

namespace tenon {

/// The headings under which --help lists them.
inline constexpr const char *kModelGroup = "Model", *kPassGroup = "Passes", *kCodeGroup = "Code",
                            *kDataGroup = "Data", *kConsoleGroup = "Output";

/// -q, -v, --json, --color.
struct ConsoleOptions {
  bool quiet = false, verbose = false, json = false;
  std::string color = "auto";
};

void declare(CommandLine &app, ConsoleOptions &options);
void declare(CommandLine &app, ModelOptions &options);
void declare(CommandLine &app, PipelineOptions &options);
/// All commands that compile take the same words, also those that make no difference to some.
void declare(CommandLine &app, CodeOptions &options);
/// Those that make none where no files of code are left behind.
std::vector<IdleOption> idleInterface();
/// --report, where none is printed.
IdleOption idleReport();
/// Both.
std::vector<IdleOption> idleOutputs();
void declare(CommandLine &app, DataOptions &options);

} // namespace tenon
