// Defines the choice of chains: groups of one anchor each that one kernel runs together, where it
// is estimated, or was measured, to be faster than their kernels apart.
//
//   %a = group %x, %w { conv … }              %b = group %x, %w, %f {
//   %b = group %a, %f { conv … }      →         conv …
//                                               conv … }
//
// The tactics of the level say which chains there are (Tactic::chains). Their parts are found as a
// tree: the group that comes last, and for each other part a group of one anchor (or of maps) that
// is read by its readers alone, perhaps through a reshape that is a view, on the same branch. Or a
// tactic finds them itself (Chain::find), and what joins parts may be read by others, too:
//
//   %n = group …                         %y, %n = group %s, … { … concat … attention }
//   %c = concat %s, %n              →    %c = concat %s, %n
//   %y = group %c, … { attention }
//
// where %s is a state that the concat appends to in place.
//
// The joined group is built beside the graph and priced; those that save the most go first, at a
// tie the earlier ones.
#pragma once

#include "codegen/schedule/Schedule.h"

namespace tenon {

class Alignment;

/// What the choice for one group costs.
struct GroupPrice {
  double estimate = 0;               // microseconds by the clock
  llvm::Optional<double> measured{}; // where the tuning file has the group
  std::string key;                   // of the group, where there is a tuning file or a tuner
};

/// The cheapest choice for a group within the bounds of the options, for a chain among the
/// schedules of `tactic` (else null); refused where there is none.
using PriceGroup = llvm::function_ref<Result<GroupPrice>(Operation &group, const Tactic *tactic,
                                                         const Alignment &alignment)>;

/// Joins the groups of `graph`, which have no schedules yet, into the chains that are worth it.
void joinChains(Graph &graph, const TargetLevel &level, const ScheduleOptions &options,
                PriceGroup price);

} // namespace tenon
