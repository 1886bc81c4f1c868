// Functions of one tensor of bytes.
//
//   %f = dequantize %x
//   %s = sigmoid %f                          →   %y = map %x { lookup }
//   %y = quantize(mul %f, %s)
//
// The table holds what the interpreter computes for each of the 256 values, so it is the float
// graph bit for bit. Maps in between are part of the function whatever else reads them, and so are
// tensors of bytes that depend on the same x: with quantize and dequantize behind the sigmoid above
// there is one table still. Sums, bounds and changes of scale are left to
// integer-arithmetic.rescale.
#include "passes/ByteFunctions.h"

#include "passes/QuantizedForm.h"

#include "ir/Interpreter.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <set>

namespace tenon {
namespace {

bool isByte(Element e) { return isInteger(e) && bitWidth(e) == 8; }

/// A tensor of bytes as a map reads it.
struct Leaf {
  Value *tensor;
  IndexMap map;
  friend bool operator==(const Leaf &a, const Leaf &b) {
    return a.tensor == b.tensor && a.map == b.map;
  }
};

/// What one map computes, with the maps before it, down to tensors of bytes.
class Island {
public:
  /// Maps before `root` may be this many deep.
  static constexpr unsigned kDepth = 32;

  explicit Island(Operation &root) : root_(root) {}

  /// The bytes that everything depends on, when it is one tensor.
  llvm::Optional<Leaf> source() {
    std::vector<Leaf> leaves;
    if (!collect(root_, identityMap(root_.result()->type().rank()), leaves, 0) || leaves.empty())
      return llvm::None;
    if (leaves.size() == 1)
      return leaves[0];
    // Other leaves may be functions of one among them, or of a common one before.
    std::vector<std::vector<Value *>> chains;
    for (const Leaf &l : leaves) {
      if (l.map != leaves[0].map || l.tensor->type().shape() != leaves[0].tensor->type().shape())
        return llvm::None;
      chains.push_back(chain(l.tensor));
    }
    for (Value *v : chains[0])
      if (llvm::all_of(chains, [&](auto &c) { return llvm::is_contained(c, v); }))
        return Leaf{v, leaves[0].map};
    return llvm::None;
  }

  /// The root's result as a scalar function of `x`, which stands for an element of `source`.
  Value *build(Builder &body, Value *source, Value *x) {
    return scalar(body, root_.result(), source, x);
  }
  const Location &nodes() const { return nodes_; }

private:
  /// Adds the tensors of bytes that `map` reads, directly or through maps of floats.
  bool collect(Operation &map, const IndexMap &dims, std::vector<Leaf> &leaves, unsigned depth) {
    if (!seen_.insert({map.result(), dims}).second)
      return true;
    if (map.numResults() != 1 || depth > kDepth ||
        llvm::any_of(map.region(), [](Operation &s) { return s.is(Op::Index); }))
      return false;
    for (unsigned i = 0; i < map.numOperands(); ++i) {
      Value *v = map.operand(i);
      if (Literal l = constantValue(v)) {
        if (!hasScalarConst(l->element()) || !(l->size() == 1 || l->isSplat()))
          return false;
        continue;
      }
      Leaf leaf{v, {}};
      for (int64_t d : indexMap(map, i))
        leaf.map.push_back(d < 0 ? -1 : dims[size_t(d)]);
      if (isByte(v->type().element())) {
        if (!llvm::is_contained(leaves, leaf))
          leaves.push_back(leaf);
        continue;
      }
      Operation *def = v->def();
      if (!def || !def->is(Op::Map) || v->type().element() != Element::F32 ||
          !collect(*def, leaf.map, leaves, depth + 1))
        return false;
    }
    return true;
  }

  /// `bytes` and the tensors of bytes that it is a function of, nearest first.
  static std::vector<Value *> chain(Value *bytes) {
    std::vector<Value *> found{bytes};
    while (found.size() < kDepth) {
      Operation *def = found.back()->def();
      std::vector<Leaf> leaves;
      if (!def || !def->is(Op::Map))
        break;
      const unsigned rank = def->result()->type().rank();
      if (!Island(*def).collect(*def, identityMap(rank), leaves, 0) || leaves.size() != 1 ||
          !isIdentityMap(leaves[0].map, rank) ||
          leaves[0].tensor->type().shape() != def->result()->type().shape())
        break;
      found.push_back(leaves[0].tensor);
    }
    return found;
  }

  Value *scalar(Builder &body, Value *v, Value *source, Value *x) {
    if (v == source)
      return x;
    if (Literal l = constantValue(v))
      return scalarFromTensor(body, *l, 0);
    if (Value *known = scalars_[v])
      return known;
    Operation &map = *v->def();
    mergeLocation(nodes_, map.loc());
    std::map<const Value *, Value *> values;
    for (unsigned i = 0; i < map.numOperands(); ++i)
      values[map.region().argument(i)] = scalar(body, map.operand(i), source, x);
    inlineBody(map.region(), body, values, {});
    return scalars_[v] = values[map.region().terminator()->operand(0)];
  }

  Operation &root_;
  std::set<std::pair<Value *, IndexMap>> seen_; // looked up only, like scalars_
  std::map<Value *, Value *> scalars_;
  Location nodes_;
};

/// Whether it is a sum that fixed-point arithmetic computes.
bool isPlainSum(Operation &map) {
  std::string why;
  auto q = matchQuantizedSum(map, why);
  return q && llvm::none_of(q->sum.terms, [](const IntegerTerm &t) { return t.factor; });
}

/// All values that 8 bits can have, by the bits.
Tensor allBytes(Element e) {
  Tensor t(e, {256});
  for (int64_t i = 0; i < 256; ++i)
    t.setInt(i, isSignedInt(e) ? int8_t(i) : i);
  return t;
}

/// e^(−scale · d) for d = 0 … 255 in units of 2^−bits.
Ints exponentials(double scale, int64_t bits) {
  Ints table;
  for (int64_t d = 0; d < 256; ++d)
    table.push_back(std::llrint(std::ldexp(std::exp(-scale * double(d)), int(bits))));
  return table;
}

/// Bits of the largest exponential below which rounding would show.
constexpr int64_t kLeastBits = 16;

} // namespace

bool tablePattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Map) || op.numResults() != 1)
    return false;
  Operation *q = op.region().terminator()->operand(0)->def();
  const Element to = op.result()->type().element();
  if (!q || !q->is(Op::Quantize) || !isInteger(to) || (bitWidth(to) != 8 && bitWidth(to) != 16))
    return false;
  Island island(op);
  auto source = island.source();
  if (!source || isPlainSum(op) || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  const Tensor bytes = allBytes(source->tensor->type().element());
  Operation *all =
      b.map({b.constant(bytes)}, {identityMap(1)}, {b.context().dim(256)},
            [&](Builder &body, llvm::ArrayRef<Value *> args) {
              return llvm::SmallVector<Value *, 2>{island.build(body, source->tensor, args[0])};
            });
  llvm::SmallVector<Tensor, 1> results;
  std::string error;
  if (!all || !evaluateConstant(*all, {bytes}, results, error))
    return false;
  Ints table(256);
  results[0].toInts(0, 256, table.data());
  b.location = op.loc();
  for (const std::string &node : island.nodes())
    mergeLocation(b.location, {node});
  llvm::ArrayRef<Dim> space = op.result()->type().shape();
  Operation *map = b.map(
      {source->tensor}, {source->map}, space, [&](Builder &body, llvm::ArrayRef<Value *> args) {
        const Type type = Type::scalar(b.context(), to);
        return llvm::SmallVector<Value *, 2>{
            body.scalar(Op::Lookup, {args[0]}, {{"table", table}, {"to", type}})};
      });
  if (!map)
    return false;
  return rw.replace(op, map->result());
}

bool quantizedSoftmaxPattern(Operation &op, Rewriter &rw) {
  if (!rw.context().target.wideIntegerSums || !op.is(Op::Map) || op.numResults() != 1 ||
      op.numOperands() != 1 || !isIdentityMap(indexMap(op, 0), op.result()->type().rank()))
    return false;
  Operation *q = op.region().terminator()->operand(0)->def(), *softmax = op.operand(0)->def();
  const Element to = op.result()->type().element();
  if (!q || !q->is(Op::Quantize) || q->operand(0) != op.region().argument(0) || !isByte(to) ||
      !softmax || !softmax->is(Op::Softmax) || softmax->boolAttr("log"))
    return false;
  auto scale = scalarValue(q->operand(1)), zero = scalarValue(q->operand(2));
  auto x = matchDequantized(softmax->operand(0));
  const int64_t axis = softmax->intAttr("axis");
  if (!scale || !zero || !(*scale > 0) || !x || !x->perTensor() || !(x->scale[0] > 0) ||
      !isByte(x->q->type().element()))
    return false;
  const int64_t length = std::max<int64_t>(1, x->q->type().dim(unsigned(axis)).upper());
  const int64_t bits = 30 - int64_t(llvm::Log2_64_Ceil(uint64_t(length)));
  int exponent;
  const double mantissa = std::frexp(1 / *scale, &exponent);
  int64_t multiplier = std::llrint(std::ldexp(mantissa, 31)), shift = 31 - exponent;
  if (multiplier == int64_t(1) << 31)
    multiplier /= 2, --shift;
  if (bits < kLeastBits || shift < 0 || shift > 31 || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  mergeLocation(b.location, softmax->loc());
  Value *y = b.value(Op::QuantizedSoftmax, {x->q},
                     {{"axis", axis},
                      {"table", exponentials(x->scale[0], bits)},
                      {"multiplier", multiplier},
                      {"shift", shift},
                      {"zero", int64_t(*zero)},
                      {"to", Type::scalar(b.context(), to)}});
  return rw.replace(op, y);
}

} // namespace tenon
