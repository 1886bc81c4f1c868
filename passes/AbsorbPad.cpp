// absorb-pad: explicit pads become the pads of the window operations behind them.
//
//   %p = pad %x {low = [0, 0, 1, 1], …}      →    %c = conv %x, %w {pads = [1, 1, 1, 1]}
//   %c = conv %p, %w {pads = [0, 0, 0, 0]}
//
// The padded copy is saved even when others read it, too: they keep theirs.
#include "passes/AbsorbPad.h"

#include "passes/Rewrite.h"

#include <cmath>
#include <limits>

namespace tenon {
namespace {

/// The value a pad fills with, when it is known.
llvm::Optional<double> fillOf(const Operation &pad) {
  return pad.numOperands() > 1 ? splatValue(pad.operand(1)) : llvm::Optional<double>(0.0);
}

/// `pads` (begin…, end…) of a window operation plus those of a pad that leaves batch and channels
/// alone; None for others.
llvm::Optional<Ints> combinedPads(const Operation &op, const Operation *pad) {
  if (!pad || !pad->is(Op::Pad) || pad->wordAttr("mode", "constant") != "constant")
    return llvm::None;
  const unsigned spatial = op.operand(0)->type().rank() - 2;
  Ints pads = op.intsAttr("pads");
  pads.resize(2 * spatial, 0);
  for (unsigned d = 0; d < spatial + 2; ++d) {
    Dim low = pad->dimsAttr("low")[d], high = pad->dimsAttr("high")[d];
    if (!low.isConstant() || !high.isConstant() ||
        (d < 2 && (low.constant() != 0 || high.constant() != 0)))
      return llvm::None;
    if (d < 2)
      continue;
    pads[d - 2] += low.constant();
    pads[d - 2 + spatial] += high.constant();
  }
  return pads;
}

void absorb(Operation &op, Operation &pad, Ints pads) {
  op.set("pads", std::move(pads));
  mergeLocation(op.loc(), pad.loc());
  op.setOperand(0, pad.operand(0));
}

// conv(pad_0(x)) = conv(x) with larger pads; integers pad with their zero point
bool convPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Conv))
    return false;
  Operation *pad = op.operand(0)->def();
  llvm::Optional<Ints> pads = combinedPads(op, pad);
  if (!pads)
    return false;
  llvm::Optional<double> fill = fillOf(*pad), zero = 0.0;
  if (op.numOperands() > 2)
    zero = splatValue(op.operand(2));
  if (!fill || !zero || *fill != *zero || !rw.fire(op))
    return false;
  absorb(op, *pad, std::move(*pads));
  return true;
}

bool hasPads(const Operation &op) {
  return llvm::any_of(op.intsAttr("pads"), [](int64_t p) { return p != 0; });
}

// average(pad_0(x)) = average(x) with pads that count, when none stood there that do not
bool averagePattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Pool) || op.wordAttr("kind") != "average" || op.boolAttr("ceil"))
    return false;
  Operation *pad = op.operand(0)->def();
  llvm::Optional<Ints> pads = combinedPads(op, pad);
  if (!pads || (hasPads(op) && !op.boolAttr("count_include_pad")))
    return false;
  llvm::Optional<double> fill = fillOf(*pad);
  if (!fill || *fill != 0 || !rw.fire(op))
    return false;
  absorb(op, *pad, std::move(*pads));
  op.set("count_include_pad", true);
  return true;
}

// max(pad_−∞(x)) = max(x) with larger pads
bool maxPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Pool) || op.wordAttr("kind") != "max" || op.boolAttr("ceil"))
    return false;
  Operation *pad = op.operand(0)->def();
  llvm::Optional<Ints> pads = combinedPads(op, pad);
  if (!pads)
    return false;
  const Element e = op.operand(0)->type().element();
  llvm::Optional<double> fill = fillOf(*pad);
  if (!fill)
    return false;
  const bool lowest = isFloat(e) ? *fill == -INFINITY : *fill == double(minInt(e));
  // A window that lies in the padding altogether would be empty.
  const Ints &kernel = op.intsAttr("kernel"), &dilations = op.intsAttr("dilations");
  bool partial = true;
  for (size_t d = 0; d < kernel.size(); ++d) {
    const int64_t reach = (kernel[d] - 1) * (d < dilations.size() ? dilations[d] : 1) + 1;
    partial &= (*pads)[d] < reach && (*pads)[d + kernel.size()] < reach;
  }
  if (!lowest || !partial || !rw.fire(op))
    return false;
  absorb(op, *pad, std::move(*pads));
  return true;
}

// reshape(pad(x)) = pad(reshape(x)), where the reshape only adds or drops unpadded extents of 1
// and window operations stand behind it
bool reshapePattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Reshape))
    return false;
  Operation *pad = op.operand(0)->def();
  if (!pad || !pad->is(Op::Pad) || pad->wordAttr("mode", "constant") != "constant" ||
      !op.operand(0)->hasOneUse() || !op.operand(0)->type().layout().isRowMajor() ||
      !llvm::all_of(op.result()->uses(),
                    [](Use *u) { return u->owner()->isAny(Op::Conv, Op::Pool); }))
    return false;
  Type from = op.operand(0)->type(), to = op.result()->type();
  Context &c = from.context();
  Dims low(to.rank(), c.dim(0)), high = low, shape;
  unsigned k = 0;
  auto dropsUnit = [&](unsigned d) { // extents of 1 before and after the pad, too
    return from.dim(d).isConstant(1) && pad->operand(0)->type().dim(d).isConstant(1);
  };
  for (unsigned d = 0; d < to.rank(); ++d) {
    if (to.dim(d).isConstant(1)) {
      shape.push_back(to.dim(d));
      continue;
    }
    while (k < from.rank() && dropsUnit(k))
      ++k;
    if (k == from.rank() || from.dim(k) != to.dim(d))
      return false;
    low[d] = pad->dimsAttr("low")[k];
    high[d] = pad->dimsAttr("high")[k];
    shape.push_back(pad->operand(0)->type().dim(k++));
  }
  for (; k < from.rank(); ++k)
    if (!dropsUnit(k))
      return false;
  if (!rw.fire(op))
    return false;
  Builder b = rw.before(op);
  mergeLocation(b.location, pad->loc());
  llvm::SmallVector<Value *, 2> operands{b.reshape(pad->operand(0), shape)};
  if (pad->numOperands() > 1)
    operands.push_back(pad->operand(1));
  NamedAttributes attributes = pad->attributes();
  attributes.insert_or_assign("low", Attribute(low));
  attributes.insert_or_assign("high", Attribute(high));
  rw.replace(op, b.value(Op::Pad, operands, std::move(attributes)));
  return true;
}

const Pattern kPatterns[] = {
    {"absorb-pad.reshape", reshapePattern},
    {"absorb-pad.conv", convPattern},
    {"absorb-pad.average-pool", averagePattern},
    {"absorb-pad.max-pool", maxPattern},
};

} // namespace

bool runAbsorbPad(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
