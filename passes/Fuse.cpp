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
// (prologue); slices, pads and transposes join the map that reads them (movement). What several
// anchors may have in one kernel is decided with the kernels (codegen/schedule/Chains.h).
// Legality: the clusters stay free of cycles, memory spaces agree, and an epilogue keeps its
// anchor's layout. A value that is needed elsewhere, too, becomes a further result of the group.
//
// Every decision is recorded with its reason and the bytes of traffic it saves. What joined
// nothing stays outside; the pass isolate wraps it.
#include "passes/Fuse.h"

#include "passes/Maps.h"
#include "passes/MergeMaps.h"
#include "passes/Rewrite.h"
#include "passes/ViewLayout.h"
#include "passes/fuse/Clusters.h"
#include "passes/fuse/Joining.h"
#include "passes/fuse/Prepare.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>

namespace tenon {
namespace {

/// What stands in an operation's epilogue is named after it.
llvm::StringRef epilogueId(const Operation &anchor, bool residual) {
  switch (anchor.kind()) {
  case Op::Conv:
  case Op::ConvTranspose: return residual ? "fuse.conv-residual" : "fuse.conv-epilogue";
  case Op::MatMul: return residual ? "fuse.matmul-residual" : "fuse.matmul-epilogue";
  case Op::Pool: return "fuse.pool-epilogue";
  case Op::Reduce: return "fuse.reduce-epilogue";
  case Op::Scan: return "fuse.scan-epilogue";
  case Op::Softmax: return "fuse.softmax-epilogue";
  case Op::Normalize: return "fuse.normalize-epilogue";
  case Op::Resize: return "fuse.resize-epilogue";
  case Op::Gather: return "fuse.gather-epilogue";
  case Op::Attention: return "fuse.attention-epilogue";
  default: return "";
  }
}

class Fuser : Joining {
public:
  using Joining::Joining;

  bool run() {
    for (Operation *op : clusters_.ops())
      if (clusters_.takesPart(op) && op->is(Op::Map))
        fuseIntoProducers(op);
    for (Operation *op : clusters_.ops())
      if (clusters_.takesPart(op) && isAnchor(*op))
        fusePrologues(op);
    for (Operation *op : clusters_.ops())
      if (clusters_.takesPart(op) && op->is(Op::Map))
        fuseMovement(op);
    for (Operation *op : clusters_.ops())
      if (op->is(Op::Concat))
        fuseViewResults(op);
    return clusters_.form();
  }

private:
  //===--------------------------------------------------------------------===//
  // Epilogues, and maps of maps
  //===--------------------------------------------------------------------===//

  /// Whether the maps of `reader` read what `maker` makes where they write.
  bool readInPlaceBy(unsigned reader, unsigned maker) {
    for (unsigned m : clusters_[reader].members) {
      const Operation &op = *clusters_.ops()[m];
      for (unsigned k = 0; op.is(Op::Map) && k < op.numOperands(); ++k) {
        const Operation *def = op.operand(k)->def();
        if (clusters_.contains(def) && clusters_.of(def) == maker && !readsInPlace(op, k))
          return false;
      }
    }
    return true;
  }

  /// The transpose without cost that alone stands between `v`, which `map` reads, and an anchor's
  /// cluster; else null. Nothing else may read the cluster: what joined it then could ask for
  /// elements at another place than its own.
  Operation *viewOfAnchor(Operation *map, Value *v) {
    Operation *t = v->def();
    if (!clusters_.contains(t) || !t->is(Op::Transpose) || !isView(*t) || !v->hasOneUse())
      return nullptr;
    Operation *def = t->operand(0)->def();
    if (!clusters_.takesPart(def) || !clusters_[clusters_.of(def)].anchor ||
        clusters_.of(def) == clusters_.of(map))
      return nullptr;
    return clusters_.feedsOnly(clusters_.of(def), clusters_.of(t)) ? t : nullptr;
  }

  void fuseIntoProducers(Operation *map) {
    // Contractions first, then other anchors, then maps; the latest of each.
    llvm::SmallVector<std::pair<int64_t, unsigned>, 4> order;
    for (unsigned i = 0; i < map->numOperands(); ++i) {
      Operation *def = map->operand(i)->def();
      if (Operation *view = viewOfAnchor(map, map->operand(i)))
        def = view->operand(0)->def();
      if (!clusters_.takesPart(def))
        continue;
      const Cluster &c = clusters_[clusters_.of(def)];
      if (c.movement || (isAnchor(*def) && epilogueId(*def, false).empty()))
        continue; // movement is looked at later; such anchors have no epilogue
      const int64_t rank = c.anchor ? (isContraction(*c.anchor) ? 0 : 1) : 2;
      order.push_back(
          {rank * int64_t(clusters_.ops().size() + 1) - int64_t(clusters_.position(def)), i});
    }
    std::sort(order.begin(), order.end());
    for (auto &[key, i] : order) {
      Value *v = map->operand(i);
      if (clusters_.of(v->def()) == clusters_.of(map))
        continue; // came along with another operand
      Operation *view = viewOfAnchor(map, v);
      if (!view) {
        fuseEpilogue(map, i, *v->def());
        continue;
      }
      // The view joins its producer, for good only when the map does, too.
      Operation &producer = *view->operand(0)->def();
      Clusters::Merged merged = clusters_.mergeOnTrial(clusters_.of(&producer), *view);
      if (!fuseEpilogue(map, i, producer))
        clusters_.separate(std::move(merged), *view);
    }
  }

  /// A map that widens floats where reductions do it as they read.
  static bool widensForSums(const Operation &op) {
    return op.is(Op::Map) && isWidening(op) && op.result()->hasUses() &&
           llvm::all_of(op.result()->uses(), [](Use *u) {
             const Operation &reduce = *u->owner();
             return reduce.is(Op::Reduce) && isIdentityMap(indexMap(reduce, u->index()),
                                                           unsigned(iterationSpace(reduce).size()));
           });
  }

  /// Null where kernels of attention compute the map.
  const char *whyNoAttentionBody(const Operation &attention, const Operation &map) const {
    const Dim queries = attention.result()->type().shape().drop_back().back();
    if (queries.upper() <= context_.target.attentionQueriesBeforeMaps)
      return "kernels of so few queries compute nothing else";
    if (llvm::any_of(map.region(), [](Operation &s) { return s.is(Op::Index); }))
      return "the body reads the position of an element";
    return nullptr;
  }

  /// `maker`: what makes operand i, perhaps seen through a view.
  bool fuseEpilogue(Operation *map, unsigned i, Operation &maker) {
    Value *v = map->operand(i);
    Operation *producer = &maker;
    const unsigned p = clusters_.of(producer), c = clusters_.of(map);
    const Cluster &from = clusters_[p];
    bool residual = false;
    for (unsigned k = 0; k < map->numOperands(); ++k)
      residual |= k != i && map->operand(k) != v && readsInPlace(*map, k) &&
                  !constantValue(map->operand(k));
    llvm::StringRef id = from.anchor ? epilogueId(*from.anchor, residual) : "fuse.pointwise";
    if (id.empty())
      return false;
    const int64_t saved = clusters_.savedBytes(v, p, c);
    if (from.anchor && clusters_[c].anchor)
      return reject(id, *producer, *map, "each belongs to a layer with a kernel of its own", saved);
    if (from.anchor && from.anchor->is(Op::Attention)) {
      if (const char *reason = whyNoAttentionBody(*from.anchor, *map))
        return reject(id, *producer, *map, reason, saved);
    }
    if (!readsInPlace(*map, i) || (from.anchor && !readInPlaceBy(c, p)))
      return reject(id, *producer, *map, "elements are not read where they are made", saved);
    if (widens(*map) && !widens(*producer) && bitWidth(v->type().element()) <= 8)
      return reject(id, *producer, *map, "stored before it is widened it takes fewer bytes", saved);
    if (widensForSums(*map) && (from.anchor || v->useCount() > 1))
      return reject(id, *producer, *map,
                    "the sum reads it before it is widened, which is fewer bytes", saved);
    const Cluster &to = clusters_[c];
    Operation *anchor = from.anchor ? from.anchor : to.anchor;
    if (anchor)
      for (Value *r : map->results()) {
        if (bitWidth(r->type().element()) < 8) // only map writes these
          return reject(id, *producer, *map, "elements of the result share bytes", saved);
        if (!samePlacement(r->type(), r->type().withLayout(v->type().layout())))
          return reject(id, *producer, *map, "the result has another layout than the anchor writes",
                        saved);
      }
    if (!from.anchor && to.anchor &&
        !clusters_.feedsOnly(p, c)) // results of a group follow its anchor
      return reject(id, *producer, *map, "the value is needed elsewhere", saved);
    if (widens(*producer) && from.members.size() == 1 && !clusters_.feedsOnly(p, c))
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
    if (!clusters_.takesPart(def) || !def->is(Op::Map))
      return nullptr;
    const Cluster &c = clusters_[clusters_.of(def)];
    return c.anchor || c.movement ? nullptr : def;
  }

  // reduce(map(x)): every element is read once
  bool fuseReducePrologue(Operation *reduce, unsigned i) {
    Value *v = reduce->operand(i);
    Operation *map = mapBehind(v);
    if (!map || clusters_.of(map) == clusters_.of(reduce))
      return false;
    const llvm::StringRef id = "fuse.reduce-prologue";
    const unsigned p = clusters_.of(map), c = clusters_.of(reduce);
    const int64_t saved = clusters_.savedBytes(v, p, c);
    if (!isIdentityMap(indexMap(*reduce, i), unsigned(iterationSpace(*reduce).size())))
      return reject(id, *map, *reduce, "elements are read more than once", saved);
    if (!clusters_.feedsOnly(p, c))
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
    const unsigned p = clusters_.of(map), c = clusters_.of(anchor);
    const int64_t saved = clusters_.savedBytes(v, p, c);
    if (!context_.target.prologues)
      return reject(id, *map, *anchor, "the target's kernels take no prologue", saved);
    if (!clusters_.feedsOnly(p, c))
      return reject(id, *map, *anchor, "the value is needed elsewhere", saved);
    if (isInteger(v->type().element()) && isInteger(anchor->result()->type().element()) &&
        llvm::any_of(clusters_[p].members, [&](unsigned m) {
          return !clusters_.ops()[m]->is(Op::Map) || !isCopyBody(clusters_.ops()[m]->region());
        }))
      return reject(id, *map, *anchor, "kernels for sums of bytes read them as they lie", saved);
    const unsigned rank = v->type().rank();
    const int64_t channel = anchor->is(Op::MatMul) ? rank - 1 : 1;
    llvm::SmallPtrSet<Value *, 4> full; // tensors that are read, from outside of the maps
    bool narrows = false;
    unsigned operations = 0;
    for (unsigned m : clusters_[p].members) {
      Operation &step = *clusters_.ops()[m];
      if (step.numResults() != 1)
        return reject(id, *map, *anchor, "the map has several results", saved);
      if (!isCheapBody(step.region()))
        return reject(id, *map, *anchor, "the body is dear and would be computed repeatedly",
                      saved);
      if (llvm::any_of(step.region(), [](Operation &s) { return s.is(Op::Index); }))
        return reject(id, *map, *anchor, "the body reads the position of an element", saved);
      for (Operation &scalar : step.region())
        operations += !scalar.isAny(Op::Const, Op::Cast) && !scalar.isTerminator();
      for (unsigned i = 0; i < step.numOperands(); ++i) {
        Value *operand = step.operand(i);
        if (Operation *def = operand->def(); clusters_.contains(def) && clusters_.of(def) == p)
          continue;
        if (readsInPlace(step, i)) {
          full.insert(operand);
          narrows = bitWidth(operand->type().element()) < bitWidth(v->type().element());
          if (operand->type().layout() != v->type().layout())
            return reject(id, *map, *anchor, "the map changes the layout", saved);
          continue;
        }
        for (int64_t d : indexMap(step, i))
          if (d >= 0 && d != channel && !v->type().dim(unsigned(d)).isConstant(1))
            return reject(id, *map, *anchor, "an operand varies along another dimension than K",
                          saved);
      }
    }
    if (full.size() != 1)
      return reject(id, *map, *anchor, "the map reads several tensors", saved);
    const bool once = anchor->is(Op::MatMul) || (anchor->is(Op::Conv) && isPointConv(*anchor));
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

  //===--------------------------------------------------------------------===//
  // Movement read by maps
  //===--------------------------------------------------------------------===//

  void fuseMovement(Operation *map) {
    for (unsigned i = 0; i < map->numOperands(); ++i) {
      Value *v = map->operand(i);
      Operation *def = v->def();
      if (!clusters_.takesPart(def) || !isMovement(*def) || clusters_.of(def) == clusters_.of(map))
        continue;
      const llvm::StringRef id = "fuse.movement";
      const unsigned p = clusters_.of(def), c = clusters_.of(map);
      const int64_t saved = clusters_.savedBytes(v, p, c);
      if (def->is(Op::Reshape))
        reject(id, *def, *map, "a reshape that is no view has no index map", saved);
      else if (!context_.target.movementReads)
        reject(id, *def, *map, "the target's kernels read no movement", saved);
      else if (clusters_[c].anchor)
        reject(id, *def, *map, "an anchor's epilogue reads tensors as they lie", saved);
      else if (!clusters_.feedsOnly(p, c))
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
      if (views.empty() || !def || !x->hasOneUse() || !clusters_.takesPart(def) ||
          def->is(Op::Concat) || clusters_[clusters_.of(def)].movement)
        continue;
      if (!context_.fire("fuse.view-result", *concat))
        continue;
      recordFusion(context_, true, "fuse.view-result", *def, *concat, "", 2 * bytesOf(v->type()));
      for (Operation *view : llvm::reverse(views))
        clusters_.merge(clusters_.of(def), clusters_.of(view));
    }
  }
};

/// The regions of control flow first, then the region itself.
bool fuse(Region &region, PassContext &context) {
  bool changed = prepareFusion(region, context);
  for (Operation &op : region)
    if (op.isAny(Op::If, Op::Loop))
      for (unsigned r = 0; r < op.numRegions(); ++r)
        changed |= fuse(op.region(r), context);
  Clusters clusters(region);
  return changed | Fuser(clusters, context).run();
}

} // namespace

bool runFuse(Graph &graph, PassContext &context) {
  const bool changed = fuse(graph.body(), context);
  return changed | mergeMaps(graph.body(), context);
}

} // namespace tenon
