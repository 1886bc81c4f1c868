// Implements the reading of scheduled graphs.
#include "codegen/memory/Scheduled.h"

#include "codegen/core/TargetFamily.h"

namespace tenon {
namespace {

Result<std::unique_ptr<ScheduledGroup>> openGroup(Operation &group, const ScheduledGraph &of) {
  const Attribute *attribute = group.find("schedule");
  const ScheduleText *text = attribute ? attribute->get<ScheduleText>() : nullptr;
  if (!text)
    return Refusal{"group has no schedule", ""};
  auto form = analyzeGroup(group);
  if (!form)
    return std::move(form).refusal();
  const auto tactic = findTactic(of.level, text->tactic);
  if (!tactic)
    return tactic.refusal();
  std::unique_ptr<ScheduledGroup> opened(new ScheduledGroup{*std::move(form), nullptr});
  auto choice = (*tactic)->choice(of.query(*opened), *text);
  if (!choice)
    return std::move(choice).refusal();
  opened->choice = *std::move(choice);
  return {std::move(opened)};
}

} // namespace

std::unique_ptr<ScheduledGraph> openScheduled(Graph &graph, const TargetLevel &level,
                                              Diagnostics &diagnostics) {
  auto scheduled = std::make_unique<ScheduledGraph>(graph, level);
  bool ok = true;
  for (const Step &step : scheduled->plan.steps) {
    scheduled->groups.emplace_back();
    if (!step.op->is(Op::Group))
      continue;
    if (auto group = openGroup(*step.op, *scheduled)) {
      scheduled->groups.back() = *std::move(group);
    } else {
      diagnostics.error(*step.op, group.refusal());
      ok = false;
    }
  }
  return ok ? std::move(scheduled) : nullptr;
}

} // namespace tenon
