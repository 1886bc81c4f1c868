// float8-arithmetic: products of quantised tensors in f8e4m3 multiply what is stored.
//
//   %xf = dequantize %x, sx                         %c = conv %x, %w : f32
//   %wf = dequantize %w, sw                  →      %y = map %c, %s (…) { mul }     s = sx · sw
//   %y = conv %xf, %wf
//
// One scale for x, and one for w or one for each output channel; weights are constants. Products of
// f8e4m3 are exact in f32, so what differs from the product of dequantised tensors is the rounding
// of those. Whatever follows (bias, activation, the next quantisation) joins the kernel as behind
// any contraction. On targets without kernels for such products everything stays as --precision
// says, and the reason is recorded.
//
// Where such kernels are, what is stored in f8e4m3 is multiplied by the reciprocal of its scale: a
// result differs from that of the division only where it lies between two numbers of 4 bits.
#include "passes/Float8Arithmetic.h"

#include "passes/QuantizedForm.h"
#include "passes/Rewrite.h"

namespace tenon {
namespace {

bool isFloat8(const llvm::Optional<Dequantized> &d) {
  return d && d->q->type().element() == Element::F8E4M3;
}

/// Channels of a group, or elements along the sum, that fill half of an instruction: with fewer,
/// kernels of other floats are faster.
constexpr int64_t kLeastDepth = 16;

struct Float8Contraction {
  Dequantized x, w;
};

/// None for what has no operand in f8e4m3, and with the reason in `why` for what stays as it is.
llvm::Optional<Float8Contraction> matchContraction(const Operation &op, const TargetTraits &target,
                                                   std::string &why) {
  if (!op.isAny(Op::Conv, Op::MatMul) || op.numOperands() != 2 || op.has("precision") ||
      op.result()->type().element() != Element::F32)
    return llvm::None;
  const auto x = matchDequantized(op.operand(0)), w = matchDequantized(op.operand(1));
  auto fail = [&](llvm::StringRef reason) {
    why = reason.str();
    return llvm::None;
  };
  if (!isFloat8(x) || !isFloat8(w)) {
    if (isFloat8(x))
      fail("weights that are not dequantised from f8e4m3");
    return llvm::None; // weights alone: narrow-weights
  }
  if (!constantValue(w->q))
    return fail("weights known only at run time");
  const auto isZero = [](double z) { return z == 0; };
  if (!llvm::all_of(x->zero, isZero) || !llvm::all_of(w->zero, isZero))
    return fail("a zero point");
  if (!x->perTensor())
    return fail("a scale of the input for each channel");
  const auto rank = int64_t(w->q->type().rank());
  const int64_t channel = op.is(Op::Conv) ? 0 : op.boolAttr("trans_b") ? rank - 2 : rank - 1;
  if (!w->perTensor() && (w->axis != channel || (op.is(Op::MatMul) && rank != 2)))
    return fail("scales of the weights that do not follow the output channel");
  const int64_t along = op.is(Op::Conv) ? 1 : op.boolAttr("trans_b") ? rank - 1 : rank - 2;
  if (w->q->type().dim(unsigned(along)).upper() < kLeastDepth)
    return fail("fewer than 16 channels a group");
  if (!target.float8Products)
    return fail(target.whyNoFloat8Products);
  return Float8Contraction{*x, *w};
}

/// `sum` times one number, or one for each output channel.
Value *buildScaled(Builder &b, Value *sum, const PerChannel &scale, int64_t channel) {
  llvm::SmallVector<Value *, 2> operands{sum};
  std::vector<IndexMap> maps{identityMap(sum->type().rank())};
  if (scale.size() > 1) {
    Tensor t(Element::F32, {int64_t(scale.size())});
    t.fromDoubles(0, int64_t(scale.size()), scale.data());
    operands.push_back(b.constant(t));
    maps.push_back({channel});
  }
  Operation *map =
      b.map(operands, maps, sum->type().shape(), [&](Builder &body, llvm::ArrayRef<Value *> args) {
        Value *s = scale.size() > 1 ? args[1] : body.scalarConst(Element::F32, scale[0]);
        return llvm::SmallVector<Value *, 2>{body.scalar(Op::Mul, {args[0], s})};
      });
  return map ? map->result() : nullptr;
}

// contraction(dequantize x, dequantize w) = scale · contraction(x, w)
bool contractPattern(Operation &op, Rewriter &rw) {
  std::string why;
  const auto c = matchContraction(op, rw.context().target, why);
  if (!c || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  b.location = op.loc();
  Value *sum = b.value(op.kind(), {c->x.q, c->w.q}, op.attributes());
  const PerChannel scale = zip(c->w.scale, c->x.scale, [](double w, double x) { return w * x; });
  return sum && rw.replace(op, buildScaled(b, sum, scale, outputChannel(op)));
}

/// The division by a constant whose quotient a map stores in f8e4m3; null where there is none.
Operation *storedQuotient(Operation &map) {
  if (!map.is(Op::Map) || map.numResults() != 1 ||
      map.result()->type().element() != Element::F8E4M3)
    return nullptr;
  Operation *op = map.region().terminator()->operand(0)->def();
  if (!op || !op->is(Op::Cast))
    return nullptr;
  op = op->operand(0)->def();
  if (op && op->is(Op::Clamp))
    op = op->operand(0)->def();
  return op && op->is(Op::Div) && op->result()->type().element() == Element::F32 ? op : nullptr;
}

// x / s = x · (1 / s)
bool reciprocalPattern(Operation &op, Rewriter &rw) {
  Operation *quotient = rw.context().target.float8Products ? storedQuotient(op) : nullptr;
  const auto scale = quotient ? scalarValue(quotient->operand(1)) : llvm::None;
  if (!scale || !std::isnormal(float(1 / *scale)) || !rw.fire(op))
    return false;
  Builder b(quotient, rw.context().diagnostics);
  Value *product = b.scalar(
      Op::Mul, {quotient->operand(0), b.scalarConst(Element::F32, double(float(1 / *scale)))});
  quotient->result()->replaceAllUsesWith(product);
  quotient->erase();
  return true;
}

/// Records which products with f8e4m3 multiply something else, and why.
void reportOthers(Region &region, PassContext &context) {
  for (Operation &op : region) {
    if (holdsStructured(op))
      for (unsigned r = 0; r < op.numRegions(); ++r)
        reportOthers(op.region(r), context);
    std::string why;
    if (matchContraction(op, context.target, why) || why.empty())
      continue;
    FusionDecision record;
    record.id = "float8-arithmetic.contract";
    record.nodes = op.loc();
    record.reason = why;
    context.fusions.push_back(std::move(record));
  }
}

const Pattern kPatterns[] = {
    {"float8-arithmetic.contract", contractPattern},
    {"float8-arithmetic.reciprocal", reciprocalPattern},
};

} // namespace

bool runFloat8Arithmetic(Graph &graph, PassContext &context) {
  const bool changed = applyPatterns(graph, context, kPatterns);
  reportOthers(graph.body(), context);
  return changed;
}

} // namespace tenon
