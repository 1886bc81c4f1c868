// Implements the export of convolutions, matrix products and attention.
#include "exporter/Writer.h"

#include "ir/Attention.h"
#include "ir/Builder.h"
#include "ir/Extents.h"

namespace tenon::exporter {
namespace {

Attributes windowAttributes(const Operation &op) {
  Attributes a;
  for (const char *key : {"strides", "dilations", "pads", "output_padding"})
    if (!op.intsAttr(key).empty())
      a.push_back({key, op.intsAttr(key)});
  if (op.intAttr("groups", 1) != 1)
    a.push_back({"group", op.intAttr("groups", 1)});
  return a;
}

/// Runtimes multiply bytes without sign by bytes: x and its zero point, 128 higher where they have
/// one.
std::string unsignedBytes(const std::string &x, Writer &w) {
  return w.cast(w.node("Add", {w.cast(x, Element::I32), w.scalar(Element::I32, 128)}), Element::U8);
}

std::string zeroPoint(const Operation &op, unsigned i, Writer &w) {
  return op.numOperands() > i ? w.name(op.operand(i)) : std::string();
}

std::string convInteger(const Operation &op, Writer &w) {
  const Element x = op.operand(0)->type().element();
  if (bitWidth(x) != 8)
    return w.refused("a convolution of " + name(x));
  std::string a = w.name(op.operand(0)), zero = zeroPoint(op, 2, w), wZero = zeroPoint(op, 3, w);
  if (!wZero.empty() && !op.operand(3)->type().elements().isConstant(1))
    return w.refused("a convolution with zero points of each channel's weights");
  if (x == Element::I8) {
    a = unsignedBytes(a, w);
    zero = zero.empty() ? w.scalar(Element::U8, 128) : unsignedBytes(zero, w);
  }
  return w.node("ConvInteger", {a, w.name(op.operand(1)), zero, wZero}, windowAttributes(op));
}

/// b of integers with a scale and a zero point for each block along k, as floats [n, k].
std::string dequantizedBlocks(const Operation &op, Writer &w) {
  const Type b = op.operand(1)->type();
  const Element f = op.operand(0)->type().element();
  if (!b.dim(1).isConstant())
    return w.refused("blocks along an extent that is not known");
  Tensor blockOf(Element::I64, {b.dim(1).constant()});
  for (int64_t i = 0; i < blockOf.size(); ++i)
    blockOf.setInt(i, i / op.intAttr("block"));
  auto spread = [&](unsigned i) {
    return w.node("Gather", {w.name(op.operand(i)), w.constant(blockOf)}, {{"axis", int64_t(1)}});
  };
  std::string x = w.cast(w.name(op.operand(1)), f);
  if (op.numOperands() > 3)
    x = w.node("Sub", {x, spread(3)});
  return w.node("Mul", {x, spread(2)});
}

/// An operand of a product as MatMul reads it.
std::string factor(const Operation &op, unsigned i, Writer &w) {
  const bool swap = op.boolAttr(i ? "trans_b" : "trans_a");
  return swap ? w.swapped(op.operand(i)) : w.name(op.operand(i));
}

std::string product(const Operation &op, Writer &w) {
  const Element a = op.operand(0)->type().element();
  const unsigned rank = op.operand(1)->type().rank();
  if (op.has("block")) {
    const std::string b = w.node("Transpose", {dequantizedBlocks(op, w)}, {{"perm", Ints{1, 0}}});
    return w.node("MatMul", {factor(op, 0, w), b});
  }
  std::string x = factor(op, 0, w), y = factor(op, 1, w);
  if (isFloat(a) || bitWidth(a) >= 32)
    return w.node("MatMul", {x, y});
  const bool perColumn = op.numOperands() > 3 && !op.operand(3)->type().elements().isConstant(1);
  if (bitWidth(a) == 8 && (!perColumn || rank == 2)) {
    std::string zero = zeroPoint(op, 2, w);
    if (a == Element::I8) {
      x = unsignedBytes(x, w);
      zero = zero.empty() ? w.scalar(Element::U8, 128) : unsignedBytes(zero, w);
    }
    return w.node("MatMulInteger", {x, y, zero, zeroPoint(op, 3, w)});
  }
  // Zero points of columns stand along b's last dimension, as they are.
  x = w.cast(x, Element::I32), y = w.cast(y, Element::I32);
  if (op.numOperands() > 2)
    x = w.node("Sub", {x, w.cast(w.name(op.operand(2)), Element::I32)});
  if (op.numOperands() > 3)
    y = w.node("Sub", {y, w.cast(w.name(op.operand(3)), Element::I32)});
  return w.node("MatMul", {x, y});
}

/// Which keys are hidden from which queries: booleans that broadcast to the scores; empty for none.
std::string hiddenKeys(Operation &op, const AttentionOperands &at, Writer &w) {
  const Type q = op.operand(0)->type(), k = op.operand(1)->type();
  const bool causal = op.has("causal"), window = op.has("window");
  if (!at.first && !causal && !window)
    return "";
  const Dim m = q.dim(q.rank() - 2), n = k.dim(k.rank() - 2);
  const std::string keys = w.range(n);
  std::string position = w.node("Unsqueeze", {w.range(m), w.integers({1})}), hidden;
  auto either = [&](const std::string &more) {
    hidden = hidden.empty() ? more : w.node("Or", {hidden, more});
  };
  if (at.first) {
    const Value *v = op.operand(at.first);
    std::string first = w.name(v);
    if (v->type().element() != Element::I64)
      first = w.cast(first, Element::I64);
    if (v->type().rank()) { // one for each entry of the leading dimension
      Ints ones;
      for (int64_t d = 1; d < int64_t(op.result()->type().rank()); ++d)
        ones.push_back(d);
      first = w.node("Unsqueeze", {first, w.integers(ones)});
    }
    either(w.node("GreaterOrEqual", {keys, w.node("Add", {first, w.extent(m)})}));
    position = w.node("Add", {position, first});
  }
  if (causal)
    either(
        w.node("Greater", {keys, w.node("Add", {position, w.integers({op.intAttr("causal")})})}));
  if (window)
    either(w.node("LessOrEqual",
                  {keys, w.node("Sub", {position, w.integers({op.intAttr("window")})})}));
  return hidden;
}

} // namespace

bool waitsForBias(const Operation &conv) {
  const Value *y = conv.result();
  if (!isFloat(y->type().element()) || !y->hasOneUse() || y->type().element() == Element::BF16)
    return false;
  const Operation &map = *y->firstUse()->owner();
  if (!map.is(Op::Map))
    return false;
  const unsigned at = y->firstUse()->index();
  const IntLists &maps = map.intListsAttr("maps");
  const Value *argument = map.region().argument(at);
  if (maps[at].size() != y->type().rank() || !argument->hasOneUse())
    return false;
  for (size_t d = 0; d < maps[at].size(); ++d)
    if (maps[at][d] != int64_t(d))
      return false;
  const Operation &add = *argument->firstUse()->owner();
  if (!add.is(Op::Add))
    return false;
  const Value *other = add.operand(1 - argument->firstUse()->index());
  if (!other->argumentOf())
    return false;
  // One number for each output channel, which are as many as the result has.
  const unsigned b = other->index();
  const Type bias = map.operand(b)->type();
  return maps[b].size() == 1 && maps[b][0] == 1 && bias.dim(0) == y->type().dim(1) &&
         map.operand(b) != y;
}

std::string exportConv(const Operation &op, const std::string &bias, Writer &w) {
  const Element e = op.operand(0)->type().element();
  if (!isFloat(e))
    return isInteger(e) && bitWidth(e) >= 32 ? w.refused("a convolution of " + name(e))
                                             : convInteger(op, w);
  return w.node("Conv", {w.name(op.operand(0)), w.name(op.operand(1)), bias}, windowAttributes(op));
}

bool exportContraction(Operation &op, Writer &w) {
  std::string y;
  if (op.is(Op::MatMul))
    y = product(op, w);
  else if (op.is(Op::ConvTranspose))
    y = w.node("ConvTranspose", {w.name(op.operand(0)), w.name(op.operand(1))},
               windowAttributes(op));
  else if (waitsForBias(op))
    return true;
  else
    y = exportConv(op, "", w);
  if (w.failed())
    return false;
  w.bind(op.result(), y);
  return true;
}

/// The sum of an attention's parts, which each have a dimension of the keys' space.
std::string sumOfParts(Operation &op, const AttentionOperands &at, Element e, Writer &w) {
  std::string sum;
  llvm::SmallVector<Dim, 6> shape; // of (leading dimensions…, queries)
  for (unsigned i = 0; i < at.factors; ++i) {
    const Value *part = op.operand(at.parts + i);
    Ints others; // from the end
    for (int64_t d = -int64_t(at.factors); d < 0; ++d)
      if (d != int64_t(i) - int64_t(at.factors))
        others.push_back(d);
    std::string x = w.name(part);
    if (part->type().element() != e)
      x = w.cast(x, e);
    x = others.empty() ? x : w.node("Unsqueeze", {x, w.integers(others)});
    sum = sum.empty() ? x : w.node("Add", {sum, x});
    llvm::SmallVector<Dim, 6> both;
    if (!broadcastShapes({shape, part->type().shape().drop_back(1)}, both))
      return w.refused("parts that do not broadcast");
    shape = both;
  }
  llvm::SmallVector<Dim, 6> whole = shape;
  for (int64_t f : op.intsAttr("factors"))
    whole.push_back(op.operand(0)->type().context().dim(f));
  const Type k = op.operand(1)->type();
  shape.push_back(k.dim(k.rank() - 2));
  return w.reshape(w.node("Expand", {sum, w.shape(whole)}), shape);
}

bool exportAttention(Operation &op, Writer &w) {
  const AttentionOperands at = attentionOperands(op);
  const Element e = op.operand(0)->type().element();
  const Element in = e == Element::F64 ? e : Element::F32;
  auto floats = [&](const std::string &x) { return e == in ? x : w.cast(x, in); };
  std::string s =
      w.node("MatMul", {floats(w.name(op.operand(0))), floats(w.swapped(op.operand(1)))});
  s = w.node("Mul", {s, w.scalar(in, op.floatAttr("scale"))});
  if (const double cap = op.floatAttr("softcap", 0); cap > 0) {
    const std::string c = w.scalar(in, cap);
    s = w.node("Mul", {w.node("Tanh", {w.node("Div", {s, c})}), c});
  }
  if (at.bias)
    s = w.node("Add", {s, op.operand(at.bias)->type().element() == in
                              ? w.name(op.operand(at.bias))
                              : w.cast(w.name(op.operand(at.bias)), in)});
  if (at.factors > 0)
    s = w.node("Add", {s, sumOfParts(op, at, in, w)});
  if (const std::string hidden = hiddenKeys(op, at, w); !hidden.empty())
    s = w.node("Where", {hidden, w.scalar(in, -std::numeric_limits<double>::infinity()), s});
  s = w.node("Softmax", {s}, {{"axis", int64_t(-1)}});
  if (op.boolAttr("zero_undefined"))
    s = w.node("Where", {w.node("IsNaN", {s}), w.scalar(in, 0), s});
  s = w.node("MatMul", {s, floats(w.name(op.operand(2)))});
  if (w.failed())
    return false;
  w.bind(op.result(), e == in ? s : w.cast(s, e));
  return true;
}

} // namespace tenon::exporter
