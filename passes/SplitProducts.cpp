// split-products: a product of 16-bit floats with constant weights whose columns maps read as two
// halves becomes two products, so that the maps can be computed in their kernels (GEGLU, SwiGLU).
//
//   %all = matmul %x, %w                            %a = matmul %x, first half of %w
//   %a = slice %all                           →     %b = matmul %x, second half of %w
//   %b = slice %all
//
// Maps that stand between product and slices and read nothing else than constants, one number or
// one for each column, are split with it. Weights beyond kMostBytes stay as they are, since halves
// are new constants that memory holds. Part of -O2 where a target asks for it
// (TargetTraits::pairedProducts).
#include "passes/SplitProducts.h"

#include "passes/Columns.h"
#include "passes/Rewrite.h"

namespace tenon {
namespace {

constexpr int64_t kMostBytes = 64 << 20;
/// Rows up to which kernels read weights once and nothing else counts: the product stays whole.
constexpr int64_t kFewRows = 16;

/// A map behind the product that can be split by columns.
struct Step {
  Operation *map;
  unsigned at; // the operand that comes from the product
};

/// A product, what stands behind it, and its halves.
struct Halves {
  Literal weights;
  unsigned columnDim = 1; // of the weights
  std::vector<Step> steps;
  Operation *slices[2] = {};
  int64_t columns = 0; // of a half
};

llvm::Optional<Step> readStep(const Value &v, int64_t columns) {
  if (!v.hasOneUse())
    return llvm::None;
  Operation *map = v.uses()[0]->owner();
  const unsigned at = v.uses()[0]->index();
  const unsigned rank = v.type().rank();
  if (!map->is(Op::Map) || map->numResults() != 1 ||
      map->result()->type().shape() != v.type().shape() ||
      !isIdentityMap(indexMap(*map, at), rank) ||
      llvm::any_of(map->region(), [](Operation &s) { return s.is(Op::Index); }))
    return llvm::None;
  for (unsigned i = 0; i < map->numOperands(); ++i)
    if (i != at && !isNumber(*map, i) && !isOfColumns(*map, i, rank, columns))
      return llvm::None;
  return Step{map, at};
}

/// Whether `slice` takes `count` columns of all rows from column `first` on, for maps alone.
bool isHalf(const Operation &slice, int64_t first, int64_t count) {
  const Type from = slice.operand(0)->type();
  const Dims &starts = slice.dimsAttr("starts"), &sizes = slice.dimsAttr("sizes");
  const unsigned last = from.rank() - 1;
  if (llvm::any_of(slice.intsAttr("steps"), [](int64_t s) { return s != 1; }) ||
      !starts[last].isConstant(first) || !sizes[last].isConstant(count))
    return false;
  for (unsigned d = 0; d < last; ++d)
    if (!starts[d].isConstant(0) || sizes[d] != from.dim(d))
      return false;
  const Value *half = slice.result();
  return half->hasUses() && llvm::all_of(half->uses(), [&](const Use *u) {
           return u->owner()->is(Op::Map) &&
                  isIdentityMap(indexMap(*u->owner(), u->index()), half->type().rank());
         });
}

llvm::Optional<Halves> readHalves(Operation &op) {
  if (!op.is(Op::MatMul) || op.numOperands() != 2 || op.has("block"))
    return llvm::None;
  const Type y = op.result()->type();
  const Element e = y.element();
  Halves h;
  h.weights = constantValue(op.operand(1));
  if ((e != Element::F16 && e != Element::BF16) || !h.weights || h.weights->rank() != 2 ||
      h.weights->element() != e || int64_t(h.weights->bytes().size()) > kMostBytes)
    return llvm::None;
  h.columnDim = op.boolAttr("trans_b") ? 0 : 1;
  const int64_t all = h.weights->shape()[h.columnDim];
  h.columns = all / 2;
  if (all < 2 || all % 2 != 0 || y.upperElements() / all <= kFewRows)
    return llvm::None;
  const Value *v = op.result();
  while (auto step = readStep(*v, all)) {
    h.steps.push_back(*step);
    v = step->map->result();
  }
  if (v->uses().size() != 2)
    return llvm::None;
  for (const Use *use : v->uses()) {
    Operation *slice = use->owner();
    if (!slice->is(Op::Slice))
      return llvm::None;
    for (int half : {0, 1})
      if (isHalf(*slice, half * h.columns, h.columns))
        h.slices[half] = slice;
  }
  return h.slices[0] && h.slices[1] ? llvm::Optional<Halves>(std::move(h)) : llvm::None;
}

/// Columns [first, first + count) of dimension `dim` of a constant, as elements.
Value *buildColumns(Builder &b, const Tensor &from, unsigned dim, int64_t first, int64_t count) {
  llvm::SmallVector<int64_t, 6> shape(from.shape().begin(), from.shape().end());
  const int64_t all = shape[dim];
  shape[dim] = count;
  int64_t inner = 1, outer = 1;
  for (unsigned d = 0; d < from.rank(); ++d)
    (d < dim ? outer : inner) *= d == dim ? 1 : from.shape()[d];
  Tensor to(from.element(), shape);
  std::vector<double> run(size_t(count * inner));
  for (int64_t o = 0; o < outer; ++o) {
    from.toDoubles((o * all + first) * inner, count * inner, run.data());
    to.fromDoubles(o * count * inner, count * inner, run.data());
  }
  return b.constant(to);
}

/// The product's half number `half`, and the maps behind it.
Value *buildHalf(Builder &b, const Operation &product, const Halves &h, int half) {
  const int64_t first = half * h.columns;
  Value *v = b.value(
      Op::MatMul, {product.operand(0), buildColumns(b, *h.weights, h.columnDim, first, h.columns)},
      product.attributes());
  for (const Step &step : h.steps) {
    if (!v)
      return nullptr;
    llvm::SmallVector<Value *, 4> operands;
    for (unsigned i = 0; i < step.map->numOperands(); ++i) {
      const Literal l = i == step.at ? Literal() : constantValue(step.map->operand(i));
      operands.push_back(i == step.at     ? v
                         : l->size() == 1 ? step.map->operand(i)
                                          : buildColumns(b, *l, l->rank() - 1, first, h.columns));
    }
    Operation *map = mapOver(b, *step.map, operands, v->type().shape());
    v = map ? map->result() : nullptr;
  }
  return v;
}

bool halvesPattern(Operation &op, Rewriter &rw) {
  const auto h = readHalves(op);
  if (!h || !rw.fire(op))
    return false;
  // Behind whatever the maps read.
  Builder b = rw.before(h->steps.empty() ? op : *h->steps.back().map);
  b.location = op.loc();
  for (const Step &step : h->steps)
    mergeLocation(b.location, step.map->loc());
  for (int half : {0, 1}) {
    Value *v = buildHalf(b, op, *h, half);
    assert(v && "half of a product has half its columns");
    h->slices[half]->result()->replaceAllUsesWith(v);
  }
  return true;
}

const Pattern kPatterns[] = {
    {"split-products.halves", halvesPattern},
};

} // namespace

bool runSplitProducts(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
