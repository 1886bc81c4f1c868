// Implements the choice of chains.
#include "codegen/schedule/Chains.h"

#include "codegen/core/TargetFamily.h"
#include "codegen/memory/Alignment.h"
#include "ir/Views.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace tenon {
namespace {

/// Operands that a joined group has at most.
constexpr size_t kMostOperands = 16;

/// The groups that read what a group makes, nothing else does, and the views on the way.
struct Readers {
  llvm::SmallVector<Operation *, 2> groups; // none: others read it, too, or too many do
  llvm::SmallVector<Operation *, 1> views;
};

Readers readersOf(Operation &group) {
  Readers readers;
  auto add = [&](Operation *op) {
    if (!op->is(Op::Group))
      return false;
    if (!llvm::is_contained(readers.groups, op))
      readers.groups.push_back(op);
    return readers.groups.size() <= 2;
  };
  for (Value *v : group.results())
    for (Use *use : v->uses()) {
      Operation *op = use->owner();
      if (!op->is(Op::Reshape) || !isView(*op)) {
        if (!add(op))
          return {};
        continue;
      }
      readers.views.push_back(op);
      for (Use *seen : op->result()->uses())
        if (!add(seen->owner()))
          return {};
    }
  return readers;
}

/// A chain that a tactic may run, and what came of it.
struct Run {
  const Tactic *tactic;
  const Chain *chain;
  llvm::SmallVector<Operation *, 4> parts; // as the chain has them
  std::vector<Operation *> pieces;    // parts and the views between them, in order of the graph
  llvm::SmallVector<Value *, 2> kept; // results of pieces that others read, too
  llvm::SmallVector<Operation *, 2> staying; // pieces that are needed as views of what is kept
  Operation *joined = nullptr;               // beside the graph
  ChainOffer offer;
  FusionDecision decision;

  double saving() const { return decision.apart - decision.together; }
};

class ChainChoice {
public:
  ChainChoice(Graph &graph, const TargetLevel &level, const ScheduleOptions &options)
      : graph_(graph), level_(level), options_(options) {}

  /// Finds all runs; false where there are none.
  bool find() {
    llvm::SmallVector<Operation *, 64> groups;
    for (const State &s : graph_.states)
      if (Operation *concat = appendOf(graph_, s))
        appends_.insert(concat);
    graph_.body().walk([&](Operation *op) {
      const auto place = unsigned(places_.size());
      places_[op] = place;
      if (op->is(Op::Group) && !op->has("schedule") && !op->boolAttr("apart") && readAnchor(*op))
        groups.push_back(op);
    });
    for (Operation *group : groups) {
      const Readers readers = readersOf(*group);
      const bool beside = llvm::all_of(readers.groups, [&](const Operation *reader) {
        return anchors_.count(reader) && reader->parent() == group->parent() &&
               reader->intAttr("branch", 0) == group->intAttr("branch", 0);
      });
      for (Operation *reader : readers.groups)
        if (beside)
          makers_[reader].push_back({group, readers});
    }
    for (Operation *last : groups)
      for (const Tactic *t : level_.family->tactics())
        for (const Chain &chain : t->info.chains)
          findAt(*last, *t, chain);
    return !runs_.empty();
  }

  void price(PriceGroup priceOf) {
    // What is known of addresses is known of the graph as it is; a joined group writes where its
    // last part does.
    Plan plan = planMemory(graph_);
    plan.alignedPorts = alignsPorts(graph_, level_);
    const Alignment alignment(plan);
    for (Run &run : runs_) {
      run.joined = join(run);
      const Operation &last = *run.parts.back();
      for (unsigned i = 0; i < last.numResults(); ++i)
        if (auto it = plan.placements.find(last.result(i)); it != plan.placements.end()) {
          const Placement placement = it->second;
          plan.placements[run.joined->result(i)] = placement;
        }
      auto together = run.joined->numOperands() <= kMostOperands
                          ? priceOf(*run.joined, run.tactic, alignment)
                          : Refusal{"the group would have too many inputs", ""};
      if (together)
        compare(run, *std::move(together), alignment, priceOf);
      else
        run.decision.reason = together.refusal().reason;
      for (Value *v : run.joined->results())
        plan.placements.erase(v);
    }
  }

  void take() {
    std::vector<Run *> order;
    for (Run &run : runs_)
      if (run.decision.reason.empty())
        order.push_back(&run);
    llvm::stable_sort(order, [&](const Run *a, const Run *b) {
      return std::make_pair(-a->saving(), places_.lookup(a->pieces.front())) <
             std::make_pair(-b->saving(), places_.lookup(b->pieces.front()));
    });
    llvm::DenseSet<Operation *> taken;
    for (Run *run : order) {
      std::string &reason = run->decision.reason;
      if (llvm::any_of(run->parts, [&](Operation *op) { return taken.count(op); }))
        reason = "a part of it belongs to another chain";
      else if (options_.takeChain ? !options_.takeChain(run->offer) : !run->offer.isFaster())
        reason = "its kernels apart are as fast";
      else if (!fires(*run))
        reason = "switched off";
      else
        taken.insert(run->parts.begin(), run->parts.end());
    }
    // What is not taken reads values that go with those that are.
    for (Run &run : runs_) {
      run.decision.accepted = run.decision.reason.empty();
      if (!run.decision.accepted)
        delete run.joined;
    }
    for (Run &run : runs_) {
      if (run.decision.accepted)
        replace(run);
      if (options_.log)
        options_.log->fusions.push_back(std::move(run.decision));
    }
  }

private:
  /// Remembers the anchor of a group (null: maps alone). False where there are several.
  bool readAnchor(Operation &group) {
    Operation *anchor = nullptr;
    for (Operation &op : group.region())
      if (!op.isTerminator() && !isAbsorbable(op)) {
        if (anchor)
          return false;
        anchor = &op;
      }
    anchors_[&group] = anchor;
    return true;
  }
  bool isPart(Operation *group, const ChainPart &part) const {
    const Operation *anchor = anchors_.lookup(group);
    return part.takes ? anchor && part.takes(*anchor) : !anchor;
  }

  void findAt(Operation &last, const Tactic &tactic, const Chain &chain) {
    if (chain.find) {
      findPieces(last, tactic, chain);
      return;
    }
    if (!isPart(&last, chain.parts.back()))
      return;
    Run run{&tactic, &chain, {}, {}, {}, {}, nullptr, {}, {}};
    run.parts.assign(chain.parts.size(), nullptr);
    run.parts.back() = &last;
    run.pieces.push_back(&last);
    for (size_t i = chain.parts.size() - 1; i-- > 0;) {
      const auto makers = makers_.find(run.parts[chain.parts[i].reader]);
      if (makers == makers_.end())
        return;
      const ChainPart &part = chain.parts[i];
      const auto it = llvm::find_if(makers->second, [&](const Maker &maker) {
        return !llvm::is_contained(run.parts, maker.group) && isPart(maker.group, part) &&
               maker.readers.groups.size() == (part.also == part.reader ? 1 : 2) &&
               llvm::is_contained(maker.readers.groups, run.parts[part.also]) &&
               maker.group->result(0)->type().space() == last.result(0)->type().space();
      });
      if (it == makers->second.end())
        return;
      run.parts[i] = it->group;
      run.pieces.push_back(it->group);
      llvm::append_range(run.pieces, it->readers.views);
    }
    add(std::move(run));
  }

  /// A run whose pieces the tactic names.
  void findPieces(Operation &last, const Tactic &tactic, const Chain &chain) {
    llvm::SmallVector<Operation *, 8> pieces;
    if (!anchors_.lookup(&last) || !chain.find(last, pieces))
      return;
    Run run{&tactic, &chain, {}, {}, {}, {}, nullptr, {}, {}};
    run.pieces.assign(pieces.begin(), pieces.end());
    run.pieces.push_back(&last);
    for (Operation *piece : pieces) {
      if (piece->parent() != last.parent() || !places_.count(piece) ||
          (piece->is(Op::Group) && !anchors_.count(piece)))
        return;
      if (piece->is(Op::Group))
        run.parts.push_back(piece);
      if (appends_.count(piece))
        run.staying.push_back(piece);
    }
    for (Operation *piece : pieces)
      for (Value *v : piece->results())
        if (!keep(run, v))
          return;
    run.parts.push_back(&last);
    add(std::move(run));
  }

  /// Adds what a piece of `run` makes to what is kept, where others read it; false where they
  /// cannot have it.
  bool keep(Run &run, Value *v) const {
    const bool stays = llvm::is_contained(run.staying, v->def());
    bool isJoined = false; // to a state
    bool isRead = false;   // by others
    for (const Use *use : v->uses()) {
      isJoined |= llvm::is_contained(run.staying, use->owner());
      if (llvm::is_contained(run.pieces, use->owner()))
        continue;
      isRead = true;
      // The joined group stands where the last one does, and views of what it makes behind it.
      if (!v->def()->is(Op::Concat) ||
          places_.lookup(use->owner()) < places_.lookup(run.pieces.back()))
        return false;
    }
    if (isJoined || (isRead && !stays))
      run.kept.push_back(v);
    return true;
  }

  void add(Run run) {
    Operation &last = *run.parts.back();
    llvm::sort(run.pieces,
               [&](Operation *a, Operation *b) { return places_.lookup(a) < places_.lookup(b); });
    run.decision.id = run.chain->id.str();
    run.decision.variant = graph_.target;
    for (Operation *part : run.parts) {
      mergeLocation(run.decision.nodes, part->loc());
      if (part != &last)
        for (Value *v : part->results()) // written and read
          run.decision.bytesSaved += 2 * byteSize(v->type().element(), v->type().upperElements());
    }
    runs_.push_back(std::move(run));
  }

  /// One group of what all pieces compute, in no region.
  static Operation *join(const Run &run) {
    Operation &last = *run.parts.back();
    llvm::SmallVector<Value *, 8> inputs;
    llvm::DenseSet<Value *> known;
    for (Operation *piece : run.pieces) {
      for (Value *v : piece->operands())
        if (known.insert(v).second)
          inputs.push_back(v);
      for (Value *v : piece->results())
        known.insert(v);
    }
    llvm::SmallVector<Type, 4> types;
    for (Value *v : last.results())
      types.push_back(v->type());
    for (Value *v : run.kept)
      types.push_back(v->type());
    Operation *joined = Operation::create(Op::Group, inputs, last.attributes(), types, 1);
    Region &region = joined->region();
    std::map<const Value *, Value *> inside; // by what it is outside, or in a part
    for (Value *v : inputs)
      inside[v] = region.addArgument(v->type(), v->hint());
    for (Operation *piece : run.pieces) {
      mergeLocation(joined->loc(), piece->loc());
      if (!piece->is(Op::Group)) {
        region.push_back(piece->clone(inside));
        continue;
      }
      for (unsigned i = 0; i < piece->numOperands(); ++i)
        inside[piece->region().argument(i)] = inside[piece->operand(i)];
      for (Operation &op : piece->region())
        if (!op.isTerminator())
          region.push_back(op.clone(inside));
      const Operation &end = *piece->region().terminator();
      for (unsigned i = 0; i < piece->numResults(); ++i)
        inside[piece->result(i)] = inside[end.operand(i)];
    }
    llvm::SmallVector<Value *, 4> results;
    for (Value *v : last.results())
      results.push_back(inside[v]);
    for (Value *v : run.kept)
      results.push_back(inside[v]);
    region.push_back(Operation::create(Op::Yield, results, {}, {}));
    return joined;
  }

  void compare(Run &run, GroupPrice together, const Alignment &alignment, PriceGroup priceOf) {
    double estimate = 0, measured = 0;
    bool all = bool(together.measured);
    for (Operation *part : run.parts) {
      auto it = prices_.find(part);
      if (it == prices_.end())
        it = prices_.try_emplace(part, priceOf(*part, nullptr, alignment)).first;
      const Result<GroupPrice> &price = it->second;
      if (!price) {
        run.decision.reason = "a part alone has no kernel to compare with";
        return;
      }
      // Chains were measured in runs.
      estimate += price->estimate + level_.neighbourMicroseconds;
      measured += price->measured.getValueOr(0);
      all &= price->measured.hasValue();
      run.offer.parts.push_back(price->key);
    }
    run.offer.key = std::move(together.key);
    run.offer.together = run.decision.together = all ? *together.measured : together.estimate;
    run.offer.apart = run.decision.apart = all ? measured : estimate;
  }

  bool fires(const Run &run) const {
    if (!options_.fire)
      return true;
    const auto at = [&](Operation *part) -> Operation & {
      Operation *anchor = anchors_.lookup(part);
      return anchor ? *anchor : part->region().front();
    };
    const size_t n = run.parts.size();
    return options_.fire(run.chain->id, at(run.parts[n - 1])) &&
           (run.chain->within.empty() || options_.fire(run.chain->within, at(run.parts[n - 2])));
  }

  static void replace(Run &run) {
    Operation &last = *run.parts.back();
    last.parent()->insertBefore(&last, run.joined);
    for (unsigned i = 0; i < last.numResults(); ++i) {
      run.joined->result(i)->setHint(last.result(i)->hint());
      last.result(i)->replaceAllUsesWith(run.joined->result(i));
    }
    for (size_t i = 0; i < run.kept.size(); ++i) {
      Value *const now = run.joined->result(last.numResults() + unsigned(i));
      now->setHint(run.kept[i]->hint());
      run.kept[i]->replaceAllUsesWith(now);
    }
    for (Operation *piece : run.staying)
      piece->moveBefore(&last);
    for (Operation *piece : llvm::reverse(run.pieces))
      if (!llvm::is_contained(run.staying, piece))
        piece->erase();
  }

  Graph &graph_;
  const TargetLevel &level_;
  const ScheduleOptions &options_;
  // By address, looked up only.
  llvm::DenseSet<const Operation *> appends_; // to states, in place
  llvm::DenseMap<const Operation *, unsigned> places_;
  llvm::DenseMap<const Operation *, Operation *> anchors_; // of groups
  struct Maker {
    Operation *group;
    Readers readers;
  };
  llvm::DenseMap<const Operation *, std::vector<Maker>> makers_; // by each reader
  std::map<const Operation *, Result<GroupPrice>> prices_;
  std::vector<Run> runs_;
};

} // namespace

void joinChains(Graph &graph, const TargetLevel &level, const ScheduleOptions &options,
                PriceGroup price) {
  ChainChoice choice(graph, level, options);
  if (!choice.find())
    return;
  choice.price(price);
  choice.take();
}

} // namespace tenon
