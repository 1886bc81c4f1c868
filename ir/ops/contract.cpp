// Contractions: sums of products over shared dimensions.
//
//   conv (x, w) {strides, dilations, pads, groups, precision}
//     x [N, C, spatial…], w [K, C/groups, kernel…] → [N, K, out…] with
//     y[n, k, o] = Σ_c Σ_t x[n, c, o · stride + t · dilation − pad] · w[k, c, t]
//     over the channels c of k's group; elements outside x count as 0 (as the zero point of x,
//     where there is one). `pads` holds all begins, then all ends. Any spatial rank from 1.
//   conv_transpose (x, w) {strides, dilations, pads, output_padding, groups}
//     w [C, K/groups, kernel…]: the scatter form, y[n, k, i · stride + t · dilation − pad] +=
//     x[n, c, i] · w[c, k, t]; out = (in − 1) · stride + output_padding + span − pads.
//   matmul (a, b) {trans_a, trans_b, precision, a_bits}
//     NumPy's matmul for ranks of at least 2: leading dimensions broadcast; trans_a and trans_b
//     swap the last two dimensions of an operand first.
//   matmul (a, b, b_scale, b_zero_point) {trans_a, trans_b = true, block, a_bits}
//     The same with floats a and integers b [n, k] of at most 8 bits, or f8e4m3, which stand for
//     (b − zero point) · scale: one of each, floats, for `block` elements along k and every row:
//     [n, ceil(k / block)].
// A bias is never an operand: it is a map behind the contraction, which targets fuse.
//
// Numeric rules. Floats: operands of one type, the sum is f32 (f64 for f64) in any order and is
// rounded once to the operands' type (of 8 bits: f32); the interpreter sums in double, and fused
// multiply-adds are allowed everywhere. `precision` is for f32: at tf32 operands are rounded to 11
// bits of significand first (ties away from zero); at tf32x3 targets may split each into two such
// parts and leave out the product of the low ones, which is less than sums in f32 lose. At
// `a_bits = 8` targets may round a to signed integers of 8 bits first, with a scale for each
// `block` elements along k of each row, as the interpreter does; without blocks it says nothing.
// 8-bit integers: the result is i32, the exact sum of (x − x_zero_point) · (w − w_zero_point),
// wrapping; zero points are scalars of the operand's type, that of w also one per output channel.
// 32- and 64-bit integers keep their type and wrap.
#include "ir/Builder.h"
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"

namespace tenon {
namespace {

bool is8Bit(Element e) { return e == Element::I8 || e == Element::U8; }
/// What may be multiplied with 8-bit weights.
bool isActivation(Element e) { return is8Bit(e) || e == Element::I16 || e == Element::U16; }

/// Element type of a contraction of x and w; operands from `firstZero` on are zero points.
bool contractElement(const Operation &op, Dim channels, Element &result, std::string &error) {
  const Element x = op.operand(0)->type().element(), w = op.operand(1)->type().element();
  if (isActivation(x) && is8Bit(w)) {
    result = Element::I32;
  } else if (x == w && isFloat(x) && bitWidth(x) == 8) {
    result = Element::F32;
  } else if (x == w && ((isFloat(x) && bitWidth(x) > 8) || (isInteger(x) && bitWidth(x) >= 32))) {
    result = x;
  } else {
    return fail(error, "element types " + name(x) + " and " + name(w) +
                           " do not multiply: expected two equal floats, integers of 8 or 16 bits "
                           "and of 8, or two equal 32- or 64-bit integers");
  }
  for (unsigned i = 2; i < op.numOperands(); ++i) {
    if (!checkTensor(op, i, -1, error))
      return false;
    Type z = op.operand(i)->type();
    if (!isActivation(x))
      return fail(error, "zero points need operands of 8 or 16 bits, found " + name(x));
    if (z.element() != op.operand(i - 2)->type().element())
      return fail(error,
                  op.info().operands[i].rtrim("?").split(' ').first + ": expected element type " +
                      name(op.operand(i - 2)->type().element()) + ", found " + name(z.element()));
    const bool one = z.rank() == 0 || (z.rank() == 1 && z.dim(0).isConstant(1));
    const bool perChannel = i == 3 && z.rank() == 1 && sameExtent(z.dim(0), channels);
    if (!one && !perChannel)
      return fail(error, op.info().operands[i].rtrim("?").split(' ').first + ": expected a scalar" +
                             (i == 3 ? " or one per output channel" : "") + ", found " +
                             toString(z));
  }
  return true;
}

/// b of integers with scales: operands 2 and 3 are floats [n, ceil(k / block)], of a's type; scales
/// may be f32.
bool checkScales(const Operation &op, Dim n, Dim k, std::string &error) {
  const Type a = op.operand(0)->type(), b = op.operand(1)->type();
  const int64_t block = op.intAttr("block");
  if (!isFloat(a.element()) || bitWidth(a.element()) < 16 ||
      (b.element() != Element::F8E4M3 && (!isInteger(b.element()) || bitWidth(b.element()) > 8)))
    return fail(error, "element types " + name(a.element()) + " and " + name(b.element()) +
                           " do not multiply by blocks: expected floats and integers of at most "
                           "8 bits or f8e4m3");
  if (b.rank() != 2 || !op.boolAttr("trans_b") || op.has("precision"))
    return fail(error,
                "b of blocks: expected rank 2, trans_b and no precision, found " + toString(b));
  if (block < 1 || op.numOperands() < 3)
    return fail(error, "attribute block: expected 1 or more and an operand b_scale, found " +
                           llvm::Twine(block));
  for (unsigned i = 2; i < op.numOperands(); ++i) {
    if (!checkTensor(op, i, 2, error))
      return false;
    const Type s = op.operand(i)->type();
    if ((s.element() != a.element() && (i > 2 || s.element() != Element::F32)) ||
        !sameExtent(s.dim(0), n) || !sameExtent(s.dim(1), ceilDiv(k, block)))
      return fail(error, (i == 2 ? "b_scale" : "b_zero_point") + llvm::Twine(": expected ") +
                             name(a.element()) +
                             (i == 2 && a.element() != Element::F32 ? " or f32" : "") + " for " +
                             text(n) + " rows of blocks of " + llvm::Twine(block) + ", found " +
                             toString(s));
  }
  return true;
}

bool checkPrecision(const Operation &op, std::string &error) {
  if (!op.has("precision"))
    return true;
  if (op.operand(0)->type().element() != Element::F32)
    return fail(error, "attribute precision: expected operands of f32, found " +
                           name(op.operand(0)->type().element()));
  return checkWord(op, "precision", {"tf32", "tf32x3"}, error);
}

bool checkRounding(const Operation &op, std::string &error) {
  if (!op.has("a_bits"))
    return true;
  const Element e = op.operand(0)->type().element();
  if (!isFloat(e))
    return fail(error, "attribute a_bits: expected operand a of floats, found " + name(e));
  if (op.intAttr("a_bits") != 8)
    return fail(error, "attribute a_bits: expected 8, found " + llvm::Twine(op.intAttr("a_bits")));
  return true;
}

/// The attributes that conv and conv_transpose share; gives the number of spatial dimensions.
bool checkConvForm(const Operation &op, unsigned &spatial, int64_t &groups, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  Type x = op.operand(0)->type();
  if (x.rank() < 3)
    return fail(error, "x: expected rank 3 or more, found " + llvm::Twine(x.rank()));
  if (!checkTensor(op, 1, int(x.rank()), error))
    return false;
  spatial = x.rank() - 2;
  groups = op.intAttr("groups", 1);
  if (groups < 1)
    return fail(error, "attribute groups: expected at least 1, found " + llvm::Twine(groups));
  for (unsigned i = 0; i < spatial; ++i)
    if (op.operand(1)->type().dim(i + 2).upper() < 1)
      return fail(error, "w: kernel has no elements: " + text(op.operand(1)->type().shape()));
  return checkInts(op, "strides", spatial, 1, true, error) &&
         checkInts(op, "dilations", spatial, 1, true, error) &&
         checkInts(op, "pads", 2 * spatial, 0, true, error);
}

/// Elements of x that one window touches: (kernel − 1) · dilation + 1.
Dim windowSpan(Dim kernel, int64_t dilation) { return (kernel - 1) * dilation + 1; }

bool inferConv(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  unsigned spatial;
  int64_t groups;
  if (!checkConvForm(op, spatial, groups, error))
    return false;
  Type x = op.operand(0)->type(), w = op.operand(1)->type();
  if (!sameExtent(w.dim(1) * groups, x.dim(1)))
    return fail(error, "w: expected " + text(floorDiv(x.dim(1), groups)) +
                           " input channels per group (x has " + text(x.dim(1)) + " in " +
                           llvm::Twine(groups) + " groups), found " + text(w.dim(1)));
  if (w.dim(0).isConstant() && w.dim(0).constant() % groups != 0)
    return fail(error, "w: " + text(w.dim(0)) + " output channels do not divide into " +
                           llvm::Twine(groups) + " groups");
  Element element;
  if (!contractElement(op, w.dim(0), element, error) || !checkPrecision(op, error))
    return false;
  llvm::SmallVector<Dim, 6> shape{x.dim(0), w.dim(0)};
  for (unsigned i = 0; i < spatial; ++i) {
    Dim padded = x.dim(i + 2) + intAt(op, "pads", i, 0) + intAt(op, "pads", spatial + i, 0);
    Dim span = windowSpan(w.dim(i + 2), intAt(op, "dilations", i, 1));
    Dim room = padded - span;
    if (room.upper() < 0)
      return fail(error, "window of " + text(span) + " exceeds the padded extent " + text(padded) +
                             " of dimension " + llvm::Twine(i + 2));
    shape.push_back(floorDiv(room, intAt(op, "strides", i, 1)) + 1);
  }
  results.push_back(Type::tensor(x.context(), element, shape));
  return true;
}

bool inferConvTranspose(const Operation &op, llvm::SmallVectorImpl<Type> &results,
                        std::string &error) {
  unsigned spatial;
  int64_t groups;
  if (!checkConvForm(op, spatial, groups, error) ||
      !checkInts(op, "output_padding", spatial, 0, true, error))
    return false;
  Type x = op.operand(0)->type(), w = op.operand(1)->type();
  if (x.element() != w.element() || !isFloat(x.element()) || bitWidth(x.element()) < 8)
    return fail(error, "expected two equal floating-point element types, found " +
                           name(x.element()) + " and " + name(w.element()));
  if (!sameExtent(w.dim(0), x.dim(1)))
    return fail(error,
                "w: expected " + text(x.dim(1)) + " input channels, found " + text(w.dim(0)));
  if (x.dim(1).isConstant() && x.dim(1).constant() % groups != 0)
    return fail(error, "x: " + text(x.dim(1)) + " channels do not divide into " +
                           llvm::Twine(groups) + " groups");
  llvm::SmallVector<Dim, 6> shape{x.dim(0), w.dim(1) * groups};
  for (unsigned i = 0; i < spatial; ++i) {
    Dim extent = (x.dim(i + 2) - 1) * intAt(op, "strides", i, 1) +
                 intAt(op, "output_padding", i, 0) +
                 windowSpan(w.dim(i + 2), intAt(op, "dilations", i, 1)) - intAt(op, "pads", i, 0) -
                 intAt(op, "pads", spatial + i, 0);
    if (extent.upper() < 0)
      return fail(error, "dimension " + llvm::Twine(i + 2) + ": pads leave a negative extent " +
                             text(extent));
    shape.push_back(extent);
  }
  results.push_back(Type::tensor(x.context(), x.element(), shape));
  return true;
}

bool inferMatMul(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error) || !checkTensor(op, 1, -1, error))
    return false;
  Type a = op.operand(0)->type(), b = op.operand(1)->type();
  if (a.rank() < 2 || b.rank() < 2)
    return fail(error, "expected rank 2 or more, found " + llvm::Twine(a.rank()) + " and " +
                           llvm::Twine(b.rank()));
  const bool ta = op.boolAttr("trans_a"), tb = op.boolAttr("trans_b");
  Dim m = a.dim(a.rank() - (ta ? 1 : 2)), ka = a.dim(a.rank() - (ta ? 2 : 1));
  Dim kb = b.dim(b.rank() - (tb ? 1 : 2)), n = b.dim(b.rank() - (tb ? 2 : 1));
  if (!sameExtent(ka, kb))
    return fail(error,
                "inner extents differ: expected " + text(ka) + " rows in b, found " + text(kb));
  llvm::SmallVector<Dim, 6> shape;
  if (!broadcastShapes({a.shape().drop_back(2), b.shape().drop_back(2)}, shape))
    return fail(error, "leading dimensions " + text(a.shape().drop_back(2)) + " and " +
                           text(b.shape().drop_back(2)) + " do not broadcast");
  shape.push_back(m);
  shape.push_back(n);
  Element element = a.element();
  if (op.has("block") ? !checkScales(op, n, kb, error)
                      : !contractElement(op, n, element, error) || !checkPrecision(op, error))
    return false;
  if (!checkRounding(op, error))
    return false;
  results.push_back(Type::tensor(a.context(), element, shape));
  return true;
}

const llvm::StringRef kConvOperands[] = {"x", "w", "x_zero_point?", "w_zero_point?"};
const llvm::StringRef kTransposeOperands[] = {"x", "w"};
const llvm::StringRef kMatMulOperands[] = {"a", "b", "a_zero_point or b_scale?", "b_zero_point?"};
constexpr AttrInfo kPrecision = {"precision", AttrKind::Word, false,
                                 "how f32 operands multiply: tf32 or tf32x3 (default: exactly)"};
const AttrInfo kConv[] = {
    {"strides", AttrKind::Ints, false, "per spatial dimension (default 1)"},
    {"dilations", AttrKind::Ints, false, "per spatial dimension (default 1)"},
    {"pads", AttrKind::Ints, false, "all begins, then all ends (default 0)"},
    {"groups", AttrKind::Int, false, "independent groups of channels (default 1)"},
    kPrecision,
};
const AttrInfo kConvTranspose[] = {
    {"strides", AttrKind::Ints, false, "per spatial dimension (default 1)"},
    {"dilations", AttrKind::Ints, false, "per spatial dimension (default 1)"},
    {"pads", AttrKind::Ints, false,
     "removed from the result: all begins, then all ends (default 0)"},
    {"output_padding", AttrKind::Ints, false, "added at the ends of the result (default 0)"},
    {"groups", AttrKind::Int, false, "independent groups of channels (default 1)"},
};
const AttrInfo kMatMul[] = {
    {"trans_a", AttrKind::Bool, false, "swap the last two dimensions of a (default false)"},
    {"trans_b", AttrKind::Bool, false, "swap the last two dimensions of b (default false)"},
    {"block", AttrKind::Int, false,
     "b holds integers: elements along k that share a scale and a zero point"},
    {"a_bits", AttrKind::Int, false,
     "8: floats of a may be rounded to so many bits, with a scale for each block of a row"},
    kPrecision,
};

} // namespace

llvm::ArrayRef<OpRow> contractOps() {
  static const OpRow kRows[] = {
      {Op::Conv,
       {"conv", "Convolution.", kConvOperands, kConv, 1, 0, OpTrait::None, inferConv, nullptr,
        evaluateConv}},
      {Op::ConvTranspose,
       {"conv_transpose", "Transposed convolution.", kTransposeOperands, kConvTranspose, 1, 0,
        OpTrait::None, inferConvTranspose, nullptr, evaluateConvTranspose}},
      {Op::MatMul,
       {"matmul", "Matrix product with broadcast leading dimensions.", kMatMulOperands, kMatMul, 1,
        0, OpTrait::None, inferMatMul, nullptr, evaluateMatMul}},
  };
  return kRows;
}

} // namespace tenon
