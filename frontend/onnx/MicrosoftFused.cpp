// Imports what ONNX Runtime's optimisers write in place of several floating-point operators
// (com.microsoft): products and convolutions with what follows them, biases with the function
// behind them. Each is taken apart again.
#include "frontend/onnx/Activation.h"
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {
namespace {

/// Applies the node's activation to result 0, which an importer has set.
void activate(Node &n) {
  auto f = readFusedActivation(n);
  if (auto y = n.output(0); f && y)
    n.set(0, (*f)(n.b, y->tensor()));
}

/// Operand i is [C] for the last extent C of operand 0; reports otherwise.
bool checkLastBias(Node &n, unsigned i) {
  if (n.checkRank(0, 1) && n.rank(i) == 1 && n.type(i).dim(0) == n.type(0).dim(n.rank(0) - 1))
    return true;
  n.error("operand " + n.inputName(i) +
          ": expected one bias per element of the last dimension of " + toString(n.type(0)) +
          ", found " + toString(n.type(i)));
  return false;
}

} // namespace

void importFusedConv(Node &n) { // x, w, bias?, residual? in the shape of the result
  importConv(n);
  auto y = n.output(0);
  if (!y)
    return;
  if (n.has(3)) {
    if (n.type(3) != y->tensor()->type()) {
      n.error("operand " + n.inputName(3) + ": expected what is added to the result, " +
              toString(y->tensor()->type()) + ", found " + toString(n.type(3)));
      return;
    }
    n.set(0, n.b.pointwise(Op::Add, {y->tensor(), n.input(3)}));
  }
  activate(n);
}

void importFusedGemm(Node &n) {
  importGemm(n);
  activate(n);
}

void importFusedMatMulActivation(Node &n) {
  importFusedMatMul(n);
  activate(n);
}

void importGemmFastGelu(Node &n) { // x, w, bias?
  Value *y = matmul(n.b, n.input(0), n.input(1), {}, {});
  if (y && n.has(2))
    y = n.b.pointwise(Op::Add, {y, n.input(2)});
  if (y)
    n.set(0, pointwise(n.b, {y},
                       [](Scalars &s, llvm::ArrayRef<Value *> a) { return gelu(s, a[0], true); }));
}

void importBiasAdd(Node &n) { // x + bias + residual
  if (!n.checkFloat(0) || !checkLastBias(n, 1))
    return;
  if (n.type(2).shape() != n.type(0).shape()) {
    n.error("operand " + n.inputName(2) + ": expected the shape of " + toString(n.type(0)) +
            ", found " + toString(n.type(2)));
    return;
  }
  n.set(0, pointwise(n.b, n.inputs(), [](Scalars &s, llvm::ArrayRef<Value *> a) {
          return s(Op::Add, s(Op::Add, a[0], a[1]), a[2]);
        }));
}

void importBiasSplitGelu(Node &n) { // the first half of x + bias times gelu of the second
  if (!n.checkFloat(0) || !checkLastBias(n, 1))
    return;
  const int64_t axis = n.rank(0) - 1;
  const Dim width = n.type(0).dim(unsigned(axis)), half = floorDiv(width, 2);
  if (half * 2 != width) {
    n.error("expected an even last extent, found " + toString(n.type(0)));
    return;
  }
  auto part = [&](unsigned i, int64_t along, Dim start) {
    return sliceAlong(n.b, n.input(i), along, start, half, 1);
  };
  n.set(0, pointwise(n.b,
                     {part(0, axis, n.dim(0)), part(1, 0, n.dim(0)), part(0, axis, half),
                      part(1, 0, half)},
                     [](Scalars &s, llvm::ArrayRef<Value *> a) {
                       Value *gate = gelu(s, s(Op::Add, a[2], a[3]), false);
                       return s(Op::Mul, s(Op::Add, a[0], a[1]), gate);
                     }));
}

void importBiasDropout(Node &n) { // data + bias + residual?: nothing is dropped
  enum { Data, Bias, Residual, Ratio, Training };
  if (auto training = n.knownOperand(Training); n.has(Training) && (!training || training->at(0))) {
    n.error("operand " + n.inputName(Training) + ": expected false, for training is not supported");
    return;
  }
  llvm::SmallVector<Value *, 3> operands{n.input(Data), n.input(Bias)};
  if (n.has(Residual))
    operands.push_back(n.input(Residual));
  Value *y = pointwise(n.b, operands, [](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *v = s(Op::Add, a[0], a[1]);
    return a.size() > 2 ? s(Op::Add, v, a[2]) : v;
  });
  n.set(0, y);
  if (y && n.wants(1))
    n.set(1, n.b.broadcastTo(n.b.scalarConstant(Element::Bool, 1), y->type().shape()));
}

void importBiasSoftmax(Node &n) {
  // is_inner_broadcast says which kernel fits the shapes, which say all themselves.
  n.intAttr("is_inner_broadcast", 0);
  auto axis = n.checkFloat(0) ? n.axis(n.intAttr("axis", 1), n.rank(0)) : llvm::None;
  Value *x = axis ? n.b.pointwise(Op::Add, {n.input(0), n.input(1)}) : nullptr;
  if (x && x->type().shape() != n.type(0).shape()) {
    n.error("operand " + n.inputName(1) + ": expected a shape that broadcasts to " +
            toString(n.type(0)) + ", found " + toString(n.type(1)));
    return;
  }
  n.set(0, x ? softmaxFrom(n.b, x, *axis) : nullptr);
}

} // namespace tenon::frontend
