// center-channels: 16-bit tensors that only normalisations read are stored less their mean.
//
//   %r = group %x, %w (…) {                 %r = group %x, %w, %m (…) {
//     …                                       …
//     yield f16(v) }                          yield f16(v − m) }
//   %p = group %r { pool }                  %p = group %r { pool }
//   %j = concat %p, %z               →      %j = concat %p, %z
//   %y = group %j, %a, %b (…) {             %y = group %j, %a, %b' (…) {
//     map relu(f32(j) · a + b)                map relu(f32(j) · a + b')
//     … }                                     … }                           b' = b + a·m
//
// A number of 16 bits errs by a fraction of its magnitude; what a normalisation makes of it depends
// on its distance from the mean. Behind a rectifier and a maximum the mean is several times the
// spread, and so is the error. Networks that normalise before each convolution read such a tensor
// again and again (DenseNet's first pool: 1.5 of 2.2 thousandths of error).
//
// No data is needed: a·x + b is small where x is near the mean, so m is what brings Σ (a·m + b)²
// over the readers to its least; it is a number of 16 bits, so that zeros stay exact. Where |a·m|,
// the distance from zero in units of what the normalisation divides by, is below 1 in the mean over
// channels and readers, little is gained and nothing is done. The subtraction is one more constant
// of the epilogue; readers cost what they did.
#include "passes/CenterChannels.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"

#include <cmath>

namespace tenon {
namespace {

constexpr unsigned kChannel = 1;

bool isHalf(Element e) { return e == Element::F16 || e == Element::BF16; }

/// Extent of the channels; 0 where it is not constant.
int64_t channelsOf(Type t) {
  return t.rank() > kChannel && t.dim(kChannel).isConstant() ? t.dim(kChannel).constant() : 0;
}

/// The group's operand behind one of its arguments.
Use *captured(Value *v) {
  Region *region = v->argumentOf();
  Operation *group = region ? region->parentOp() : nullptr;
  return group && group->is(Op::Group) ? &group->use(v->index()) : nullptr;
}

/// The one per-channel constant that `scalar`, an argument of the map's body, stands for; where
/// nothing else reads it, `use` is what holds it.
struct ChannelConstant {
  Literal literal;
  Use *use = nullptr;
};
ChannelConstant channelConstant(Operation &map, Value *scalar, int64_t channels) {
  ChannelConstant c;
  if (scalar->argumentOf() != &map.region())
    return c;
  const unsigned i = scalar->index();
  c.use = captured(map.operand(i));
  Literal literal = c.use ? constantValue(c.use->get()) : nullptr;
  const IndexMap &m = indexMap(map, i);
  if (literal && literal->element() == Element::F32 && literal->size() == channels &&
      llvm::all_of(m, [](int64_t d) { return d == -1 || d == int64_t(kChannel); }))
    c.literal = literal;
  if (!scalar->hasOneUse() || !map.operand(i)->hasOneUse())
    c.use = nullptr;
  return c;
}

/// A map that reads a tensor as x · scale + shift before all else; the tensor's channels begin at
/// `offset` of those of what it reads.
struct Reader {
  int64_t offset = 0;
  Literal scale;
  Use *shift = nullptr;
};

llvm::Optional<Reader> readerOf(Operation &map, unsigned i, int64_t offset) {
  const Type t = map.operand(i)->type();
  if (t.shape() != map.result()->type().shape() || !isIdentityMap(indexMap(map, i), t.rank()))
    return llvm::None;
  Value *x = elementArgument(map, i);
  auto next = [&](Op kind) {
    Operation *op = x->hasOneUse() ? x->firstUse()->owner() : nullptr;
    return op && op->is(kind) ? op : nullptr;
  };
  if (Operation *cast = next(Op::Cast))
    x = cast->result();
  Operation *product = x->type().element() == Element::F32 ? next(Op::Mul) : nullptr;
  if (!product)
    return llvm::None;
  const ChannelConstant a =
      channelConstant(map, product->operand(1 - x->firstUse()->index()), channelsOf(t));
  x = product->result();
  Operation *sum = next(Op::Add);
  if (!sum || !a.literal)
    return llvm::None;
  const ChannelConstant b =
      channelConstant(map, sum->operand(1 - x->firstUse()->index()), channelsOf(t));
  if (!b.literal || !b.use)
    return llvm::None;
  return Reader{offset, a.literal, b.use};
}

/// Whether f(x − m) = f(x) − m for an m by channel.
bool keepsShifts(const Operation &pool) {
  if (pool.wordAttr("kind") == "max")
    return true;
  return pool.wordAttr("kind") == "average" &&
         (!pool.boolAttr("count_include_pad") ||
          llvm::all_of(pool.intsAttr("pads"), [](int64_t p) { return p == 0; }));
}

/// All that reads `v`, through groups, pools and concats of channels; false where something reads
/// it otherwise. Channel 0 of the tensor in question is `offset` of `v`.
bool collectReaders(Value *v, int64_t offset, std::vector<Reader> &readers) {
  for (Use *use : v->uses()) {
    Operation &op = *use->owner();
    switch (op.kind()) {
    case Op::Group:
      if (!collectReaders(op.region().argument(use->index()), offset, readers))
        return false;
      break;
    case Op::Yield:
      if (!op.parentOp()->is(Op::Group) ||
          !collectReaders(op.parentOp()->result(use->index()), offset, readers))
        return false;
      break;
    case Op::Pool:
      if (!keepsShifts(op) || !collectReaders(op.result(), offset, readers))
        return false;
      break;
    case Op::Concat: {
      int64_t before = offset;
      for (unsigned i = 0; i < use->index(); ++i)
        before += channelsOf(op.operand(i)->type());
      if (op.intAttr("axis") != int64_t(kChannel) || channelsOf(op.result()->type()) == 0 ||
          !collectReaders(op.result(), before, readers))
        return false;
      break;
    }
    case Op::Map:
      if (auto reader = readerOf(op, use->index(), offset))
        readers.push_back(std::move(*reader));
      else
        return false;
      break;
    default: return false;
    }
  }
  return true;
}

/// What to subtract from each channel, and (a · m)² in the mean.
struct Center {
  std::vector<double> m;
  double gain = 0;
};
Center centerFor(llvm::ArrayRef<Reader> readers, int64_t channels, Element e) {
  Center c;
  for (int64_t k = 0; k < channels; ++k) {
    double ab = 0, aa = 0;
    for (const Reader &r : readers) {
      const double a = r.scale->at(r.offset + k);
      ab += a * constantValue(r.shift->get())->at(r.offset + k);
      aa += a * a;
    }
    const double m = aa > 0 ? decodeFloat(e, encodeFloat(e, -ab / aa)) : 0;
    const double largest = e == Element::F16 ? 65504 : 1e38;
    c.m.push_back(std::fabs(m) <= largest / 4 ? m : 0); // far beyond: some a is next to nothing
    c.gain += aa * c.m.back() * c.m.back() / double(readers.size()) / double(channels);
  }
  return c;
}

/// `v` as an f32 that is rounded once, when it is stored. What only selects may as well act before
/// rounding: relu(f16(t)) = f16(relu(t)). What the model rounds stays so.
Value *unrounded(Value *v, Builder &b) {
  Operation *op = v->def();
  const bool wide = v->type().element() == Element::F32;
  if (op && op->is(Op::Relu))
    return b.scalar(Op::Relu, {unrounded(op->operand(0), b)});
  if (op && op->is(Op::Cast) && (op->operand(0)->def() || !wide) && !op->boolAttr("rounds") &&
      (isHalf(op->operand(0)->type().element()) ||
       op->operand(0)->type().element() == Element::F32))
    return unrounded(op->operand(0), b);
  return wide ? v : b.scalar(Op::Cast, {v}, {{"to", Type::scalar(b.context(), Element::F32)}});
}

class Centering {
public:
  Centering(Graph &graph, PassContext &context) : graph_(graph), context_(context) {}

  bool run() {
    bool changed = false;
    for (Operation &group : graph_.body())
      if (group.is(Op::Group))
        changed |= center(group);
    eraseDeadOps(graph_.body());
    return changed;
  }

private:
  /// What the group stores.
  bool center(Operation &group) {
    bool changed = false;
    for (Value *v : group.region().terminator()->operands())
      changed |= center(group, v);
    return changed;
  }
  bool center(Operation &group, Value *v) {
    Operation *def = v->def();
    if (!def || !def->isAny(Op::Map, Op::Conv) || !v->type().isTensor() ||
        !isHalf(v->type().element()))
      return false;
    const int64_t channels = channelsOf(v->type());
    std::vector<Reader> readers;
    if (channels == 0 || !collectReaders(v, 0, readers) || readers.empty())
      return false;
    const Center c = centerFor(readers, channels, v->type().element());
    if (!(c.gain >= 1) || !context_.fire("center-channels.stored", group))
      return false;
    for (const Reader &r : readers) {
      const Literal old = constantValue(r.shift->get());
      Tensor moved = *old;
      for (int64_t k = 0; k < channels; ++k)
        moved.set(r.offset + k, old->at(r.offset + k) + r.scale->at(r.offset + k) * c.m[size_t(k)]);
      Builder b(r.shift->owner(), context_.diagnostics);
      b.location = r.shift->get()->def()->loc();
      r.shift->set(b.constant(moved, r.shift->get()->hint()));
    }
    Tensor m(Element::F32, {channels});
    m.fromDoubles(0, channels, c.m.data());
    subtract(group, *def, v->index(), m);
    return true;
  }

  /// Result `index` of `def`, in the group, becomes what it was less `m`.
  void subtract(Operation &group, Operation &def, unsigned index, const Tensor &m) {
    Builder outside(&group, context_.diagnostics);
    outside.location = group.loc();
    Value *constant = outside.constant(m);
    auto captures = group.operands();
    captures.push_back(constant);
    group.setOperands(captures);
    Value *argument = group.region().addArgument(constant->type());
    Operation &map = def.is(Op::Map) ? def : copyOf(*def.result());
    const IterationSpace space = iterationSpace(map);
    auto operands = map.operands();
    IntLists maps = map.intListsAttr("maps");
    operands.push_back(argument);
    maps.push_back({kChannel});
    setMapOperands(map, operands, maps, space);
    Operation *yield = map.region().terminator();
    Builder b(yield, context_.diagnostics);
    Value *stored = yield->operand(index),
          *mean = map.region().addArgument(Type::scalar(b.context(), Element::F32));
    Value *distance = b.scalar(Op::Sub, {unrounded(stored, b), mean});
    yield->setOperand(index, b.scalar(Op::Cast, {distance}, {{"to", stored->type()}}));
    eraseDeadOps(map.region());
  }

  /// A map behind `v` that hands it on to all its readers.
  Operation &copyOf(Value &v) {
    Operation *map = Operation::create(
        Op::Map, {&v}, {{"maps", IntLists{identityMap(v.type().rank())}}}, {v.type()}, 1);
    map->loc() = v.def()->loc();
    v.def()->parent()->insertBefore(&*std::next(v.def()->getIterator()), map);
    v.replaceUsesIf(map->result(), [&](Use &u) { return u.owner() != map; });
    Value *s = map->region().addArgument(Type::scalar(v.type().context(), v.type().element()));
    map->region().push_back(Operation::create(Op::Yield, {s}, {}, {}));
    return *map;
  }

  Graph &graph_;
  PassContext &context_;
};

} // namespace

bool runCenterChannels(Graph &graph, PassContext &context) {
  return Centering(graph, context).run();
}

} // namespace tenon
