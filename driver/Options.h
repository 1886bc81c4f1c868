// Defines the declaration of options that several subcommands share on the command line. What the
// words mean stands in each command's --help.
#pragma once

#include "compiler/Options.h"
#include "driver/CommandLine.h"
#include "tools/DataOptions.h"

namespace tenon {

/// -q, -v, --json, --color.
struct ConsoleOptions {
  bool quiet = false, verbose = false, json = false;
  std::string color = "auto";
};

void declare(CommandLine &app, ConsoleOptions &options);
void declare(CommandLine &app, ModelOptions &options);
void declare(CommandLine &app, PipelineOptions &options);
void declare(CommandLine &app, CodeOptions &options);
void declare(CommandLine &app, DataOptions &options);

} // namespace tenon
