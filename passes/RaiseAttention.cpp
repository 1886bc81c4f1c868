// raise-attention: attention that was exported as products, maps and a softmax becomes one
// operation.
//
//   %s = matmul %q, %k {trans_b = true}                %b = map %mask { what the maps add }
//   %t = map %s, %mask { scale, add }             →    %y = attention %q, %k, %v, %b {scale}
//   %w = softmax %t {axis = last}
//   %y = matmul %w, %v
//
// The maps between product and softmax may be any functions that are affine in the score: scaling
// by constants, additions, and selections of a score or a number so low that it hides the key.
// With f(s) = a · s + g the scale is a and the bias g = f(0), a map over just those dimensions that
// g depends on. One of them may be t · tanh(s / t), which becomes softcap, and one may hide keys by
// the positions of query and key,
//   select(n > first + m + c, −∞, s)        select(n > first + m or n < first + m − c, −∞, s)
// which becomes causal, window and the operand `first`, so that kernels leave those keys out.
// Constant factors of q and k (an export that splits the scale between them) join the scale, also
// those before a reshape or transpose. Behind the softmax, casts are seen through, and
// `select(isnan w, 0, w)` and `select(h, 0, w)`, where the score is −∞ wherever h holds; these
// become zero_undefined. Where a target multiplies f8e4m3, weights that the model rounds to it are
// left unrounded: they are numbers of 4 bits of a sum that is known behind the last key only. Every
// value between the two products has one use. It is left to canonicalisation to compose the
// transposes that bring k and v into rows, and to folding to compute masks that are constant.
//
// Reshapes between those maps that take leading dimensions apart and merge them again are moved to
// q, k, v and the result first.
//
// A bias that is a sum over the places of an image, one term for a key's row and one for its
// column, is never made: the terms become the operation's parts.
//
// Scores move to f32 where they were narrower. Heads are at most as large as the target's kernel
// takes for the type that they will be stored in (TargetTraits::attentionHead,
// attentionHeadOfHalves).
#include "passes/RaiseAttention.h"

#include "passes/AssignPrecision.h"
#include "passes/Maps.h"
#include "passes/QuantizedForm.h"
#include "passes/Rewrite.h"

#include "ir/Attention.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <cmath>

namespace tenon {
namespace {

/// From here down a number added to a score leaves nothing of it in f32.
constexpr double kHides = -1e30;

/// f(x) = slope · x + offset of one argument of a body, where other arguments make the offset, or
/// slope · tanh(inner · x) + offset.
struct Affine {
  double slope = 0;
  bool offset = false; // whether there may be one
  double inner = 0;    // 0: no tanh
};

/// How scalars of a body follow one of its arguments, None where that is not affine; those that are
/// missing depend on other arguments alone.
using Follows = llvm::DenseMap<const Value *, llvm::Optional<Affine>>;

/// How the result of `op` does, some operand of which is in `follows`.
llvm::Optional<Affine> affineIn(const Operation &op, const Follows &follows) {
  auto in = [&](unsigned i) -> llvm::Optional<Affine> {
    auto known = follows.find(op.operand(i));
    return known == follows.end() ? Affine{0, true} : known->second;
  };
  auto scaledBy = [&](unsigned i, llvm::Optional<double> factor) -> llvm::Optional<Affine> {
    const llvm::Optional<Affine> a = in(i);
    if (!a || !factor || !std::isfinite(*factor))
      return llvm::None;
    return Affine{a->slope * *factor, a->offset, a->inner};
  };
  switch (op.kind()) {
  case Op::Cast:
    return isFloat(op.operand(0)->type().element()) && isFloat(op.result()->type().element())
               ? in(0)
               : llvm::None;
  case Op::Neg: return scaledBy(0, -1.0);
  case Op::Mul:
    if (auto a = scaledBy(0, scalarValue(op.operand(1))))
      return a;
    return scaledBy(1, scalarValue(op.operand(0)));
  case Op::Div:
    if (auto divisor = scalarValue(op.operand(1)))
      return scaledBy(0, 1 / *divisor);
    return llvm::None;
  case Op::Add:
  case Op::Sub: {
    const auto a = in(0), b = in(1);
    if (!a || !b || (a->slope != 0 && b->slope != 0 && (a->inner != 0 || b->inner != 0)))
      return llvm::None;
    return Affine{op.is(Op::Add) ? a->slope + b->slope : a->slope - b->slope, true,
                  a->inner + b->inner};
  }
  case Op::Tanh: {
    const auto a = in(0);
    return a && !a->offset && a->inner == 0 && a->slope != 0
               ? llvm::Optional<Affine>(Affine{1, false, a->slope})
               : llvm::None;
  }
  case Op::Select: {
    // select(c, hidden, f(x)) = f(x) + select(c, hidden, 0) once rounded to f32.
    if (follows.count(op.operand(0)))
      return llvm::None;
    for (unsigned i : {1u, 2u}) {
      const auto hidden = scalarValue(op.operand(3 - i));
      const auto a = in(i);
      if (hidden && *hidden <= kHides && a)
        return Affine{a->slope, true, a->inner};
    }
    return llvm::None;
  }
  default: return llvm::None;
  }
}

/// What a map yields.
Value *yielded(const Operation &map) { return map.region().terminator()->operand(0); }

/// How `end`, a scalar of the map's body, follows the element of operand i.
llvm::Optional<Affine> affineIn(Operation &map, unsigned i, const Value *end) {
  Follows follows;
  follows[elementArgument(map, i)] = Affine{1, false};
  for (Operation &op : map.region())
    if (!op.isTerminator() &&
        llvm::any_of(op.operands(), [&](Value *v) { return follows.count(v) > 0; }))
      follows[op.result()] = affineIn(op, follows);
  auto known = follows.find(end);
  return known == follows.end() ? Affine{0, true} : known->second;
}
llvm::Optional<Affine> affineIn(Operation &map, unsigned i) {
  return affineIn(map, i, yielded(map));
}

/// c + key · n + query · m + origin · (operand `first` of a map), of a scalar in its body.
struct Linear {
  int64_t c = 0, key = 0, query = 0, origin = 0;
};

/// Reads comparisons of positions in the body of a map over scores, which are its last dimensions.
class Positions {
public:
  explicit Positions(const Operation &map)
      : map_(&map), rank_(int64_t(map.result()->type().rank())) {}

  /// Notes what `v`, a condition that hides keys, says; false where that is more than a bound of
  /// the key's distance before or behind the query's position.
  bool read(Value *v) {
    const Operation *op = v->def();
    if (!op)
      return false;
    const bool orEqual = op->isAny(Op::GreaterEqual, Op::LessEqual);
    switch (op->kind()) {
    case Op::LogicalOr: return read(op->operand(0)) && read(op->operand(1));
    case Op::Greater:
    case Op::GreaterEqual: return holds(op->operand(0), op->operand(1), orEqual);
    case Op::Less:
    case Op::LessEqual: return holds(op->operand(1), op->operand(0), orEqual);
    default: return false;
    }
  }
  /// Whether the attributes of an attention say as much. With `first`, later rows are hidden, too.
  bool complete() const {
    return (causal || window) && (causal ? *causal >= 0 : true) && (window ? *window >= 1 : true) &&
           (!first || (causal && *causal == 0 && (!window || everywhere_)));
  }

  llvm::Optional<int64_t> causal, window;
  llvm::Optional<unsigned> first; // an operand

private:
  /// a > b (a >= b where `orEqual`) hides.
  bool holds(Value *a, Value *b, bool orEqual) {
    Linear d;
    if (!add(d, a, 1) || !add(d, b, -1))
      return false;
    d.c += orEqual; // of integers: d > 0
    const bool later = d.key == 1 && d.query == -1, earlier = d.key == -1 && d.query == 1;
    if ((!later && !earlier) || (d.origin != 0 && d.origin != d.query))
      return false;
    const bool withOrigin = d.origin != 0;
    if ((causal || window) && withOrigin != everywhere_)
      return false; // of one position only
    everywhere_ = withOrigin;
    llvm::Optional<int64_t> &bound = later ? causal : window;
    if (bound)
      return false;
    bound = later ? -d.c : 1 - d.c; // n > p − c; n < p + c
    return true;
  }
  /// Adds `sign` times v.
  bool add(Linear &to, Value *v, int64_t sign) {
    if (const Operation *op = v->def()) {
      switch (op->kind()) {
      case Op::Const:
        if (const auto x = scalarValue(v); x && *x == std::floor(*x) && std::fabs(*x) < 1e15) {
          to.c += sign * int64_t(*x);
          return true;
        }
        return false;
      case Op::Index: {
        const int64_t d = op->intAttr("dim");
        (d == rank_ - 1 ? to.key : to.query) += sign;
        return d >= rank_ - 2;
      }
      case Op::Cast: return isInteger(v->type().element()) && add(to, op->operand(0), sign);
      case Op::Add: return add(to, op->operand(0), sign) && add(to, op->operand(1), sign);
      case Op::Sub: return add(to, op->operand(0), sign) && add(to, op->operand(1), -sign);
      default: return false;
      }
    }
    for (unsigned i = 0; i < map_->numOperands(); ++i)
      if (elementArgument(*map_, i) == v) {
        to.origin += sign;
        return isOrigin(i) && (!first || *first == i) && (first = i, true);
      }
    return false;
  }
  /// An integer, or one for each entry of the leading dimension.
  bool isOrigin(unsigned i) const {
    const Type t = map_->operand(i)->type(), scores = map_->result()->type();
    if ((t.element() != Element::I32 && t.element() != Element::I64) || t.rank() > 1)
      return false;
    return t.rank() == 0 || t.dim(0).isConstant(1) ||
           (scores.rank() > 2 && indexMap(*map_, i) == IndexMap{0} && t.dim(0) == scores.dim(0));
  }

  const Operation *map_;
  int64_t rank_;
  bool everywhere_ = false; // whether what was read so far has the origin
};

/// One map between the product and the softmax, which of its operands is the score, and what it
/// makes of that: `end`, unless positions hide the key.
struct Step {
  Operation *map;
  unsigned score;
  Affine affine;
  Value *end;
  llvm::Optional<Positions> positions;
};

/// What the map yields where positions hide no key, and by which they do; none where they do not.
llvm::Optional<Positions> positionsOf(Operation &map, Value *&end) {
  const Operation *select = yielded(map)->def();
  if (map.result()->type().rank() < 2 || !select || !select->is(Op::Select))
    return llvm::None;
  const auto hidden = scalarValue(select->operand(1));
  Positions positions(map);
  if (!hidden || *hidden != -INFINITY || !positions.read(select->operand(0)) ||
      !positions.complete())
    return llvm::None;
  end = select->operand(2);
  return positions;
}

/// Follows `v`, which has no other use, back through affine maps to the product of queries and
/// keys; null where there is none. Steps are the maps from the softmax on.
Operation *findScores(Value *v, llvm::SmallVectorImpl<Step> &steps) {
  Operation *def = v->def();
  if (!def || !v->hasOneUse())
    return nullptr;
  if (def->is(Op::MatMul))
    return def;
  if (!def->is(Op::Map) || def->numResults() != 1)
    return nullptr;
  for (unsigned i = 0; i < def->numOperands(); ++i) {
    if (!readsInPlace(*def, i))
      continue;
    Value *end = yielded(*def);
    llvm::Optional<Positions> positions;
    if (llvm::none_of(steps, [](const Step &s) { return bool(s.positions); }) &&
        llvm::all_of(steps, [](const Step &s) { return s.affine.slope > 0; }))
      positions = positionsOf(*def, end);
    const auto a = affineIn(*def, i, end);
    if (!a || a->slope == 0)
      continue;
    steps.push_back({def, i, *a, end, positions});
    if (Operation *product = findScores(def->operand(i), steps))
      return product;
    steps.pop_back();
  }
  return nullptr;
}

bool isPlainProduct(const Operation *op) {
  if (!op || !op->is(Op::MatMul) || op->numOperands() != 2 || op->has("precision"))
    return false;
  const Element e = op->operand(0)->type().element();
  return isFloat(e) && bitWidth(e) >= 16 && computeElement(e) == Element::F32;
}

/// The factor of a map that only scales `v`, which has no other use: gives what it scales.
Value *scaledValue(Value *v, double &scale, Location &loc) {
  Operation *map = v->def();
  if (!isPlainMap(map, 1) || !v->hasOneUse() || !readsInPlace(*map, 0) ||
      map->operand(0)->type().element() != v->type().element())
    return v;
  const auto a = affineIn(*map, 0);
  if (!a || a->offset || a->slope == 0 || a->inner != 0)
    return v;
  scale *= a->slope;
  mergeLocation(loc, map->loc());
  return map->operand(0);
}

/// An operand of the product of scores without its constant factor, and how it is moved then.
struct Unscaled {
  Value *from;
  llvm::SmallVector<const Operation *, 2> moves; // the last one first

  Value *moved(Builder &b) const {
    Value *v = from;
    for (const Operation *op : llvm::reverse(moves))
      v = v ? b.value(op->kind(), {v}, op->attributes()) : nullptr;
    return v;
  }
};

/// Takes the factor of `v` off, where it has one and nothing else reads what it makes.
Unscaled throughScale(Value *v, double &scale, Location &loc) {
  Unscaled r{v, {}};
  while (r.from->def() && r.from->def()->isAny(Op::Reshape, Op::Transpose) && r.from->hasOneUse()) {
    r.moves.push_back(r.from->def());
    r.from = r.from->def()->operand(0);
  }
  Value *inner = scaledValue(r.from, scale, loc);
  if (inner == r.from)
    return {v, {}};
  r.from = inner;
  return r;
}

/// What the softmax's weights go through before they meet the values.
struct Weights {
  Operation *softmax = nullptr;
  bool zeroUndefined = false;
  Operation *cleared = nullptr; ///< select(h, 0, w); null: none
};

/// One operand of a map that selects by it; −1 where the map is no select(h, `value`, …).
int selectsBy(const Operation &map, double value) {
  const Operation *select = map.region().terminator()->operand(0)->def();
  const auto constant =
      select && select->is(Op::Select) ? scalarValue(select->operand(1)) : llvm::None;
  if (!constant || *constant != value)
    return -1;
  for (unsigned i = 0; i < map.numOperands(); ++i)
    if (elementArgument(map, i) == select->operand(0))
      return int(i);
  return -1;
}

/// `map` is select(h, 0, w): gives w.
Value *withoutHidden(Operation &map) {
  const int h = isPlainMap(&map, 2) ? selectsBy(map, 0) : -1;
  if (h < 0 || !readsInPlace(map, unsigned(1 - h)))
    return nullptr;
  const Operation *select = map.region().terminator()->operand(0)->def();
  return select->operand(2) == elementArgument(map, unsigned(1 - h)) ? map.operand(unsigned(1 - h))
                                                                     : nullptr;
}

/// `map` is select(isnan w, 0, w): gives w.
Value *withoutUndefined(Operation &map) {
  if (!isPlainMap(&map, 2) || !readsInPlace(map, 0) || !readsInPlace(map, 1))
    return nullptr;
  const Operation *select = map.region().terminator()->operand(0)->def();
  if (!select || !select->is(Op::Select))
    return nullptr;
  const auto zero = scalarValue(select->operand(1));
  for (unsigned i : {0u, 1u}) {
    Operation *test = map.operand(i)->def();
    Value *w = map.operand(1 - i);
    if (select->operand(0) != elementArgument(map, i) ||
        select->operand(2) != elementArgument(map, 1 - i) || !zero || *zero != 0 ||
        !isPlainMap(test, 1) || test->operand(0) != w || !readsInPlace(*test, 0) ||
        !map.operand(i)->hasOneUse() || w->useCount() != 2)
      continue;
    const Operation *isNaN = test->region().terminator()->operand(0)->def();
    if (isNaN && isNaN->is(Op::IsNaN) && isNaN->operand(0) == elementArgument(*test, 0))
      return w;
  }
  return nullptr;
}

/// A map that is one conversion between floats.
bool isCast(Operation &map) {
  if (!isPlainMap(&map, 1) || !readsInPlace(map, 0))
    return false;
  const auto a = affineIn(map, 0);
  return a && a->slope == 1 && !a->offset && a->inner == 0;
}

/// `v` is dequantised from f8e4m3, which one map makes of another value of the same unit, none of
/// whose elements, at most 1, is too large for it: gives that value. Each rounds to 4 bits.
Value *withoutFloat8(Value *v) {
  const auto d = matchDequantized(v);
  if (!d || d->q->type().element() != Element::F8E4M3 || !d->perTensor() || d->zero[0] != 0 ||
      !d->q->hasOneUse())
    return nullptr;
  Operation *map = d->q->def();
  if (!isPlainMap(map, 1) || !readsInPlace(*map, 0))
    return nullptr;
  const Operation *op = yielded(*map)->def();
  if (!op || !op->is(Op::Cast))
    return nullptr;
  op = op->operand(0)->def();
  if (op && op->is(Op::Clamp))
    op = op->operand(0)->def();
  const auto factor = op && op->isAny(Op::Mul, Op::Div) ? scalarValue(op->operand(1)) : llvm::None;
  if (!factor || op->operand(0) != elementArgument(*map, 0))
    return nullptr;
  const double by = op->is(Op::Mul) ? *factor : 1 / *factor;
  constexpr double kLargest = 448, kRounding = 1e-6; // of f8e4m3, and of a scale in f32
  return std::abs(by * d->scale[0] - 1) < kRounding && by <= kLargest * (1 + kRounding)
             ? map->operand(0)
             : nullptr;
}

/// rounded: weights may have been rounded to f8e4m3.
Weights findWeights(Value *v, bool rounded) {
  Weights w;
  unsigned uses = 1; // of v, by what has been seen
  while (Operation *def = v->def()) {
    if (v->useCount() != uses)
      break;
    uses = 1;
    if (def->is(Op::Softmax)) {
      if (!def->boolAttr("log") && def->intAttr("axis") == int64_t(v->type().rank()) - 1)
        w.softmax = def;
      break;
    }
    if (!def->is(Op::Map))
      break;
    if (isCast(*def)) {
      v = def->operand(0);
    } else if (Value *wide = rounded ? withoutFloat8(v) : nullptr) {
      v = wide;
    } else if (Value *from = withoutUndefined(*def)) {
      w.zeroUndefined = true;
      uses = 2;
      v = from;
    } else if (Value *kept = w.cleared ? nullptr : withoutHidden(*def)) {
      w.zeroUndefined = true;
      w.cleared = def;
      v = kept;
    } else {
      break;
    }
  }
  return w;
}

/// Whether the last of the maps before the softmax that does more than convert gives −∞ wherever
/// `cleared`, select(h, 0, w), has an h that holds: there e^score is 0, and 0/0 where h holds for
/// all keys of a query.
bool hidesWhatIsCleared(llvm::ArrayRef<Step> steps, const Operation &cleared) {
  const int h = selectsBy(cleared, 0);
  for (const Step &step : steps) {
    if (isCast(*step.map))
      continue;
    const int i = selectsBy(*step.map, -INFINITY);
    return i >= 0 && step.map->operand(unsigned(i)) == cleared.operand(unsigned(h)) &&
           indexMap(*step.map, unsigned(i)) == indexMap(cleared, unsigned(h));
  }
  return false;
}

/// The last two dimensions of `v` swapped where `swap` says so.
Value *asRows(Builder &b, Value *v, bool swap) {
  if (!swap)
    return v;
  Ints perm = identityMap(v->type().rank());
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return b.transpose(v, perm);
}

/// For score + x with x in f32 or 16 bits, broadcast: x; else null.
Value *addedAlone(const Step &step) {
  const Operation &map = *step.map;
  const Operation *sum = isPlainMap(&map, 2) ? soleScalar(map) : nullptr;
  if (!sum || !sum->is(Op::Add) || sum->operand(0) == sum->operand(1))
    return nullptr;
  Value *x = map.operand(1 - step.score);
  const Type scores = map.result()->type();
  // A map may read an operand of more dimensions than it has, whose others are 1.
  const bool broadcast = x->type().rank() <= scores.rank() &&
                         indexMap(map, 1 - step.score) == broadcastMap(x->type(), scores.shape());
  const Element e = x->type().element();
  const bool wide = e == Element::F32 || e == Element::F16 || e == Element::BF16;
  return broadcast && wide ? x : nullptr;
}

/// Operations of a body on which `end` depends, and arguments of it.
llvm::DenseSet<const Value *> neededFor(const Value *end) {
  llvm::DenseSet<const Value *> needed;
  llvm::SmallVector<const Value *, 8> left{end};
  while (!left.empty()) {
    const Value *v = left.pop_back_val();
    if (needed.insert(v).second && v->def())
      for (const Value *x : v->def()->operands())
        left.push_back(x);
  }
  return needed;
}

/// What the map adds to the score where `before` was added already (null: nothing), in f32 unless
/// that is a tensor of 16 bits as it is; over the dimensions that this depends on, others have
/// extent 1.
Value *biasOf(const Step &step, Value *before, Builder &b) {
  Operation &map = *step.map;
  if (Value *x = before ? nullptr : addedAlone(step))
    return x;
  llvm::SmallVector<Value *, 4> operands;
  std::vector<IndexMap> maps;
  llvm::SmallVector<unsigned, 4> arguments;
  const llvm::DenseSet<const Value *> needed = neededFor(step.end);
  const unsigned rank = map.result()->type().rank();
  IterationSpace space(rank, map.result()->type().context().dim(1));
  auto read = [&](Value *v, const IndexMap &m) {
    IndexMap reduced = m;
    for (size_t d = 0; d < m.size(); ++d) {
      if (m[d] < 0 || v->type().dim(unsigned(d)).isConstant(1))
        reduced[d] = -1;
      else
        space[size_t(m[d])] = v->type().dim(unsigned(d));
    }
    operands.push_back(v);
    maps.push_back(std::move(reduced));
  };
  for (unsigned i = 0; i < map.numOperands(); ++i) {
    Value *v = i == step.score ? before : map.operand(i);
    if (!v || !needed.count(elementArgument(map, i)))
      continue;
    read(v, i == step.score ? broadcastMap(v->type(), map.result()->type().shape())
                            : indexMap(map, i));
    arguments.push_back(i);
  }
  for (Operation &s : map.region())
    if (s.is(Op::Index) && needed.count(s.result()))
      space[size_t(s.intAttr("dim"))] = map.result()->type().dim(unsigned(s.intAttr("dim")));
  Operation *made = b.map(operands, maps, space, [&](Builder &body, llvm::ArrayRef<Value *> args) {
    std::map<const Value *, Value *> values;
    for (size_t i = 0; i < args.size(); ++i) {
      const Element e = elementArgument(map, arguments[i])->type().element();
      Value *x = args[i];
      if (x->type().element() != e)
        x = body.scalar(Op::Cast, {x}, {{"to", Type::scalar(b.context(), e)}});
      values[elementArgument(map, arguments[i])] = x;
    }
    for (unsigned i = 0; i < map.numOperands(); ++i) // also what only positions need
      if (Value *v = elementArgument(map, i); !values.count(v))
        values[v] = body.scalarConst(v->type().element(), 0);
    inlineBody(map.region(), body, values, identityMap(rank));
    Value *end = step.end;
    end = values.count(end) ? values[end] : end;
    if (end->type().element() != Element::F32)
      end = body.scalar(Op::Cast, {end}, {{"to", Type::scalar(b.context(), Element::F32)}});
    return llvm::SmallVector<Value *, 2>{end};
  });
  return made ? made->result() : nullptr;
}

/// Whether heads of `d` elements, stored as `e`, are not too large for the target's kernel.
bool takesHead(Dim d, Element e, const TargetTraits &target) {
  return d.isConstant() && d.constant() >= 1 &&
         d.constant() <= (bitWidth(e) == 16 ? target.attentionHeadOfHalves : target.attentionHead);
}

// matmul(softmax(f(matmul(q, kᵀ))), v) = attention(q, k, v, f(0)) {scale = f's slope}, f affine
bool matmulPattern(Operation &op, Rewriter &rw) {
  if (!isPlainProduct(&op) || op.boolAttr("trans_a"))
    return false;
  const Weights weights = findWeights(op.operand(0), rw.context().target.float8Products);
  if (!weights.softmax)
    return false;
  llvm::SmallVector<Step, 4> steps;
  Operation *scores = findScores(weights.softmax->operand(0), steps);
  if (!isPlainProduct(scores) || (weights.cleared && !hidesWhatIsCleared(steps, *weights.cleared)))
    return false;
  Location nodes = op.loc();
  for (const Operation *seen : {op.operand(0)->def(), weights.softmax})
    mergeLocation(nodes, seen->loc());
  const Location behind = nodes;
  double scale = 1, cap = 0;
  bool moved = false; // something was added to the score
  const Step *hiding = nullptr;
  for (const Step &step : llvm::reverse(steps)) {
    mergeLocation(nodes, step.map->loc());
    const Affine &a = step.affine;
    if (a.inner != 0) { // t · tanh(s / t) with t = slope, s = slope · inner · score
      if (moved || cap != 0 || hiding)
        return false;
      cap = 1;
      scale *= a.inner;
    }
    scale *= a.slope;
    cap *= a.slope;
    moved |= a.offset;
    if (step.positions)
      hiding = &step;
  }
  mergeLocation(nodes, scores->loc());
  const Unscaled q = throughScale(scores->operand(0), scale, nodes),
                 k = throughScale(scores->operand(1), scale, nodes);
  const Type shown = scores->result()->type(), y = op.result()->type(),
             left = scores->operand(0)->type();
  const TargetTraits &target = rw.context().target;
  const Element stored = storedElement(y.element(), nodes, rw.context());
  // Where v has leading dimensions of its own, weights would be computed once for each.
  if (y.element() != shown.element() || y.rank() != shown.rank() ||
      y.shape().drop_back(1) != shown.shape().drop_back(1) ||
      !takesHead(left.dim(left.rank() - (scores->boolAttr("trans_a") ? 2 : 1)), stored, target) ||
      !takesHead(y.shape().back(), stored, target) || cap < 0)
    return false;
  if (!rw.fire(op))
    return false;
  Builder b = rw.before(op);
  b.location = behind;
  Value *bias = nullptr;
  for (const Step &step : llvm::reverse(steps)) {
    mergeLocation(b.location, step.map->loc());
    if ((bias || step.affine.offset) && !(bias = biasOf(step, bias, b)))
      return false;
  }
  b.location = nodes;
  Value *queries = q.moved(b), *keys = k.moved(b);
  if (!queries || !keys)
    return false;
  llvm::SmallVector<Value *, 4> operands{asRows(b, queries, scores->boolAttr("trans_a")),
                                         asRows(b, keys, !scores->boolAttr("trans_b")),
                                         asRows(b, op.operand(1), op.boolAttr("trans_b"))};
  if (bias)
    operands.push_back(bias);
  NamedAttributes attributes{{"scale", scale}};
  if (cap > 0)
    attributes.insert_or_assign("softcap", Attribute(cap));
  if (hiding) {
    const Positions &by = *hiding->positions;
    if (by.causal)
      attributes.insert_or_assign("causal", Attribute(*by.causal));
    if (by.window)
      attributes.insert_or_assign("window", Attribute(*by.window));
    if (by.first)
      operands.push_back(hiding->map->operand(*by.first));
  }
  if (weights.zeroUndefined)
    attributes.insert_or_assign("zero_undefined", Attribute(true));
  return rw.replace(op, b.value(Op::Attention, operands, std::move(attributes)));
}

/// Operand i of a map reads whatever lies before dimension `first` of its space in order, and one
/// dimension from there on: gives that.
llvm::Optional<unsigned> soleDimension(const Operation &map, unsigned i, unsigned first) {
  const Type x = map.operand(i)->type(), space = map.result()->type();
  const IndexMap reads = indexMap(map, i);
  llvm::SmallVector<int64_t, 6> expected, found;
  for (unsigned d = 0; d < first; ++d)
    if (!space.dim(d).isConstant(1))
      expected.push_back(d);
  for (unsigned d = 0; d < x.rank(); ++d)
    if (!x.dim(d).isConstant(1))
      found.push_back(reads[d]);
  if (found.size() != expected.size() + 1 ||
      !std::equal(expected.begin(), expected.end(), found.begin()) || found.back() < int64_t(first))
    return llvm::None;
  return unsigned(found.back());
}

/// The map of reshape(a + b) = v that adds an operand for each of its last two dimensions, whose
/// places are the `keys` of v; null where it is another.
Operation *sumOfParts(Value *v, Dim keys) {
  Operation *reshape = v->def();
  Operation *map = reshape && reshape->is(Op::Reshape) ? reshape->operand(0)->def() : nullptr;
  const Operation *sum = isPlainMap(map, 2) ? soleScalar(*map) : nullptr;
  if (!sum || !sum->is(Op::Add) || sum->operand(0) == sum->operand(1))
    return nullptr;
  const Type space = map->result()->type();
  const unsigned rank = space.rank();
  return rank > 2 && space.dim(rank - 1).isConstant() && space.dim(rank - 2).isConstant() &&
                 space.dim(rank - 1) * space.dim(rank - 2) == keys &&
                 v->type().shape().back() == keys
             ? map
             : nullptr;
}

// attention(q, k, v, reshape(a[…, i, _] + b[…, _, j])) = attention(q, k, v, a, b) {factors}, where
// keys are the places (i, j)
bool partsPattern(Operation &op, Rewriter &rw) {
  const AttentionOperands at = op.is(Op::Attention) ? attentionOperands(op) : AttentionOperands();
  if (!at.bias || at.factors > 0)
    return false;
  const Type bias = op.operand(at.bias)->type(), k = op.operand(1)->type();
  Operation *sum = sumOfParts(op.operand(at.bias), k.dim(k.rank() - 2));
  if (!sum)
    return false;
  const unsigned first = sum->result()->type().rank() - 2;
  const auto of0 = soleDimension(*sum, 0, first), of1 = soleDimension(*sum, 1, first);
  if (!of0 || !of1 || *of0 == *of1 || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  mergeLocation(b.location, sum->loc());
  llvm::SmallVector<Value *, 6> operands{op.operand(0), op.operand(1), op.operand(2)};
  Ints factors;
  for (unsigned d : {first, first + 1}) {
    llvm::SmallVector<Dim, 6> shape(bias.shape().begin(), bias.shape().end());
    shape.back() = sum->result()->type().dim(d);
    factors.push_back(shape.back().constant());
    operands.push_back(b.reshape(sum->operand(*of0 == d ? 0 : 1), shape));
    if (!operands.back())
      return false;
  }
  if (at.first)
    operands.push_back(op.operand(at.first));
  NamedAttributes attributes = op.attributes();
  attributes.insert_or_assign("factors", Attribute(factors));
  return rw.replace(op, b.value(Op::Attention, operands, std::move(attributes)));
}

/// What lies between softmax and scores: maps, and which of their operands the scores are, and
/// reshapes that leave queries and keys alone. The product comes last.
struct Link {
  Operation *op;
  unsigned scores;
};
bool findLinks(Value *v, llvm::SmallVectorImpl<Link> &links) {
  Operation *def = v->hasOneUse() ? v->def() : nullptr;
  if (!def)
    return false;
  links.push_back({def, 0});
  if (isPlainProduct(def))
    return true;
  const llvm::ArrayRef<Dim> shape = v->type().shape();
  if (def->is(Op::Reshape)) {
    const llvm::ArrayRef<Dim> from = def->operand(0)->type().shape();
    if (from.size() > 2 && shape.size() > 2 && from.take_back(2) == shape.take_back(2) &&
        findLinks(def->operand(0), links))
      return true;
  } else if (def->is(Op::Map) && def->numResults() == 1 &&
             llvm::none_of(def->region(), [](const Operation &s) { return s.is(Op::Index); })) {
    const size_t known = links.size();
    for (unsigned i = 0; i < def->numOperands(); ++i) {
      links.back().scores = i;
      if (readsInPlace(*def, i) && findLinks(def->operand(i), links))
        return true;
      links.resize(known);
    }
  }
  links.pop_back();
  return false;
}

/// How leading dimensions of scores are taken apart: by dimension, how many of `to` it becomes.
class Splitting {
public:
  static llvm::Optional<Splitting> of(llvm::ArrayRef<Dim> from, llvm::ArrayRef<Dim> to) {
    Splitting s;
    s.to_.assign(to.begin(), to.end());
    size_t k = 0;
    for (Dim d : from) {
      s.first_.push_back(unsigned(k));
      Dim product = d.isConstant() && k < to.size() ? to[k++] : Dim();
      while (product && product != d && k < to.size())
        product = product * to[k++];
      if (!product || product != d)
        return llvm::None;
    }
    s.first_.push_back(unsigned(k));
    return k == to.size() ? llvm::Optional<Splitting>(s) : llvm::None;
  }
  size_t ranks() const { return first_.size() - 1; }

  /// x [from…, a, b] as [to…, a, b].
  Value *all(Value *x, Builder &b) const {
    llvm::SmallVector<Dim, 6> shape(to_.begin(), to_.end());
    shape.append(x->type().shape().end() - 2, x->type().shape().end());
    return b.reshape(x, shape);
  }
  /// The same of an operand of a map over [from…, m, n], and how it is read then.
  Value *part(Value *x, IndexMap &map, Builder &b) const {
    llvm::SmallVector<Dim, 6> shape;
    IndexMap reads;
    for (size_t d = 0; d < map.size(); ++d) {
      const Dim extent = x->type().dim(unsigned(d));
      if (map[d] < 0 || extent.isConstant(1)) {
        shape.push_back(extent);
        reads.push_back(-1);
      } else if (map[d] >= int64_t(ranks())) {
        shape.push_back(extent);
        reads.push_back(map[d] - int64_t(ranks()) + int64_t(to_.size()));
      } else {
        for (unsigned k = first_[size_t(map[d])]; k < first_[size_t(map[d]) + 1]; ++k) {
          shape.push_back(to_[k]);
          reads.push_back(k);
        }
      }
    }
    map = reads;
    return b.reshape(x, shape);
  }

private:
  llvm::SmallVector<Dim, 6> to_;
  llvm::SmallVector<unsigned, 6> first_;
};

/// `map` over scores [space…] that are `scores` now.
Value *mapOf(const Link &link, Value *scores, const Splitting *split, Builder &b) {
  Operation &map = *link.op;
  auto operands = map.operands();
  IntLists maps = map.intListsAttr("maps");
  const Type space = scores->type();
  for (unsigned i = 0; i < operands.size(); ++i) {
    if (i == link.scores) {
      operands[i] = scores;
      maps[i] = identityMap(space.rank());
    } else if (split && !(operands[i] = split->part(operands[i], maps[i], b))) {
      return nullptr;
    }
  }
  b.location = map.loc();
  Operation *made = mapOver(b, map, operands, maps, space.shape(), identityMap(space.rank()));
  return made ? made->result() : nullptr;
}

// matmul(softmax(f(reshape(g(reshape(h(matmul(q, kᵀ))))))), v), where the reshapes take leading
// dimensions of the scores apart and merge them again, = reshape of the same without them, of q, k
// and v that are taken apart (a mask for each window of an image, heads and windows in one)
bool splitPattern(Operation &op, Rewriter &rw) {
  if (!isPlainProduct(&op) || op.boolAttr("trans_a"))
    return false;
  Operation *softmax = op.operand(0)->hasOneUse() ? op.operand(0)->def() : nullptr;
  llvm::SmallVector<Link, 6> links;
  if (!softmax || !softmax->is(Op::Softmax) || softmax->boolAttr("log") ||
      softmax->intAttr("axis") != int64_t(op.operand(0)->type().rank()) - 1 ||
      !findLinks(softmax->operand(0), links))
    return false;
  llvm::SmallVector<Operation *, 2> reshapes; // the one nearer the product first
  for (const Link &link : llvm::reverse(links))
    if (link.op->is(Op::Reshape))
      reshapes.push_back(link.op);
  if (reshapes.size() != 2)
    return false;
  Operation *product = links.back().op;
  const llvm::ArrayRef<Dim> leading = product->result()->type().shape().drop_back(2);
  const auto split = Splitting::of(leading, reshapes[0]->result()->type().shape().drop_back(2));
  Value *q = product->operand(0), *k = product->operand(1), *v = op.operand(1);
  if (!split || reshapes[1]->result()->type().shape().drop_back(2) != leading ||
      llvm::any_of(llvm::ArrayRef<Value *>{q, k, v},
                   [&](Value *x) { return x->type().shape().drop_back(2) != leading; }) ||
      !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  b.location = product->loc();
  q = split->all(q, b);
  k = split->all(k, b);
  Value *scores = q && k ? b.value(Op::MatMul, {q, k}, product->attributes()) : nullptr;
  bool apart = false;
  for (const Link &link : llvm::drop_begin(llvm::reverse(links)))
    if (link.op->is(Op::Reshape))
      apart = !apart;
    else
      scores = scores ? mapOf(link, scores, apart ? nullptr : &*split, b) : nullptr;
  if (!scores)
    return false;
  b.location = softmax->loc();
  NamedAttributes attributes = softmax->attributes();
  attributes.insert_or_assign("axis", Attribute(int64_t(scores->type().rank()) - 1));
  Value *weights = b.value(Op::Softmax, {scores}, std::move(attributes));
  b.location = op.loc();
  v = split->all(v, b);
  Value *y = weights && v ? b.value(Op::MatMul, {weights, v}, op.attributes()) : nullptr;
  y = y ? b.reshape(y, op.result()->type().shape()) : nullptr;
  return y && rw.replace(op, y);
}

const Pattern kPatterns[] = {{"raise-attention.split", splitPattern},
                             {"raise-attention.matmul", matmulPattern},
                             {"raise-attention.parts", partsPattern}};

} // namespace

bool runRaiseAttention(Graph &graph, PassContext &context) {
  const TargetTraits &target = context.target;
  return std::max(target.attentionHead, target.attentionHeadOfHalves) > 0 &&
         applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
