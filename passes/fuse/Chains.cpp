// Implements chains of anchors.
#include "passes/fuse/Chains.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"
#include "passes/ViewLayout.h"
#include "passes/fuse/Joining.h"
#include "passes/fuse/Prepare.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>

namespace tenon {
namespace {

class ChainFuser : Joining {
public:
  using Joining::Joining;

  void run() {
    if (context_.target.convChain)
      for (Operation *op : clusters_.ops())
        if (clusters_.takesPart(op) && op->isAny(Op::Pool, Op::Conv))
          fuseConvolutionBefore(op);
    if (context_.target.squeezeBytes > 0)
      for (Operation *op : clusters_.ops())
        if (clusters_.takesPart(op) && isRowProduct(*op))
          fuseGates(op);
  }

private:
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
        (!pools && !isPointConv(*maker.anchor)))
      return;
    const llvm::StringRef id = pools ? "fuse.conv-pool" : "fuse.expand-depthwise";
    const Operation &conv = *maker.anchor;
    Value *v = next->operand(0);
    const int64_t saved = clusters_.savedBytes(v, c, maker.cluster);
    const Element stored = v->type().element();
    auto multiplies = [&](const Operation &op) {
      return op.operand(1)->type().element() == stored && constantValue(op.operand(1));
    };
    if (readsPosition(c) || !isOfChannels(maker.cluster))
      reject(id, *maker.def, *next, "something between them depends on the position in the image",
             saved);
    else if (!isHalf(stored) || !multiplies(conv) || (!pools && !multiplies(*next)))
      reject(id, *maker.def, *next, "not in 16 bits with constant weights", saved);
    else if (!pools && hasPrologue(conv, maker.cluster))
      reject(id, *maker.def, *next, "the first convolution applies something as it reads", saved);
    else if (!pools && !readsPixels(conv))
      reject(id, *maker.def, *next, "the channels of a pixel do not lie side by side", saved);
    else if (const Result<> taken = context_.target.convChain(conv, *next); !taken)
      reject(id, *maker.def, *next, taken.refusal().reason, saved);
    else
      join(id, *maker.def, *next, v, c, maker.cluster);
  }
  bool hasPrologue(const Operation &conv, unsigned cluster) const {
    const Operation *def = conv.operand(0)->def();
    return clusters_.contains(def) && clusters_.of(def) == cluster;
  }
  /// Whether the channels of a pixel lie side by side, multiplied as they are.
  static bool readsPixels(const Operation &conv) {
    const Type x = conv.operand(0)->type();
    return x.element() == conv.operand(1)->type().element() &&
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
    return x.rank() <= 4 && op.intAttr("groups", 1) == 1 && isPointConv(op) && all("strides", 1) &&
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
  /// A map that multiplies by constants, and converts without rounding.
  static bool isScaling(const Operation &map) {
    if (!isPlainMap(&map, 1) || !readsInPlace(map, 0))
      return false;
    auto isConstant = [](const Value *v) { return scalarValue(v).hasValue(); };
    return llvm::all_of(map.region(), [&](const Operation &op) {
      return op.isTerminator() || op.is(Op::Const) ||
             (op.is(Op::Cast) && isFloat(op.result()->type().element()) &&
              !op.boolAttr("rounds")) ||
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
    // The two products alone are no faster in one kernel (docs/kernels.md).
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
};

} // namespace

void fuseChains(Clusters &clusters, PassContext &context) { ChainFuser(clusters, context).run(); }

} // namespace tenon
