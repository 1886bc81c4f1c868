// Defines the text of tuner programs: rounds of one model, each with other schedules, and the
// tables that runtime/harness/tuner.inc times them by.
#pragma once

#include "codegen/core/CompileOptions.h"
#include "codegen/core/Target.h"

#include "ir/Interpreter.h"

namespace tenon {

/// One build of the model.
struct TunerRound {
  std::string name; // prefix and stem of its files
  /// Of each step the candidate that it runs; −1: it is not measured.
  std::vector<int> candidates;
  std::vector<CompiledFile> files;
  bool weightsInFile = false;
};

/// One decision: a form of group and the candidates [first, first + count).
struct TunerForm {
  std::string key, level, nodes;
  int first = 0, count = 0;
};

struct TunerProgram {
  struct Entry {
    Schedule schedule;
    double estimate = 0;
  };
  const Target *target = nullptr;
  std::vector<TunerForm> forms; // in the order of the file
  std::vector<Entry> candidates;
  std::vector<TunerRound> rounds;
  /// Round 1 is a whole choice, to be taken only where it is faster.
  bool assembled = false;
  /// The tuning file that the program writes when it is given none.
  std::string file;
};

/// The main file of a tuner whose rounds are built apart; it includes their headers.
std::string tunerMain(const TunerProgram &program, Module &module, const SymbolValues &symbols);
/// All of it as one file. The rounds were written with CompileOptions::Include.
std::string tunerFile(const TunerProgram &program, Module &module, const SymbolValues &symbols,
                      llvm::StringRef buildCommand);

} // namespace tenon
