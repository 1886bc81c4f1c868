// Implements the reading of masks that follow from positions alone: one element is evaluated, its
// indices being linear in query and key, back through maps, movement and gathers of constants.
#include "passes/PositionMask.h"

#include "passes/Maps.h"

#include "ir/Scalar.h"

#include <cmath>

namespace tenon {
namespace {

constexpr unsigned kMaxDepth = 64;
/// Scalars that are evaluated at most.
constexpr unsigned kMostScalars = 4096;
/// Elements of a constant that are looked at.
constexpr int64_t kMostElements = int64_t(1) << 26;

using MaybePlace = llvm::Optional<MaskPlace>;
using Indices = llvm::SmallVector<MaybePlace, 6>; // None: not known

/// What is known of a scalar: a number that is linear in the positions, or one of two numbers.
struct Known {
  MaybePlace place;
  llvm::Optional<PositionMask> choice;
};

class MaskReader {
public:
  MaskReader(Context &context, Dim queries, Dim keys)
      : context_(context), queries_(queries), keys_(keys) {}

  Known element(Value *v, llvm::ArrayRef<MaybePlace> at);

private:
  struct Body {
    Operation *map;
    llvm::ArrayRef<MaybePlace> at;
    llvm::DenseMap<Value *, Known> known;
  };

  Known constant(const Tensor &t, llvm::ArrayRef<MaybePlace> at) const;
  Known diagonal(const Tensor &t, llvm::ArrayRef<MaybePlace> at) const;
  Known moved(Operation &op, llvm::ArrayRef<MaybePlace> at);
  Known joined(Operation &op, llvm::ArrayRef<MaybePlace> at);
  Known gathered(Operation &op, llvm::ArrayRef<MaybePlace> at);
  Known scalar(Value *v, Body &body);
  Known computed(Operation &op, Body &body);
  Known places(Operation &op, llvm::ArrayRef<Known> x) const;
  Known compared(Op kind, MaskPlace a, MaskPlace b) const;
  Known selected(llvm::ArrayRef<Known> x) const;

  MaskPlace at(int64_t v) const { return {context_.dim(v)}; }
  Known number(double v) const {
    Known k;
    k.choice = PositionMask{{}, v, v};
    if (v == std::floor(v) && std::fabs(v) < 1e15)
      k.place = at(int64_t(v));
    return k;
  }
  /// 1 where the place is at least 0, else 0.
  Known holds(MaskPlace p) const;
  /// The least or the most that a place can be.
  Dim extreme(MaskPlace p, bool most) const;
  /// Whether all of `then` hold wherever all of `given` do, as far as one of these says so.
  bool implies(llvm::ArrayRef<MaskPlace> given, llvm::ArrayRef<MaskPlace> then) const;

  Context &context_;
  const Dim queries_, keys_;
  Ramps ramps_;
  unsigned depth_ = 0, scalars_ = 0;
};

MaskPlace sum(MaskPlace a, MaskPlace b, int64_t sign) {
  return {a.base + b.base * sign, a.key + sign * b.key, a.query + sign * b.query};
}
MaskPlace complement(MaskPlace p) { return {p.base * -1 - 1, -p.key, -p.query}; }

bool isNumber(const Known &k) { return k.choice && k.choice->seen.empty(); }

/// The same with `inside` where all of `seen` holds: where one comparison says all, its opposite
/// says it, too.
llvm::Optional<PositionMask> withInside(const PositionMask &m, double inside) {
  if (m.inside == inside || m.seen.empty())
    return m.inside == inside ? llvm::Optional<PositionMask>(m) : llvm::None;
  if (m.outside != inside || m.seen.size() != 1)
    return llvm::None;
  return PositionMask{{complement(m.seen[0])}, m.outside, m.inside};
}

bool isParallel(MaskPlace a, MaskPlace b) { return a.key == b.key && a.query == b.query; }

/// `inside` where all of both hold; what follows from another comparison is left out.
Known both(const PositionMask &a, const PositionMask &b, double inside, double outside) {
  Known k;
  k.choice = PositionMask{a.seen, inside, outside};
  for (const MaskPlace &p : b.seen) {
    auto *known = llvm::find_if(k.choice->seen, [&](const MaskPlace &q) {
      return isParallel(p, q) && ((q.base - p.base).lower() >= 0 || (q.base - p.base).upper() <= 0);
    });
    if (known == k.choice->seen.end())
      k.choice->seen.push_back(p);
    else if ((known->base - p.base).lower() >= 0)
      *known = p;
  }
  return k;
}

/// The product of masks that are 0 inside: 0 inside either of them, where one holds whatever the
/// other does.
Known productOutside(const PositionMask &a, const PositionMask &b) {
  Known k;
  if (a.seen.size() != 1 || b.seen.size() != 1 || !isParallel(a.seen[0], b.seen[0]))
    return k;
  const Dim more = a.seen[0].base - b.seen[0].base;
  if (more.lower() >= 0 || more.upper() <= 0)
    k.choice = PositionMask{more.lower() >= 0 ? a.seen : b.seen, 0, a.outside * b.outside};
  return k;
}

bool hides(double v) { return v <= kHidingScore; }

/// A scalar function of numbers.
llvm::Optional<double> valueOf(const Operation &op, llvm::ArrayRef<double> x) {
  const ScalarInfo *row = scalarInfo(op.kind());
  const Element from = op.operand(0)->type().element(), to = op.result()->type().element();
  const auto at = [&](unsigned i) { return i < x.size() ? x[i] : 0.0; };
  double v;
  if (op.is(Op::Cast))
    v = isBool(to) ? x[0] != 0 : isFloat(to) ? x[0] : double(truncateToInt(to, x[0]));
  else if (row && isFloat(from) && row->onFloat)
    v = row->onFloat(at(0), at(1), at(2));
  else if (row && !isFloat(from) && row->onInt && from != Element::U64)
    v = double(row->onInt(int64_t(at(0)), int64_t(at(1)), int64_t(at(2))));
  else
    return llvm::None;
  return isFloat(to) ? roundScalar(to, v) : v;
}

/// Whether a tensor's element holds all integers from `low` to `high` as they are.
bool holdsIntegers(Element e, int64_t low, int64_t high) {
  constexpr int64_t exact = int64_t(1) << 53; // of what stands for numbers here
  if (isInteger(e) && bitWidth(e) == 64)
    return true; // positions are extents
  if (isBool(e) || low < -exact || high > exact)
    return false;
  if (isInteger(e))
    return truncateToInt(e, double(low)) == low && truncateToInt(e, double(high)) == high;
  const auto holds = [&](double v) {
    return bitWidth(e) < 32 ? decodeFloat(e, encodeFloat(e, v)) == v : roundScalar(e, v) == v;
  };
  const auto most = double(std::max(-low, high));
  return holds(most) && holds(most - 1); // one of them is odd
}

Dim MaskReader::extreme(MaskPlace p, bool most) const {
  Dim d = p.base;
  if (p.key != 0 && most == (p.key > 0))
    d = d + (keys_ - 1) * p.key;
  if (p.query != 0 && most == (p.query > 0))
    d = d + (queries_ - 1) * p.query;
  return d;
}

Known MaskReader::holds(MaskPlace p) const {
  if (extreme(p, false).lower() >= 0)
    return number(1);
  if (extreme(p, true).upper() < 0)
    return number(0);
  Known k;
  k.choice = PositionMask{{p}, 1, 0};
  return k;
}

bool MaskReader::implies(llvm::ArrayRef<MaskPlace> given, llvm::ArrayRef<MaskPlace> then) const {
  return llvm::all_of(then, [&](const MaskPlace &p) {
    return llvm::any_of(given, [&](const MaskPlace &q) {
      return extreme(sum(p, q, -1), false).lower() >= 0; // p >= q >= 0
    });
  });
}

Known MaskReader::compared(Op kind, MaskPlace a, MaskPlace b) const {
  switch (kind) {
  case Op::Less: return holds(sum(sum(b, a, -1), at(1), -1));
  case Op::LessEqual: return holds(sum(b, a, -1));
  case Op::Greater: return holds(sum(sum(a, b, -1), at(1), -1));
  case Op::GreaterEqual: return holds(sum(a, b, -1));
  default: break; // equal: neither is less
  }
  const Known less = compared(Op::Less, a, b), more = compared(Op::Less, b, a);
  if ((isNumber(less) && less.choice->inside == 1) || (isNumber(more) && more.choice->inside == 1))
    return number(0);
  return isNumber(less) && isNumber(more) ? number(1) : Known();
}

/// Elements of a constant of more than one value that depend on a diagonal.
Known MaskReader::diagonal(const Tensor &t, llvm::ArrayRef<MaybePlace> at) const {
  const unsigned rank = unsigned(t.rank());
  if (rank < 2 || t.size() > kMostElements || t.size() == 0 || !at[rank - 1] || !at[rank - 2])
    return {};
  const int64_t rows = t.shape()[rank - 2], columns = t.shape()[rank - 1];
  if (rows * columns != t.size() || rows < 2 || columns < 2)
    return {};
  // `inside` from the first column on, up to the diagonal.
  llvm::SmallVector<double, 0> row(size_t(columns), 0.0);
  double inside = 0, outside = 0;
  int64_t shift = 0;
  for (int64_t r = 0; r < rows; ++r) {
    t.toDoubles(r * columns, columns, row.data());
    if (r == 0) {
      inside = row.front();
      outside = row.back();
      shift = std::find(row.begin(), row.end(), outside) - row.begin() - 1;
    }
    const int64_t seen = std::min(columns, r + shift + 1);
    if (std::any_of(row.begin(), row.begin() + seen, [&](double x) { return x != inside; }) ||
        std::any_of(row.begin() + seen, row.end(), [&](double x) { return x != outside; }))
      return {};
  }
  Known k = holds(sum(sum(*at[rank - 2], *at[rank - 1], -1), {context_.dim(shift)}, 1));
  k.place.reset();
  k.choice->outside = k.choice->inside == 1 ? outside : k.choice->outside;
  k.choice->inside = k.choice->inside == 1 ? inside : outside;
  return k;
}

Known MaskReader::constant(const Tensor &t, llvm::ArrayRef<MaybePlace> at) const {
  if (t.element() == Element::String || t.size() == 0)
    return {};
  if (t.isSplat())
    return number(t.at(0));
  int64_t linear = 0;
  for (unsigned d = 0; d < unsigned(t.rank()); ++d) {
    const bool known = at[d] && at[d]->key == 0 && at[d]->query == 0 && at[d]->base.isConstant() &&
                       at[d]->base.constant() >= 0 && at[d]->base.constant() < t.shape()[d];
    if (!known)
      return diagonal(t, at);
    linear = linear * t.shape()[d] + at[d]->base.constant();
  }
  return number(t.at(linear));
}

Known MaskReader::element(Value *v, llvm::ArrayRef<MaybePlace> at) {
  if (const Literal l = constantValue(v))
    return constant(*l, at);
  Operation *op = v->def();
  if (!op || !v->type().isTensor() || depth_ == kMaxDepth)
    return {};
  if (const MaybeRamp ramp = ramps_.of(v)) {
    Known k;
    if (ramp->isSame())
      k.place = MaskPlace{ramp->base};
    else if (at[size_t(ramp->dim)])
      k.place = sum({ramp->base}, *at[size_t(ramp->dim)], 1);
    if (k.place && k.place->key == 0 && k.place->query == 0 && k.place->base.isConstant())
      return number(double(k.place->base.constant()));
    if (k.place)
      return k;
  }
  ++depth_;
  Known k;
  if (op->is(Op::Map)) {
    Body body{op, at, llvm::DenseMap<Value *, Known>()};
    k = scalar(op->region().terminator()->operand(v->index()), body);
  } else if (op->is(Op::Gather)) {
    k = gathered(*op, at);
  } else if (op->is(Op::Concat)) {
    k = joined(*op, at);
  } else {
    k = moved(*op, at);
  }
  --depth_;
  return k;
}

/// An element that movement takes from elsewhere.
Known MaskReader::moved(Operation &op, llvm::ArrayRef<MaybePlace> at) {
  if (!op.isAny(Op::Reshape, Op::Transpose, Op::Slice))
    return {};
  const Type from = op.operand(0)->type(), to = op.result()->type();
  Indices own(from.rank());
  if (op.is(Op::Transpose)) {
    for (unsigned d = 0; d < to.rank(); ++d)
      own[size_t(op.intsAttr("perm")[d])] = at[d];
  } else if (op.is(Op::Slice)) {
    for (unsigned d = 0; d < from.rank(); ++d)
      if (at[d]) {
        const int64_t step = op.intsAttr("steps")[d];
        own[d] = MaskPlace{at[d]->base * step + op.dimsAttr("starts")[d], at[d]->key * step,
                           at[d]->query * step};
      }
  } else { // extents of 1 come and go
    unsigned k = 0;
    for (unsigned d = 0; d < from.rank(); ++d) {
      if (from.dim(d).isConstant(1)) {
        own[d] = this->at(0);
        continue;
      }
      while (k < to.rank() && to.dim(k).isConstant(1))
        ++k;
      if (k == to.rank() || to.dim(k) != from.dim(d))
        return {};
      own[d] = at[k++];
    }
  }
  return element(op.operand(0), own);
}

/// An element of one of several tensors side by side.
Known MaskReader::joined(Operation &op, llvm::ArrayRef<MaybePlace> at) {
  const auto axis = size_t(op.intAttr("axis"));
  Known k;
  if (!at[axis])
    return k;
  Dim begin = context_.dim(0);
  llvm::SmallVector<std::pair<Known, Dim>, 4> pieces; // and where they end
  for (Value *piece : op.operands()) {
    Indices own(at.begin(), at.end());
    own[axis] = sum(*at[axis], {begin}, -1);
    begin = begin + piece->type().dim(unsigned(axis));
    pieces.push_back({element(piece, own), begin});
  }
  k = pieces.back().first;
  for (const auto &[piece, end] : llvm::drop_begin(llvm::reverse(pieces)))
    k = selected({holds(sum({end - 1}, *at[axis], -1)), piece, k});
  return k;
}

Known MaskReader::gathered(Operation &op, llvm::ArrayRef<MaybePlace> at) {
  const unsigned axis = unsigned(op.intAttr("axis")), rank = op.operand(1)->type().rank();
  Indices own(at.begin(), at.begin() + axis);
  own.push_back(element(op.operand(1), at.slice(axis, rank)).place);
  // An index that counts from the end, or is moved into the tensor, is another.
  const MaskPlace last{op.operand(0)->type().dim(axis) - 1};
  if (own.back() && (extreme(*own.back(), false).lower() < 0 ||
                     extreme(sum(last, *own.back(), -1), false).lower() < 0))
    own.back().reset();
  own.append(at.begin() + axis + rank, at.end());
  return element(op.operand(0), own);
}

Known MaskReader::scalar(Value *v, Body &body) {
  const auto it = body.known.find(v);
  if (it != body.known.end())
    return it->second;
  if (++scalars_ > kMostScalars)
    return {};
  Known k;
  if (Operation *op = v->def()) {
    k = computed(*op, body);
    // What wraps around or is rounded is another number.
    if (k.place && !holdsIntegers(v->type().element(), extreme(*k.place, false).lower(),
                                  extreme(*k.place, true).upper()))
      k.place.reset();
  } else {
    for (unsigned i = 0; i < body.map->numOperands(); ++i)
      if (elementArgument(*body.map, i) == v) {
        Indices own;
        for (int64_t d : indexMap(*body.map, i))
          own.push_back(d < 0 ? MaybePlace(at(0)) : body.at[size_t(d)]);
        k = element(body.map->operand(i), own);
      }
  }
  body.known[v] = k;
  return k;
}

/// What a linear function of positions makes of its operands.
Known MaskReader::places(Operation &op, llvm::ArrayRef<Known> x) const {
  Known k;
  if (llvm::any_of(x, [](const Known &k) { return !k.place; }))
    return k;
  switch (op.kind()) {
  case Op::Cast:
    if (!isBool(op.result()->type().element()))
      k.place = x[0].place;
    break;
  case Op::Add:
  case Op::Sub: k.place = sum(*x[0].place, *x[1].place, op.is(Op::Add) ? 1 : -1); break;
  case Op::Mul:
    for (unsigned i : {0u, 1u}) {
      const MaskPlace &by = *x[i].place, &of = *x[1 - i].place;
      if (!k.place && by.key == 0 && by.query == 0 && by.base.isConstant())
        k.place = MaskPlace{of.base * by.base, of.key * by.base.constant(),
                            of.query * by.base.constant()};
    }
    break;
  case Op::Equal:
  case Op::Less:
  case Op::LessEqual:
  case Op::Greater:
  case Op::GreaterEqual: return compared(op.kind(), *x[0].place, *x[1].place);
  default: break;
  }
  return k;
}

Known MaskReader::selected(llvm::ArrayRef<Known> x) const {
  if (!x[0].choice)
    return {};
  const PositionMask &c = *x[0].choice;
  if (c.seen.empty())
    return x[c.inside != 0 ? 1 : 2];
  const Known &in = x[c.inside != 0 ? 1 : 2], &out = x[c.inside != 0 ? 2 : 1];
  if ((c.inside != 0) == (c.outside != 0) || !in.choice || !out.choice)
    return {};
  const auto alike = [](double a, double b) { return a == b || (hides(a) && hides(b)); };
  if (isNumber(out) && alike(in.choice->outside, out.choice->inside))
    return both(c, *in.choice, in.choice->inside, out.choice->inside);
  if (isNumber(out) && isNumber(in))
    return both(c, *in.choice, in.choice->inside, out.choice->inside);
  // Inside it is a number, which the other is there, too.
  const auto same = isNumber(in) ? withInside(*out.choice, in.choice->inside) : llvm::None;
  if (same && implies(c.seen, same->seen)) {
    Known k;
    k.choice = same;
    return k;
  }
  // Inside it is a number, outside of it one comparison counts: from the other side.
  const auto other = c.seen.size() == 1 ? withInside(c, c.outside) : llvm::None;
  if (other && isNumber(in) && alike(out.choice->outside, in.choice->inside))
    return both(*other, *out.choice, out.choice->inside, in.choice->inside);
  return {};
}

Known MaskReader::computed(Operation &op, Body &body) {
  if (op.is(Op::Index)) {
    Known k;
    k.place = body.at[size_t(op.intAttr("dim"))];
    return k;
  }
  if (op.is(Op::Const)) {
    const Attribute &value = *op.find("value");
    if (const int64_t *i = value.get<int64_t>())
      return number(double(*i));
    if (const bool *truth = value.get<bool>())
      return number(*truth);
    const double *d = value.get<double>();
    return d ? number(*d) : Known();
  }
  llvm::SmallVector<Known, 3> x{scalar(op.operand(0), body)};
  // A condition that is known leaves the other operand alone.
  const bool decided = op.is(Op::Select) && isNumber(x[0]);
  for (unsigned i = 1; i < op.numOperands(); ++i)
    x.push_back(decided && (x[0].choice->inside != 0) != (i == 1) ? Known()
                                                                  : scalar(op.operand(i), body));
  if (op.is(Op::Select))
    return selected(x);
  Known k = places(op, x);
  if (k.choice || llvm::any_of(x, [](const Known &k) { return !k.choice; }))
    return k;
  const auto masks = llvm::count_if(x, [](const Known &of) { return !of.choice->seen.empty(); });
  if (masks > 1 && x.size() > 2)
    return k;
  if (masks > 1) {
    const PositionMask &a = *x[0].choice, &b = *x[1].choice;
    const bool any = op.is(Op::LogicalOr), all = op.is(Op::LogicalAnd);
    if (any || all) {
      const auto p = withInside(a, all), q = withInside(b, all);
      return p && q ? both(*p, *q, all, !all) : k;
    }
    if (op.is(Op::Mul) && a.outside == 0 && b.outside == 0)
      return both(a, b, a.inside * b.inside, 0);
    const auto p = withInside(a, 0), q = withInside(b, 0);
    if (op.is(Op::Mul) && p && q)
      return productOutside(*p, *q);
    if ((op.is(Op::Add) || op.is(Op::Min)) && p && q && hides(p->outside) && hides(q->outside))
      return both(*p, *q, 0, std::max(p->outside, q->outside));
    return k;
  }
  k.choice = PositionMask();
  llvm::SmallVector<double, 3> inside, outside;
  for (const Known &of : x) {
    inside.push_back(of.choice->inside);
    outside.push_back(of.choice->seen.empty() ? of.choice->inside : of.choice->outside);
    if (!of.choice->seen.empty())
      k.choice->seen = of.choice->seen;
  }
  const auto in = valueOf(op, inside), out = valueOf(op, outside);
  if (!in || !out)
    return {};
  if (*in == *out)
    return number(*in);
  k.choice->inside = *in;
  k.choice->outside = *out;
  return k;
}

} // namespace

llvm::Optional<PositionMask> positionMask(Value *mask, Dim queries, Dim keys, double inside) {
  const Type t = mask->type();
  const unsigned rank = t.rank();
  Context &c = t.context();
  Indices at(rank);
  for (unsigned d = 0; d < rank; ++d)
    if (t.dim(d).isConstant(1))
      at[d] = MaskPlace{c.dim(0)};
    else if (d + 2 >= rank)
      at[d] = d + 1 == rank ? MaskPlace{c.dim(0), 1, 0} : MaskPlace{c.dim(0), 0, 1};
  const auto read = MaskReader(c, queries, keys).element(mask, at).choice;
  return read ? withInside(*read, inside) : llvm::None;
}

} // namespace tenon
