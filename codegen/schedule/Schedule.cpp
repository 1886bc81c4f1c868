// Implements the choice of a tactic and schedule for every group, and the packing of weights.
#include "codegen/Codegen.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/core/TypeText.h"
#include "codegen/memory/Alignment.h"
#include "codegen/memory/Overlap.h"
#include "codegen/schedule/Chains.h"
#include "codegen/schedule/Legalize.h"
#include "codegen/schedule/PackedConstants.h"

#include "ir/Builder.h"
#include "ir/Entries.h"
#include "ir/Verifier.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace tenon {

bool isEnabled(const Tactic &tactic, const ScheduleOptions &options) {
  if (!options.enabled)
    return true;
  std::vector<std::string> names{"tactic." + tactic.info.id.str()};
  for (const TargetFamily *f : targetFamilies())
    for (const ScheduleAlias &alias : f->aliases)
      if (alias.newId == tactic.info.id)
        names.push_back("tactic." + alias.oldId.str());
  const std::vector<llvm::StringRef> all(names.begin(), names.end());
  return options.enabled(all);
}

constexpr llvm::StringLiteral kOverlap = "schedule.overlap";

llvm::ArrayRef<ScheduleFeature> scheduleFeatures() {
  static const ScheduleFeature kTable[] = {
      {kPackedWeights, "integer weights that fit into 2 or 4 bits take no more flash (mcu)"},
      {kJoinedFilters, "weights of two filters share a 16-bit number, widened once for both (mcu)"},
      {kOverlap, "results lie over operands that die, behind the reads of their kernel (mcu)"},
  };
  return kTable;
}

namespace {

/// Gives operand `i` of the group its packed layout: the constant's own when the group is its only
/// user, else a copy's.
void packOperand(Operation &group, const Packing &p) {
  Value *v = group.operand(p.operand);
  Operation *constant = v->def();
  if (v->type().layout() != p.layout || constant->wordAttr("stored") != p.stored) {
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
    v->setType(v->type().withLayout(p.layout));
    if (p.stored.empty())
      v->def()->remove("stored");
    else
      v->def()->set("stored", Word{p.stored});
  }
  for (unsigned k = 0; k < group.numOperands(); ++k)
    if (group.operand(k) == v)
      group.region().argument(k)->setType(v->type());
}

/// Operands that are stored as another kernel reads them, which somebody has exchanged, get their
/// elements back.
void unpackOthers(Operation &group, llvm::SmallVectorImpl<Packing> &packings) {
  for (unsigned i = 0; i < group.numOperands(); ++i) {
    const Value *v = group.operand(i);
    if (v->def() && v->def()->is(Op::Constant) && v->def()->has("stored") &&
        llvm::none_of(packings, [&](const Packing &p) { return p.operand == i; }))
      packings.push_back({i, v->type().layout()});
  }
}

class Scheduler {
public:
  /// `others`: constants of graphs of the module that are scheduled; null where there are none.
  Scheduler(const Alignment &alignment, const TargetLevel &level, const ScheduleOptions &options,
            Diagnostics &diagnostics, PackedConstants *others = nullptr)
      : level_(level), options_(options), diagnostics_(diagnostics), alignment_(alignment),
        others_(others) {}

  std::string key(const Operation &group) const { return groupKey(group, alignment_); }

  /// `key` names the form of the group, where measurements are looked up or made.
  bool group(Operation &group, const std::string &key) {
    auto form = analyzeGroup(group);
    if (!form) {
      diagnostics_.error(group, "group has no kernel form: " + form.refusal().reason)
          .notes.push_back("this is a defect of the fusion pass; compile with -O0 meanwhile");
      return false;
    }
    const GroupQuery in{*form, level_, &alignment_, packWeights(), joinFilters()};
    Search search;
    if (const Attribute *given = group.find("schedule")) {
      Result<std::unique_ptr<Choice>> its = asked(in, *given->get<Schedule>());
      if (!its) {
        diagnostics_.error(group, its.refusal());
        return false;
      }
      search.candidates.push_back({*std::move(its)});
    } else {
      findAll(in, search);
    }
    if (search.candidates.empty()) {
      reportNoKernel(*form, search.reasons);
      return false;
    }
    if (!group.has("schedule") && !keepWithinWorkspace(group, search.candidates))
      return false;
    preferPackedAlready(group, search.candidates);
    const Choice &chosen = *search.candidates[choose(in, group, key, search.candidates)].choice;
    if (!search.mayUseTensorCores && !search.withoutTensorCores.empty())
      warnWithoutTensorCores(*form, chosen.tactic, search.withoutTensorCores);
    apply(group, chosen);
    return true;
  }

  /// What `group` would choose, of a chain among the schedules of `tactic`; says and notes nothing.
  Result<GroupPrice> price(Operation &group, const Tactic *tactic) const {
    auto form = analyzeGroup(group);
    if (!form)
      return std::move(form).refusal();
    const GroupQuery in{*form, level_, &alignment_, packWeights(), joinFilters()};
    Search search;
    findAll(in, search);
    llvm::erase_if(search.candidates, [&](const Candidate &c) {
      return (tactic && &c.tactic() != tactic) ||
             (options_.workspace >= 0 && workspaceOf(c) > options_.workspace);
    });
    if (search.candidates.empty()) {
      const auto its = llvm::find_if(
          search.reasons, [&](const Misfit &r) { return tactic && r.tactic == tactic->info.id; });
      return Refusal{its == search.reasons.end() ? "no kernel" : its->reason, ""};
    }
    GroupPrice price;
    price.estimate = search.candidates.front().price.microseconds;
    if (!options_.tuning && !options_.pick)
      return price;
    price.key = key(group);
    const TuningEntry *entry =
        options_.tuning ? options_.tuning->find(level_.name, price.key) : nullptr;
    if (entry && find(in, entry->schedule, search.candidates))
      price.measured = entry->microseconds;
    return price;
  }

private:
  bool enabled(llvm::StringRef id) const { return !options_.enabled || options_.enabled({id}); }
  /// On microcontrollers, where flash is scarce and constants are read from it as they are.
  bool packWeights() const { return !level_.family->facts.hosted && enabled(kPackedWeights); }
  /// On those that multiply pairs.
  bool joinFilters() const { return level_.dsp && enabled(kJoinedFilters); }

  static bool holdsPacked(const Operation &group) {
    auto packed = [](Value *v) {
      return v->type().isTensor() && bitWidth(v->type().element()) < 8;
    };
    return llvm::any_of(group.operands(), packed) || llvm::any_of(group.results(), packed);
  }

  /// A tactic that does not run the group.
  struct Misfit {
    llvm::StringRef tactic;
    std::string reason;
    bool takesForm; // chains of anchors, or single ones, as the group's
    std::string text() const { return tactic.str() + ": " + reason; }
  };

  struct Search {
    std::vector<Candidate> candidates; // best estimate first
    std::vector<Misfit> reasons;       // of tactics that do not match
    /// Why no Tensor Core may be used: the most general tactic's reason, which comes last. Nothing
    /// is missing where one matches or the user wants none.
    std::string withoutTensorCores;
    bool mayUseTensorCores = false;
  };

  bool mayTake(const Tactic &t, const Operation &group) const {
    return t.info.takesPacked || !level_.family->facts.device || !holdsPacked(group);
  }

  /// What a module or tuning file asks for.
  Result<std::unique_ptr<Choice>> asked(const GroupQuery &in, const ScheduleText &given) const {
    const ScheduleText text = withoutAliases(given, level_.family->aliases);
    const auto tactic = findTactic(level_, text.tactic);
    if (!tactic)
      return tactic.refusal();
    if (!mayTake(**tactic, *in.form.group))
      return Refusal{text.tactic + ": " + kPacked.str(),
                     "without its schedule the group gets one that is possible"};
    return (*tactic)->choice(in, text);
  }

  void findAll(const GroupQuery &in, Search &search) const {
    const bool firstOnly = options_.search == ScheduleOptions::None;
    for (const Tactic *t : level_.family->tactics()) {
      const auto refuse = [&, t](llvm::StringRef reason) {
        search.reasons.push_back({t->info.id, reason.str(), t->info.takes(in.form)});
      };
      if (!isEnabled(*t, options_)) {
        refuse(kDisabled);
        search.mayUseTensorCores |= t->forTensorCores(in);
        continue;
      }
      if (t->info.sharesCode && !options_.shareCode)
        continue;
      if (!mayTake(*t, *in.form.group)) {
        refuse(kPacked);
        continue;
      }
      auto choices = t->choices(in);
      if (!choices) {
        refuse(choices.refusal().reason);
        if (t->forTensorCores(in))
          search.withoutTensorCores = choices.refusal().reason;
        continue;
      }
      search.mayUseTensorCores |= t->forTensorCores(in);
      for (std::unique_ptr<Choice> &c : *choices) {
        Price price = c->price();
        if (firstOnly) // of a tactic only what its schedules store counts
          price.microseconds = price.rank = 0;
        search.candidates.push_back({std::move(c), price});
      }
      if (t->info.sharesCode || (firstOnly && options_.workspace < 0))
        break;
    }
    llvm::stable_sort(search.candidates, [](const Candidate &a, const Candidate &b) {
      return std::make_pair(a.price.weightBits, a.price.rank) <
             std::make_pair(b.price.weightBits, b.price.rank);
    });
  }

  /// How near a tactic is to a group: named as what the group computes, or switched off for its
  /// chain (0), for such groups on other terms (1), switched off (2), or for other groups and
  /// machines (3), whose reasons say what is not there.
  static int distance(const Misfit &r, const GroupForm &form) {
    const llvm::StringRef reason = r.reason;
    const bool isConv = form.anchor && form.anchor->is(Op::Conv);
    if (!r.takesForm || reason.startswith("the group has an anchor") ||
        reason.startswith("not for a") || reason.contains(" exists on ") ||
        (reason.startswith("no ") && !(isConv && reason.startswith("no convolution"))))
      return kOther;
    if (r.tactic == (form.anchor ? form.anchor->name() : "map") ||
        (form.isChain() && reason == kDisabled))
      return 0;
    return reason == kDisabled ? 2 : 1;
  }
  static constexpr llvm::StringLiteral kDisabled = "disabled", kPacked = "elements share bytes";
  static constexpr int kOther = 3;

  /// Says first why the nearest tactic, the most general of them, does not run the group; then the
  /// reasons of others, each once with those that have it.
  void reportNoKernel(const GroupForm &form, llvm::ArrayRef<Misfit> reasons) {
    constexpr size_t kShown = 8;
    size_t disabled = 0;
    std::string text;
    for (Operation &op : form.group->region())
      if (!op.isTerminator())
        text += (text.empty() ? "" : ", ") + op.name().str();
    const Misfit *nearest = nullptr; // the most general come last in the table
    llvm::MapVector<llvm::StringRef, std::string> tactics; // by reason
    size_t others = 0;
    for (const Misfit &r : reasons) {
      if (!nearest || distance(r, form) <= distance(*nearest, form))
        nearest = &r;
      if (distance(r, form) == kOther) {
        ++others;
        continue;
      }
      disabled += r.reason == kDisabled;
      std::string &of = tactics[r.reason];
      of += (of.empty() ? "" : ", ") + r.tactic.str();
    }
    Diagnostic &d = diagnostics_.error(*form.group, "no kernel of target " + level_.name.str() +
                                                        " runs this group (" + text + ")" +
                                                        (nearest ? ": " + nearest->text() : ""));
    size_t shown = 0;
    for (const auto &[reason, names] : tactics)
      if (shown < kShown && (!nearest || names != nearest->tactic || reason != nearest->reason)) {
        d.notes.push_back(reason == kDisabled && disabled > kShown
                              ? std::to_string(disabled) + " kernels are disabled"
                              : names + ": " + reason.str());
        ++shown;
      }
    if (others > 0)
      d.notes.push_back(std::to_string(others) +
                        " more kernels are for other operations, or other machines");
    d.notes.push_back("another target may run it (--target), or an operator of your own takes its "
                      "place (--op FILE.tn)");
  }

  /// Whether a candidate reads the constants that others have in the form that they have.
  bool readsAsOthers(const Operation &group, const Candidate &c) const {
    llvm::SmallVector<Packing, 2> packings;
    c.choice->pack(packings);
    for (unsigned i = 0; i < group.numOperands(); ++i) {
      const Value *v = group.operand(i);
      if (!v->def() || !v->def()->is(Op::Constant))
        continue;
      const llvm::ArrayRef<PackedConstants::Form> forms = others_->formsOf(*v->def());
      const auto *p = llvm::find_if(packings, [&](const Packing &p) { return p.operand == i; });
      const PackedConstants::Form form =
          p == packings.end() ? PackedConstants::Form{v->type(), v->def()->wordAttr("stored").str()}
                              : PackedConstants::Form{v->type().withLayout(p->layout), p->stored};
      if (!forms.empty() && !llvm::is_contained(forms, form))
        return false;
    }
    return true;
  }

  /// A copy of weights in another form has to be worth its memory: the best candidate that needs
  /// none goes first. Prompts, which users ask for, may have a copy that saves half of the time.
  void preferPackedAlready(const Operation &group, std::vector<Candidate> &candidates) const {
    if (!others_ || group.has("schedule"))
      return;
    const bool isStep = tokensOf(*group.parent()->graph()).upper() <= kStepTokens;
    const double bound = isStep ? std::numeric_limits<double>::infinity()
                                : 2 * candidates.front().price.microseconds;
    const auto it = llvm::find_if(candidates, [&](const Candidate &c) {
      return c.price.microseconds <= bound && readsAsOthers(group, c);
    });
    if (it != candidates.end())
      std::rotate(candidates.begin(), it, it + 1);
  }

  static int64_t workspaceOf(const Candidate &c) {
    return c.choice->scratch() + c.choice->zeroed();
  }

  /// Drops what needs more scratch than the bound.
  bool keepWithinWorkspace(Operation &group, std::vector<Candidate> &candidates) {
    if (options_.workspace < 0)
      return true;
    const ScheduleText wanted = candidates.front().schedule();
    const double microseconds = candidates.front().price.microseconds;
    const int64_t bytes = workspaceOf(candidates.front());
    int64_t least = bytes;
    llvm::erase_if(candidates, [&](const Candidate &c) {
      const int64_t needed = workspaceOf(c);
      least = std::min(least, needed);
      return needed > options_.workspace;
    });
    if (candidates.empty()) {
      diagnostics_.error(group, "--workspace: every kernel of target " + level_.name.str() +
                                    " for this group needs more scratch than " +
                                    std::to_string(options_.workspace) + " bytes; the least is " +
                                    std::to_string(least));
      return false;
    }
    if (options_.log && bytes > options_.workspace) {
      const Candidate &taken = candidates.front();
      options_.log->losses.push_back(
          {group.loc(), wanted, taken.schedule(), bytes, taken.price.microseconds - microseconds});
    }
    return true;
  }

  /// The measured one, the one that the caller picks, or the one of the lowest estimate.
  size_t choose(const GroupQuery &in, const Operation &group, const std::string &key,
                llvm::ArrayRef<Candidate> candidates) {
    if (group.has("schedule"))
      return 0;
    if (options_.pick)
      return options_.pick(group, key, candidates);
    if (!options_.tuning)
      return 0;
    const TuningEntry *entry = options_.tuning->find(level_.name, key);
    if (!entry) {
      noteUnmeasured(candidates);
      return 0;
    }
    const Candidate *measured = find(in, entry->schedule, candidates);
    if (!measured) {
      // Once per form: whatever it occurs in, the reason is the same.
      if (warned_.insert(key).second) {
        Diagnostic &d = diagnostics_.warning(
            "the measured schedule " + toString(entry->schedule) + " is not possible here; " +
            toString(candidates.front().schedule()) + " of the cost model is taken");
        d.nodes = group.loc();
        d.about = &group;
      }
      noteUnmeasured(candidates);
      return 0;
    }
    if (options_.log)
      options_.log->measured[&group] = *entry;
    return size_t(measured - candidates.begin());
  }

  /// The candidate of a schedule that was measured; null where there is none here.
  const Candidate *find(const GroupQuery &in, const ScheduleText &schedule,
                        llvm::ArrayRef<Candidate> candidates) const {
    const Result<std::unique_ptr<Choice>> measured = asked(in, schedule);
    const auto *it = llvm::find_if(candidates, [&](const Candidate &c) {
      return measured && c.schedule() == (*measured)->text();
    });
    return it == candidates.end() ? nullptr : it;
  }

  void noteUnmeasured(llvm::ArrayRef<Candidate> candidates) {
    if (options_.log && candidates.size() > 1)
      ++options_.log->unmeasured;
  }

  void apply(Operation &group, const Choice &chosen) {
    group.set("schedule", chosen.text());
    for (const char *of : {"scratch", "zeroed", "overlap"}) // the schedule that was there before
      group.remove(of);
    llvm::SmallVector<Packing, 2> packings;
    chosen.pack(packings);
    unpackOthers(group, packings);
    for (const Packing &p : packings)
      packOperand(group, p);
    if (const int64_t bytes = chosen.scratch(); bytes > 0)
      group.set("scratch", bytes);
    if (const int64_t bytes = chosen.zeroed(); bytes > 0)
      group.set("zeroed", bytes);
    if (!level_.family->facts.hosted && enabled(kOverlap) && !group.boolAttr("apart"))
      if (const auto overlap = chosen.overlap())
        setOverlap(group, *overlap);
  }

  void warnWithoutTensorCores(const GroupForm &form, const Tactic &chosen,
                              const std::string &reason) {
    const auto worth = level_.family->worthTensorCores;
    const llvm::Optional<std::string> what = worth ? worth(form) : llvm::None;
    if (!what)
      return;
    Diagnostic &d =
        diagnostics_.warning("no Tensor Core of " + level_.name.str() + " for " + *what + ": " +
                             reason + "; " + chosen.info.id.str() + " runs it");
    d.nodes = form.anchor->loc();
    d.op = form.anchor->name().str();
    d.about = form.anchor;
  }

  const TargetLevel &level_;
  const ScheduleOptions &options_;
  Diagnostics &diagnostics_;
  const Alignment &alignment_;
  PackedConstants *const others_;
  std::set<std::string> warned_;
};

} // namespace

namespace {

/// Whether code for the target has such values.
Result<> isInPrograms(Type t, const Target &target) {
  const Element e = t.element();
  if (cppElement(e).empty())
    return Refusal{"elements of type " + name(e).str() + " are not supported in generated code",
                   ""};
  if (e == Element::String && !target.family->facts.text)
    return Refusal{
        "text is not supported in code for " + target.name +
            "; compile for a cpu target, or end the model at the numbers that text stands for",
        ""};
  const std::string tooLarge = t.isTensor() ? whyNotInMemory(t, /*atMost=*/true) : "";
  if (!tooLarge.empty())
    return Refusal{tooLarge, ""};
  return Accepted{};
}

bool checkTypes(Graph &graph, const Target &target, Diagnostics &diagnostics) {
  for (const State &s : graph.states)
    if (graph.body().argument(s.input)->type().element() == Element::String) {
      diagnostics.error("input '" + graph.inputNames[s.input] +
                        "': text is not carried from run to run; its bytes last for one");
      return false;
    }
  for (Value *v : graph.body().arguments())
    if (const Result<> held = isInPrograms(v->type(), target); !held) {
      diagnostics.error("input '" + graph.inputNames[v->index()] + "': " + held.refusal().reason);
      return false;
    }
  bool ok = true;
  graph.body().walk([&](Operation *op) {
    for (Value *v : op->results()) {
      if (!ok)
        return;
      if (const Result<> held = isInPrograms(v->type(), target); !held) {
        diagnostics.error(*op, held.refusal());
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

/// scheduleGraph() where other graphs of the module, which are `others`, are scheduled.
static bool scheduleBeside(Graph &graph, const TargetLevel &level, const ScheduleOptions &options,
                           PackedConstants *others, Diagnostics &diagnostics) {
  if (options.search != ScheduleOptions::None)
    joinChains(graph, level, options,
               [&](Operation &group, const Tactic *tactic, const Alignment &alignment) {
                 return Scheduler(alignment, level, options, diagnostics).price(group, tactic);
               });
  const Alignment alignment(graph, level);
  Scheduler scheduler(alignment, level, options, diagnostics, others);
  bool ok = true;
  llvm::SmallVector<Operation *, 64> groups;
  graph.body().walk([&](Operation *op) {
    if (op->is(Op::Group))
      groups.push_back(op);
  });
  // Before any operand is packed: keys are of the groups as fusion left them.
  std::vector<std::string> keys(groups.size());
  if (options.tuning || options.pick)
    for (size_t i = 0; i < groups.size(); ++i)
      keys[i] = scheduler.key(*groups[i]);
  for (size_t i = 0; i < groups.size(); ++i)
    ok &= scheduler.group(*groups[i], keys[i]);
  return ok;
}

bool scheduleGraph(Graph &graph, const TargetLevel &level, const ScheduleOptions &options,
                   Diagnostics &diagnostics) {
  return scheduleBeside(graph, level, options, nullptr, diagnostics);
}

bool scheduleModule(Module &module, const Target &target, const ScheduleOptions &options,
                    Diagnostics &diagnostics) {
  // One variant per machine level; the first reuses the graph, the others start from copies.
  if (!verifyEntries(module, diagnostics))
    return false;
  if (module.stage != Stage::Scheduled) {
    for (auto &graph : module.graphs) {
      if (target.family->supports && !target.family->supports(*graph, diagnostics))
        return false;
      if (!checkTypes(*graph, target, diagnostics) || !legalizeForEmission(*graph, diagnostics))
        return false;
    }
    std::vector<std::unique_ptr<Graph>> once = std::exchange(module.graphs, {});
    for (auto &graph : once) {
      Graph &first = *module.graphs.emplace_back(std::move(graph));
      for (size_t i = 0; i < target.levels.size(); ++i)
        (i == 0 ? first : addCopy(module, first)).target = target.variantName(i);
    }
  }
  if (module.graphs.size() % target.levels.size() != 0) {
    diagnostics.error("module holds " + std::to_string(module.graphs.size()) +
                      " variants, target " + target.name + " has " +
                      std::to_string(target.levels.size()));
    return false;
  }
  bool ok = true;
  if (options.restart)
    for (const Tactic *t : target.family->tactics())
      for (const Chain &chain : t->info.chains)
        options.restart(chain.id);
  const size_t levels = target.levels.size();
  std::vector<PackedConstants> packed(module.graphs.size() > levels ? levels : 0);
  for (const size_t i : orderOfWeights(module, levels)) {
    const size_t level = i % levels;
    Graph &g = *module.graphs[i];
    if (g.target != target.variantName(level)) {
      diagnostics.error("variant " + std::to_string(i) + " is scheduled for " + g.target +
                        ", the target asks for " + target.variantName(level));
      ok = false;
      continue;
    }
    PackedConstants *const others = packed.empty() ? nullptr : &packed[level];
    ok &= scheduleBeside(g, *target.levels[level], options, others, diagnostics);
    if (others)
      others->add(g);
  }
  if (ok)
    module.stage = Stage::Scheduled;
  return ok && verify(module, diagnostics);
}

} // namespace tenon
