// Defines the choice of schedules: the candidates of a group, what choosing obeys, and what came
// of it.
#pragma once

#include "codegen/core/Tactic.h"
#include "codegen/schedule/Tuning.h"
#include "ir/Result.h"

#include <functional>
#include <map>

namespace tenon {

/// One legal way to run a group, with its price.
struct Candidate {
  std::unique_ptr<const Choice> choice;
  Price price = {};

  const Tactic &tactic() const { return choice->tactic; }
  ScheduleText schedule() const { return choice->text(); }
};

/// What choosing did beside setting attributes. Operations are valid as long as the module is.
struct ScheduleLog {
  /// Groups whose schedule is a measured one.
  std::map<const Operation *, TuningEntry> measured;
  /// Groups of more than one candidate that were not measured, although others were.
  unsigned unmeasured = 0;
  /// What the bound on scratch memory cost.
  struct Loss {
    Location nodes;
    Schedule wanted, taken;
    int64_t bytes = 0; // that the wanted one needs
    double microseconds = 0;
  };
  std::vector<Loss> losses;
  /// Of chains, by variant.
  std::vector<FusionDecision> fusions;
};

/// A chain that one kernel may run, against the kernels of its parts.
struct ChainOffer {
  /// Of the joined group and of its parts, where there is a tuning file or a tuner.
  std::string key;
  std::vector<std::string> parts;
  /// Microseconds: all measured, or all estimated.
  double together = 0, apart = 0;

  bool isFaster() const { return together < apart; }
};

/// What scheduling does beside choosing tactics, by ids that are switched like theirs.
struct ScheduleFeature {
  llvm::StringRef id, summary;
};
constexpr llvm::StringLiteral kPackedWeights = "schedule.packed-weights";
constexpr llvm::StringLiteral kJoinedFilters = "schedule.joined-filters";
llvm::ArrayRef<ScheduleFeature> scheduleFeatures();

struct ScheduleOptions {
  enum Search { None, Heuristic } search = Heuristic;
  /// Switches tactics and features by id (globs), as for passes. What has several names is switched
  /// by each of them.
  std::function<bool(llvm::ArrayRef<llvm::StringRef> names)> enabled;
  /// Tactics that share code between layers go before all others (--optimize=size).
  bool shareCode = false;
  /// Bound on the bytes of the arena, which the driver keeps; negative: none.
  int64_t ramLimit = -1;
  /// Bound on a kernel's scratch memory; negative: none.
  int64_t workspace = -1;
  /// Measured schedules go before estimates.
  std::shared_ptr<const Tuning> tuning;
  /// Picks one of a group's candidates, which come best estimate first; unset: the first.
  std::function<size_t(const Operation &group, const std::string &key,
                       llvm::ArrayRef<Candidate> candidates)>
      pick;
  /// Whether a chain is taken; unset: where it is faster.
  std::function<bool(const ChainOffer &offer)> takeChain;
  /// Says that a scheduling begins, which counts firings of an id from there.
  std::function<void(llvm::StringRef id)> restart;
  /// As PassContext::fire; unset: always.
  std::function<bool(llvm::StringRef id, const Operation &op)> fire;
  std::shared_ptr<ScheduleLog> log;
};

/// Whether the options allow a tactic, under its id or that of which it was a part.
bool isEnabled(const Tactic &tactic, const ScheduleOptions &options);

/// Chooses a tactic and schedule for every group of `graph` that has none, sets the `schedule`
/// attribute, packs constant operands (their types get the packed layout) and records scratch in
/// the attributes `scratch` and `zeroed`. Groups that no tactic runs are all reported.
bool scheduleGraph(Graph &graph, const TargetLevel &level, const ScheduleOptions &options,
                   Diagnostics &diagnostics);

} // namespace tenon
