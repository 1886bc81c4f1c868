// Imports com.microsoft's quantised operators: functions between a dequantisation and a
// quantisation, exact integer products, and products with weights of a few bits.
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Quantize.h"

namespace tenon::frontend {

Value *real(Node &n, unsigned x) {
  if (!n.has(x) || !checkOne(n, {x + 1}))
    return nullptr;
  Value *v = n.input(x);
  Value *zero =
      n.has(x + 2) ? asScalar(n.b, n.input(x + 2)) : n.b.scalarConstant(v->type().element(), 0);
  return pointwise(
      n.b, {v, asScalar(n.b, n.input(x + 1)), zero},
      [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Dequantize, a[0], a[1], a[2]); });
}

Value *quantized(Node &n, Value *y, unsigned scale, Element otherwise) {
  if (!y || !checkOne(n, {scale}))
    return nullptr;
  Value *zero =
      n.has(scale + 1) ? asScalar(n.b, n.input(scale + 1)) : n.b.scalarConstant(otherwise, 0);
  return pointwise(
      n.b, {y, asScalar(n.b, n.input(scale)), zero},
      [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Quantize, a[0], a[1], a[2]); });
}

llvm::Optional<Tensor> unpacked(Node &n, unsigned i, int64_t bits, int64_t rows) {
  auto bytes = n.constantOperand(i);
  if (!bytes)
    return llvm::None;
  if (bytes->element() != Element::U8 || rows < 1 || bytes->size() % rows) {
    n.error("operand " + n.inputName(i) + ": expected bytes for " + std::to_string(rows) +
            " rows, found " + toString(n.type(i)));
    return llvm::None;
  }
  const Element e = bits == 2 ? Element::U2 : bits == 4 ? Element::U4 : Element::U8;
  return bytes->reinterpreted(e, {rows, bytes->size() / rows * 8 / bits});
}

Value *dequantizedBlocks(Builder &b, Value *units, Value *scales, Value *zeros) {
  if (!units || !scales)
    return nullptr;
  const Type t = units->type();
  const Element stored = t.element(), e = scales->type().element();
  const IndexMap whole = identityMap(t.rank()), block = identityMap(t.rank() - 1);
  llvm::SmallVector<Value *, 3> operands{units, scales};
  std::vector<IndexMap> maps{whole, block};
  if (zeros) {
    operands.push_back(zeros);
    maps.push_back(block);
  }
  return pointwise(b, operands, maps, t.shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    if (a.size() < 3)
      return s(Op::Dequantize, a[0], a[1], s.c(1 << (bitWidth(stored) - 1)));
    if (a[2]->type().element() == stored)
      return s(Op::Dequantize, a[0], a[1], a[2]);
    const Element wide = computeType(e);
    Value *v = s(Op::Sub, s.cast(a[0], wide), s.cast(a[2], wide));
    return s.cast(s(Op::Mul, v, s.cast(a[1], wide)), e);
  });
}

namespace {

/// x, x_scale, x_zero, y_scale, y_zero.
void between(Node &n, llvm::function_ref<Value *(Value *)> function) {
  Value *x = real(n, 0);
  n.set(0, quantized(n, x ? function(x) : nullptr, 3, n.element(0)));
}

} // namespace

void importQLinearSigmoid(Node &n) {
  between(n, [&](Value *x) { return n.b.pointwise(Op::Sigmoid, {x}); });
}

void importQLinearLeakyRelu(Node &n) {
  const double alpha = n.floatAttr("alpha", 0.01f);
  between(n, [&](Value *x) {
    return pointwise(n.b, {x}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s(Op::Select, s(Op::Less, a[0], s.c(0)), s(Op::Mul, a[0], s.c(alpha)), a[0]);
    });
  });
}

void importQLinearAveragePool(Node &n) {
  const auto pool = [](Node &n) { between(n, [&](Value *x) { return averagePool(n, x); }); };
  n.boolAttr("channels_last", false) ? importChannelsLast(n, pool, {0}) : pool(n);
}

void importQLinearGlobalAveragePool(Node &n) {
  if (!n.checkRank(0, 3))
    return;
  const int64_t rank = n.rank(0);
  const Ints axes = n.boolAttr("channels_last", false) ? allAxes(1, rank - 1) : allAxes(2, rank);
  between(n, [&](Value *x) { return keepDims(n.b, mean(n.b, x, axes), x->type(), axes); });
}

void importQLinearSoftmax(Node &n) {
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (!axis)
    return;
  const bool flattens = n.intAttr("opset", 13) < 13; // all dimensions from the axis on
  between(n, [&](Value *x) {
    return flattens ? softmaxFrom(n.b, x, *axis) : n.b.value(Op::Softmax, {x}, {{"axis", *axis}});
  });
}

void importQLinearConcat(Node &n) {
  // y_scale, y_zero, then x, scale and zero point of each piece.
  if (n.numInputs() < 5 || (n.numInputs() - 2) % 3 || !n.has(2)) {
    n.error("expected y_scale, y_zero_point and three operands for each piece, found " +
            std::to_string(n.numInputs()) + " operands");
    return;
  }
  auto axis = n.axis(n.intAttr("axis", 1), n.rank(2));
  llvm::SmallVector<Value *, 4> pieces;
  for (unsigned i = 2; axis && i < n.numInputs(); i += 3) {
    pieces.push_back(quantized(n, real(n, i), 0, n.element(2)));
    if (!pieces.back())
      return;
  }
  n.set(0, axis ? n.b.value(Op::Concat, pieces, {{"axis", *axis}}) : nullptr);
}

void importQLinearWhere(Node &n) { // condition, then x, y and the result with their parameters
  Value *x = real(n, 1), *y = real(n, 4);
  Value *picked = x && y ? n.b.pointwise(Op::Select, {n.input(0), x, y}) : nullptr;
  n.set(0, quantized(n, picked, 7, n.element(1)));
}

void importQLinearReduceMean(Node &n) {
  Ints given = n.intsAttr("axes");
  auto axes = n.axes(given.empty() ? allAxes(0, n.rank(0)) : given, n.rank(0));
  if (!axes)
    return;
  const bool keep = n.boolAttr("keepdims", true);
  between(n, [&](Value *x) {
    Value *y = mean(n.b, x, *axes);
    return keep ? keepDims(n.b, y, x->type(), *axes) : y;
  });
}

void importQGemm(Node &n) {
  enum { A, AScale, AZero, B, BScale, BZero, C, YScale, YZero };
  if (!n.has(B) || !n.checkRank(A, 2, 2) || !n.checkRank(B, 2, 2) || !checkOne(n, {AScale}) ||
      !n.has(BScale))
    return;
  const bool transB = n.boolAttr("transB", false);
  Value *acc =
      matmul(n.b, n.input(A), n.input(B), zeroPoints(n, n.input(A), n.input(AZero), n.input(BZero)),
             {{"trans_a", n.boolAttr("transA", false)}, {"trans_b", transB}});
  if (acc && n.has(C)) // in units of the product of scales
    acc = n.b.pointwise(Op::Add, {acc, n.input(C)});
  Value *scale = acc ? productOfScales(n, AScale, BScale) : nullptr;
  const double alpha = n.floatAttr("alpha", 1);
  if (scale && alpha != 1)
    scale = pointwise(n.b, {scale}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s(Op::Mul, a[0], s.c(alpha));
    });
  if (!scale)
    return;
  if (n.has(YScale)) {
    if (checkOne(n, {YScale, YZero}))
      n.set(0, requantize(n, acc, scale, n.input(YScale), n.input(YZero), 1));
    return;
  }
  const IndexMap map = scale->type().rank() == 0 ? IndexMap() : along(1);
  n.set(0, pointwise(n.b, {acc, scale}, {identityMap(2), map}, acc->type().shape(),
                     [](Scalars &s, llvm::ArrayRef<Value *> a) {
                       return s(Op::Dequantize, a[0], a[1], s.c(0));
                     }));
}

void importMatMulNBits(Node &n) {
  // y = a · wᵀ with w [N, K] in blocks along K, each with a scale and a zero point.
  enum { A, B, Scales, Zeros, Groups, Bias };
  const int64_t columns = n.intAttr("K", 0), rows = n.intAttr("N", 0), bits = n.intAttr("bits", 4),
                block = n.intAttr("block_size", 0);
  if (!n.checkRank(A, 1) || !n.checkFloat(A))
    return;
  if (columns < 1 || rows < 1 || block < 1 || (bits != 2 && bits != 4 && bits != 8)) {
    n.error("attributes K, N, block_size and bits: expected extents and 2, 4 or 8 bits, found " +
            std::to_string(columns) + ", " + std::to_string(rows) + ", " + std::to_string(block) +
            " and " + std::to_string(bits));
    return;
  }
  if (n.has(Groups)) {
    n.error("operand " + n.inputName(Groups) + ": an order of the columns is not supported");
    return;
  }
  const int64_t blocks = (columns + block - 1) / block;
  auto weights = unpacked(n, B, bits, rows);
  if (!weights)
    return;
  if (weights->shape()[1] != blocks * block ||
      !n.type(Scales).elements().isConstant(rows * blocks)) {
    n.error("expected " + std::to_string(blocks) + " blocks of " + std::to_string(block) +
            " weights and a scale each in " + std::to_string(rows) + " rows, found " +
            toString(n.type(B)) + " and " + toString(n.type(Scales)));
    return;
  }
  const Dim nRows = n.dim(rows), nBlocks = n.dim(blocks);
  Value *zeros = nullptr;
  if (n.has(Zeros) && n.element(Zeros) == Element::U8) {
    auto packed = unpacked(n, Zeros, bits, rows);
    if (!packed)
      return;
    zeros = sliceAlong(n.b, n.b.constant(*packed), 1, n.dim(0), nBlocks, 1);
  } else if (n.has(Zeros)) {
    zeros = n.b.reshape(n.input(Zeros), {nRows, nBlocks});
  }
  if (n.has(Zeros) && !zeros)
    return;
  Value *dense = dequantizedBlocks(n.b, n.b.constant(weights->reshaped({rows, blocks, block})),
                                   n.b.reshape(n.input(Scales), {nRows, nBlocks}), zeros);
  dense = dense ? n.b.reshape(dense, {nRows, n.dim(blocks * block)}) : nullptr;
  if (dense && blocks * block != columns)
    dense = sliceAlong(n.b, dense, 1, n.dim(0), n.dim(columns), 1);
  if (!dense)
    return;
  NamedAttributes attributes{{"trans_b", true}};
  if (n.intAttr("accuracy_level", 0) == 4) // a may be rounded to 8 bits, by blocks as w is
    attributes.insert({"a_bits", int64_t(8)});
  Value *y = matmul(n.b, n.input(A), dense, {}, std::move(attributes));
  n.set(0, y && n.has(Bias) ? n.b.pointwise(Op::Add, {y, n.input(Bias)}) : y);
}

void importMatMulBlockQuantizedFp8Weight(Node &n) {
  // y = a · wᵀ with w [N, K] of float8e4m3fn and a scale for each block along K; where `a` has a
  // scale, too, it is rounded to such numbers.
  enum { A, B, Scales, AScale, Bias };
  const int64_t block = n.intAttr("block_size", 128);
  if (!n.checkRank(A, 1) || !n.checkFloat(A) || !n.checkRank(B, 2, 2) || !n.checkRank(Scales, 2, 2))
    return;
  const Element e = n.element(A), stored = n.element(B);
  const Type w = n.type(B);
  if (stored != Element::F8E4M3 || block < 1 || !w.hasStaticShape()) {
    n.error("operand " + n.inputName(B) + ": expected float8e4m3fn in blocks, found " +
            toString(w) + " and block_size " + std::to_string(block));
    return;
  }
  const int64_t rows = w.dim(0).constant(), columns = w.dim(1).constant();
  const int64_t blocks = (columns + block - 1) / block, each = std::min(block, columns);
  if (!n.type(Scales).dim(0).isConstant(rows) || !n.type(Scales).dim(1).isConstant(blocks)) {
    n.error("operand " + n.inputName(Scales) + ": expected " + std::to_string(rows) + " x " +
            std::to_string(blocks) + " scales, found " + toString(n.type(Scales)));
    return;
  }
  Value *q = n.input(B);
  const bool isRagged = blocks * each != columns;
  if (isRagged) {
    const Dims none(2, n.dim(0)), high{n.dim(0), n.dim(blocks * each - columns)};
    q = n.b.value(Op::Pad, {q}, {{"low", none}, {"high", high}, {"mode", Word{"constant"}}});
  }
  const auto number = [&](Scalars &s, Value *q, Value *scale) {
    return s.cast(s(Op::Dequantize, q, scale, s.c(stored, 0)), e);
  };
  q = n.b.reshape(q, {n.dim(rows), n.dim(blocks), n.dim(each)});
  Value *dense =
      pointwise(n.b, {q, n.input(Scales)}, {identityMap(3), identityMap(2)}, q->type().shape(),
                [&](Scalars &s, llvm::ArrayRef<Value *> a) { return number(s, a[0], a[1]); });
  dense = n.b.reshape(dense, {n.dim(rows), n.dim(blocks * each)});
  if (isRagged)
    dense = sliceAlong(n.b, dense, 1, n.dim(0), n.dim(columns), 1);
  Value *a = n.input(A);
  if (n.has(AScale)) {
    if (!checkOne(n, {AScale}))
      return;
    a = pointwise(n.b, {a, asScalar(n.b, n.input(AScale))},
                  [&](Scalars &s, llvm::ArrayRef<Value *> v) {
                    Value *wide = s.cast(v[0], v[1]->type().element());
                    return number(s, castNarrow(s, s(Op::Div, wide, v[1]), stored, true), v[1]);
                  });
  }
  Value *y = matmul(n.b, a, dense, {}, {{"trans_b", true}});
  n.set(0, y && n.has(Bias) ? n.b.pointwise(Op::Add, {y, n.input(Bias)}) : y);
}

} // namespace tenon::frontend
