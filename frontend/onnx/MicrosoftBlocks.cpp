// Imports com.microsoft's operators on constants of a few bits in blocks, each block with a scale:
// a product with weights of four-bit floats, and a gather of rows that become numbers once picked.
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Quantize.h"

namespace tenon::frontend {
namespace {

// What the sixteen codes stand for, as fractions of the block's largest magnitude. FP4: a sign, two
// bits of exponent, one of significand, over 12. NF4: quantiles of the normal distribution.
constexpr double kFp4[16] = {
    0,    5.208333333e-03f,  0.66666667f,  1,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.0, -5.208333333e-03f, -0.66666667f, -1, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
constexpr double kNf4[16] = {-1.0,
                             -0.6961928009986877,
                             -0.5250730514526367,
                             -0.39491748809814453,
                             -0.28444138169288635,
                             -0.18477343022823334,
                             -0.09105003625154495,
                             0.0,
                             0.07958029955625534,
                             0.16093020141124725,
                             0.24611230194568634,
                             0.33791524171829224,
                             0.44070982933044434,
                             0.5626170039176941,
                             0.7229568362236023,
                             1.0};

} // namespace

void importMatMulBnb4(Node &n) {
  // y = a · wᵀ (or a · w) with w [N, K] as one sequence of codes, two a byte, the high one first.
  enum { A, Codes, Largest };
  const int64_t columns = n.intAttr("K", 0), rows = n.intAttr("N", 0),
                block = n.intAttr("block_size", 0), type = n.intAttr("quant_type", -1);
  n.boolAttr("training_mode", false); // the product is the same
  if (!n.checkRank(A, 1) || !n.checkFloat(A))
    return;
  if (columns < 1 || rows < 1 || block < 1 || rows > INT32_MAX || columns > INT32_MAX ||
      block > INT32_MAX || (type != 0 && type != 1)) {
    n.error("attributes K, N, block_size and quant_type: expected extents and 0, FP4, or 1, NF4, "
            "found " +
            std::to_string(columns) + ", " + std::to_string(rows) + ", " + std::to_string(block) +
            " and " + std::to_string(type));
    return;
  }
  auto codes = n.constantOperand(Codes);
  if (!codes)
    return;
  const int64_t count = rows * columns, blocks = (count + block - 1) / block;
  if (codes->element() != Element::U8 || codes->size() != (count + 1) / 2 ||
      n.element(Largest) != n.element(A) || !n.type(Largest).elements().isConstant(blocks)) {
    n.error("expected " + std::to_string((count + 1) / 2) + " bytes of codes and " +
            std::to_string(blocks) + " largest magnitudes of type " + name(n.element(A)).str() +
            ", found " + toString(n.type(Codes)) + " and " + toString(n.type(Largest)));
    return;
  }
  Tensor numbers(Element::U4, {blocks, block});
  for (int64_t i = 0; i < count; ++i)
    numbers.setInt(i, i % 2 ? codes->intAt(i / 2) & 15 : codes->intAt(i / 2) >> 4);
  Tensor table(n.element(A), {16});
  for (int64_t i = 0; i < 16; ++i)
    table.set(i, type ? kNf4[i] : kFp4[i]);
  const Dim nBlocks = n.dim(blocks);
  Value *fractions =
      n.b.value(Op::Gather, {n.b.constant(table), n.b.cast(n.b.constant(numbers), Element::I32)},
                {{"axis", int64_t(0)}});
  Value *w = pointwise(n.b, {fractions, n.b.reshape(n.input(Largest), {nBlocks})}, {{0, 1}, {0}},
                       {nBlocks, n.dim(block)}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
                         return s(Op::Mul, a[0], a[1]);
                       });
  w = w ? n.b.reshape(w, {n.dim(blocks * block)}) : nullptr;
  if (w && blocks * block != count)
    w = sliceAlong(n.b, w, 0, n.dim(0), n.dim(count), 1);
  w = w ? n.b.reshape(w, {n.dim(rows), n.dim(columns)}) : nullptr;
  n.set(0, matmul(n.b, n.input(A), w, {}, {{"trans_b", n.boolAttr("transB", true)}}));
}

namespace {

/// GatherBlockQuantized's operands and attributes.
struct BlockGather {
  enum { Data, Indices, Scales, Zeros };
  Node &n;
  int64_t gatherAxis = 0, quantAxis = 0, block = 0, bits = 0;
  bool packed = false; // several elements a byte, along the last dimension, the low one first
  Dim extent = {};     // elements along quantAxis

  /// Where the dimension quantAxis is once the rows are picked.
  int64_t pickedAxis() const {
    return quantAxis > gatherAxis ? quantAxis + int64_t(n.rank(Indices)) - 1 : quantAxis;
  }

  bool read() {
    const Element e = n.element(Data);
    const bool bytes = e == Element::U8, floats = isFloat(e) && bitWidth(e) <= 8;
    bits = n.intAttr("bits", 4);
    block = n.intAttr("block_size", 128);
    if (!n.checkRank(Data, 1) || !n.checkRank(Scales, n.rank(Data), n.rank(Data)))
      return false;
    auto g = n.axis(n.intAttr("gather_axis", 0), n.rank(Data));
    auto q = n.axis(n.intAttr("quantize_axis", 1), n.rank(Data));
    if (!g || !q)
      return false;
    gatherAxis = *g;
    quantAxis = *q;
    const int64_t last = int64_t(n.rank(Data)) - 1;
    if (!bytes && !floats && e != Element::I4 && e != Element::U4)
      return fail("operand " + n.inputName(Data) +
                  ": expected bytes, integers of 4 bits or floats "
                  "of at most 8, found " +
                  toString(n.type(Data)));
    if (!floats && (bytes ? bits != 2 && bits != 4 && bits != 8 : bits != 4))
      return fail("attribute bits: expected " + std::string(bytes ? "2, 4 or 8" : "4") +
                  ", found " + std::to_string(bits));
    packed = bytes && bits < 8;
    if (packed && (gatherAxis == last || quantAxis != last))
      return fail("bytes of several elements: expected quantize_axis to be the last dimension and "
                  "gather_axis another, found " +
                  std::to_string(quantAxis) + " and " + std::to_string(gatherAxis));
    extent = n.type(Data).dim(unsigned(quantAxis));
    if (packed)
      extent = extent * (8 / bits);
    if (floats && block == 0 && extent.isConstant())
      block = std::max<int64_t>(1, extent.constant());
    if (block < 1)
      return fail("attribute block_size: expected a positive number, found " +
                  std::to_string(block));
    return checkParameters(floats);
  }

  /// `v` at the indices along gatherAxis, elements below a byte widened.
  Value *picked(Value *v, Value *indices) const {
    if (!v || !indices)
      return nullptr;
    const Element e = v->type().element();
    if (bitWidth(e) < 8)
      v = n.b.cast(v, isFloat(e) ? Element::F32 : isSignedInt(e) ? Element::I8 : Element::U8);
    return v ? n.b.value(Op::Gather, {v, indices}, {{"axis", gatherAxis}}) : nullptr;
  }

  /// The elements in the bytes of `v`, `count` of them along the last dimension.
  Value *unpacked(Value *v, Dim count) const {
    if (!v)
      return nullptr;
    Shape space(v->type().shape().begin(), v->type().shape().end());
    const Dim all = space.back() * (8 / bits);
    const unsigned rank = v->type().rank();
    space.push_back(n.dim(8 / bits));
    Value *parts =
        pointwise(n.b, {v}, {identityMap(rank)}, space, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          Value *shift =
              s.cast(s(Op::Mul, s.index(rank), s.b.scalarInt(Element::I64, bits)), s.type);
          return s(Op::BitAnd, s(Op::ShiftRight, a[0], shift),
                   s.b.scalarInt(s.type, (1 << bits) - 1));
        });
    space.pop_back();
    space.back() = all;
    Value *flat = parts ? n.b.reshape(parts, space) : nullptr;
    return flat && all != count ? sliceAlong(n.b, flat, rank - 1, n.dim(0), count, 1) : flat;
  }

  /// Scales or zero points spread over the elements of their blocks: entry i / block of `v` along
  /// `axis`, where there are `count` elements.
  Value *spread(Value *v, int64_t axis) const {
    if (!v || v->type().dim(unsigned(axis)).isConstant(1))
      return v;
    Value *at = generate(n.b, Element::I64, {extent}, [&](Scalars &s, llvm::ArrayRef<Value *>) {
      return s(Op::Div, s.index(0), s.b.scalarInt(Element::I64, block));
    });
    return at ? n.b.value(Op::Gather, {v, at}, {{"axis", axis}}) : nullptr;
  }

  /// Entries of scales or zero points for the picked elements.
  Value *parameter(Value *v, Value *indices) const {
    if (!v)
      return nullptr;
    if (quantAxis == gatherAxis)
      return picked(spread(v, quantAxis), indices);
    if (v->type().dim(unsigned(gatherAxis)).isConstant(1) && !one()) { // the same for all
      Shape shape(v->type().shape().begin(), v->type().shape().end());
      shape.erase(shape.begin() + gatherAxis);
      shape.insert(shape.begin() + gatherAxis, n.rank(Indices), n.dim(1));
      return spread(n.b.reshape(v, shape), pickedAxis());
    }
    return spread(picked(v, indices), pickedAxis());
  }

  /// The elements along gatherAxis are one.
  bool one() const { return n.type(Data).dim(unsigned(gatherAxis)).isConstant(1); }

private:
  bool fail(std::string message) const {
    n.error(std::move(message));
    return false;
  }
  bool checkParameters(bool floats) const {
    const Type data = n.type(Data), scales = n.type(Scales);
    for (unsigned d = 0; d < data.rank(); ++d) {
      const Dim wanted = d == quantAxis ? ceilDiv(extent, block) : data.dim(d);
      if (scales.dim(d) != wanted && !(floats && d != quantAxis && scales.dim(d).isConstant(1)))
        return fail("operand " + n.inputName(Scales) + ": expected one scale for each block of " +
                    std::to_string(block) + " elements of " + toString(data) + ", found " +
                    toString(scales));
    }
    if (!n.has(Zeros))
      return true;
    const Type zeros = n.type(Zeros);
    Shape wanted(scales.shape().begin(), scales.shape().end());
    if (packed)
      wanted.back() = ceilDiv(wanted.back(), 8 / bits);
    if (floats || zeros.element() != data.element() || zeros.shape() != llvm::ArrayRef<Dim>(wanted))
      return fail("operand " + n.inputName(Zeros) + ": expected " +
                  (floats ? "no zero points of floats"
                          : "one zero point for each scale, stored as the data") +
                  ", found " + toString(zeros));
    return true;
  }
};

} // namespace

void importGatherBlockQuantized(Node &n) {
  using G = BlockGather;
  BlockGather g{n};
  if (!g.read())
    return;
  // An index out of range picks zeros.
  auto isBeyond = [](Scalars &s, Value *index, Value *count) {
    return s(Op::LogicalOr, s(Op::Less, index, s(Op::Neg, count)),
             s(Op::GreaterEqual, index, count));
  };
  Value *count = extentProduct(n.b, n.input(G::Data), {g.gatherAxis}, n.element(G::Indices));
  Value *indices =
      pointwise(n.b, {n.input(G::Indices), count}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
        return s(Op::Select, isBeyond(s, a[0], a[1]), s.b.scalarInt(s.type, 0), a[0]);
      });
  Value *data = g.picked(n.input(G::Data), indices);
  if (g.packed && data)
    data = g.unpacked(data, g.extent);
  Value *scale = g.parameter(n.input(G::Scales), indices);
  if (!data || !scale)
    return;
  const unsigned rank = data->type().rank();
  llvm::SmallVector<Value *, 4> operands{data, scale};
  std::vector<IndexMap> maps{identityMap(rank), broadcastMap(scale->type(), data->type().shape())};
  IndexMap along;
  for (unsigned d = 0; d < n.rank(G::Indices); ++d)
    along.push_back(g.gatherAxis + d);
  operands.push_back(n.input(G::Indices));
  maps.push_back(along);
  operands.push_back(count);
  maps.push_back({});
  if (n.has(G::Zeros)) {
    Value *zeros = n.input(G::Zeros);
    if (g.packed)
      zeros = g.unpacked(zeros, n.type(G::Scales).dim(n.rank(G::Scales) - 1));
    zeros = g.parameter(zeros, indices);
    if (!zeros)
      return;
    operands.push_back(zeros);
    maps.push_back(broadcastMap(zeros->type(), data->type().shape()));
  }
  const Element e = n.element(G::Scales), wide = computeType(e);
  const double middle = n.element(G::Data) == Element::U8 ? double(1 << (g.bits - 1)) : 0;
  n.set(0, pointwise(n.b, operands, maps, data->type().shape(),
                     [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                       Value *zero = a.size() > 4 ? s.cast(a[4], wide) : s.c(wide, middle);
                       Value *v =
                           s(Op::Mul, s(Op::Sub, s.cast(a[0], wide), zero), s.cast(a[1], wide));
                       return s.cast(s(Op::Select, isBeyond(s, a[2], a[3]), s.c(wide, 0), v), e);
                     }));
}

} // namespace tenon::frontend
