// Implements the reading of scheduled graphs.
#include "codegen/memory/Scheduled.h"

#include "codegen/core/TargetFamily.h"
#include "ir/Entries.h"

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

/// Where a state lies, and how large it may become: its own length has another bound in each graph.
std::pair<int64_t, int64_t> placeOf(const ScheduledGraph &of, const State &s) {
  const Type after = of.graph.returnOp()->operand(s.output)->type();
  return {of.plan[of.graph.body().argument(s.input)].at,
          byteSize(after.element(), after.upperElements())};
}

/// Entries go on with what the others have carried: it lies at the same places.
bool carriesAlike(const ScheduledGraph &entry, const ScheduledGraph &first,
                  Diagnostics &diagnostics) {
  for (size_t k = 0; k < entry.graph.states.size(); ++k) {
    const State &s = entry.graph.states[k];
    if (entry.plan.stateBytes == first.plan.stateBytes &&
        placeOf(entry, s) == placeOf(first, first.graph.states[k]))
      continue;
    diagnostics.error("entry '" + entry.graph.name + "' keeps state '" +
                      entry.graph.inputNames[s.input] + "' in another place than graph '" +
                      first.graph.name + "': a defect of tenon");
    return false;
  }
  return true;
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

std::vector<std::unique_ptr<ScheduledGraph>>
openAllScheduled(Module &module, llvm::ArrayRef<const TargetLevel *> levels, WeightImage &weights,
                 Diagnostics &diagnostics) {
  std::vector<std::unique_ptr<ScheduledGraph>> opened(module.graphs.size());
  for (const size_t i : orderOfWeights(module, levels.size())) {
    opened[i] = openScheduled(*module.graphs[i], *levels[i % levels.size()], diagnostics);
    if (!opened[i])
      return {};
    weights.merge(opened[i]->plan);
  }
  for (size_t i = levels.size(); i < opened.size(); ++i)
    if (!carriesAlike(*opened[i], *opened[i % levels.size()], diagnostics))
      return {};
  return opened;
}

} // namespace tenon
