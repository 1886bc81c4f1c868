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

/// What a window operation reads where it may take a pad over.
struct PadBefore {
  Operation *pad;
  Ints pads; // begin…, end…: the operation's own and those of the pad
  double fill;
};
/// None where no pad stands there, or one that pads batch or channels, or with what is not known.
llvm::Optional<PadBefore> padBefore(const Operation &op) {
  Operation *pad = op.operand(0)->def();
  if (!pad || !pad->is(Op::Pad) || pad->wordAttr("mode", "constant") != "constant")
    return llvm::None;
  const auto fill =
      pad->numOperands() > 1 ? splatValue(pad->operand(1)) : llvm::Optional<double>(0.0);
  const unsigned spatial = op.operand(0)->type().rank() - 2;
  Ints pads = op.intsAttr("pads");
  pads.resize(2 * spatial, 0);
  for (unsigned d = 0; d < spatial + 2; ++d) {
    Dim low = pad->dimsAttr("low")[d], high = pad->dimsAttr("high")[d];
    if (!fill || !low.isConstant() || !high.isConstant() ||
        (d < 2 && (low.constant() != 0 || high.constant() != 0)))
      return llvm::None;
    if (d < 2)
      continue;
    pads[d - 2] += low.constant();
    pads[d - 2 + spatial] += high.constant();
  }
  return PadBefore{pad, std::move(pads), *fill};
}

bool absorb(Operation &op, PadBefore before) {
  op.set("pads", std::move(before.pads));
  mergeLocation(op.loc(), before.pad->loc());
  op.setOperand(0, before.pad->operand(0));
  return true;
}

// conv(pad_0(x)) = conv(x) with larger pads; integers pad with their zero point
bool convPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Conv))
    return false;
  const auto before = padBefore(op);
  const auto zero = op.numOperands() > 2 ? splatValue(op.operand(2)) : llvm::Optional<double>(0.0);
  return before && zero && before->fill == *zero && rw.fire(op) && absorb(op, *before);
}

bool hasPads(const Operation &op) {
  return llvm::any_of(op.intsAttr("pads"), [](int64_t p) { return p != 0; });
}

// average(pad_0(x)) = average(x) with pads that count, when none stood there that do not
bool averagePattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Pool) || op.wordAttr("kind") != "average" || op.boolAttr("ceil"))
    return false;
  const auto before = padBefore(op);
  if (!before || before->fill != 0 || (hasPads(op) && !op.boolAttr("count_include_pad")) ||
      !rw.fire(op))
    return false;
  op.set("count_include_pad", true);
  return absorb(op, *before);
}

// max(pad_−∞(x)) = max(x) with larger pads
bool maxPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Pool) || op.wordAttr("kind") != "max" || op.boolAttr("ceil"))
    return false;
  const auto before = padBefore(op);
  const Element e = op.operand(0)->type().element();
  if (!before || before->fill != (isFloat(e) ? -INFINITY : double(minInt(e))))
    return false;
  // A window that lies in the padding altogether would be empty.
  const Ints &kernel = op.intsAttr("kernel"), &dilations = op.intsAttr("dilations");
  for (size_t d = 0; d < kernel.size(); ++d) {
    const int64_t reach = (kernel[d] - 1) * (d < dilations.size() ? dilations[d] : 1) + 1;
    if (before->pads[d] >= reach || before->pads[d + kernel.size()] >= reach)
      return false;
  }
  return rw.fire(op) && absorb(op, *before);
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
  return rw.replace(op, b.value(Op::Pad, operands, std::move(attributes)));
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
