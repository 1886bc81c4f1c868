// Implements value inference: what is known at compile time of small integer tensors.
//
// Shapes in ONNX are computed by ordinary nodes (Shape → Gather → Mul → Concat → Reshape). An
// operation on constants is evaluated by the interpreter; where extents are symbolic, movement ops
// are run on tensors of element numbers to see what goes where, and bodies on extents themselves.
// Nothing is rewritten. Work is bounded: small tensors, limited depth, each value visited once.
#include "ir/ShapeValues.h"
#include "ir/Extents.h"
#include "ir/Interpreter.h"
#include "ir/Scalar.h"
#include "ir/ops/Ops.h"

#include "llvm/ADT/DenseMap.h"

#include <cmath>

namespace tenon {
namespace {

constexpr int64_t kMaxElements = 4096;
constexpr unsigned kMaxDepth = 200;
constexpr unsigned kMaxNodes = 64;

/// The row-major elements of a tensor: a constant, or extents (of floats, too: integral ones).
struct Known {
  llvm::Optional<Tensor> constant;
  llvm::SmallVector<Dim, 6> dims;
};
using MaybeKnown = llvm::Optional<Known>;
using MaybeDim = llvm::Optional<Dim>;

class ValueInference {
public:
  explicit ValueInference(Context &context) : context_(context) {}

  MaybeKnown known(Value *v) {
    auto it = memo_.find(v);
    if (it != memo_.end())
      return it->second;
    if (depth_ == kMaxDepth)
      return llvm::None;
    ++depth_;
    MaybeKnown k = compute(v);
    --depth_;
    memo_[v] = k;
    return k;
  }

  /// Takes the one element of `v` to be `is`.
  void assume(Value *v, Dim is) { memo_[v] = Known{llvm::None, {is}}; }

  /// Elements as extents; None for constants that are not integral.
  llvm::Optional<llvm::SmallVector<Dim, 6>> dims(const Known &k) {
    if (!k.constant)
      return k.dims;
    llvm::SmallVector<Dim, 6> list;
    const Tensor &t = *k.constant;
    for (int64_t i = 0; i < t.size(); ++i) {
      if (isFloat(t.element()) && !(t.at(i) == std::trunc(t.at(i)) && std::fabs(t.at(i)) < 1e15))
        return llvm::None;
      list.push_back(context_.dim(t.intAt(i)));
    }
    return list;
  }

private:
  MaybeKnown compute(Value *v);
  MaybeKnown computeSymbolic(Operation &op, unsigned result, llvm::ArrayRef<MaybeKnown> operands);
  MaybeKnown moved(Operation &op, llvm::ArrayRef<MaybeKnown> operands);
  MaybeKnown mapped(Operation &op, unsigned result, llvm::ArrayRef<MaybeKnown> operands);
  MaybeKnown scanned(Operation &op, const MaybeKnown &operand);
  /// Runs a body on extents; false when something is unknown.
  bool runBody(Region &body, llvm::ArrayRef<Dim> arguments, llvm::ArrayRef<int64_t> point,
               llvm::SmallVectorImpl<Dim> &yielded);
  MaybeDim scalar(Operation &op, llvm::ArrayRef<Dim> operands, llvm::ArrayRef<int64_t> point);
  MaybeDim compare(Op kind, Dim a, Dim b);

  Context &context_;
  llvm::DenseMap<Value *, MaybeKnown> memo_;
  unsigned depth_ = 0;
};

bool isSmallTensor(Type t) {
  return t.isTensor() && t.hasStaticShape() && t.upperElements() <= kMaxElements &&
         (isInteger(t.element()) || isBool(t.element()) || isFloat(t.element()));
}

MaybeKnown ValueInference::compute(Value *v) {
  if (!isSmallTensor(v->type()))
    return llvm::None;
  Operation *op = v->def();
  if (!op) { // captures of branches, loops and groups are their operands
    Operation *outer = v->argumentOf()->parentOp();
    if (outer && outer->is(Op::If))
      return known(outer->operand(v->index() + 1));
    if (outer && outer->is(Op::Group))
      return known(outer->operand(v->index()));
    if (outer && outer->is(Op::Loop) && int64_t(v->index()) >= 2 + outer->intAttr("carried"))
      return known(outer->operand(v->index()));
    return llvm::None;
  }
  if (op->is(Op::Constant))
    return Known{**op->find("value")->get<Literal>(), {}};
  if (op->is(Op::ShapeOf)) {
    Known k;
    k.dims.append(op->operand(0)->type().shape().begin(), op->operand(0)->type().shape().end());
    return k;
  }
  if (op->is(Op::If)) {
    MaybeKnown cond = known(op->operand(0));
    if (!cond || !cond->constant)
      return llvm::None;
    Operation *end = op->region(cond->constant->intAt(0) ? 0 : 1).terminator();
    return end ? known(end->operand(v->index())) : MaybeKnown();
  }
  if (op->isAny(Op::Loop, Op::User) || !op->info().evaluate)
    return llvm::None;

  llvm::SmallVector<MaybeKnown, 4> operands;
  llvm::SmallVector<Tensor, 4> constants;
  for (Value *x : op->operands()) {
    operands.push_back(known(x));
    if (!operands.back())
      return llvm::None;
    // Extents that are all known are a constant, too.
    if (!operands.back()->constant) {
      llvm::ArrayRef<Dim> dims = operands.back()->dims;
      if (llvm::any_of(dims, [](Dim d) { return !d.isConstant(); }))
        continue;
      Tensor t(x->type().element(), x->type().staticShape());
      for (size_t i = 0; i < dims.size(); ++i)
        t.setInt(int64_t(i), dims[i].constant());
      operands.back()->constant = t;
    }
    constants.push_back(*operands.back()->constant);
  }
  if (constants.size() < op->numOperands())
    return computeSymbolic(*op, v->index(), operands);
  llvm::SmallVector<Tensor, 2> results;
  std::string error;
  if (!evaluateConstant(*op, constants, results, error))
    return llvm::None;
  return Known{results[v->index()], {}};
}

MaybeKnown ValueInference::computeSymbolic(Operation &op, unsigned result,
                                           llvm::ArrayRef<MaybeKnown> operands) {
  if (op.info().traits & OpTrait::Movement ||
      (op.is(Op::Scatter) && op.wordAttr("combiner", "none") == "none"))
    return moved(op, operands);
  if (op.isAny(Op::Map, Op::Reduce))
    return mapped(op, result, operands);
  if (op.is(Op::Scan))
    return scanned(op, *operands[0]);
  return llvm::None;
}

/// Runs a movement op on element numbers: number i of the pool stands for the extent pool[i].
MaybeKnown ValueInference::moved(Operation &op, llvm::ArrayRef<MaybeKnown> operands) {
  llvm::SmallVector<Dim, 16> pool{context_.dim(0)}; // 0 is what pad adds by default
  llvm::SmallVector<Tensor, 4> numbers;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    if (op.isAny(Op::Gather, Op::Scatter) &&
        i == 1) { // indices are data of this op, not moved by it
      if (!operands[i]->constant)
        return llvm::None;
      numbers.push_back(*operands[i]->constant);
      continue;
    }
    auto elements = dims(*operands[i]);
    const Element e = op.operand(i)->type().element();
    if (!elements || bitWidth(e) < 32) // narrower types cannot hold the numbers
      return llvm::None;
    Tensor t(e, op.operand(i)->type().staticShape());
    for (size_t k = 0; k < elements->size(); ++k) {
      t.setInt(int64_t(k), int64_t(pool.size()));
      pool.push_back((*elements)[k]);
    }
    numbers.push_back(t);
  }
  llvm::SmallVector<Tensor, 2> results;
  std::string error;
  if (!evaluateConstant(op, numbers, results, error))
    return llvm::None;
  Known k;
  for (int64_t i = 0; i < results[0].size(); ++i)
    k.dims.push_back(pool[size_t(results[0].intAt(i))]);
  return k;
}

/// Map and reduce: the body at every point of the iteration space, in row-major order.
MaybeKnown ValueInference::mapped(Operation &op, unsigned result,
                                  llvm::ArrayRef<MaybeKnown> operands) {
  llvm::SmallVector<Dim, 6> space;
  std::string error;
  if (!iterationSpace(op, space, error))
    return llvm::None;
  int64_t points = 1;
  for (Dim d : space) {
    if (!d.isConstant() || d.constant() > kMaxElements)
      return llvm::None;
    points *= d.constant();
    if (points > kMaxElements)
      return llvm::None;
  }
  llvm::SmallVector<llvm::SmallVector<Dim, 6>, 4> elements;
  for (const MaybeKnown &k : operands) {
    auto list = dims(*k);
    if (!list)
      return llvm::None;
    elements.push_back(*list);
  }
  const bool reduces = op.is(Op::Reduce);
  const Ints &axes = op.intsAttr("axes");
  const size_t accumulators = reduces ? op.floatsAttr("init").size() : 0;
  Type type = op.result(result)->type();
  Known k;
  llvm::SmallVector<llvm::SmallVector<Dim, 2>, 6> state(
      size_t(type.upperElements())); // accumulators or results per element
  for (auto &s : state)
    for (size_t a = 0; a < accumulators; ++a)
      s.push_back(context_.dim(truncateToInt(Element::I64, op.floatsAttr("init")[a])));

  llvm::SmallVector<int64_t, 6> point(space.size(), 0);
  const IntLists &maps = op.intListsAttr("maps");
  for (int64_t p = 0; p < points; ++p) {
    int64_t rest = p, target = 0, scale = 1;
    for (size_t d = space.size(); d-- > 0;) {
      point[d] = rest % space[d].constant();
      rest /= space[d].constant();
      if (reduces && llvm::is_contained(axes, int64_t(d)))
        continue;
      target += point[d] * scale;
      scale *= space[d].constant();
    }
    llvm::SmallVector<Dim, 4> arguments(state[size_t(target)].begin(), state[size_t(target)].end());
    if (!reduces)
      arguments.clear();
    for (size_t i = 0; i < operands.size(); ++i) {
      Type t = op.operand(unsigned(i))->type();
      int64_t at = 0;
      for (unsigned d = 0; d < t.rank(); ++d)
        at = at * t.dim(d).constant() + (maps[i][d] < 0 ? 0 : point[size_t(maps[i][d])]);
      arguments.push_back(elements[i][size_t(at)]);
    }
    llvm::SmallVector<Dim, 2> yielded;
    if (!runBody(op.region(), arguments, point, yielded))
      return llvm::None;
    state[size_t(target)] = yielded;
  }
  for (auto &s : state)
    k.dims.push_back(s[result]);
  return k;
}

/// Scan: each line in turn.
MaybeKnown ValueInference::scanned(Operation &op, const MaybeKnown &operand) {
  auto elements = dims(*operand);
  if (!elements)
    return llvm::None;
  const llvm::SmallVector<int64_t, 6> shape = op.operand(0)->type().staticShape();
  const auto axis = size_t(op.intAttr("axis"));
  const int64_t n = shape[axis], inner = product(llvm::makeArrayRef(shape).drop_front(axis + 1));
  const bool exclusive = op.boolAttr("exclusive"), reverse = op.boolAttr("reverse");
  Known k;
  k.dims.resize(elements->size());
  for (int64_t first = 0; first < int64_t(elements->size()); ++first) {
    if (first / inner % n != 0)
      continue;
    Dim before = context_.dim(truncateToInt(Element::I64, op.floatAttr("init")));
    for (int64_t step = 0; step < n; ++step) {
      const auto at = size_t(first + (reverse ? n - 1 - step : step) * inner);
      if (exclusive)
        k.dims[at] = before;
      llvm::SmallVector<Dim, 2> yielded;
      if (!runBody(op.region(), {before, (*elements)[at]}, {}, yielded))
        return llvm::None;
      before = yielded[0];
      if (!exclusive)
        k.dims[at] = before;
    }
  }
  return k;
}

bool ValueInference::runBody(Region &body, llvm::ArrayRef<Dim> arguments,
                             llvm::ArrayRef<int64_t> point, llvm::SmallVectorImpl<Dim> &yielded) {
  llvm::DenseMap<Value *, Dim> values;
  for (unsigned i = 0; i < body.numArguments(); ++i)
    values[body.argument(i)] = arguments[i];
  for (Operation &op : body) {
    llvm::SmallVector<Dim, 3> operands;
    for (Value *v : op.operands())
      operands.push_back(values.lookup(v));
    if (op.isTerminator()) {
      yielded.assign(operands.begin(), operands.end());
      return llvm::all_of(yielded, [](Dim d) { return bool(d); });
    }
    if (llvm::any_of(operands, [](Dim d) { return !d; }))
      continue;
    MaybeDim d = scalar(op, operands, point);
    if (d && isSmall(*d, kMaxNodes))
      values[op.result()] = *d;
  }
  return false;
}

MaybeDim ValueInference::compare(Op kind, Dim a, Dim b) {
  auto decided = [&](bool yes, bool no) -> MaybeDim {
    if (yes || no)
      return context_.dim(yes ? 1 : 0);
    return llvm::None;
  };
  const Dim more = b - a; // n - 1 is less than n whatever n is
  const bool same = a == b, apart = more.lower() > 0 || more.upper() < 0;
  switch (kind) {
  case Op::Equal: return decided(same, apart);
  case Op::NotEqual: return decided(apart, same);
  case Op::Less: return decided(more.lower() > 0, more.upper() <= 0);
  case Op::LessEqual: return decided(more.lower() >= 0, more.upper() < 0);
  case Op::Greater: return compare(Op::Less, b, a);
  case Op::GreaterEqual: return compare(Op::LessEqual, b, a);
  default: return llvm::None;
  }
}

MaybeDim ValueInference::scalar(Operation &op, llvm::ArrayRef<Dim> x,
                                llvm::ArrayRef<int64_t> point) {
  const Element element = op.result()->type().element();
  // The upper half of u64 is no extent.
  auto isU64 = [](Value *v) { return v->type().element() == Element::U64; };
  if (isU64(op.result()) || llvm::any_of(op.operands(), isU64))
    return llvm::None;
  switch (op.kind()) {
  case Op::Add: return x[0] + x[1];
  case Op::Sub: return x[0] - x[1];
  case Op::Mul: return x[0] * x[1];
  case Op::Min: return min(x[0], x[1]);
  case Op::Max: return max(x[0], x[1]);
  case Op::Clamp: return min(max(x[0], x[1]), x[2]);
  case Op::Relu: return max(x[0], context_.dim(0));
  case Op::Neg: return context_.dim(0) - x[0];
  case Op::Div: // integers are truncated
    if (isInteger(element) && x[0].lower() >= 0 && x[1].lower() > 0)
      return floorDiv(x[0], x[1]);
    if (isInteger(element) && x[0].upper() <= 0 && x[1].lower() > 0)
      return ceilDiv(x[0], x[1]);
    // Of floats, where nothing is left over: exporters write ceil(height / 2) by them.
    if (isFloat(element) && x[1].lower() > 0 && mod(x[0], x[1]).isConstant(0))
      return floorDiv(x[0], x[1]);
    break;
  case Op::Pow: // squares, and what else is short as a product
    if (x[1].isConstant() && x[1].lower() >= 0 && x[1].upper() <= 4) {
      Dim power = context_.dim(1);
      for (int64_t i = 0; i < x[1].constant(); ++i)
        power = power * x[0];
      return power;
    }
    break;
  case Op::Mod:
    if (x[1].lower() > 0)
      return mod(x[0], x[1]);
    break;
  case Op::FMod:
    if (x[0].lower() >= 0 && x[1].lower() > 0)
      return mod(x[0], x[1]);
    break;
  case Op::Floor:
  case Op::Ceil:
  case Op::Round:
  case Op::Trunc: return x[0];
  case Op::Cast:
    if (isBool(element))
      return compare(Op::NotEqual, x[0], context_.dim(0));
    return x[0];
  case Op::Select:
    if (x[0].isConstant())
      return x[0].constant() ? x[1] : x[2];
    break;
  case Op::Equal:
  case Op::NotEqual:
  case Op::Less:
  case Op::LessEqual:
  case Op::Greater:
  case Op::GreaterEqual: return compare(op.kind(), x[0], x[1]);
  case Op::Index: {
    const int64_t dim = op.intAttr("dim", -1);
    if (dim >= 0 && dim < int64_t(point.size()))
      return context_.dim(point[size_t(dim)]);
    break;
  }
  case Op::Const: {
    const Attribute *a = op.find("value");
    if (const int64_t *i = a->get<int64_t>())
      return context_.dim(*i);
    if (const bool *b = a->get<bool>())
      return context_.dim(*b);
    const double *f = a->get<double>();
    if (f && *f == std::trunc(*f) && std::fabs(*f) < 1e15)
      return context_.dim(int64_t(*f));
    break;
  }
  default: break;
  }
  // Whatever else there is must be integers that are all known.
  const ScalarInfo *info = scalarInfo(op.kind());
  if (!info || !info->onInt || isFloat(element) ||
      llvm::any_of(x, [](Dim d) { return !d.isConstant(); }))
    return llvm::None;
  int64_t v[3] = {0, 0, 0};
  for (size_t i = 0; i < x.size() && i < 3; ++i)
    v[i] = x[i].constant();
  return context_.dim(wrapScalar(element, info->onInt(v[0], v[1], v[2])));
}

} // namespace

llvm::Optional<llvm::SmallVector<Dim, 6>>
inferValueAssuming(Value *v, llvm::ArrayRef<std::pair<Value *, Dim>> assumed) {
  if (!v || !v->type().isTensor())
    return llvm::None;
  ValueInference inference(v->type().context());
  for (auto [value, is] : assumed)
    inference.assume(value, is);
  MaybeKnown k = inference.known(v);
  if (!k)
    return llvm::None;
  return inference.dims(*k);
}

llvm::Optional<llvm::SmallVector<Dim, 6>> inferValue(Value *v) { return inferValueAssuming(v, {}); }

} // namespace tenon
