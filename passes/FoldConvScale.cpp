// fold-conv-scale: per-channel scale and shift around contractions go into weights and bias.
//
//   %c = conv %x, %w                            %c = conv %x, %w·a
//   %y = map %c, %b, %s, %t                →    %y = map %c, %t' { relu(c + t') }
//          { relu((c + b) * s + t) }                 with t' = b·s + t
//
// This is batch normalisation after a convolution, however the model spells it. The new constants
// are computed in double from the old ones and rounded once.
#include "passes/FoldConvScale.h"

#include "ir/Extents.h"
#include "ir/ops/Parallel.h"
#include "passes/Maps.h"
#include "passes/Rewrite.h"

namespace tenon {
namespace {

/// y[k] = a[k] · x[k] + b[k] along the channels.
struct Affine {
  std::vector<double> a, b;
  bool scales = false; // some a differs from 1
  bool shifts = false; // some b differs from 0

  explicit Affine(int64_t channels) : a(channels, 1.0), b(channels, 0.0) {}
  void scale(llvm::ArrayRef<double> s) {
    for (size_t k = 0; k < a.size(); ++k)
      a[k] *= s[k], b[k] *= s[k];
  }
  void shift(llvm::ArrayRef<double> t, double sign) {
    for (size_t k = 0; k < b.size(); ++k)
      b[k] += sign * t[k];
  }
  void finish() {
    for (double v : a)
      scales |= v != 1;
    for (double v : b)
      shifts |= v != 0;
  }
};

/// The contraction's dimension of output channels, −1 when it has none that a weight carries.
int64_t outputChannel(const Operation &op) {
  const unsigned rank = op.result()->type().rank();
  return op.is(Op::MatMul) ? int64_t(rank) - 1 : 1;
}

/// A scalar of a body that only depends on position `channel`: one value per channel.
llvm::Optional<std::vector<double>> perChannel(Operation &map, Value *scalar, int64_t channel,
                                               int64_t channels) {
  if (llvm::Optional<double> c = scalarValue(scalar))
    return std::vector<double>(channels, *c);
  if (scalar->argumentOf() != &map.region())
    return llvm::None;
  const unsigned i = scalar->index();
  Literal l = constantValue(map.operand(i));
  if (!l || l->element() == Element::String)
    return llvm::None;
  for (int64_t d : indexMap(map, i))
    if (d >= 0 && d != channel && !map.result()->type().dim(unsigned(d)).isConstant(1))
      return llvm::None;
  if (l->size() != channels && l->size() != 1)
    return llvm::None;
  std::vector<double> values(channels);
  for (int64_t k = 0; k < channels; ++k)
    values[k] = l->at(l->size() == 1 ? 0 : k);
  return values;
}

/// Follows x through the affine functions of channel constants in a map's body as long as nothing
/// else reads the intermediate values; returns the last of them.
Value *followAffine(Operation &map, Value *x, int64_t channel, Affine &f) {
  const int64_t n = int64_t(f.a.size());
  while (x->hasOneUse()) {
    Use *use = x->firstUse();
    Operation *op = use->owner();
    if (op->numOperands() > 2 || op->isTerminator())
      break;
    if (op->is(Op::Neg)) {
      f.scale(std::vector<double>(n, -1));
    } else if (op->isAny(Op::Add, Op::Sub, Op::Mul, Op::Div)) {
      auto c = perChannel(map, op->operand(1 - use->index()), channel, n);
      if (!c)
        break;
      if (op->is(Op::Add)) {
        f.shift(*c, 1);
      } else if (op->is(Op::Mul)) {
        f.scale(*c);
      } else if (op->is(Op::Sub) && use->index() == 0) {
        f.shift(*c, -1);
      } else if (op->is(Op::Sub)) {
        f.scale(std::vector<double>(n, -1));
        f.shift(*c, 1);
      } else if (use->index() == 0 && llvm::all_of(*c, [](double v) { return v != 0; })) {
        for (double &v : *c)
          v = 1 / v;
        f.scale(*c);
      } else {
        break;
      }
    } else {
      break;
    }
    x = op->result();
  }
  return x;
}

/// The contraction whose result, through affine maps that nothing else reads, is `v`.
Operation *traceContraction(Value *v, Affine *f, Location &location) {
  if (!v->hasOneUse() || !v->def())
    return nullptr;
  Operation *op = v->def();
  if (op->isAny(Op::Conv, Op::ConvTranspose, Op::MatMul))
    return op;
  if (!op->is(Op::Map) || op->numResults() != 1)
    return nullptr;
  for (unsigned i = 0; i < op->numOperands(); ++i) {
    if (!readsInPlace(*op, i))
      continue;
    Operation *contraction = traceContraction(op->operand(i), f, location);
    if (!contraction)
      continue;
    Affine local(f ? int64_t(f->a.size())
                   : op->result()->type().dim(unsigned(outputChannel(*contraction))).upper());
    Affine &g = f ? *f : local;
    Value *end = followAffine(*op, op->region().argument(i), outputChannel(*contraction), g);
    if (end != op->region().terminator()->operand(0))
      return nullptr;
    mergeLocation(location, op->loc());
    return contraction;
  }
  return nullptr;
}

/// With weights that a factor may go into. Not those of 16 bits: they would be rounded once more,
/// and errors of weights are the same in every pixel, so that no mean evens them out.
bool isFloatContraction(const Operation &op) {
  Literal w = constantValue(op.operand(1));
  return w && isFloat(w->element()) && bitWidth(w->element()) >= 32 && op.numOperands() == 2 &&
         op.result()->type().element() == w->element();
}

/// Which channel the elements of weights belong to: element i to i / group · extent +
/// i / inner mod extent, so runs of `inner` elements share theirs.
struct Channels {
  int64_t inner = 1, extent = 1, group = INT64_MAX;
};

/// The channels of elements in their order, from one of them on: without a division for each.
class ChannelsInOrder {
public:
  ChannelsInOrder(Channels of, int64_t i)
      : of_(of), inGroup_(i / of.inner % of.extent), base_(i / of.group * of.extent),
        run_(of.inner - i % of.inner), group_(of.group - i % of.group) {}
  int64_t channel() const { return base_ + inGroup_; }
  /// Elements from here on that share it.
  int64_t run() const { return run_; }
  /// Goes on by `count` of these.
  void skip(int64_t count) {
    run_ -= count;
    group_ -= count;
    if (run_ == 0) {
      run_ = of_.inner;
      inGroup_ = inGroup_ + 1 == of_.extent ? 0 : inGroup_ + 1;
    }
    if (group_ == 0) {
      group_ = of_.group;
      base_ += of_.extent;
    }
  }

private:
  Channels of_;
  int64_t inGroup_, base_, run_, group_;
};

/// Groups of the first dimension, channels of the group in the second.
Channels inGroups(llvm::ArrayRef<int64_t> shape, int64_t groups) {
  const int64_t inner = product(shape.drop_front(2));
  return {inner, shape[1], inner * shape[1] * (shape[0] / groups)};
}

Channels outputChannels(const Operation &op, const Tensor &w) {
  llvm::ArrayRef<int64_t> s = w.shape();
  if (op.is(Op::Conv))
    return {product(s.drop_front(1)), s[0]};
  if (op.is(Op::ConvTranspose))
    return inGroups(s, op.intAttr("groups", 1));
  return op.boolAttr("trans_b") ? Channels{s.back(), s[s.size() - 2]} : Channels{1, s.back()};
}

/// Of a convolution or of a matrix.
Channels inputChannels(const Operation &op, const Tensor &w) {
  llvm::ArrayRef<int64_t> s = w.shape();
  if (op.is(Op::Conv))
    return inGroups(s, op.intAttr("groups", 1));
  return op.boolAttr("trans_b") ? Channels{1, s.back()} : Channels{s.back(), s[s.size() - 2]};
}

/// Elements that are numbers at a time, and those that pay for a thread.
constexpr int64_t kChunk = 4096, kThreadElements = 1 << 18;

/// Weights times the factor of their channel.
Tensor scaled(const Tensor &w, Channels channels, llvm::ArrayRef<double> factors) {
  Tensor out(w.element(), w.shape());
  parallelFor(
      w.size(), kThreadElements,
      [&](int64_t first, int64_t last) {
        double chunk[kChunk];
        ChannelsInOrder at(channels, first);
        for (int64_t begin = first; begin < last; begin += kChunk) {
          const int64_t count = std::min(kChunk, last - begin);
          w.toDoubles(begin, count, chunk);
          for (int64_t k = 0; k < count;) {
            const int64_t n = std::min(count - k, at.run()), end = k + n;
            for (const double factor = factors[size_t(at.channel())]; k < end; ++k)
              chunk[k] *= factor;
            at.skip(n);
          }
          out.fromDoubles(begin, count, chunk);
        }
      },
      kAllThreads);
  w.leaveMemory();
  return out;
}

/// The sums of weights times what is added to their input channel, one for each output channel,
/// from the first element to the last.
std::vector<double> shiftedSums(const Tensor &w, Channels into, llvm::ArrayRef<double> shifts,
                                Channels from, int64_t outputs) {
  std::vector<double> sums(size_t(outputs), 0.0);
  if (w.size() == 0)
    return sums;
  double chunk[kChunk];
  ChannelsInOrder input(into, 0), output(from, 0);
  for (int64_t begin = 0; begin < w.size(); begin += kChunk) {
    const int64_t count = std::min(kChunk, w.size() - begin);
    w.toDoubles(begin, count, chunk);
    for (int64_t k = 0; k < count; ++k, input.skip(1), output.skip(1))
      sums[size_t(output.channel())] += chunk[k] * shifts[size_t(input.channel())];
  }
  w.leaveMemory();
  return sums;
}

// contraction(x, w)·a + b = contraction(x, w·a) + b
bool outputPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Map))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    if (!readsInPlace(op, i))
      continue;
    Location location;
    Operation *contraction = traceContraction(op.operand(i), nullptr, location);
    if (!contraction || !isFloatContraction(*contraction))
      continue;
    const int64_t channel = outputChannel(*contraction);
    Dim extent = op.result()->type().dim(unsigned(channel));
    if (!extent.isConstant())
      continue;
    Affine f(extent.constant());
    traceContraction(op.operand(i), &f, location);
    Value *end = followAffine(op, op.region().argument(i), channel, f);
    f.finish();
    if (!f.scales || !rw.fire(op))
      continue;

    Builder b = rw.before(op);
    b.location = contraction->loc();
    const Literal kept = constantValue(contraction->operand(1));
    const Tensor &w = *kept;
    Value *weights = b.constant(scaled(w, outputChannels(*contraction, w), f.a),
                                contraction->operand(1)->hint());
    Operation *scaledOp =
        Operation::create(contraction->kind(), {contraction->operand(0), weights},
                          contraction->attributes(), {contraction->result()->type()});
    scaledOp->loc() = contraction->loc();
    scaledOp->result()->setHint(contraction->result()->hint());
    op.parent()->insertBefore(&op, scaledOp);

    // The body: what followed from `end` now follows from c + b.
    mergeLocation(op.loc(), location);
    IterationSpace space = iterationSpace(op);
    auto operands = op.operands();
    IntLists maps = op.intListsAttr("maps");
    operands[i] = scaledOp->result();
    Value *argument = op.region().argument(i), *replacement = argument;
    if (f.shifts) {
      Tensor bias(w.element(), {int64_t(f.b.size())});
      for (size_t k = 0; k < f.b.size(); ++k)
        bias.set(int64_t(k), f.b[k]);
      operands.push_back(b.constant(bias));
      maps.push_back({channel});
      Value *shift = op.region().addArgument(argument->type());
      Builder inner(&op.region().front(), rw.context().diagnostics);
      replacement = inner.scalar(Op::Add, {argument, shift});
    }
    end->replaceUsesIf(replacement, [&](Use &u) { return u.owner() != replacement->def(); });
    setMapOperands(op, operands, maps, space);
    eraseDeadOps(op.region());
    return true;
  }
  return false;
}

// contraction(a·x + b, w) = contraction(x, a·w) + Σ b·w, the sum only where nothing is padded
bool inputPattern(Operation &op, Rewriter &rw) {
  if (!op.isAny(Op::Conv, Op::MatMul) || !isFloatContraction(op))
    return false;
  Operation *map = op.operand(0)->def();
  if (!map || !map->is(Op::Map) || map->numResults() != 1 || !op.operand(0)->hasOneUse() ||
      map->result()->type().element() != op.result()->type().element())
    return false;
  const unsigned rank = map->result()->type().rank();
  if (op.is(Op::MatMul) && (op.boolAttr("trans_a") || constantValue(op.operand(1))->rank() != 2))
    return false;
  const int64_t channel = op.is(Op::MatMul) ? rank - 1 : 1;
  Dim extent = map->result()->type().dim(unsigned(channel));
  if (!extent.isConstant())
    return false;
  const int64_t n = extent.constant();

  // Peel the affine functions off the end of the body, outermost first.
  Affine f(n);
  Value *end = map->region().terminator()->operand(0);
  while (Operation *scalar = end->def()) {
    if (!end->hasOneUse() || !scalar->isAny(Op::Add, Op::Sub, Op::Mul))
      break;
    llvm::Optional<std::vector<double>> c;
    unsigned x = 0;
    for (; x < 2 && !c; ++x)
      if (!scalarValue(scalar->operand(x)))
        c = perChannel(*map, scalar->operand(1 - x), channel, n);
    if (!c)
      break;
    --x;
    // f(s(x)): compose on the inside.
    std::vector<double> a(n, 1.0), b(n, 0.0);
    if (scalar->is(Op::Mul))
      a = *c;
    else if (scalar->is(Op::Add))
      b = *c;
    else if (x == 0)
      for (int64_t k = 0; k < n; ++k)
        b[k] = -(*c)[k];
    else
      a.assign(n, -1.0), b = *c;
    for (int64_t k = 0; k < n; ++k) {
      f.b[k] += f.a[k] * b[k];
      f.a[k] *= a[k];
    }
    end = scalar->operand(x);
  }
  f.finish();
  if (!f.scales && !f.shifts)
    return false;
  const bool whole = end->argumentOf() == &map->region() && readsInPlace(*map, end->index());
  if (f.shifts && (!whole || llvm::any_of(op.intsAttr("pads"), [](int64_t p) { return p != 0; })))
    return false; // padding zeros are not shifted; and a shift only pays when the map goes away
  if (!f.scales && !whole)
    return false;
  if (end->type() != map->region().terminator()->operand(0)->type() || !rw.fire(op))
    return false;

  Builder b = rw.before(op);
  const Literal kept = constantValue(op.operand(1));
  const Tensor &w = *kept;
  const Channels into = inputChannels(op, w), from = outputChannels(op, w);
  Value *weights = b.constant(scaled(w, into, f.a), op.operand(1)->hint());
  Value *x = nullptr;
  if (whole) {
    x = map->operand(end->index());
  } else {
    map->region().terminator()->setOperand(0, end);
    eraseDeadOps(map->region());
    x = map->result();
  }
  Operation *contraction =
      Operation::create(op.kind(), {x, weights}, op.attributes(), {op.result()->type()});
  contraction->loc() = op.loc();
  mergeLocation(contraction->loc(), map->loc());
  op.parent()->insertBefore(&op, contraction);
  Value *result = contraction->result();
  if (f.shifts) {
    const int64_t out = outputChannel(op), outs = op.result()->type().dim(unsigned(out)).constant();
    const std::vector<double> sums = shiftedSums(w, into, f.b, from, outs);
    Tensor bias(w.element(), {outs});
    for (int64_t k = 0; k < outs; ++k)
      bias.set(k, sums[k]);
    Operation *add =
        b.map({result, b.constant(bias)}, {identityMap(op.result()->type().rank()), IndexMap{out}},
              op.result()->type().shape(), [](Builder &s, llvm::ArrayRef<Value *> args) {
                return llvm::SmallVector<Value *, 2>{s.scalar(Op::Add, args)};
              });
    result = add->result();
  }
  return rw.replace(op, result);
}

// contraction(x, w) + 0 = contraction(x, w): a sum that starts at +0 is never −0
bool zeroBiasPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Map))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Operation *def = op.operand(i)->def();
    if (!def || !def->isAny(Op::Conv, Op::ConvTranspose, Op::MatMul))
      continue;
    Value *x = op.region().argument(i);
    for (Use *u : x->uses()) {
      Operation *add = u->owner();
      if (!add->is(Op::Add))
        continue;
      llvm::Optional<double> zero = scalarValue(add->operand(1 - u->index()));
      if (!zero || *zero != 0 || !rw.fire(op))
        continue;
      add->result()->replaceAllUsesWith(x);
      eraseDeadOps(op.region());
      return true;
    }
  }
  return false;
}

const Pattern kPatterns[] = {
    {"fold-conv-scale.zero-bias", zeroBiasPattern},
    {"fold-conv-scale.output", outputPattern},
    {"fold-conv-scale.input", inputPattern},
};

} // namespace

bool runFoldConvScale(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
