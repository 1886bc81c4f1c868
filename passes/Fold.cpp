// fold: replaces operations by constants.
//
//   %s = shape_of %x                                   %c = constant dense<1xi64: 4>
//   %n = gather %s, %one                          →    (evaluate: all operands are constants;
//   %c = map %n, %one { mul }                           value: known through value inference;
//                                                       empty: without elements)
//
// Evaluation is the interpreter's, so folding cannot disagree with it. Results that are much
// larger than the operands they come from stay computed: a folded broadcast only costs memory. With
// keep-quantized, dequantised constants stay integers, for passes that compute with those.
#include "passes/Fold.h"

#include "passes/Rewrite.h"

#include "ir/Interpreter.h"
#include "ir/Text.h"

#include "llvm/Support/raw_ostream.h"

namespace tenon {
namespace {

Value *constantLike(Builder &b, const Tensor &t, Value *v) {
  Value *c = b.constant(t, v->hint());
  c->setType(v->type()); // keeps the memory space
  return c;
}

bool dequantizes(Operation &op) {
  return op.is(Op::Map) &&
         llvm::any_of(op.region(), [](const Operation &s) { return s.is(Op::Dequantize); });
}

/// Whether the text of an operation says all of it: large literals are left out there.
bool saysAll(const Operation &op) {
  const auto plain = [](const Operation &o) {
    return llvm::none_of(o.attributes(),
                         [](const auto &named) { return named.second.template get<Literal>(); });
  };
  bool all = plain(op);
  for (unsigned r = 0; r < op.numRegions(); ++r)
    op.region(r).walk([&](const Operation *inner) { all &= plain(*inner); });
  return all;
}

bool evaluate(const Operation &op, llvm::ArrayRef<Tensor> operands,
              llvm::SmallVectorImpl<Tensor> &results, PassContext &context) {
  std::string error;
  if (op.numResults() != 1 || !saysAll(op))
    return evaluateConstant(op, operands, results, error);
  const auto how = [&] {
    std::string text;
    llvm::raw_string_ostream os(text);
    print(op, os);
    return os.str();
  };
  const Tensor result = context.shared(how, operands, [&] {
    return evaluateConstant(op, operands, results, error) ? results.front() : Tensor();
  });
  results.assign(1, result);
  return !result.isNull();
}

// op(constants) = constants
bool evaluatePattern(Operation &op, Rewriter &rw) {
  if (op.isAny(Op::Constant, Op::Group, Op::If, Op::Loop, Op::User, Op::NonZero, Op::TextSplit) ||
      op.isTerminator() || (op.info().traits & OpTrait::Effect))
    return false;
  if (rw.context().option("keep-quantized") && dequantizes(op))
    return false;
  int64_t in = 0, out = 0;
  llvm::SmallVector<Tensor, 4> operands;
  for (Value *v : op.operands()) {
    Literal l = constantValue(v);
    if (!l)
      return false;
    operands.push_back(*l);
    in += byteSize(l->element(), l->size());
  }
  for (Value *v : op.results()) {
    if (!v->type().hasStaticShape() || !v->type().layout().isRowMajor())
      return false;
    out += byteSize(v->type().element(), v->type().upperElements());
  }
  if (out > rw.context().option("max-bytes") && out > in * rw.context().option("max-growth"))
    return false;
  if (!rw.context().enabled("fold.evaluate", &op))
    return false;
  llvm::SmallVector<Tensor, 2> results;
  if (!evaluate(op, operands, results, rw.context()) || !rw.fire(op))
    return false;
  for (const Tensor &t : operands)
    t.leaveMemory();
  Builder b = rw.before(op);
  llvm::SmallVector<Value *, 2> values;
  for (unsigned i = 0; i < op.numResults(); ++i)
    values.push_back(constantLike(b, results[i], op.result(i)));
  return rw.replace(op, values);
}

// op(x) = constant, where value inference knows every element of a small integer tensor
bool valuePattern(Operation &op, Rewriter &rw) {
  if (op.numResults() != 1 || op.isAny(Op::Constant, Op::If, Op::Loop, Op::User) ||
      op.isTerminator())
    return false;
  Value *v = op.result();
  Type t = v->type();
  if (!t.isTensor() || !isInteger(t.element()) || t.rank() > 1 || !t.hasStaticShape())
    return false;
  auto known = inferValue(v);
  if (!known || int64_t(known->size()) != t.upperElements() ||
      !llvm::all_of(*known, [](Dim d) { return d.isConstant(); }) || !rw.fire(op))
    return false;
  Tensor c(t.element(), t.staticShape());
  for (size_t i = 0; i < known->size(); ++i)
    c.setInt(int64_t(i), (*known)[i].constant());
  Builder b = rw.before(op);
  return rw.replace(op, constantLike(b, c, v));
}

// op(x) = nothing, where the results have no elements
bool emptyPattern(Operation &op, Rewriter &rw) {
  if (op.isAny(Op::Constant, Op::Group, Op::If, Op::Loop, Op::User) || op.isTerminator() ||
      op.numResults() == 0 || (op.info().traits & OpTrait::Effect) ||
      !llvm::all_of(op.results(), [](Value *v) {
        const Type t = v->type();
        return t.isTensor() && t.element() != Element::String && t.hasStaticShape() &&
               t.layout().isRowMajor() && t.upperElements() == 0;
      }))
    return false;
  if (!rw.fire(op))
    return false;
  Builder b = rw.before(op);
  llvm::SmallVector<Value *, 2> values;
  for (Value *v : op.results())
    values.push_back(constantLike(b, Tensor(v->type().element(), v->type().staticShape()), v));
  return rw.replace(op, values);
}

const Pattern kPatterns[] = {
    {"fold.evaluate", evaluatePattern},
    {"fold.value", valuePattern},
    {"fold.empty", emptyPattern},
};

} // namespace

bool runFold(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
