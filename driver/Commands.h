// Declares the subcommands, one per file of the same name.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace tenon {

/// The work of the subcommand that was chosen; gives the exit status.
using Command = std::function<int()>;

// Each declares one subcommand on `app`; parsing its name sets `command`.
void declareCompile(CLI::App &app, Command &command);
void declareOpt(CLI::App &app, Command &command);
void declareRun(CLI::App &app, Command &command);
void declareBench(CLI::App &app, Command &command);
void declareInspect(CLI::App &app, Command &command);
void declareCalibrate(CLI::App &app, Command &command);
void declareTune(CLI::App &app, Command &command);
void declareDebug(CLI::App &app, Command &command);
void declareReduce(CLI::App &app, Command &command);
void declarePasses(CLI::App &app, Command &command);
void declareOps(CLI::App &app, Command &command);
void declareTargets(CLI::App &app, Command &command);
void declareDoctor(CLI::App &app, Command &command);

/// All of them, in the order of --help.
inline constexpr void (*kCommands[])(CLI::App &, Command &) = {
    declareCompile,   declareOpt,     declareRun,   declareBench,  declareInspect,
    declareCalibrate, declareTune,    declareDebug, declareReduce, declarePasses,
    declareOps,       declareTargets, declareDoctor};

} // namespace tenon
