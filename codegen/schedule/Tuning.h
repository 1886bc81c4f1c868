// Defines tuning files: which schedule was measured to be the fastest for each form of group.
//
//   tenon-tuning 1
//   version 0.1.0
//   target cuda:sm_90a
//   device NVIDIA H200
//
//   4f0c…  sm_90a  7.120  8.430  contract_wgmma_sm90<bm=128, …>  # /layer1/conv1
//
// A line has the form's key, the machine level, microseconds of the schedule and of the one that
// the cost model prefers, the schedule, and nodes as a comment. The tuner program
// (runtime/harness/tuner.inc) writes them, sorted.
#pragma once

#include "codegen/core/ScheduleFields.h"
#include "codegen/core/Target.h"
#include "ir/IR.h"

#include <map>
#include <memory>

namespace tenon {

class Alignment;

/// Names the form of a group: what it computes on which types, where operands are constants and
/// what is known of addresses. Neither names and places in the model nor values of constants
/// matter, so that a layer that occurs ten times is one decision.
std::string groupKey(const Operation &group, const Alignment &alignment);

struct TuningEntry {
  Schedule schedule;
  double microseconds = 0, heuristicMicroseconds = 0;
  std::string nodes; // some of those concerned, for people
};

class Tuning {
public:
  std::string version, target, device;

  void add(llvm::StringRef level, llvm::StringRef key, TuningEntry entry);
  const TuningEntry *find(llvm::StringRef level, llvm::StringRef key) const;
  bool knowsLevel(llvm::StringRef level) const;
  size_t size() const { return entries_.size(); }

  /// Adds the entries of a text; `path` is for messages. A form that is there already keeps its
  /// entry.
  bool parse(llvm::StringRef text, llvm::StringRef path, Diagnostics &diagnostics);
  std::string text() const;

private:
  std::map<std::pair<std::string, std::string>, TuningEntry> entries_; // key, level
};

} // namespace tenon
