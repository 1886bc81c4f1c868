// Declares the subcommands of the command-line contract that this version does not have.
#include "driver/Commands.h"
#include "driver/Console.h"

#include <CLI/CLI.hpp>

namespace tenon {
namespace {

void declareUnavailable(CLI::App &app, Command &command, const char *name, const char *summary,
                        const char *remedy) {
  CLI::App *sub = app.add_subcommand(name, std::string(summary) + " (not in this version)");
  sub->allow_extras();
  sub->callback([=, &command] {
    command = [=] {
      Console({}).error("`tenon " + std::string(name) + "` is not available in this version; " +
                        remedy);
      return Failed;
    };
  });
}

} // namespace

void declareCalibrate(CLI::App &app, Command &command) {
  declareUnavailable(app, command, "calibrate", "quantises a model from real inputs",
                     "models that are quantised already compile as they are");
}

} // namespace tenon
