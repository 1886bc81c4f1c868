// Implements the 2-d normal form of convolutions and pools.
#include "codegen/ConvProblem.h"

namespace tenon {

llvm::Optional<ConvProblem> convProblem(const Operation &op, std::string &why) {
  const Type x = op.operand(0)->type(), y = op.result()->type();
  Context &c = x.context();
  ConvProblem p;
  p.spatialRank = int(x.rank()) - 2;
  if (p.spatialRank < 1 || p.spatialRank > 2) {
    why = std::to_string(p.spatialRank) + " spatial dimensions; kernels take one or two";
    return llvm::None;
  }
  const bool flat = p.spatialRank == 1;
  auto pair = [&](const Ints &v, int64_t otherwise, int64_t &h, int64_t &w) {
    h = flat || v.empty() ? otherwise : v[0];
    w = v.empty() ? otherwise : v[flat ? 0 : 1];
  };
  pair(op.intsAttr("strides"), 1, p.strideH, p.strideW);
  pair(op.intsAttr("dilations"), 1, p.dilationH, p.dilationW);
  pair(op.intsAttr("pads"), 0, p.padTop, p.padLeft);
  if (flat) {
    p.strideH = p.dilationH = 1;
    p.padTop = 0;
  }
  p.batch = x.dim(0);
  p.inHeight = flat ? c.dim(1) : x.dim(2);
  p.outHeight = flat ? c.dim(1) : y.dim(2);
  p.inWidth = x.dim(flat ? 2 : 3);
  p.outWidth = y.dim(flat ? 2 : 3);
  if (op.is(Op::Pool)) {
    pair(op.intsAttr("kernel"), 1, p.kernelH, p.kernelW);
    if (flat)
      p.kernelH = 1;
    return p;
  }
  const Type w = op.operand(1)->type();
  if (!w.hasStaticShape()) {
    why = "weights of a shape known only at run time";
    return llvm::None;
  }
  p.groups = op.intAttr("groups", 1);
  p.channels = w.dim(1).constant();
  p.filters = w.dim(0).constant() / std::max<int64_t>(p.groups, 1);
  p.kernelH = flat ? 1 : w.dim(2).constant();
  p.kernelW = w.dim(flat ? 2 : 3).constant();
  return p;
}

Strides inPlane(const Strides &s, const ConvProblem &p) {
  if (p.spatialRank == 2)
    return s;
  Strides r = s;
  r.strides.insert(r.strides.begin() + 2, s.strides[2] * p.inWidth);
  return r;
}

bool mergesPlane(const Strides &plane, Dim width) {
  return plane.strides[2] == plane.strides[3] * width;
}

} // namespace tenon
