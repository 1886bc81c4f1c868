// assign-precision: tensors of f32 are stored in fewer bits, or their contractions marked tf32,
// where --precision asks for it.
//
//   %w = constant … : tensor<64x64x3x3xf32>            %w = constant … : tensor<64x64x3x3xf16>
//   %c = conv %x, %w : tensor<1x64x8x8xf32>            %h = map %x (…) { cast } : tensor<…xf16>
//   %y = map %c, %b (%0: f32, %1: f32) {         →     %c = conv %h, %w : tensor<1x64x8x8xf16>
//     %2 = add %0, %1 : f32                            %y = map %c, %b (%0: f16, %1: f32) {
//     yield %2                                           %2 = cast %0 : f32
//   } : tensor<1x64x8x8xf32>                             %3 = add %2, %1 : f32
//                                                        %4 = cast %3 : f16
//                                                        yield %4
//                                                      } : tensor<1x64x8x8xf16>
//
// The rules name source nodes; an operation follows the last rule that matches one of its nodes.
//   contractions   multiply operands of the type asked for; sums are f32 (ir/ops/contract.cpp);
//                  weights are converted here, those that meet numbers from 0 up so that the sums
//                  of rows stay what they are (RoundWeights.h). tf32 and tf32x3 are no types of
//                  tensors: conv and matmul of f32 get the attribute `precision`, and nothing else
//                  changes
//   maps           compute as before, on what is converted as it is read, and round once at the
//                  end; small constants, biases among them, stay f32
//   reductions     take f32 and give f32: sums of squares and counts leave the narrow range first
//   attention      takes q, k and v of the type asked for; a bias, and the map that makes it,
//                  stay f32
//   pools, softmax, resize, movement
//                  hold what they are given; their sums are f32 in any case
//   the rest       sees f32, and so do the graph's inputs and outputs
// Weights that the narrow type cannot hold are named in a warning.
//
// What the network quantises keeps its steps. Islands of integers are made before
// (passes/IntegerArithmetic.h) and have no f32 to narrow. Around them
//   scales         stay as exact as they are: constants that dequantise stay f32, and products with
//                  narrow weights too, where the type asked for does not hold their scales
//   16 bits        have more steps than fp16, bf16 or tf32: what dequantises them stays f32, and so
//                  does what multiplies, pools or resizes them then (tf32x3 holds them)
#include "passes/AssignPrecision.h"

#include "passes/FloatRanges.h"
#include "passes/Maps.h"
#include "passes/Rewrite.h"
#include "passes/RoundWeights.h"

#include "ir/Attention.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

namespace tenon {

std::string PrecisionRule::name() const {
  if (!multiply.empty())
    return multiply;
  return element == Element::F16 ? "fp16" : element == Element::BF16 ? "bf16" : "fp32";
}

bool parsePrecision(llvm::StringRef text, std::vector<PrecisionRule> &rules,
                    Diagnostics &diagnostics) {
  llvm::SmallVector<llvm::StringRef, 4> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    auto [nodes, name] = part.rsplit('=');
    if (name.empty() && !part.contains('=')) {
      name = nodes;
      nodes = "";
    }
    const auto element = llvm::StringSwitch<llvm::Optional<Element>>(name.trim())
                             .Cases("fp32", "tf32", "tf32x3", Element::F32)
                             .Case("fp16", Element::F16)
                             .Case("bf16", Element::BF16)
                             .Default(llvm::None);
    const char *calibrated =
        llvm::StringSwitch<const char *>(name.trim())
            .Case("int8", "tenon calibrate MODEL --data=DIR -o Q.tn")
            .Case("fp8", "tenon calibrate MODEL --data=DIR --type=e4m3 -o Q.tn")
            .Default(nullptr);
    if (!element) {
      diagnostics.error("--precision: '" + part.str() + "': " +
                        (calibrated
                             ? name.trim().str() + " needs the ranges of real inputs: `" +
                                   calibrated + "` writes a model that computes so; of others"
                             : "no such precision;") +
                        " expected fp32, tf32x3, tf32, fp16 or bf16, or NODES=fp32");
      return false;
    }
    const bool marked = name.trim().startswith("tf32");
    rules.push_back({nodes.trim().str(), *element, marked ? name.trim().str() : ""});
  }
  return true;
}

namespace {

/// The rule that an operation of these source nodes follows, the last that matches one of them;
/// null where none does.
const PrecisionRule *findRule(llvm::ArrayRef<PrecisionRule> rules, const Location &nodes) {
  for (const PrecisionRule &r : llvm::reverse(rules))
    if (r.nodes.empty() ||
        llvm::any_of(nodes, [&](const std::string &node) { return globMatches(r.nodes, node); }))
      return &r;
  return nullptr;
}

/// Constants of more elements are worth converting where a map reads them.
constexpr int64_t kSmallConstant = 4096;

class Assignment {
public:
  Assignment(Graph &graph, llvm::ArrayRef<PrecisionRule> rules, PassContext &context)
      : graph_(graph), rules_(rules), context_(context), ranges_(graph, {}, {}) {}

  bool run() {
    std::vector<Operation *> ops;
    for (Operation &op : graph_.body())
      ops.push_back(&op);
    for (Operation *op : ops)
      visit(*op);
    dropCasts();
    eraseDeadOps(graph_.body());
    return changed_;
  }

private:
  const PrecisionRule *ruleFor(const Operation &op) const { return findRule(rules_, op.loc()); }
  Element elementFor(const Operation &op) const {
    const PrecisionRule *r = ruleFor(op);
    return r ? r->element : Element::F32;
  }
  Type scalarType(Element e) const { return Type::scalar(context(), e); }
  Context &context() const { return graph_.body().argument(0)->type().context(); }
  static bool isF32(Type t) { return t.isTensor() && t.element() == Element::F32; }

  /// What is added to scores of attention has any width; masks, which are large numbers, stay wide.
  static bool isBias(const Operation &op, unsigned i) {
    return op.is(Op::Attention) && attentionOperands(op).isAdded(i);
  }
  static bool isOnlyBias(const Value *v) {
    return v->hasUses() &&
           llvm::all_of(v->uses(), [](Use *u) { return isBias(*u->owner(), u->index()); });
  }

  static bool isOnlyReturned(const Value *v) {
    return v->hasUses() &&
           llvm::all_of(v->uses(), [](Use *u) { return u->owner()->is(Op::Return); });
  }

  /// Whether a map dequantises integers of more steps than a byte has.
  static bool dequantizesWide(const Operation &map) {
    for (const Operation &s : map.region())
      if (s.is(Op::Dequantize) && bitWidth(s.operand(0)->type().element()) > 8)
        return true;
    return false;
  }
  bool readsWide(const Operation &op) const {
    return llvm::any_of(op.operands(), [&](Value *v) { return wide_.count(v); });
  }

  /// Whether operands have 8 bits already (passes/Float8Arithmetic.h): sums are f32 in any case.
  static bool multipliesFloat8(const Operation &op) {
    return op.isAny(Op::Conv, Op::MatMul) && bitWidth(op.operand(0)->type().element()) == 8;
  }

  /// Attention has its kernels chosen by then (RaiseAttention.cpp).
  bool multipliesWide(const Operation &op) const { return !op.is(Op::Attention) && readsWide(op); }

  /// Whether `e` holds the scales of a product with narrow weights to its full precision, and
  /// their zero points exactly.
  static bool holdsScales(const Operation &op, Element e) {
    for (unsigned i = 2; op.is(Op::MatMul) && op.has("block") && i < op.numOperands(); ++i) {
      const Literal l = constantValue(op.operand(i));
      if (!l)
        return false;
      Tensor rounded(e, {1});
      for (int64_t k = 0; k < l->size(); ++k) {
        const double v = l->at(k);
        rounded.set(0, v);
        const double error = std::fabs(rounded.at(0) - v);
        if (!(error <= (i == 2 ? std::ldexp(std::fabs(v), e == Element::BF16 ? -8 : -11) : 0)))
          return false;
      }
    }
    return true;
  }

  void visit(Operation &op) {
    switch (op.kind()) {
    case Op::Constant: return;
    case Op::Map: return map(op);
    case Op::Conv:
    case Op::ConvTranspose:
    case Op::MatMul:
    case Op::Pool:
    case Op::Softmax:
    case Op::Attention:
    case Op::Resize:
      if (isF32(op.result()->type()) && !multipliesFloat8(op)) {
        const Element e = elementFor(op);
        follow(op, multipliesWide(op) || !holdsScales(op, e) ? Element::F32 : e);
        return mark(op);
      }
      break;
    case Op::Recurrent:
      if (isF32(op.result()->type()) && !readsWide(op) && recurrent(op))
        return;
      break;
    case Op::Normalize: return; // reads any width, statistics and result are f32
    case Op::Reshape:
    case Op::Transpose:
    case Op::Slice:
    case Op::Pad:
    case Op::Concat:
    case Op::Gather:
      // What moves a tensor keeps its type.
      if (readsWide(op)) {
        wide_.insert(op.result());
        break;
      }
      if (isF32(op.result()->type()) &&
          llvm::any_of(op.operands(), [&](Value *v) { return narrowed_.count(v); }))
        return follow(op, op.operand(0)->type().element() == Element::F32
                              ? elementFor(op)
                              : op.operand(0)->type().element());
      return;
    default: break;
    }
    for (unsigned i = 0; i < op.numOperands(); ++i)
      if (narrowed_.count(op.operand(i)))
        op.setOperand(i, converted(op.operand(i), Element::F32, op));
  }

  /// Gives an operation operands of type `e` in place of its floats; its result follows.
  void follow(Operation &op, Element e) {
    const bool narrow = e != Element::F32;
    if (narrow && !context_.fire("assign-precision", op))
      return follow(op, Element::F32);
    if (narrow)
      roundWeights(op, e);
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      Value *v = op.operand(i);
      if (!isBias(op, i) && (narrowed_.count(v) || (narrow && isF32(v->type()))))
        op.setOperand(i, converted(v, e, op));
    }
    if (!narrow)
      return;
    op.result()->setType(op.result()->type().withElement(e));
    narrowed_.insert(op.result());
    changed_ = true;
  }

  /// A cell is computed in f32 whatever its tensors are.
  bool recurrent(Operation &op) {
    const Element e = elementFor(op);
    if (e == Element::F32 || !context_.fire("assign-precision", op))
      return false;
    for (unsigned i = 0; i < op.numOperands(); ++i)
      op.setOperand(i, converted(op.operand(i), e, op));
    for (unsigned r = 0; r < op.numRegions(); ++r) {
      Region &region = op.region(r);
      Builder in(&region.front(), context_.diagnostics);
      for (unsigned i = 0; i < region.numArguments(); ++i)
        widenArgument(*region.argument(i), e, in);
      Operation *yield = region.terminator();
      Builder out(yield, context_.diagnostics);
      for (unsigned i = 0; i < yield->numOperands(); ++i)
        yield->setOperand(i, out.scalar(Op::Cast, {yield->operand(i)}, {{"to", scalarType(e)}}));
    }
    for (Value *r : op.results()) {
      r->setType(r->type().withElement(e));
      narrowed_.insert(r);
    }
    return changed_ = true;
  }
  /// The argument of a body that computes in f32 gets elements of type `e`.
  void widenArgument(Value &argument, Element e, Builder &in) {
    argument.setType(scalarType(e));
    Value *wide = in.scalar(Op::Cast, {&argument}, {{"to", scalarType(Element::F32)}});
    argument.replaceUsesIf(wide, [&](Use &u) { return u.owner() != wide->def(); });
  }

  /// Σ (w + δ) · x ≈ Σ w · x for x from 0 up: weights whose errors δ add up to little.
  void roundWeights(Operation &op, Element e) {
    if (!op.isAny(Op::Conv, Op::ConvTranspose, Op::MatMul) || bitWidth(e) != 16)
      return;
    Value *weights = op.operand(1);
    Literal w = constantValue(weights);
    if (!w || w->rank() < 2 || !isF32(weights->type()) || !weights->hasOneUse())
      return; // what others read, too, is rounded once for all
    const Interval x = hull(ranges_.of(op.operand(0)));
    if (x.low < 0 || x.high <= 0 || !context_.fire("assign-precision.weight-sums", op))
      return;
    Builder b(&op, context_.diagnostics);
    b.location = weights->def()->loc();
    Tensor rounded = roundedInRows(*w, e, weightRows(op, w->shape()), kRectifiedMean);
    warnOfLost(*w, rounded, op);
    Value *narrow = b.constant(rounded, weights->hint());
    narrowed_.insert(narrow);
    op.setOperand(1, narrow);
  }

  /// Contractions that stay f32 say how they multiply.
  void mark(Operation &op) {
    const PrecisionRule *r = ruleFor(op);
    if (!op.isAny(Op::Conv, Op::MatMul) || !isF32(op.result()->type()) || !r ||
        r->multiply.empty() || (r->multiply == "tf32" && multipliesWide(op)) ||
        !context_.fire("assign-precision", op))
      return;
    op.set("precision", Word{r->multiply});
    changed_ = true;
  }

  /// A map that is one cast.
  static bool isCast(const Operation &op) {
    if (op.numOperands() != 1 || op.numResults() != 1 ||
        op.operand(0)->type().shape() != op.result()->type().shape() ||
        !isIdentityMap(indexMap(op, 0), op.result()->type().rank()))
      return false;
    const Operation *cast = op.region().terminator()->operand(0)->def();
    return cast && cast->is(Op::Cast) && cast->operand(0) == op.region().argument(0);
  }
  /// Casts whose operand has the type of the result by now: what they did is done elsewhere.
  void dropCasts() {
    for (Operation *op : casts_)
      if (op->operand(0)->type() == op->result()->type())
        op->result()->replaceAllUsesWith(op->operand(0));
  }

  void map(Operation &op) {
    const bool wide = dequantizesWide(op), keeps = wide || llvm::all_of(op.results(), isOnlyBias) ||
                                                   llvm::all_of(op.results(), isOnlyReturned);
    const Element e = keeps ? Element::F32 : elementFor(op);
    if (wide)
      for (Value *r : op.results())
        wide_.insert(r);
    if (isCast(op))
      casts_.push_back(&op);
    Region &body = op.region();
    Builder in(&body.front(), context_.diagnostics);
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      Value *v = op.operand(i), *argument = elementArgument(op, i);
      if (e != Element::F32 && isF32(v->type()) && isLargeConstant(v) && !isScale(argument))
        op.setOperand(i, v = converted(v, e, op));
      if (argument->type().element() == v->type().element())
        continue;
      widenArgument(*argument, v->type().element(), in);
      changed_ = true;
    }
    const bool any = llvm::any_of(op.results(), [](Value *r) { return isF32(r->type()); });
    if (e == Element::F32 || !any || !context_.fire("assign-precision", op))
      return;
    Operation *yield = body.terminator();
    Builder out(yield, context_.diagnostics);
    for (unsigned i = 0; i < op.numResults(); ++i) {
      Value *r = op.result(i);
      if (!isF32(r->type()))
        continue;
      // What was widened as it was read and not changed since is handed on.
      Value *wide = yield->operand(i);
      Operation *cast = wide->def();
      if (cast && cast->is(Op::Cast) && cast->operand(0)->type().element() == e) {
        yield->setOperand(i, cast->operand(0));
        if (!wide->hasUses())
          cast->erase();
      } else {
        yield->setOperand(i, out.scalar(Op::Cast, {wide}, {{"to", scalarType(e)}}));
      }
      r->setType(r->type().withElement(e));
      narrowed_.insert(r);
    }
    changed_ = true;
  }
  /// What quantises or dequantises by this scalar is given.
  static bool isScale(const Value *scalar) {
    return llvm::any_of(scalar->uses(), [](Use *u) {
      return u->owner()->isAny(Op::Quantize, Op::Dequantize) && u->index() > 0;
    });
  }
  static bool isLargeConstant(Value *v) {
    return v->def() && v->def()->is(Op::Constant) && v->type().upperElements() > kSmallConstant;
  }
  /// `v` as `e`, made once, before its first user.
  Value *converted(Value *v, Element e, Operation &user) {
    if (!v->type().isTensor() || v->type().element() == e)
      return v;
    Value *&known = conversions_[{v, e}];
    if (known)
      return known;
    Builder b(&user, context_.diagnostics);
    if (Literal literal = constantValue(v)) {
      b.location = v->def()->loc();
      known = b.constant(convertedTensor(*literal, e, user), v->hint());
    } else {
      b.location = user.loc();
      known = b.cast(v, e);
    }
    if (e != Element::F32)
      narrowed_.insert(known);
    return known;
  }
  Tensor convertedTensor(const Tensor &from, Element e, const Operation &user) {
    Tensor to(e, from.shape());
    for (int64_t i = 0; i < from.size(); ++i)
      to.set(i, from.at(i));
    warnOfLost(from, to, user);
    return to;
  }
  void warnOfLost(const Tensor &from, const Tensor &to, const Operation &user) {
    int64_t lost = 0;
    for (int64_t i = 0; i < from.size(); ++i)
      lost += std::isfinite(from.at(i)) && !std::isfinite(to.at(i));
    if (lost)
      context_.diagnostics.warning(
          "node '" + (user.loc().empty() ? user.name().str() : user.loc().front()) +
          "': " + std::to_string(lost) + " of " + std::to_string(from.size()) +
          " weights exceed the range of " + name(to.element()).str() +
          " and become infinite; keep the node in fp32 with --precision='…,NODE=fp32'");
  }

  Graph &graph_;
  llvm::ArrayRef<PrecisionRule> rules_;
  PassContext &context_;
  FloatRanges ranges_;                                         // of inputs nothing is assumed
  llvm::DenseSet<Value *> narrowed_;                           // looked up only
  llvm::DenseSet<Value *> wide_;                               // dequantised from 16 bits; likewise
  std::map<std::pair<Value *, Element>, Value *> conversions_; // looked up only
  std::vector<Operation *> casts_;
  bool changed_ = false;
};

} // namespace

Element storedElement(Element e, const Location &nodes, const PassContext &context) {
  const PrecisionRule *rule = findRule(context.precision, nodes);
  return e == Element::F32 && rule && context.enabled("assign-precision", nodes) ? rule->element
                                                                                 : e;
}

bool runAssignPrecision(Graph &graph, PassContext &context) {
  std::vector<PrecisionRule> rules = context.precision;
  if (context.option("bits") == 16)
    rules.assign(1, {"", Element::F16, ""});
  return !rules.empty() && Assignment(graph, rules, context).run();
}

} // namespace tenon
