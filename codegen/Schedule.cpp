// Implements the choice of a tactic and schedule for every group, and the packing of weights.
#include "codegen/Alignment.h"
#include "codegen/Compile.h"
#include "codegen/Legalize.h"
#include "codegen/cuda/Contraction.h"
#include "codegen/cuda/Program.h"
#include "codegen/emit/CppText.h"

#include "ir/Builder.h"
#include "ir/Verifier.h"

#include <limits>

namespace tenon {

llvm::ArrayRef<Tactic> tacticsOf(Family family) {
  return family == Family::Cuda ? cudaTactics() : cpuTactics();
}

const Tactic *findTactic(Family family, llvm::StringRef id) {
  for (const Tactic &t : tacticsOf(family))
    if (t.id == id)
      return &t;
  return nullptr;
}

namespace {

/// Gives operand `i` of the group its packed layout: the constant's own when the group is its only
/// user, else a copy's.
void packOperand(Operation &group, unsigned i, Layout layout) {
  Value *v = group.operand(i);
  if (v->type().layout() != layout) {
    Operation *constant = v->def();
    unsigned sameGroupUses = 0;
    for (Use *u : v->uses())
      sameGroupUses += u->owner() == &group;
    if (v->useCount() != sameGroupUses) {
      std::map<const Value *, Value *> map;
      Operation *copy = constant->clone(map);
      group.parent()->insertBefore(&group, copy);
      for (unsigned k = 0; k < group.numOperands(); ++k)
        if (group.operand(k) == v)
          group.setOperand(k, copy->result());
      v = copy->result();
    }
    v->setType(v->type().withLayout(layout));
  }
  for (unsigned k = 0; k < group.numOperands(); ++k)
    if (group.operand(k) == v)
      group.region().argument(k)->setType(v->type());
}

class Scheduler {
public:
  Scheduler(Graph &graph, const TargetLevel &level, const ScheduleOptions &options,
            Diagnostics &diagnostics)
      : level_(level), options_(options), diagnostics_(diagnostics), alignment_(graph) {}

  static bool holdsPacked(const Operation &group) {
    auto packed = [](Value *v) {
      return v->type().isTensor() && bitWidth(v->type().element()) < 8;
    };
    return llvm::any_of(group.operands(), packed) || llvm::any_of(group.results(), packed);
  }

  bool group(Operation &group) {
    std::string why;
    auto form = analyzeGroup(group, why);
    if (!form) {
      diagnostics_.error(group, "group has no kernel form: " + why)
          .notes.push_back("this is a defect of the fusion pass; compile with -O0 meanwhile");
      return false;
    }
    const TacticInput in{*form, level_, &alignment_};
    const Tactic *best = nullptr;
    Schedule bestSchedule;
    double bestCost = std::numeric_limits<double>::infinity();
    std::vector<std::string> reasons;
    // Why no Tensor Core may be used: the most general tactic's reason, which comes last. Nothing
    // is missing where one matches or the user wants none.
    std::string withoutTensorCores;
    bool mayUseTensorCores = false;
    const bool sharesBytes = level_.family == Family::Cuda && holdsPacked(group);
    const Schedule *given =
        group.find("schedule") ? group.find("schedule")->get<Schedule>() : nullptr;
    for (const Tactic &t : tacticsOf(level_.family)) {
      if (given && t.id != given->tactic)
        continue;
      const bool usesTensorCores = t.usesTensorCores && t.usesTensorCores(in);
      if (!given && options_.enabled && !options_.enabled("tactic." + t.id.str())) {
        reasons.push_back(t.id.str() + ": disabled");
        mayUseTensorCores |= usesTensorCores;
        continue;
      }
      std::string reason;
      if (sharesBytes && !t.takesPacked) {
        reasons.push_back(t.id.str() + ": elements share bytes");
        continue;
      }
      if (!t.match(in, reason)) {
        reasons.push_back(t.id.str() + ": " + reason);
        if (usesTensorCores)
          withoutTensorCores = reason;
        continue;
      }
      mayUseTensorCores |= usesTensorCores;
      if (given) {
        best = &t;
        bestSchedule = *given;
        break;
      }
      llvm::SmallVector<Schedule, 8> schedules;
      t.enumerate(in, schedules);
      for (const Schedule &s : schedules) {
        const double cost = t.cost ? t.cost(in, s) : 0;
        if (!best || cost < bestCost) {
          best = &t;
          bestSchedule = s;
          bestCost = cost;
        }
        if (options_.search == ScheduleOptions::None)
          break;
      }
      if (best && options_.search == ScheduleOptions::None)
        break;
    }
    if (!best) {
      std::string text;
      for (Operation &op : group.region())
        if (!op.isTerminator())
          text += (text.empty() ? "" : ", ") + op.name().str();
      Diagnostic &d = diagnostics_.error(group, "no kernel of target " + level_.name.str() +
                                                    " runs this group (" + text + ")");
      d.notes.assign(reasons.begin(), reasons.end());
      return false;
    }
    if (!mayUseTensorCores && !withoutTensorCores.empty())
      warnWithoutTensorCores(*form, *best, withoutTensorCores);
    group.set("schedule", bestSchedule);
    llvm::SmallVector<Packing, 2> packings;
    if (best->pack)
      best->pack(in, bestSchedule, packings);
    for (const Packing &p : packings)
      packOperand(group, p.operand, p.layout);
    const int64_t scratch = best->scratch ? best->scratch(in, bestSchedule) : 0;
    if (scratch > 0)
      group.set("scratch", scratch);
    const int64_t zeroed = best->zeroed ? best->zeroed(in, bestSchedule) : 0;
    if (zeroed > 0)
      group.set("zeroed", zeroed);
    return true;
  }

private:
  void warnWithoutTensorCores(const GroupForm &form, const Tactic &chosen, const std::string &why) {
    const llvm::Optional<std::string> what = cuda::worthTensorCores(form);
    if (!what)
      return;
    Diagnostic &d = diagnostics_.warning("no Tensor Core of " + level_.name.str() + " for " +
                                         *what + ": " + why + "; " + chosen.id.str() + " runs it");
    d.nodes = form.anchor->loc();
    d.op = form.anchor->name().str();
    d.about = form.anchor;
  }

  const TargetLevel &level_;
  const ScheduleOptions &options_;
  Diagnostics &diagnostics_;
  const Alignment alignment_;
};

} // namespace

namespace {

/// Every value has an element type that generated code has.
std::string whyNotInPrograms(Type t) {
  const Element e = t.element();
  if (cppElement(e).empty())
    return "elements of type " + name(e).str() + " are not supported in generated code";
  return t.isTensor() ? whyNotInMemory(t, /*atMost=*/true) : "";
}

bool checkTypes(Graph &graph, Diagnostics &diagnostics) {
  for (Value *v : graph.body().arguments())
    if (std::string why = whyNotInPrograms(v->type()); !why.empty()) {
      diagnostics.error("input '" + graph.inputNames[v->index()] + "': " + why);
      return false;
    }
  bool ok = true;
  graph.body().walk([&](Operation *op) {
    for (Value *v : op->results()) {
      if (!ok)
        return;
      if (std::string why = whyNotInPrograms(v->type()); !why.empty()) {
        diagnostics.error(*op, why);
        ok = false;
      }
      if (ok && op->is(Op::Loop) && v->index() >= size_t(op->intAttr("carried")) &&
          bitWidth(v->type().element()) < 8) {
        diagnostics.error(*op, "elements of type " + name(v->type().element()).str() +
                                   " are not supported where a loop stacks values");
        ok = false;
      }
    }
  });
  return ok;
}

} // namespace

bool scheduleGraph(Graph &graph, const TargetLevel &level, const ScheduleOptions &options,
                   Diagnostics &diagnostics) {
  Scheduler scheduler(graph, level, options, diagnostics);
  bool ok = true;
  llvm::SmallVector<Operation *, 64> groups;
  graph.body().walk([&](Operation *op) {
    if (op->is(Op::Group))
      groups.push_back(op);
  });
  for (Operation *g : groups)
    ok &= scheduler.group(*g);
  return ok;
}

bool scheduleModule(Module &module, const Target &target, const ScheduleOptions &options,
                    Diagnostics &diagnostics) {
  // One variant per machine level; the first reuses the graph, the others start from copies.
  if (module.stage != Stage::Scheduled) {
    if (target.family == Family::Cuda && !checkCudaSupport(module.graph(), diagnostics))
      return false;
    for (const State &s : module.graph().states)
      if (target.family == Family::Cuda && s.appendAxis >= 0) {
        diagnostics.error("state '" + module.graph().inputNames[s.input] +
                          "' grows, which is not supported on CUDA; compile for a C++ target, or "
                          "leave :append out and pass the cache in and out");
        return false;
      }
    if (!checkTypes(module.graph(), diagnostics) ||
        !legalizeForEmission(module.graph(), diagnostics))
      return false;
    const size_t extra = target.levels.size() - 1;
    for (size_t i = 0; i < extra; ++i) {
      std::unique_ptr<Module> copy = module.clone();
      // Locally cloned graphs are moved over by rebuilding them in this module.
      Graph &from = copy->graph();
      Graph &to = module.addGraph(from.name);
      to.inputNames = from.inputNames;
      to.outputNames = from.outputNames;
      to.states = from.states;
      std::map<const Value *, Value *> map;
      for (Value *a : from.body().arguments())
        map[a] = to.body().addArgument(a->type(), a->hint());
      for (Operation &op : from.body())
        to.body().push_back(op.clone(map));
    }
    for (size_t i = 0; i < target.levels.size(); ++i)
      module.graphs[i]->target = target.variantName(i);
  }
  if (module.graphs.size() != target.levels.size()) {
    diagnostics.error("module holds " + std::to_string(module.graphs.size()) +
                      " variants, target " + target.name + " has " +
                      std::to_string(target.levels.size()));
    return false;
  }
  bool ok = true;
  for (size_t i = 0; i < target.levels.size(); ++i) {
    Graph &g = *module.graphs[i];
    if (g.target != target.variantName(i)) {
      diagnostics.error("variant " + std::to_string(i) + " is scheduled for " + g.target +
                        ", the target asks for " + target.variantName(i));
      ok = false;
      continue;
    }
    ok &= scheduleGraph(g, *target.levels[i], options, diagnostics);
  }
  if (ok)
    module.stage = Stage::Scheduled;
  return ok && verify(module, diagnostics);
}

} // namespace tenon
