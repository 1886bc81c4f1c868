// merge-siblings: products of one tensor with constant weights become one product.
//
//   %q = matmul %x, %wq                             %all = matmul %x, concat(%wq, %wk, %wv)
//   %k = matmul %x, %wk                       →     %q, %k, %v = slices of %all
//   %v = matmul %x, %wv
//
// Factors and biases behind each of them, constants for each column, join likewise. The slices are
// views, which attention reads where they lie. Products are left alone where maps follow that would
// have been computed in the same kernel, where one of them keeps a large machine busy, and where
// rows are so few that reading weights is all that takes time: then nothing is gained. Part of -O2
// where a target asks for it (TargetTraits::mergedProducts), and of -O3.
#include "passes/MergeSiblings.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"

#include "llvm/Support/MathExtras.h"

namespace tenon {
namespace {

/// Tiles of 128 x 128 from which a product has two for each multiprocessor of a large GPU.
constexpr int64_t kManyTiles = 256;
/// Rows up to which kernels of few rows take a product.
constexpr int64_t kFewRows = 16;

/// A map that adds or multiplies by a constant of each column.
struct Step {
  Op function = Op::Add;
  std::vector<double> columns;
};

struct Sibling {
  Operation *product = nullptr;
  Literal weights;
  std::vector<Step> steps;
  Value *result = nullptr; // of the last of them

  int64_t columns() const { return weights->shape()[product->boolAttr("trans_b") ? 0 : 1]; }
};

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
    if (map->numOperands() != 2 || other != elementArgument(*map, 1 - at))
      return llvm::None;
    const Literal l = constantValue(map->operand(1 - at));
    const IndexMap &places = indexMap(*map, 1 - at);
    if (!l || l->element() != v->type().element() || l->size() != columns || l->shape().empty() ||
        l->shape().back() != columns || places.back() != int64_t(rank) - 1)
      return llvm::None;
    step.columns.resize(size_t(columns));
    l->toDoubles(0, columns, step.columns.data());
  }
  v = map->result();
  return step;
}

llvm::Optional<Sibling> readSibling(Operation &op) {
  if (!op.is(Op::MatMul) || op.numOperands() != 2 || op.has("block"))
    return llvm::None;
  const Element e = op.result()->type().element();
  if (e != Element::F32 && e != Element::F16 && e != Element::BF16)
    return llvm::None;
  Sibling s;
  s.product = &op;
  s.weights = constantValue(op.operand(1));
  if (!s.weights || s.weights->rank() != 2 || op.operand(0) == op.operand(1))
    return llvm::None;
  s.result = op.result();
  while (auto step = readStep(s.result, s.columns()))
    s.steps.push_back(*std::move(step));
  const bool moved =
      s.result->hasUses() && llvm::all_of(s.result->uses(), [](Use *u) {
        return u->owner()->isAny(Op::Reshape, Op::Transpose, Op::Slice, Op::MatMul, Op::Attention);
      });
  const Type y = op.result()->type();
  const int64_t rows = y.upperElements() / std::max<int64_t>(1, s.columns());
  const auto tiles = int64_t(llvm::divideCeil(rows, 128) * llvm::divideCeil(s.columns(), 128));
  return moved && tiles < kManyTiles && rows > kFewRows ? llvm::Optional<Sibling>(s) : llvm::None;
}

bool isLike(const Sibling &a, const Sibling &b) {
  return a.product->operand(0) == b.product->operand(0) &&
         a.product->attributes() == b.product->attributes() &&
         a.product->parent() == b.product->parent() &&
         a.weights->element() == b.weights->element() && a.steps.size() == b.steps.size() &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(),
                    [](const Step &x, const Step &y) { return x.function == y.function; });
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

Tensor joinedWeights(llvm::ArrayRef<Sibling> all) {
  const bool rows = all[0].product->boolAttr("trans_b");
  const int64_t depth = all[0].weights->shape()[rows ? 1 : 0];
  int64_t columns = 0;
  for (const Sibling &s : all)
    columns += s.columns();
  Tensor joined(all[0].weights->element(), {rows ? columns : depth, rows ? depth : columns});
  std::vector<double> values;
  int64_t at = 0;
  for (const Sibling &s : all) {
    const int64_t own = s.columns(), lines = rows ? 1 : depth, each = rows ? own * depth : own;
    values.resize(size_t(each));
    for (int64_t line = 0; line < lines; ++line) {
      s.weights->toDoubles(line * each, each, values.data());
      joined.fromDoubles(rows ? at * depth : line * columns + at, each, values.data());
    }
    at += own;
  }
  return joined;
}

/// `v` after step number `i` of all siblings.
Value *buildStep(Builder &b, Value *v, llvm::ArrayRef<Sibling> all, size_t i) {
  std::vector<double> values;
  for (const Sibling &s : all)
    values.insert(values.end(), s.steps[i].columns.begin(), s.steps[i].columns.end());
  Tensor t(v->type().element(), {int64_t(values.size())});
  t.fromDoubles(0, t.size(), values.data());
  const unsigned rank = v->type().rank();
  return b
      .map({v, b.constant(t)}, {identityMap(rank), IndexMap{int64_t(rank) - 1}}, v->type().shape(),
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
  Value *v = b.value(Op::MatMul, {op.operand(0), b.constant(joinedWeights(all))}, op.attributes());
  for (size_t i = 0; i < first->steps.size(); ++i)
    v = buildStep(b, v, all, i);
  int64_t at = 0;
  for (const Sibling &s : all) {
    s.result->replaceAllUsesWith(buildSlice(b, v, at, s.columns()));
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
