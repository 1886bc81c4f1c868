// Implements the interpreter: symbols, the values alive, and the order of evaluation. What each op
// computes stands in ir/ops/.
#include "ir/Interpreter.h"

#include "ir/DimSum.h"
#include "ir/SumBounds.h"

#include "ir/ops/Ops.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/MathExtras.h"

namespace tenon {

//===----------------------------------------------------------------------===//
// Wide values
//===----------------------------------------------------------------------===//

Element wideElement(Element e) { return isFloat(e) && bitWidth(e) >= 16 ? Element::F64 : e; }

Tensor widened(const Tensor &tensor) {
  const Element e = wideElement(tensor.element());
  if (tensor.isNull() || e == tensor.element())
    return tensor;
  Tensor wide(e, tensor.shape());
  tensor.toDoubles(0, tensor.size(), wide.mutableAs<double>());
  return wide;
}

/// The values of a wide tensor rounded to the type that is declared.
static Tensor narrowed(const Tensor &tensor, Element e) {
  if (tensor.element() == e || !isFloat(e))
    return tensor;
  Tensor narrow(e, tensor.shape());
  narrow.fromDoubles(0, tensor.size(), tensor.as<double>().data());
  return narrow;
}

//===----------------------------------------------------------------------===//
// EvaluationFrame
//===----------------------------------------------------------------------===//

namespace {

llvm::Optional<int64_t> evaluateDim(Dim d, const SymbolValues &symbols) {
  return evaluate(
      d,
      [](llvm::StringRef symbol, void *user) -> llvm::Optional<int64_t> {
        const auto &values = *static_cast<const SymbolValues *>(user);
        auto it = values.find(std::string_view(symbol.data(), symbol.size()));
        return it == values.end() ? llvm::None : llvm::Optional<int64_t>(it->second);
      },
      const_cast<SymbolValues *>(&symbols));
}

} // namespace

llvm::Optional<int64_t> EvaluationFrame::value(Dim d) const {
  static const SymbolValues kNone;
  return evaluateDim(d, symbols ? *symbols : kNone);
}

llvm::SmallVector<int64_t, 6> EvaluationFrame::resultShape(const Operation &op, unsigned i) const {
  llvm::SmallVector<int64_t, 6> shape;
  for (Dim d : op.result(i)->type().shape()) {
    llvm::Optional<int64_t> v = value(d);
    assert(v && "evaluated only when the extents of results are known");
    shape.push_back(*v);
  }
  return shape;
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

namespace {

/// A tensor larger than this is refused before anything is allocated.
constexpr int64_t kMostBytes = int64_t(1) << 34;

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string s = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + "]";
}

/// Ops that look at the bits of floats or spell them: these see values of the declared types.
bool readsBits(const Operation &op) {
  return op.isAny(Op::Bitcast, Op::NonMaxSuppression, Op::TextMap);
}

/// Ops that give values to the symbols of their results.
bool findsExtents(const Operation &op) {
  return op.isAny(Op::NonZero, Op::TextSplit, Op::Loop, Op::If, Op::Group);
}

class Evaluator {
public:
  Evaluator(const InterpreterOptions &options) : options_(options) {}

  SymbolValues symbols;
  /// The innermost operation that failed.
  const Operation *failed = nullptr;

  bool run(Region &region, llvm::ArrayRef<Tensor> arguments, llvm::SmallVectorImpl<Tensor> &results,
           std::string &error);
  bool evaluate(const Operation &op, EvaluationFrame &frame, std::string &error);

private:
  using Environment = llvm::DenseMap<Value *, Tensor>;
  bool checkExtents(const Operation &op, const EvaluationFrame &frame, std::string &error);
  bool checkResults(const Operation &op, const EvaluationFrame &frame, std::string &error);

  const InterpreterOptions &options_;
  /// Values alive; regions are isolated, so one table serves all depths.
  Environment values_;
  unsigned depth_ = 0;
};

/// Extents of results are known as far as they can be, and buffers are not absurd.
bool Evaluator::checkExtents(const Operation &op, const EvaluationFrame &frame,
                             std::string &error) {
  for (Value *result : op.results()) {
    Type t = result->type();
    if (!t.isTensor())
      return fail(error, "the interpreter has no values of type " + toString(t));
    int64_t bytes = t.element() == Element::String
                        ? int64_t(sizeof(std::string))
                        : std::max<int64_t>(1, bitWidth(t.element()) / 8);
    for (Dim d : t.shape()) {
      llvm::Optional<int64_t> v = frame.value(d);
      if (!v && findsExtents(op))
        v = 1;
      if (!v)
        return fail(error, "extent " + text(d) + " of the result has no value");
      if (*v < 0)
        return fail(error, "extent " + text(d) + " of the result is negative: " + llvm::Twine(*v));
      if (llvm::MulOverflow(bytes, std::max<int64_t>(*v, 1), bytes) || bytes > kMostBytes)
        return fail(error, "result " + toString(t) + " is larger than the interpreter's limit of " +
                               llvm::Twine(kMostBytes >> 30) + " GiB");
    }
  }
  return true;
}

bool Evaluator::checkResults(const Operation &op, const EvaluationFrame &frame,
                             std::string &error) {
  for (unsigned i = 0; i < op.numResults(); ++i) {
    Type t = op.result(i)->type();
    const Tensor &found = frame.results[i];
    bool fits = found.element() == frame.stored(t.element()) && found.rank() == t.rank();
    for (unsigned d = 0; fits && d < t.rank(); ++d)
      fits = frame.value(t.dim(d)) == found.shape()[d];
    if (!fits)
      return fail(error, "result " + llvm::Twine(i) + ": expected " + toString(t) + ", found " +
                             shapeText(found.shape()) + " of " + name(found.element()));
  }
  return true;
}

bool Evaluator::evaluate(const Operation &op, EvaluationFrame &frame, std::string &error) {
  frame.symbols = &symbols;
  frame.wide = options_.wide;
  if (frame.wide && readsBits(op))
    for (unsigned i = 0; i < op.numOperands(); ++i)
      frame.operands[i] = narrowed(frame.operands[i], op.operand(i)->type().element());
  frame.run = [this](Region &region, llvm::ArrayRef<Tensor> arguments,
                     llvm::SmallVectorImpl<Tensor> &results,
                     std::string &why) { return run(region, arguments, results, why); };
  const OpInfo &info = op.info();
  bool done = (info.evaluate || fail(error, info.name + " cannot be evaluated")) &&
              checkExtents(op, frame, error) && info.evaluate(op, frame, error);
  if (done && frame.wide)
    for (Tensor &t : frame.results)
      t = widened(t);
  done = done && checkResults(op, frame, error);
  if (!done && !failed)
    failed = &op;
  return done;
}

bool Evaluator::run(Region &region, llvm::ArrayRef<Tensor> arguments,
                    llvm::SmallVectorImpl<Tensor> &results, std::string &error) {
  const bool observed = depth_ == 0 && options_.observe, after = depth_ == 0 && options_.after;
  ++depth_;
  // Uses still to come; a value dies with its last one.
  llvm::DenseMap<Value *, unsigned> pending;
  auto define = [&](Value *v, Tensor t) {
    if (v->hasUses()) {
      pending[v] = v->useCount();
      values_[v] = std::move(t);
    }
  };
  auto take = [&](Value *v) {
    auto it = values_.find(v);
    assert(it != values_.end() && "value is used before it is made");
    if (--pending[v] > 0)
      return it->second;
    Tensor t = std::move(it->second);
    values_.erase(it);
    return t;
  };
  for (unsigned i = 0; i < region.numArguments(); ++i)
    define(region.argument(i), arguments[i]);
  bool done = false;
  for (Operation &op : region) {
    EvaluationFrame frame;
    for (Value *v : op.operands())
      frame.operands.push_back(take(v));
    if (op.isTerminator()) {
      results.assign(frame.operands.begin(), frame.operands.end());
      done = true;
      break;
    }
    llvm::SmallVector<Tensor, 4> operands;
    if (after)
      operands = frame.operands;
    if (!evaluate(op, frame, error))
      break;
    if (after)
      options_.after(op, operands, frame.results, symbols);
    for (unsigned i = 0; i < op.numResults(); ++i) {
      if (observed)
        options_.observe(op.result(i), frame.results[i]);
      define(op.result(i), std::move(frame.results[i]));
    }
  }
  --depth_;
  return done;
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

} // namespace

void bindSymbols(Type type, llvm::ArrayRef<int64_t> shape, SymbolValues &symbols) {
  for (unsigned i = 0; i < type.rank() && i < shape.size(); ++i)
    if (type.dim(i).isSymbol())
      symbols.insert({type.dim(i).symbol().str(), shape[i]});
  for (unsigned i = 0; i < type.rank() && i < shape.size(); ++i) {
    DimSum rest(type.dim(i));
    DimSum::Term unknown{nullptr, 0};
    unsigned missing = 0;
    for (const DimSum::Term &term : rest.terms())
      if (!evaluateDim(Dim(term.first), symbols)) {
        unknown = term;
        ++missing;
      }
    if (missing != 1 || !Dim(unknown.first).isSymbol())
      continue;
    rest.add(unknown.first, -unknown.second);
    const auto known = evaluateDim(rest.dim(type.context()), symbols);
    if (known && (shape[i] - *known) % unknown.second == 0)
      symbols.insert({unknown.first->symbol.str(), (shape[i] - *known) / unknown.second});
  }
}

bool bindInputs(Graph &graph, llvm::ArrayRef<Tensor> inputs, SymbolValues &symbols,
                Diagnostics &diagnostics) {
  Region &body = graph.body();
  if (inputs.size() != body.numArguments()) {
    diagnostics.error("graph " + graph.name + ": expected " + std::to_string(body.numArguments()) +
                      " inputs, found " + std::to_string(inputs.size()));
    return false;
  }
  auto who = [&](unsigned i) {
    return "input " +
           (i < graph.inputNames.size() ? "'" + graph.inputNames[i] + "'" : std::to_string(i));
  };
  bool fits = true;
  auto reject = [&](unsigned i, const std::string &message) {
    diagnostics.error(who(i) + ": " + message);
    fits = false;
  };
  for (unsigned i = 0; i < inputs.size(); ++i) {
    Type t = body.argument(i)->type();
    if (!t.isTensor() || inputs[i].isNull() || inputs[i].element() != t.element() ||
        inputs[i].rank() != t.rank()) {
      reject(i, "expected " + toString(t) + ", found " +
                    (inputs[i].isNull() ? "nothing"
                                        : shapeText(inputs[i].shape()) + " of " +
                                              name(inputs[i].element()).str()));
      continue;
    }
    bindSymbols(t, inputs[i].shape(), symbols);
    for (unsigned d = 0; d < t.rank(); ++d) {
      if (!t.dim(d).isSymbol())
        continue;
      const int64_t found = inputs[i].shape()[d];
      if (found < t.dim(d).lower() || found > t.dim(d).upper())
        reject(i, "dimension " + std::to_string(d) + ": expected " + text(t.dim(d)) + " from " +
                      std::to_string(t.dim(d).lower()) + " to " + std::to_string(t.dim(d).upper()) +
                      ", found " + std::to_string(found));
    }
  }
  if (!fits)
    return false;
  for (unsigned i = 0; i < inputs.size(); ++i) {
    Type t = body.argument(i)->type();
    bindSymbols(t, inputs[i].shape(), symbols); // what follows from other inputs' symbols
    for (unsigned d = 0; d < t.rank(); ++d) {
      llvm::Optional<int64_t> expected = evaluateDim(t.dim(d), symbols);
      const int64_t found = inputs[i].shape()[d];
      const bool within = found >= t.dim(d).lower() && found <= t.dim(d).upper();
      if (expected == found && within)
        continue;
      std::string extent = text(t.dim(d));
      if (!within && !t.dim(d).isConstant())
        extent +=
            " from " + std::to_string(t.dim(d).lower()) + " to " + std::to_string(t.dim(d).upper());
      else if (expected && !t.dim(d).isConstant())
        extent += " = " + std::to_string(*expected);
      reject(i, "dimension " + std::to_string(d) + ": expected extent " + extent + ", found " +
                    std::to_string(inputs[i].shape()[d]));
    }
  }
  for (const SumBound &s : sumsOf(graph.module().symbols)) {
    const auto a = symbols.find(s.first.symbol().str()), b = symbols.find(s.second.symbol().str());
    if (!fits || a == symbols.end() || b == symbols.end() || a->second + b->second <= s.upper)
      continue;
    diagnostics.error("expected " + text(s.first) + " + " + text(s.second) +
                      " <= " + std::to_string(s.upper) + ", found " + std::to_string(a->second) +
                      " + " + std::to_string(b->second));
    fits = false;
  }
  return fits;
}

bool interpret(Graph &graph, llvm::ArrayRef<Tensor> inputs, std::vector<Tensor> &outputs,
               Diagnostics &diagnostics, const InterpreterOptions &options) {
  if (!graph.returnOp()) {
    diagnostics.error("graph " + graph.name + " has no return");
    return false;
  }
  Evaluator evaluator(options);
  if (!bindInputs(graph, inputs, evaluator.symbols, diagnostics))
    return false;
  llvm::SmallVector<Tensor, 4> results, arguments(inputs.begin(), inputs.end());
  if (options.wide)
    for (Tensor &t : arguments)
      t = widened(t);
  std::string error;
  if (!evaluator.run(graph.body(), arguments, results, error)) {
    if (evaluator.failed)
      diagnostics.error(*evaluator.failed, error);
    else
      diagnostics.error(error);
    return false;
  }
  outputs.assign(results.begin(), results.end());
  return true;
}

bool evaluateConstant(const Operation &op, llvm::ArrayRef<Tensor> operands,
                      llvm::SmallVectorImpl<Tensor> &results, std::string &error) {
  if (op.isAny(Op::Loop, Op::User))
    return fail(error, op.name() + " is not evaluated at compile time");
  InterpreterOptions options;
  Evaluator evaluator(options);
  EvaluationFrame frame;
  frame.operands.append(operands.begin(), operands.end());
  if (!evaluator.evaluate(op, frame, error))
    return false;
  results.assign(frame.results.begin(), frame.results.end());
  return true;
}

bool evaluateWide(const Operation &op, llvm::ArrayRef<Tensor> operands, const SymbolValues &symbols,
                  llvm::SmallVectorImpl<Tensor> &results, std::string &error) {
  InterpreterOptions options;
  options.wide = true;
  Evaluator evaluator(options);
  evaluator.symbols = symbols;
  EvaluationFrame frame;
  for (const Tensor &t : operands)
    frame.operands.push_back(widened(t));
  if (!evaluator.evaluate(op, frame, error))
    return false;
  results.assign(frame.results.begin(), frame.results.end());
  return true;
}

} // namespace tenon
