// fuse: decides what one kernel computes and forms groups.
//
//   %c = conv %x, %w                          %y = group %x, %w, %b, %r (…) {
//   %d = map %c, %b { add }                     %c = conv %x, %w
//   %e = map %d, %r { add }            →        %e = map %c, %b, %r { add add relu }
//   %y = map %e { relu }                        yield %e }
//
// Operations gather in clusters, each around at most one anchor (anything that is neither a map
// nor pure movement). A map joins the cluster that makes its operand when it reads every element
// where it was made (epilogue); maps that only feed an anchor's first operand join the anchor
// (prologue); slices, pads and transposes join the map that reads them (movement). Legality: the
// clusters stay free of cycles, memory spaces agree, and an epilogue keeps its anchor's layout.
// A value that is needed elsewhere, too, becomes a further result of the group.
//
// Every decision is recorded with its reason and the bytes of traffic it saves. What joined
// nothing stays outside; the pass isolate wraps it.
#include "passes/Fuse.h"

#include "passes/Isolate.h"
#include "passes/Maps.h"
#include "passes/MergeMaps.h"
#include "passes/Rewrite.h"
#include "passes/ViewLayout.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>
#include <set>

namespace tenon {
namespace {

int64_t bytesOf(Type t) { return byteSize(t.element(), t.upperElements()); }

/// Movement that is an index map with bounds; the other modes of pad need kernels of their own.
bool isMovement(const Operation &op) {
  if (op.is(Op::Pad))
    return op.wordAttr("mode", "constant") == "constant" &&
           (op.numOperands() == 1 || constantValue(op.operand(1)));
  return op.isAny(Op::Transpose, Op::Slice, Op::Reshape);
}
bool isAnchor(const Operation &op) { return !op.is(Op::Map) && !isMovement(op); }
bool isContraction(const Operation &op) {
  return op.isAny(Op::Conv, Op::ConvTranspose, Op::MatMul);
}

/// A map that widens stored integers: it belongs to the readers, so that the narrow form is what
/// travels through memory.
bool widens(const Operation &op) {
  if (!op.is(Op::Map) || op.numResults() != 1)
    return false;
  const Element to = op.result()->type().element();
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Type t = op.operand(i)->type();
    if (t.shape() == op.result()->type().shape())
      return isInteger(t.element()) && bitWidth(t.element()) <= 8 &&
             (isFloat(to) || bitWidth(to) > 8);
  }
  return false;
}

/// What stands in an operation's epilogue is named after it.
llvm::StringRef epilogueId(const Operation &anchor, bool residual) {
  switch (anchor.kind()) {
  case Op::Conv:
  case Op::ConvTranspose: return residual ? "fuse.conv-residual" : "fuse.conv-epilogue";
  case Op::MatMul: return residual ? "fuse.matmul-residual" : "fuse.matmul-epilogue";
  case Op::Pool: return "fuse.pool-epilogue";
  case Op::Reduce: return "fuse.reduce-epilogue";
  case Op::Softmax: return "fuse.softmax-epilogue";
  case Op::Normalize: return "fuse.normalize-epilogue";
  case Op::Resize: return "fuse.resize-epilogue";
  case Op::Gather: return "fuse.gather-epilogue";
  default: return "";
  }
}

class Fuser {
public:
  Fuser(Region &region, PassContext &context) : region_(region), context_(context) {}

  bool run() {
    bool changed = readTransposes();
    changed |= duplicateDequantize();
    changed |= copyIntoConcats();
    collect();
    for (size_t i = 0; i < ops_.size(); ++i)
      if (clustered(ops_[i]) && ops_[i]->is(Op::Map))
        fuseIntoProducers(ops_[i]);
    for (size_t i = 0; i < ops_.size(); ++i)
      if (clustered(ops_[i]) && isAnchor(*ops_[i]))
        fusePrologues(ops_[i]);
    for (size_t i = 0; i < ops_.size(); ++i)
      if (clustered(ops_[i]) && ops_[i]->is(Op::Map))
        fuseMovement(ops_[i]);
    for (size_t i = 0; i < ops_.size(); ++i)
      if (ops_[i]->is(Op::Concat))
        fuseViewResults(ops_[i]);
    return form() | changed;
  }

private:
  struct Cluster {
    std::vector<unsigned> members; // positions, ascending
    Operation *anchor = nullptr;
    bool movement = false; // holds a movement operation
    bool kernel = false;   // takes part; constants, views and control flow do not
  };

  //===--------------------------------------------------------------------===//
  // Preparation
  //===--------------------------------------------------------------------===//

  // map(transpose x) reads x itself through another index map (fuse.transpose-read)
  bool readTransposes() {
    bool changed = false;
    for (Operation &op : region_) {
      if (!op.is(Op::Map))
        continue;
      for (unsigned i = 0; i < op.numOperands(); ++i) {
        Operation *t = op.operand(i)->def();
        if (!t || !t->is(Op::Transpose) || isView(*t))
          continue;
        // Worth it only when the transposed copy disappears.
        if (!llvm::all_of(t->result()->uses(), [](Use *u) { return u->owner()->is(Op::Map); })) {
          record(false, "fuse.transpose-read", *t, op, "the transposed value is needed elsewhere",
                 bytesOf(t->result()->type()));
          continue;
        }
        if (!context_.fire("fuse.transpose-read", op))
          continue;
        record(true, "fuse.transpose-read", *t, op, "", 2 * bytesOf(t->result()->type()));
        IndexMap composed(t->intsAttr("perm").size());
        for (size_t d = 0; d < composed.size(); ++d)
          composed[t->intsAttr("perm")[d]] = indexMap(op, i)[d];
        Space6 space = iterationSpace(op);
        auto operands = op.operands();
        IntLists maps = op.intListsAttr("maps");
        operands[i] = t->operand(0);
        maps[i] = composed;
        setMapOperands(op, operands, maps, space);
        mergeLocation(op.loc(), t->loc());
        changed = true;
      }
    }
    return changed | eraseDeadOps(region_);
  }

  // A dequantisation with several readers is computed by each of them (fuse.duplicate)
  bool duplicateDequantize() {
    bool changed = false;
    for (Operation &op : region_.opsEarlyInc()) {
      if (!widens(op) || op.result()->hasOneUse() || !op.result()->hasUses())
        continue;
      auto uses = op.result()->uses();
      for (size_t k = 1; k < uses.size(); ++k) {
        Operation *reader = uses[k]->owner();
        if (!reader->is(Op::Map) && !isContraction(*reader))
          continue;
        if (!context_.fire("fuse.duplicate", op))
          continue;
        std::map<const Value *, Value *> none;
        Operation *copy = op.clone(none);
        region_.insertBefore(reader, copy);
        uses[k]->set(copy->result());
        record(true, "fuse.duplicate", op, *reader, "",
               bytesOf(op.result()->type()) - bytesOf(op.operand(0)->type()));
        changed = true;
      }
    }
    return changed;
  }

  // concat(pad(x)): a map that reads the pad writes the concat's window (fuse.concat-copy)
  bool copyIntoConcats() {
    bool changed = false;
    for (Operation &op : region_) {
      if (!op.is(Op::Concat) || !context_.target.movementReads)
        continue;
      const auto axis = unsigned(op.intAttr("axis"));
      int64_t start = 0;
      for (unsigned i = 0; i < op.numOperands(); ++i) {
        Value *v = op.operand(i);
        if (!v->type().dim(axis).isConstant())
          break; // later windows start at a place known only at run time
        const Type window = v->type().withLayout(windowLayout(op.result()->type(), axis, start));
        start += v->type().dim(axis).constant();
        Operation *def = v->def();
        if (!def || !isMovement(*def) || def->is(Op::Reshape) || isView(*def) || !v->hasOneUse())
          continue;
        if (!context_.fire("fuse.concat-copy", op))
          continue;
        record(true, "fuse.concat-copy", *def, op, "", 2 * bytesOf(v->type()));
        Operation *copy = Operation::create(
            Op::Map, {v}, {{"maps", IntLists{identityMap(window.rank())}}}, {window}, 1);
        copy->loc() = op.loc();
        copy->result()->setHint(v->hint());
        region_.insertBefore(&op, copy);
        Value *s = copy->region().addArgument(Type::scalar(window.context(), window.element()));
        copy->region().push_back(Operation::create(Op::Yield, {s}, {}, {}));
        op.setOperand(i, copy->result());
        changed = true;
      }
    }
    return changed;
  }

  void collect() {
    for (Operation &op : region_) {
      if (op.isAny(Op::If, Op::Loop))
        for (unsigned r = 0; r < op.numRegions(); ++r)
          nested_ |= Fuser(op.region(r), context_).run();
      const unsigned i = unsigned(ops_.size());
      ops_.push_back(&op);
      position_[&op] = i;
      clusterOf_.push_back(i);
      Cluster c;
      c.members = {i};
      c.kernel = needsKernel(op);
      c.anchor = c.kernel && isAnchor(op) ? &op : nullptr;
      c.movement = c.kernel && isMovement(op);
      clusters_.push_back(std::move(c));
    }
  }

  bool clustered(Operation *op) { return clusters_[clusterOf_[position_[op]]].kernel; }
  unsigned cluster(Operation *op) { return clusterOf_[position_[op]]; }

  //===--------------------------------------------------------------------===//
  // Legality
  //===--------------------------------------------------------------------===//

  /// Whether a path leads from cluster `from` to cluster `to` through some third cluster.
  bool pathThroughOthers(unsigned from, unsigned to) {
    const unsigned floor = clusters_[from].members.front();
    std::vector<unsigned> stack;
    std::set<unsigned> seen;
    auto visit = [&](unsigned c, bool first) {
      for (unsigned m : clusters_[c].members)
        for (Value *v : ops_[m]->operands()) {
          if (!v->def())
            continue;
          const unsigned d = cluster(v->def());
          if (d == c || (first && d == from))
            continue;
          if (clusters_[d].members.back() >= floor && seen.insert(d).second)
            stack.push_back(d);
        }
    };
    visit(to, true);
    while (!stack.empty()) {
      const unsigned c = stack.back();
      stack.pop_back();
      if (c == from)
        return true;
      visit(c, false);
    }
    return false;
  }

  /// Operands that a group of both clusters would have.
  size_t inputs(unsigned a, unsigned b) {
    llvm::SmallPtrSet<Value *, 16> values;
    for (unsigned c : {a, b})
      for (unsigned m : clusters_[c].members)
        for (Value *v : ops_[m]->operands())
          if (!v->def() || (cluster(v->def()) != a && cluster(v->def()) != b))
            values.insert(v);
    return values.size();
  }

  /// Whether every use of the cluster's values stands in the cluster itself or in `other`.
  bool feedsOnly(unsigned c, unsigned other) {
    for (unsigned m : clusters_[c].members)
      for (Value *v : ops_[m]->results())
        for (Use *u : v->uses()) {
          const unsigned d = cluster(u->owner());
          if (d != c && d != other)
            return false;
        }
    return true;
  }

  int64_t savedBytes(Value *v, unsigned a, unsigned b) {
    for (Use *u : v->uses())
      if (cluster(u->owner()) != a && cluster(u->owner()) != b)
        return bytesOf(v->type()); // still written, read once less
    return 2 * bytesOf(v->type());
  }

  void merge(unsigned into, unsigned from) {
    Cluster &a = clusters_[into], &b = clusters_[from];
    for (unsigned m : b.members)
      clusterOf_[m] = into;
    std::vector<unsigned> members;
    std::merge(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
               std::back_inserter(members));
    a.members = std::move(members);
    if (!a.anchor)
      a.anchor = b.anchor;
    a.movement |= b.movement;
    b = Cluster();
  }

  void record(bool accepted, llvm::StringRef id, const Operation &producer,
              const Operation &consumer, llvm::StringRef reason, int64_t saved) {
    FusionRecord r;
    r.accepted = accepted;
    r.id = id.str();
    r.nodes = producer.loc();
    mergeLocation(r.nodes, consumer.loc());
    r.reason = reason.str();
    r.bytesSaved = saved;
    context_.fusions.push_back(std::move(r));
  }

  /// Records the rejection and returns false, so that callers can `return reject(…)`.
  bool reject(llvm::StringRef id, const Operation &p, const Operation &c, llvm::StringRef reason,
              int64_t saved) {
    record(false, id, p, c, reason, saved);
    return false;
  }

  /// The checks that all fusions share; asks the controls last.
  bool join(llvm::StringRef id, Operation &producer, Operation &consumer, Value *v, unsigned into,
            unsigned from) {
    const int64_t saved = savedBytes(v, into, from);
    const unsigned p = cluster(&producer), c = cluster(&consumer);
    if (v->type().space() != consumer.result()->type().space())
      return reject(id, producer, consumer, "one side runs on the host", saved);
    if (int64_t(inputs(into, from)) > context_.option("max-inputs"))
      return reject(id, producer, consumer, "the group would have too many inputs", saved);
    if (pathThroughOthers(p, c))
      return reject(id, producer, consumer,
                    "would make a cycle: another input depends on this producer", saved);
    if (!context_.fire(id, consumer))
      return reject(id, producer, consumer, "switched off", saved);
    record(true, id, producer, consumer, "", saved);
    merge(into, from);
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Epilogues and chains
  //===--------------------------------------------------------------------===//

  /// Whether `map` reads operand i where it writes.
  static bool readsInPlace(const Operation &map, unsigned i) {
    return map.operand(i)->type().shape() == map.result()->type().shape() &&
           isIdentityMap(indexMap(map, i), map.result()->type().rank());
  }

  /// The transpose without cost that alone stands between `v` and an anchor's cluster; else null.
  Operation *viewOfAnchor(Value *v) {
    Operation *t = v->def();
    if (!t || !t->is(Op::Transpose) || !isView(*t) || !v->hasOneUse() || !position_.count(t))
      return nullptr;
    Operation *def = t->operand(0)->def();
    return def && position_.count(def) && clustered(def) && clusters_[cluster(def)].anchor
               ? t
               : nullptr;
  }

  void fuseIntoProducers(Operation *map) {
    // Contractions first, then other anchors, then maps; the latest of each.
    llvm::SmallVector<std::pair<int64_t, unsigned>, 4> order;
    for (unsigned i = 0; i < map->numOperands(); ++i) {
      Operation *def = map->operand(i)->def();
      if (Operation *view = viewOfAnchor(map->operand(i)))
        def = view->operand(0)->def();
      if (!def || !position_.count(def) || !clustered(def))
        continue;
      Cluster &c = clusters_[cluster(def)];
      if (c.movement || (isAnchor(*def) && epilogueId(*def, false).empty()))
        continue; // movement is looked at later; such anchors have no epilogue
      const int64_t rank = c.anchor ? (isContraction(*c.anchor) ? 0 : 1) : 2;
      order.push_back({rank * int64_t(ops_.size() + 1) - int64_t(position_[def]), i});
    }
    std::sort(order.begin(), order.end());
    for (auto &[key, i] : order) {
      Value *v = map->operand(i);
      if (cluster(v->def()) == cluster(map))
        continue; // came along with another operand
      Operation *view = viewOfAnchor(v);
      if (!view) {
        fuseEpilogue(map, i, *v->def());
        continue;
      }
      // The view joins its producer, for good only when the map does, too.
      Operation &producer = *view->operand(0)->def();
      const unsigned p = cluster(&producer), own = cluster(view);
      const Cluster before = clusters_[p], viewAlone = clusters_[own];
      merge(p, own);
      if (!fuseEpilogue(map, i, producer)) {
        clusters_[p] = before;
        clusters_[own] = viewAlone;
        clusterOf_[position_[view]] = own;
      }
    }
  }

  /// `maker`: what makes operand i, perhaps seen through a view.
  bool fuseEpilogue(Operation *map, unsigned i, Operation &maker) {
    Value *v = map->operand(i);
    Operation *producer = &maker;
    const unsigned p = cluster(producer), c = cluster(map);
    Cluster &from = clusters_[p];
    bool residual = false;
    for (unsigned k = 0; k < map->numOperands(); ++k)
      residual |= k != i && map->operand(k) != v && readsInPlace(*map, k) &&
                  !constantValue(map->operand(k));
    llvm::StringRef id = from.anchor ? epilogueId(*from.anchor, residual) : "fuse.pointwise";
    if (id.empty())
      return false;
    const int64_t saved = savedBytes(v, p, c);
    if (from.anchor && clusters_[c].anchor)
      return reject(id, *producer, *map, "the consumer belongs to another anchor already", saved);
    if (!readsInPlace(*map, i))
      return reject(id, *producer, *map, "elements are not read where they are made", saved);
    if (widens(*map) && !widens(*producer) && bitWidth(v->type().element()) <= 8)
      return reject(id, *producer, *map, "the narrow form is what should be stored", saved);
    Cluster &to = clusters_[c];
    Operation *anchor = from.anchor ? from.anchor : to.anchor;
    if (anchor)
      for (Value *r : map->results()) {
        if (bitWidth(r->type().element()) < 8) // only map writes these
          return reject(id, *producer, *map, "elements of the result share bytes", saved);
        if (!samePlacement(r->type(), r->type().withLayout(v->type().layout())))
          return reject(id, *producer, *map, "the result has another layout than the anchor writes",
                        saved);
      }
    if (!from.anchor && to.anchor && !feedsOnly(p, c)) // results of a group follow its anchor
      return reject(id, *producer, *map, "the value is needed elsewhere", saved);
    if (widens(*producer) && from.members.size() == 1 && !feedsOnly(p, c))
      return reject(id, *producer, *map, "the dequantised value is needed elsewhere", saved);
    return join(id, *producer, *map, v, p, c);
  }

  //===--------------------------------------------------------------------===//
  // Prologues
  //===--------------------------------------------------------------------===//

  void fusePrologues(Operation *anchor) {
    if (anchor->is(Op::Reduce)) {
      for (unsigned i = 0; i < anchor->numOperands(); ++i)
        fuseReducePrologue(anchor, i);
      return;
    }
    if (anchor->isAny(Op::Conv, Op::MatMul, Op::Pool))
      fuseContractionPrologue(anchor);
  }

  Operation *mapBehind(Value *v) {
    Operation *def = v->def();
    if (!def || !def->is(Op::Map) || !position_.count(def) || !clustered(def))
      return nullptr;
    Cluster &c = clusters_[cluster(def)];
    return c.anchor || c.movement ? nullptr : def;
  }

  // reduce(map(x)): every element is read once
  bool fuseReducePrologue(Operation *reduce, unsigned i) {
    Value *v = reduce->operand(i);
    Operation *map = mapBehind(v);
    if (!map || cluster(map) == cluster(reduce))
      return false;
    const llvm::StringRef id = "fuse.reduce-prologue";
    const unsigned p = cluster(map), c = cluster(reduce);
    const int64_t saved = savedBytes(v, p, c);
    if (!isIdentityMap(indexMap(*reduce, i), unsigned(iterationSpace(*reduce).size())))
      return reject(id, *map, *reduce, "elements are read more than once", saved);
    if (!feedsOnly(p, c))
      return reject(id, *map, *reduce, "the value is needed elsewhere", saved);
    return join(id, *map, *reduce, v, c, p);
  }

  // conv(map(x)), matmul(map(x)), pool(map(x)): computed again for every time an element is read
  bool fuseContractionPrologue(Operation *anchor) {
    Value *v = anchor->operand(0);
    Operation *map = mapBehind(v);
    if (!map)
      return false;
    const llvm::StringRef id = "fuse.prologue";
    const unsigned p = cluster(map), c = cluster(anchor);
    const int64_t saved = savedBytes(v, p, c);
    if (!context_.target.prologues)
      return reject(id, *map, *anchor, "the target's kernels take no prologue", saved);
    if (!feedsOnly(p, c))
      return reject(id, *map, *anchor, "the value is needed elsewhere", saved);
    if (isInteger(v->type().element()) && isInteger(anchor->result()->type().element()) &&
        llvm::any_of(clusters_[p].members, [&](unsigned m) {
          return !ops_[m]->is(Op::Map) || !isCopyBody(ops_[m]->region());
        }))
      return reject(id, *map, *anchor, "kernels for sums of bytes read them as they lie", saved);
    const unsigned rank = v->type().rank();
    const int64_t channel = anchor->is(Op::MatMul) ? rank - 1 : 1;
    llvm::SmallPtrSet<Value *, 4> full; // tensors that are read, from outside of the maps
    bool narrows = false;
    unsigned operations = 0;
    for (unsigned m : clusters_[p].members) {
      Operation &step = *ops_[m];
      if (step.numResults() != 1)
        return reject(id, *map, *anchor, "the map has several results", saved);
      if (!isCheapBody(step.region()))
        return reject(id, *map, *anchor, "the body is dear and would be computed repeatedly",
                      saved);
      for (Operation &scalar : step.region())
        operations += !scalar.isAny(Op::Const, Op::Cast) && !scalar.isTerminator();
      for (unsigned i = 0; i < step.numOperands(); ++i) {
        Value *operand = step.operand(i);
        if (Operation *def = operand->def(); def && position_.count(def) && cluster(def) == p)
          continue;
        if (readsInPlace(step, i)) {
          full.insert(operand);
          narrows = bitWidth(operand->type().element()) < bitWidth(v->type().element());
          if (operand->type().layout() != v->type().layout())
            return reject(id, *map, *anchor, "the map changes the layout", saved);
          continue;
        }
        for (int64_t d : indexMap(step, i))
          if (d >= 0 && d != channel)
            return reject(id, *map, *anchor, "an operand varies along another dimension than K",
                          saved);
      }
    }
    if (full.size() != 1)
      return reject(id, *map, *anchor, "the map reads several tensors", saved);
    const bool once = anchor->is(Op::MatMul) || (anchor->is(Op::Conv) && pointConv(*anchor));
    if (!narrows && !once)
      return reject(id, *map, *anchor, "would be computed again at every window position", saved);
    const TargetTraits &target = context_.target;
    const bool halves = bitWidth(v->type().element()) == 16;
    if (operations > 1 && !narrows &&
        bytesOf(v->type()) < (halves ? target.prologueBytesOfHalves : target.prologueBytes))
      return reject(id, *map, *anchor, "several operations on every read cost more than they save",
                    saved);
    return join(id, *map, *anchor, v, c, p);
  }

  static bool pointConv(const Operation &conv) {
    llvm::ArrayRef<Dim> w = conv.operand(1)->type().shape();
    return llvm::all_of(w.drop_front(2), [](Dim d) { return d.isConstant(1); });
  }

  //===--------------------------------------------------------------------===//
  // Movement read by maps
  //===--------------------------------------------------------------------===//

  void fuseMovement(Operation *map) {
    for (unsigned i = 0; i < map->numOperands(); ++i) {
      Value *v = map->operand(i);
      Operation *def = v->def();
      if (!def || !position_.count(def) || !clustered(def) || !isMovement(*def) ||
          cluster(def) == cluster(map))
        continue;
      const llvm::StringRef id = "fuse.movement";
      const unsigned p = cluster(def), c = cluster(map);
      const int64_t saved = savedBytes(v, p, c);
      if (def->is(Op::Reshape))
        reject(id, *def, *map, "a reshape that is no view has no index map", saved);
      else if (!context_.target.movementReads)
        reject(id, *def, *map, "the target's kernels read no movement", saved);
      else if (clusters_[c].anchor)
        reject(id, *def, *map, "an anchor's epilogue reads tensors as they lie", saved);
      else if (!feedsOnly(p, c))
        reject(id, *def, *map, "the moved value is needed elsewhere", saved);
      else
        join(id, *def, *map, v, c, p);
    }
  }

  //===--------------------------------------------------------------------===//
  // Views before a concat
  //===--------------------------------------------------------------------===//

  // concat(reshape(transpose(y))): the kernel that makes y then owns the concat's operand and can
  // write it in place. Transposes come first, at most one reshape last: writing by another shape
  // takes row-major data.
  void fuseViewResults(Operation *concat) {
    // Only along the outermost dimension are dense operands windows already.
    Type whole = concat->result()->type();
    for (int64_t d = 0; d < concat->intAttr("axis"); ++d)
      if (!whole.dim(unsigned(d)).isConstant(1) || !whole.layout().isRowMajor())
        return;
    for (Value *v : concat->operands()) {
      llvm::SmallVector<Operation *, 4> views; // from the concat backwards
      Value *x = v;
      while (Operation *def = x->def()) {
        if (!def->isAny(Op::Reshape, Op::Transpose) || !isView(*def) || !x->hasOneUse() ||
            (def->is(Op::Reshape) && (!views.empty() || !x->type().layout().isRowMajor())))
          break;
        views.push_back(def);
        x = def->operand(0);
      }
      Operation *def = x->def();
      if (views.empty() || !def || !x->hasOneUse() || !clustered(def) || def->is(Op::Concat) ||
          clusters_[cluster(def)].movement)
        continue;
      if (!context_.fire("fuse.view-result", *concat))
        continue;
      record(true, "fuse.view-result", *def, *concat, "", 2 * bytesOf(v->type()));
      for (Operation *view : llvm::reverse(views))
        merge(cluster(def), cluster(view));
    }
  }

  //===--------------------------------------------------------------------===//
  // Forming groups
  //===--------------------------------------------------------------------===//

  bool form() {
    bool any = nested_;
    for (Cluster &c : clusters_)
      any |= c.kernel && c.members.size() > 1;
    if (!any)
      return false;
    // Kahn's algorithm over clusters; among the ready ones that which ended first in the old order.
    const unsigned n = unsigned(clusters_.size());
    std::vector<std::set<unsigned>> users(n);
    std::vector<unsigned> waiting(n, 0);
    for (unsigned i = 0; i < ops_.size(); ++i)
      for (Value *v : ops_[i]->operands())
        if (v->def() && cluster(v->def()) != clusterOf_[i] &&
            users[cluster(v->def())].insert(clusterOf_[i]).second)
          ++waiting[clusterOf_[i]];
    std::set<std::pair<unsigned, unsigned>> ready; // (last member, cluster)
    for (unsigned c = 0; c < n; ++c)
      if (!clusters_[c].members.empty() && waiting[c] == 0)
        ready.insert({clusters_[c].members.back(), c});
    Operation *end = ops_.back();
    assert(end->isTerminator());
    while (!ready.empty()) {
      const unsigned c = ready.begin()->second;
      ready.erase(ready.begin());
      for (unsigned u : users[c])
        if (--waiting[u] == 0)
          ready.insert({clusters_[u].members.back(), u});
      std::vector<Operation *> members;
      for (unsigned m : clusters_[c].members)
        members.push_back(ops_[m]);
      if (members[0] == end)
        continue;
      if (clusters_[c].kernel && members.size() > 1)
        makeGroup(members, end);
      else
        members[0]->moveBefore(end);
    }
    return true;
  }

  Region &region_;
  PassContext &context_;
  std::vector<Operation *> ops_;
  llvm::DenseMap<const Operation *, unsigned> position_; // looked up only
  std::vector<unsigned> clusterOf_;
  std::vector<Cluster> clusters_;
  bool nested_ = false;
};

} // namespace

bool runFuse(Graph &graph, PassContext &context) {
  bool changed = Fuser(graph.body(), context).run();
  return changed | mergeMaps(graph.body(), context);
}

} // namespace tenon
