// merge-siblings: products of one tensor with constant weights become one product.
//
//   %q = matmul %x, %wq                             %all = matmul %x, concat(%wq, %wk, %wv)
//   %k = matmul %x, %wk                       →     %q, %k, %v = slices of %all
//   %v = matmul %x, %wv
//
// Factors and biases behind each of them, constants for each column, join likewise, and so does
// what makes bytes of sums or floats of integer sums: numbers that differ become constants for each
// column, and what is moved in between is moved afterwards. The slices are views, which attention
// reads where they lie. Weights in blocks of few bits join with their scales and zero points.
// Products are left alone where maps follow that would have been computed in the same kernel, and
// where one of them keeps a large machine busy. Part of -O2 where a target asks for it
// (TargetTraits::mergedProducts), and of -O3.
#include "passes/MergeSiblings.h"

#include "passes/Columns.h"
#include "passes/Rewrite.h"

#include "llvm/Support/MathExtras.h"

#include <cstring>

namespace tenon {
namespace {

/// Tiles of 128 x 128 from which a product has two for each multiprocessor of a large GPU.
constexpr int64_t kManyTiles = 256;

/// A map that adds or multiplies by a constant of each column, or another function of the product's
/// elements and such constants.
struct Step {
  Op function = Op::Add; // Add, Mul, Map
  std::vector<double> columns;
  Operation *map = nullptr; // of a Map
  unsigned at = 0;          // the operand of `map` that it is a function of
};

struct Sibling {
  Operation *product = nullptr;
  llvm::SmallVector<Literal, 3> constants; // weights; in blocks: their scales, zero points
  std::vector<Step> steps;
  llvm::SmallVector<Operation *, 2> moves; // between steps
  Value *result = nullptr;                 // of the last step

  /// The dimension of the constants that the columns of the result step along.
  unsigned along() const { return product->boolAttr("trans_b") ? 0 : 1; }
  int64_t columns() const { return constants[0]->shape()[along()]; }
};

/// The map behind `v`, and perhaps behind what only moves it, that makes bytes of elements or
/// something else of bytes or integers. `moves` gets what lies between.
llvm::Optional<Step> readConversion(Value *&v, int64_t columns,
                                    llvm::SmallVectorImpl<Operation *> &moves) {
  Value *x = v;
  llvm::SmallVector<Operation *, 2> between;
  while (x->hasOneUse() && x->uses()[0]->owner()->isAny(Op::Reshape, Op::Transpose)) {
    between.push_back(x->uses()[0]->owner());
    x = between.back()->result();
  }
  if (!x->hasOneUse())
    return llvm::None;
  Operation *map = x->uses()[0]->owner();
  const unsigned at = x->uses()[0]->index(), rank = x->type().rank();
  if (!map->is(Op::Map) || map->numResults() != 1 ||
      map->result()->type().shape() != x->type().shape() ||
      !isIdentityMap(indexMap(*map, at), rank))
    return llvm::None;
  const Element from = x->type().element(), to = map->result()->type().element();
  if (!isInteger(from) && bitWidth(from) != 8 && bitWidth(to) != 8)
    return llvm::None;
  const bool moved = !moves.empty() || !between.empty();
  for (unsigned i = 0; i < map->numOperands(); ++i)
    if (i != at && !isNumber(*map, i) && (moved || !isOfColumns(*map, i, rank, columns)))
      return llvm::None;
  if (llvm::any_of(map->region(), [](Operation &s) { return s.is(Op::Index); }))
    return llvm::None;
  moves.append(between.begin(), between.end());
  v = map->result();
  Step step;
  step.function = Op::Map;
  step.map = map;
  step.at = at;
  return step;
}

/// The map behind `v` as a step; its result then takes the place of `v`.
llvm::Optional<Step> readStep(Value *&v, int64_t columns) {
  if (!v->hasOneUse())
    return llvm::None;
  Use *use = v->uses()[0];
  Operation *map = use->owner();
  const unsigned at = use->index(), rank = v->type().rank();
  if ((!isPlainMap(map, 1) && !isPlainMap(map, 2)) || map->result()->type() != v->type() ||
      !isIdentityMap(indexMap(*map, at), rank))
    return llvm::None;
  const Operation *scalar = soleScalar(*map);
  if (!scalar || !scalar->isAny(Op::Add, Op::Mul))
    return llvm::None;
  const unsigned mine = scalar->operand(0) == elementArgument(*map, at) ? 0 : 1;
  if (scalar->operand(mine) != elementArgument(*map, at))
    return llvm::None;
  const Value *other = scalar->operand(1 - mine);
  Step step;
  step.function = scalar->kind();
  if (const auto number = scalarValue(other)) {
    step.columns.assign(size_t(columns), *number);
  } else {
    if (map->numOperands() != 2 || other != elementArgument(*map, 1 - at) ||
        !isOfColumns(*map, 1 - at, rank, columns))
      return llvm::None;
    const Literal l = constantValue(map->operand(1 - at));
    if (l->element() != v->type().element())
      return llvm::None;
    step.columns.resize(size_t(columns));
    l->toDoubles(0, columns, step.columns.data());
  }
  v = map->result();
  return step;
}

/// Whether `v` goes through nothing but movement to kernels that read it where it lies: they also
/// widen it.
bool isOnlyMoved(const Value *v) {
  return v->hasUses() && llvm::all_of(v->uses(), [v](const Use *u) {
           const Operation *reader = u->owner();
           if (isPlainMap(reader, 1) && soleScalar(*reader) && soleScalar(*reader)->is(Op::Cast))
             return bitWidth(reader->result()->type().element()) > bitWidth(v->type().element()) &&
                    isOnlyMoved(reader->result());
           return reader->isAny(Op::Reshape, Op::Transpose, Op::Slice, Op::MatMul, Op::Attention,
                                Op::Normalize);
         });
}

llvm::Optional<Sibling> readSibling(Operation &op) {
  if (!op.is(Op::MatMul) || (op.numOperands() != 2 && !op.has("block")))
    return llvm::None;
  const Element e = op.result()->type().element();
  if (e != Element::F32 && e != Element::F16 && e != Element::BF16 && e != Element::I32)
    return llvm::None;
  Sibling s;
  s.product = &op;
  for (unsigned i = 1; i < op.numOperands(); ++i) {
    s.constants.push_back(constantValue(op.operand(i)));
    if (!s.constants.back() || s.constants.back()->rank() != 2)
      return llvm::None;
  }
  if (op.operand(0) == op.operand(1))
    return llvm::None;
  s.result = op.result();
  for (;;) {
    auto step = s.moves.empty() ? readStep(s.result, s.columns()) : llvm::None;
    if (!step && !(step = readConversion(s.result, s.columns(), s.moves)))
      break;
    s.steps.push_back(*std::move(step));
  }
  const Type y = op.result()->type();
  const int64_t rows = y.upperElements() / std::max<int64_t>(1, s.columns());
  const auto tiles = int64_t(llvm::divideCeil(rows, 128) * llvm::divideCeil(s.columns(), 128));
  return isOnlyMoved(s.result) && tiles < kManyTiles ? llvm::Optional<Sibling>(s) : llvm::None;
}

/// Whether both maps compute the same but for numbers.
bool isAlike(const Step &a, const Step &b) {
  if (a.function != b.function || a.function != Op::Map)
    return a.function == b.function;
  if (a.at != b.at || a.map->numOperands() != b.map->numOperands() ||
      a.map->result()->type().element() != b.map->result()->type().element())
    return false;
  std::map<const Value *, const Value *> same;
  for (unsigned i = 0; i < a.map->numOperands(); ++i) {
    if (elementArgument(*a.map, i)->type() != elementArgument(*b.map, i)->type())
      return false;
    same[elementArgument(*a.map, i)] = elementArgument(*b.map, i);
  }
  auto x = a.map->region().begin(), y = b.map->region().begin();
  for (; x != a.map->region().end() && y != b.map->region().end(); ++x, ++y) {
    if (x->kind() != y->kind() || x->numOperands() != y->numOperands() ||
        (!x->is(Op::Const) && x->attributes() != y->attributes()))
      return false;
    for (unsigned i = 0; i < x->numOperands(); ++i)
      if (same[x->operand(i)] != y->operand(i))
        return false;
    if (x->isTerminator())
      continue;
    if (x->result()->type() != y->result()->type())
      return false;
    same[x->result()] = y->result();
  }
  return x == a.map->region().end() && y == b.map->region().end();
}

bool isLike(const Sibling &a, const Sibling &b) {
  return a.product->operand(0) == b.product->operand(0) &&
         a.product->attributes() == b.product->attributes() &&
         a.product->parent() == b.product->parent() &&
         std::equal(
             a.constants.begin(), a.constants.end(), b.constants.begin(), b.constants.end(),
             [](const Literal &x, const Literal &y) { return x->element() == y->element(); }) &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), isAlike);
}

/// All products of the same tensor that are like `first`, in the order of the text; empty where
/// `first` is not the first of them.
std::vector<Sibling> siblingsOf(const Sibling &first) {
  std::vector<Sibling> all;
  for (Use *use : first.product->operand(0)->uses())
    if (use->index() == 0)
      if (auto s = readSibling(*use->owner()); s && isLike(*s, first))
        all.push_back(*std::move(s));
  std::stable_sort(all.begin(), all.end(), [](const Sibling &a, const Sibling &b) {
    return a.product->isBefore(b.product);
  });
  return all;
}

/// Constant number `i` of all siblings, side by side.
Tensor joinedConstants(llvm::ArrayRef<Sibling> all, size_t i) {
  const unsigned along = all[0].along();
  const Literal &first = all[0].constants[i];
  const Element e = first->element();
  llvm::SmallVector<int64_t, 2> shape(first->shape().begin(), first->shape().end());
  shape[along] = 0;
  bool areBytes = true; // lines of each begin and end with a byte
  const auto lineOf = [&](const Sibling &s) {
    return s.columns() * (along == 0 ? s.constants[i]->shape()[1] : 1);
  };
  for (const Sibling &s : all) {
    shape[along] += s.columns();
    areBytes &= lineOf(s) * int64_t(bitWidth(e)) % 8 == 0;
  }
  Tensor joined(e, shape);
  const int64_t lines = along == 0 ? 1 : shape[0],
                whole = joined.size() / std::max<int64_t>(1, lines);
  const auto bytesOf = [e](int64_t elements) { return elements * int64_t(bitWidth(e)) / 8; };
  std::vector<double> values;
  int64_t at = 0;
  for (const Sibling &s : all) {
    const int64_t each = lineOf(s);
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t from = line * each, to = line * whole + at;
      if (areBytes) {
        std::memcpy(joined.mutableBytes() + bytesOf(to),
                    s.constants[i]->bytes().data() + bytesOf(from), size_t(bytesOf(each)));
        continue;
      }
      values.resize(size_t(each));
      s.constants[i]->toDoubles(from, each, values.data());
      joined.fromDoubles(to, each, values.data());
    }
    s.constants[i]->leaveMemory();
    at += each;
  }
  return joined;
}

/// The numbers of all siblings, one for each column, that `of` says of one.
Value *buildColumns(Builder &b, llvm::ArrayRef<Sibling> all, Element e,
                    llvm::function_ref<void(const Sibling &, std::vector<double> &)> of) {
  std::vector<double> values;
  for (const Sibling &s : all)
    of(s, values);
  Tensor t(e, {int64_t(values.size())});
  t.fromDoubles(0, t.size(), values.data());
  return b.constant(t);
}

/// `v` after the map that step number `i` of all siblings is.
Value *buildConversion(Builder &b, Value *v, llvm::ArrayRef<Sibling> all, size_t i) {
  const Step &first = all[0].steps[i];
  const unsigned rank = v->type().rank();
  llvm::SmallVector<Value *, 4> operands;
  std::vector<IndexMap> maps;
  for (unsigned k = 0; k < first.map->numOperands(); ++k) {
    const bool varies = k == first.at;
    operands.push_back(varies ? v
                              : buildColumns(b, all, first.map->operand(k)->type().element(),
                                             [&](const Sibling &s, std::vector<double> &to) {
                                               const Literal l =
                                                   constantValue(s.steps[i].map->operand(k));
                                               std::vector<double> own(size_t(l->size()));
                                               l->toDoubles(0, l->size(), own.data());
                                               own.resize(size_t(s.columns()), own[0]);
                                               to.insert(to.end(), own.begin(), own.end());
                                             }));
    maps.push_back(varies ? identityMap(rank) : IndexMap{int64_t(rank) - 1});
  }
  // Numbers that differ, in the order of the text.
  std::vector<bool> differs;
  size_t position = 0;
  for (Operation &s : first.map->region()) {
    const size_t n = position++;
    differs.push_back(s.is(Op::Const) && llvm::any_of(all, [&](const Sibling &other) {
                        return std::next(other.steps[i].map->region().begin(), n)->attributes() !=
                               s.attributes();
                      }));
    if (!differs.back())
      continue;
    operands.push_back(buildColumns(
        b, all, s.result()->type().element(), [&](const Sibling &other, std::vector<double> &to) {
          const Operation &own = *std::next(other.steps[i].map->region().begin(), n);
          to.insert(to.end(), size_t(other.columns()), *scalarValue(own.result()));
        }));
    maps.push_back(IndexMap{int64_t(rank) - 1});
  }
  Operation *map =
      b.map(operands, maps, v->type().shape(), [&](Builder &body, llvm::ArrayRef<Value *> args) {
        std::map<const Value *, Value *> values;
        for (unsigned k = 0; k < first.map->numOperands(); ++k)
          values[elementArgument(*first.map, k)] = args[k];
        size_t at = 0, next = first.map->numOperands();
        for (Operation &s : first.map->region()) {
          if (s.isTerminator())
            break;
          if (differs[at++]) {
            values[s.result()] = args[next++];
            continue;
          }
          llvm::SmallVector<Value *, 4> own;
          for (Value *o : s.operands())
            own.push_back(values.at(o));
          values[s.result()] = body.scalar(s.kind(), own, s.attributes());
        }
        return llvm::SmallVector<Value *, 2>{
            values.at(first.map->region().terminator()->operand(0))};
      });
  return map->result();
}

/// `v` after step number `i` of all siblings.
Value *buildStep(Builder &b, Value *v, llvm::ArrayRef<Sibling> all, size_t i) {
  if (all[0].steps[i].function == Op::Map)
    return buildConversion(b, v, all, i);
  Value *columns =
      buildColumns(b, all, v->type().element(), [&](const Sibling &s, std::vector<double> &to) {
        to.insert(to.end(), s.steps[i].columns.begin(), s.steps[i].columns.end());
      });
  const unsigned rank = v->type().rank();
  return b
      .map({v, columns}, {identityMap(rank), IndexMap{int64_t(rank) - 1}}, v->type().shape(),
           [&](Builder &body, llvm::ArrayRef<Value *> args) {
             return llvm::SmallVector<Value *, 2>{
                 body.scalar(all[0].steps[i].function, {args[0], args[1]})};
           })
      ->result();
}

Value *buildSlice(Builder &b, Value *v, int64_t first, int64_t count) {
  const Type t = v->type();
  Dims starts(t.rank(), t.context().dim(0)), sizes(t.shape().begin(), t.shape().end());
  starts.back() = t.context().dim(first);
  sizes.back() = t.context().dim(count);
  return b.value(Op::Slice, {v},
                 {{"starts", starts}, {"sizes", sizes}, {"steps", Ints(t.rank(), 1)}});
}

bool productsPattern(Operation &op, Rewriter &rw) {
  const auto first = readSibling(op);
  if (!first)
    return false;
  const std::vector<Sibling> all = siblingsOf(*first);
  if (all.size() < 2 || all[0].product != &op || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  b.location = op.loc();
  for (const Sibling &s : all)
    mergeLocation(b.location, s.product->loc());
  llvm::SmallVector<Value *, 4> operands{op.operand(0)};
  for (size_t i = 0; i < first->constants.size(); ++i)
    operands.push_back(b.constant(joinedConstants(all, i)));
  Value *v = b.value(Op::MatMul, operands, op.attributes());
  for (size_t i = 0; i < first->steps.size(); ++i)
    v = buildStep(b, v, all, i);
  int64_t at = 0;
  for (const Sibling &s : all) {
    Value *part = buildSlice(b, v, at, s.columns());
    for (Operation *move : s.moves)
      part = b.value(move->kind(), {part}, move->attributes());
    s.result->replaceAllUsesWith(part);
    at += s.columns();
  }
  return true;
}

const Pattern kPatterns[] = {
    {"merge-siblings.products", productsPattern},
};

} // namespace

bool runMergeSiblings(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
