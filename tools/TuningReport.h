// Defines what a tuner measured, and how it is shown.
#pragma once

#include "ir/Diagnostics.h"

#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace tenon {

/// One form of group.
struct TunedForm {
  struct Candidate {
    std::string schedule;
    double estimated = 0, measured = 0, error = 0; // microseconds; measured 0: it did not build
  };
  std::string key, level, nodes;
  int64_t occurrences = 0;
  std::vector<Candidate> candidates; // the first is the cost model's choice
  size_t chosen = 0;
};

struct TuningReport {
  std::string target, device;
  std::vector<TunedForm> forms;
  std::vector<double> rounds; // microseconds of a run
  /// Whole runs side by side; the same where nothing changed.
  double heuristic = 0, tuned = 0;

  /// Reads what the tuner program wrote.
  bool read(llvm::StringRef path, Diagnostics &diagnostics);
  /// A table: what changed, what it gains, and how estimates compare with measurements. `most`
  /// changes are listed.
  void print(llvm::raw_ostream &os, size_t most) const;
  /// Attributes of the object that is open.
  void write(llvm::json::OStream &json) const;
};

} // namespace tenon
