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
// (prologue); slices, pads and transposes join the map that reads them (movement). Some anchors
// become one cluster, a chain, where the target has a kernel for them: a convolution and the pool
// or the depthwise convolution behind it, the three that make the gates of squeeze-and-excitation.
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
  case Op::Softmax: return "fuse.softmax-epilogue";
  case Op::Normalize: return "fuse.normalize-epilogue";
  case Op::Resize: return "fuse.resize-epilogue";
  case Op::Gather: return "fuse.gather-epilogue";
  default: return "";
  }
}

class Fuser {
public:
  Fuser(Region &region, PassContext &context) : context_(context), clusters_(region) {}

  bool run() {
    for (Operation *op : clusters_.ops())
      if (clusters_.takesPart(op) && op->is(Op::Map))
        fuseIntoProducers(op);
    for (Operation *op : clusters_.ops())
      if (clusters_.takesPart(op) && isAnchor(*op))
        fusePrologues(op);
    if (context_.target.convChain)
      for (Operation *op : clusters_.ops())
        if (clusters_.takesPart(op) && op->isAny(Op::Pool, Op::Conv))
          fuseConvolutionBefore(op);
    if (context_.target.squeezeBytes > 0)
      for (Operation *op : clusters_.ops())
        if (clusters_.takesPart(op) && isRowProduct(*op))
          fuseGates(op);
    for (Operation *op : clusters_.ops())
      if (clusters_.takesPart(op) && op->is(Op::Map))
        fuseMovement(op);
    for (Operation *op : clusters_.ops())
      if (op->is(Op::Concat))
        fuseViewResults(op);
    return clusters_.form();
  }

private:
  /// Records the rejection and returns false, so that callers can `return reject(…)`.
  bool reject(llvm::StringRef id, const Operation &p, const Operation &c, llvm::StringRef reason,
              int64_t saved) {
    recordFusion(context_, false, id, p, c, reason, saved);
    return false;
  }

  /// The checks that all fusions share; asks the controls last.
  bool join(llvm::StringRef id, Operation &producer, Operation &consumer, Value *v, unsigned into,
            unsigned from) {
    const int64_t saved = clusters_.savedBytes(v, into, from);
    const unsigned p = clusters_.of(&producer), c = clusters_.of(&consumer);
    if (v->type().space() != consumer.result()->type().space())
      return reject(id, producer, consumer, "one side runs on the host", saved);
    if (int64_t(clusters_.inputs(into, from)) > context_.option("max-inputs"))
      return reject(id, producer, consumer, "the group would have too many inputs", saved);
    if (clusters_.pathThroughOthers(p, c))
      return reject(id, producer, consumer,
                    "would make a cycle: another input depends on this producer", saved);
    if (!context_.fire(id, consumer))
      return reject(id, producer, consumer, "switched off", saved);
    recordFusion(context_, true, id, producer, consumer, "", saved);
    clusters_.merge(into, from);
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

  /// A map that converts floats to wider ones.
  static bool isWidening(const Operation &op) {
    const Operation *cast = isPlainMap(&op, 1) && readsInPlace(op, 0) ? soleScalar(op) : nullptr;
    const Element from = op.operand(0)->type().element(), to = op.result()->type().element();
    return cast && cast->is(Op::Cast) && isFloat(from) && isFloat(to) &&
           bitWidth(from) < bitWidth(to);
  }
  /// The same where reductions do it as they read.
  static bool widensForSums(const Operation &op) {
    return op.is(Op::Map) && isWidening(op) && op.result()->hasUses() &&
           llvm::all_of(op.result()->uses(), [](Use *u) {
             const Operation &reduce = *u->owner();
             return reduce.is(Op::Reduce) && isIdentityMap(indexMap(reduce, u->index()),
                                                           unsigned(iterationSpace(reduce).size()));
           });
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
      return reject(id, *producer, *map, "the consumer belongs to another anchor already", saved);
    if (!readsInPlace(*map, i) || (from.anchor && !readInPlaceBy(c, p)))
      return reject(id, *producer, *map, "elements are not read where they are made", saved);
    if (widens(*map) && !widens(*producer) && bitWidth(v->type().element()) <= 8)
      return reject(id, *producer, *map, "the narrow form is what should be stored", saved);
    if (widensForSums(*map) && (from.anchor || v->useCount() > 1))
      return reject(id, *producer, *map, "sums read the narrow form", saved);
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
  // Squeeze-and-excitation
  //===--------------------------------------------------------------------===//

  /// A product of one row an image with constant weights: a dense layer, or a convolution of 1x1
  /// over 1x1; not so large that it wants more than a few multiprocessors.
  bool isRowProduct(const Operation &op) const {
    if (!op.isAny(Op::Conv, Op::MatMul) || op.numOperands() != 2 || !constantValue(op.operand(1)) ||
        op.boolAttr("trans_a") || op.has("block"))
      return false;
    const Type x = op.operand(0)->type(), w = op.operand(1)->type(), y = op.result()->type();
    if (!isFloat(x.element()) || bitWidth(x.element()) < 16 ||
        computeElement(x.element()) != Element::F32 || w.element() != x.element() ||
        2 * bytesOf(w) > context_.target.squeezeWeights || !x.dim(1).isConstant() ||
        x.dim(1).constant() > kMostRowElements || y.dim(1).upper() > kMostRowElements)
      return false;
    if (op.is(Op::MatMul))
      return w.rank() == 2 && x.rank() == 2;
    auto isOne = [](Dim d) { return d.isConstant(1); };
    auto all = [&](llvm::StringRef name, int64_t value) {
      return !op.has(name) ||
             llvm::all_of(op.intsAttr(name), [=](int64_t n) { return n == value; });
    };
    return x.rank() <= 4 && op.intAttr("groups", 1) == 1 && pointConv(op) && all("strides", 1) &&
           all("pads", 0) && llvm::all_of(x.shape().drop_front(2), isOne) &&
           llvm::all_of(y.shape().drop_front(2), isOne);
  }
  /// Elements of a row that a cluster of blocks has room for.
  static constexpr int64_t kMostRowElements = 4096;
  /// Sums of an image's pixels, one for each channel, perhaps of what is widened for them, and
  /// perhaps scaled: all of the cluster.
  bool isMeans(unsigned cluster) const {
    const Operation *sum = clusters_[cluster].anchor;
    if (!sum || !sum->is(Op::Reduce) || sum->numOperands() != 1 || sum->numResults() != 1 ||
        sum->floatsAttr("init")[0] != 0)
      return false;
    const Operation *step = soleScalar(*sum);
    const unsigned rank = sum->operand(0)->type().rank();
    if (!step || !step->is(Op::Add) || step->operand(0) == step->operand(1) ||
        step->operand(0)->def() || step->operand(1)->def() ||
        !isIdentityMap(indexMap(*sum, 0), rank) || sum->intsAttr("axes").size() + 2 != rank ||
        llvm::is_contained(sum->intsAttr("axes"), int64_t(0)))
      return false;
    return llvm::all_of(clusters_[cluster].members, [&](unsigned m) {
      const Operation &op = *clusters_.ops()[m];
      return &op == sum || (op.numResults() == 1 && op.result() == sum->operand(0) ? isWidening(op)
                                                                                   : isScaling(op));
    });
  }
  /// A map that multiplies by constants, and converts.
  static bool isScaling(const Operation &map) {
    if (!isPlainMap(&map, 1) || !readsInPlace(map, 0))
      return false;
    auto isConstant = [](const Value *v) { return scalarValue(v).hasValue(); };
    return llvm::all_of(map.region(), [&](const Operation &op) {
      return op.isTerminator() || op.is(Op::Const) ||
             (op.is(Op::Cast) && isFloat(op.result()->type().element())) ||
             (op.is(Op::Mul) && (isConstant(op.operand(0)) || isConstant(op.operand(1)))) ||
             (op.is(Op::Div) && isConstant(op.operand(1)));
    });
  }
  /// What the sums of a cluster read.
  Value *imageOf(unsigned cluster) const {
    Value *x = clusters_[cluster].anchor->operand(0);
    Operation *widening = x->def();
    return clusters_.contains(widening) && clusters_.of(widening) == cluster ? widening->operand(0)
                                                                             : x;
  }
  static bool hasChannelsInnermost(const Operation &sum, Type x) {
    unsigned channel = 1;
    while (llvm::is_contained(sum.intsAttr("axes"), int64_t(channel)))
      ++channel;
    return addressing(x).strides[channel].isConstant(1);
  }
  /// What makes the first operand of an anchor and feeds nothing else, perhaps seen through a view.
  struct Maker {
    Operation *def = nullptr, *view = nullptr;
    unsigned cluster = 0;
    Operation *anchor = nullptr; // of its cluster; null: there is no such maker
  };
  Maker makerOf(const Operation &anchor) const {
    Value *v = anchor.operand(0);
    Maker m;
    m.def = v->def();
    if (clusters_.contains(m.def) && m.def->is(Op::Reshape) && isView(*m.def) && v->hasOneUse()) {
      m.view = m.def;
      m.def = m.view->operand(0)->def();
    }
    const unsigned reader = clusters_.of(m.view ? m.view : &anchor);
    if (!clusters_.takesPart(m.def) || clusters_.of(m.def) == clusters_.of(&anchor))
      return m;
    m.cluster = clusters_.of(m.def);
    if (!clusters_[m.cluster].movement && clusters_.feedsOnly(m.cluster, reader) &&
        !readsPosition(m.cluster))
      m.anchor = clusters_[m.cluster].anchor;
    return m;
  }
  bool readsPosition(unsigned cluster) const {
    return llvm::any_of(clusters_[cluster].members, [&](unsigned m) {
      const Operation &op = *clusters_.ops()[m];
      return op.is(Op::Map) &&
             llvm::any_of(op.region(), [](const Operation &s) { return s.is(Op::Index); });
    });
  }
  void takeMaker(const Maker &m, const Operation &anchor, unsigned into) {
    const int64_t saved = clusters_.savedBytes(anchor.operand(0), into, m.cluster);
    recordFusion(context_, true, "fuse.squeeze-excite", *m.def, anchor, "", saved);
    if (m.view)
      clusters_.merge(into, clusters_.of(m.view));
    clusters_.merge(into, m.cluster);
  }

  // conv(f(conv(mean(x)))), or of products: one kernel for each image, which exchanges little
  void fuseGates(Operation *second) {
    const unsigned cluster = clusters_.of(second);
    if (clusters_[cluster].anchor != second || readsPosition(cluster))
      return;
    // What a chain has already has no maker outside of its cluster.
    const Maker product = makerOf(*second);
    Operation *first = product.anchor;
    if (!first || !isRowProduct(*first) ||
        first->result()->type().element() != second->operand(0)->type().element())
      return;
    // The two products alone are no faster in one kernel (docs/performance.md).
    const Maker means = makerOf(*first);
    if (!means.anchor || !isMeans(means.cluster) || !areFew(means, *first))
      return;
    // All three or none: nothing runs two of them.
    const Value *y = second->result();
    const int64_t saved = bytesOf(first->result()->type());
    const size_t inputs = clusters_.inputs(means.cluster, product.cluster) +
                          clusters_.inputs(product.cluster, cluster);
    if (means.anchor->result()->type().space() != y->type().space() ||
        first->result()->type().space() != y->type().space()) {
      reject("fuse.squeeze-excite", *first, *second, "one side runs on the host", saved);
    } else if (int64_t(inputs) > context_.option("max-inputs")) {
      reject("fuse.squeeze-excite", *first, *second, "the group would have too many inputs", saved);
    } else if (!context_.fire("fuse.squeeze-excite", *second)) {
      reject("fuse.squeeze-excite", *first, *second, "switched off", saved);
    } else {
      Value *image = imageOf(means.cluster);
      takeMaker(product, *second, cluster);
      takeMaker(means, *first, cluster);
      fuseGatedImage(cluster, image);
    }
  }
  /// Whether a cluster of blocks adds up an image as fast as a kernel of its own would.
  bool areFew(const Maker &means, const Operation &product) {
    const Type x = imageOf(means.cluster)->type();
    const int64_t images = std::max<int64_t>(1, x.dim(0).upper());
    const int64_t saved = bytesOf(means.anchor->result()->type());
    const llvm::StringRef id = "fuse.squeeze-excite";
    if (!hasChannelsInnermost(*means.anchor, x))
      return reject(id, *means.anchor, product, "the channels of a pixel do not lie side by side",
                    saved);
    if (images < context_.target.squeezeImages &&
        bytesOf(x) / images > context_.target.squeezeBytes)
      return reject(id, *means.anchor, product,
                    "an image has more bytes than a cluster of blocks adds up quickly", saved);
    return true;
  }

  /// The map of `image`, which a chain has the means of, and its gates, where the image is small
  /// enough for its cluster of blocks or there are many.
  void fuseGatedImage(unsigned cluster, Value *image) {
    Operation *map = nullptr;
    Value *gates = nullptr;
    for (unsigned m : clusters_[cluster].members)
      for (Value *v : clusters_.ops()[m]->results())
        for (Use *u : v->uses())
          if (clusters_.of(u->owner()) != cluster) {
            if (map && (map != u->owner() || gates != v))
              return; // several values, or several readers
            map = u->owner();
            gates = v;
          }
    if (!map || !clusters_.takesPart(map) || !map->is(Op::Map) || map->numResults() != 1 ||
        clusters_[clusters_.of(map)].members.size() != 1)
      return;
    const Type x = image->type(), y = map->result()->type();
    bool readsImage = false, fits = x.shape() == y.shape() && x.layout() == y.layout();
    for (unsigned i = 0; i < map->numOperands(); ++i) {
      const Value *v = map->operand(i);
      readsImage |= v == image && readsInPlace(*map, i);
      if (v != gates)
        continue;
      // One gate for each channel of an image.
      const IndexMap &m = indexMap(*map, i);
      for (unsigned d = 0; d < m.size(); ++d)
        fits &= m[d] < 0 || m[d] == int64_t(d);
      for (unsigned d = 2; d < m.size(); ++d)
        fits &= m[d] < 0 || y.dim(d).isConstant(1);
    }
    if (!readsImage || !fits)
      return;
    const llvm::StringRef id = "fuse.gated-image";
    const int64_t images = std::max<int64_t>(1, x.dim(0).upper());
    const Operation &anchor = *clusters_[cluster].anchor;
    if (images < context_.target.gatedImages &&
        bytesOf(x) / images > context_.target.squeezeBytes / 4) {
      reject(id, anchor, *map, "too few blocks would go through the image", bytesOf(x));
      return;
    }
    join(id, *gates->def(), *map, gates, cluster, clusters_.of(map));
  }

  //===--------------------------------------------------------------------===//
  // Convolutions before pools and depthwise convolutions
  //===--------------------------------------------------------------------===//

  // pool(f(conv(x))) of the largest elements, and conv(f(conv(x))) of depthwise windows, where f
  // knows nothing but an element and its channel: what the first makes is no further than registers
  // or shared memory from where it is read.
  void fuseConvolutionBefore(Operation *next) {
    const bool pools = next->is(Op::Pool);
    if (pools ? next->wordAttr("kind") != "max" : next->intAttr("groups", 1) == 1)
      return;
    const unsigned c = clusters_.of(next);
    const Maker maker = makerOf(*next);
    if (!maker.anchor || maker.view || !maker.anchor->is(Op::Conv) || clusters_[c].anchor != next ||
        (!pools && !pointConv(*maker.anchor)))
      return;
    const llvm::StringRef id = pools ? "fuse.conv-pool" : "fuse.expand-depthwise";
    const Operation &conv = *maker.anchor;
    Value *v = next->operand(0);
    const int64_t saved = clusters_.savedBytes(v, c, maker.cluster);
    const Element stored = v->type().element();
    auto multiplies = [&](const Operation &op) {
      return op.operand(1)->type().element() == stored && constantValue(op.operand(1));
    };
    std::string why;
    if (readsPosition(c) || !isOfChannels(maker.cluster))
      reject(id, *maker.def, *next, "something between them depends on the position in the image",
             saved);
    else if (!isHalf(stored) || !multiplies(conv) || (!pools && !multiplies(*next)))
      reject(id, *maker.def, *next, "not in 16 bits with constant weights", saved);
    else if (!pools && !readsPixels(conv, maker.cluster))
      reject(id, *maker.def, *next, "the channels of a pixel do not lie side by side", saved);
    else if (!context_.target.convChain(conv, *next, why))
      reject(id, *maker.def, *next, why, saved);
    else
      join(id, *maker.def, *next, v, c, maker.cluster);
  }
  /// Whether a convolution reads pixels as they lie, channels side by side.
  bool readsPixels(const Operation &conv, unsigned cluster) const {
    const Operation *def = conv.operand(0)->def();
    const Type x = conv.operand(0)->type();
    return !(clusters_.contains(def) && clusters_.of(def) == cluster) &&
           x.element() == conv.operand(1)->type().element() && x.rank() == 4 &&
           addressing(x).strides[1].isConstant(1);
  }
  static bool isHalf(Element e) { return e == Element::F16 || e == Element::BF16; }
  /// Whether what the maps of an anchor's cluster make of its elements depends on the channel only.
  bool isOfChannels(unsigned cluster) const {
    llvm::SmallPtrSet<const Value *, 4> made;
    made.insert(clusters_[cluster].anchor->result());
    for (unsigned m : clusters_[cluster].members) {
      const Operation &map = *clusters_.ops()[m];
      if (llvm::none_of(map.operands(), [&](const Value *v) { return made.count(v) > 0; }))
        continue; // the anchor, and what comes before it
      if (!map.is(Op::Map) || map.numResults() != 1)
        return false;
      for (unsigned i = 0; i < map.numOperands(); ++i) {
        const IndexMap &at = indexMap(map, i);
        for (unsigned d = 0; d < at.size(); ++d)
          if (at[d] >= 0 && at[d] != 1 && !made.count(map.operand(i)) &&
              !map.result()->type().dim(unsigned(at[d])).isConstant(1))
            return false;
        if (made.count(map.operand(i)) && !readsInPlace(map, i))
          return false;
      }
      made.insert(map.result());
    }
    return true;
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

  PassContext &context_;
  Clusters clusters_;
};

/// The regions of control flow first, then the region itself.
bool fuse(Region &region, PassContext &context) {
  bool changed = prepareFusion(region, context);
  for (Operation &op : region)
    if (op.isAny(Op::If, Op::Loop))
      for (unsigned r = 0; r < op.numRegions(); ++r)
        changed |= fuse(op.region(r), context);
  return changed | Fuser(region, context).run();
}

} // namespace

bool runFuse(Graph &graph, PassContext &context) {
  const bool changed = fuse(graph.body(), context);
  return changed | mergeMaps(graph.body(), context);
}

} // namespace tenon
