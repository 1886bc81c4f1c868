// Declares the subcommands, one per file of the same name.
#pragma once

#include "driver/CommandLine.h"

namespace tenon {

// Each declares one subcommand on `app`.
void declareCompile(CommandLine &app);
void declareOpt(CommandLine &app);
void declareRun(CommandLine &app);
void declareBench(CommandLine &app);
void declareInspect(CommandLine &app);
void declareCalibrate(CommandLine &app);
void declareTune(CommandLine &app);
void declareDebug(CommandLine &app);
void declareReduce(CommandLine &app);
void declareExport(CommandLine &app);
void declarePack(CommandLine &app);
void declarePasses(CommandLine &app);
void declareOps(CommandLine &app);
void declareTargets(CommandLine &app);
void declareDoctor(CommandLine &app);

/// All of them, in the order of --help.
inline constexpr void (*kCommands[])(CommandLine &) = {
    declareCompile,   declareOpt,    declareRun,   declareBench,   declareInspect,
    declareCalibrate, declareTune,   declareDebug, declareReduce,  declareExport,
    declarePack,      declarePasses, declareOps,   declareTargets, declareDoctor};

} // namespace tenon
