// Implements the normal form of convolutions and pools.
#include "codegen/core/ConvProblem.h"

namespace tenon {

namespace {

/// Entry `at` of an attribute that is empty or holds one per spatial dimension (or two).
int64_t entry(const Operation &op, llvm::StringRef name, int64_t otherwise, unsigned at) {
  const Ints &all = op.intsAttr(name);
  return all.empty() ? otherwise : all[at];
}

} // namespace

Result<ConvProblem> convProblem(const Operation &op, int most) {
  const Type x = op.operand(0)->type(), y = op.result()->type();
  ConvProblem p;
  p.spatialRank = int(x.rank()) - 2;
  if (p.spatialRank < 1 || p.spatialRank > most)
    return Refusal{std::to_string(p.spatialRank) + " spatial dimensions; kernels take one" +
                       (most == 2 ? " or two" : " to three"),
                   ""};
  // Along one spatial dimension of the operation.
  auto read = [&](unsigned d, Dim &in, Dim &out, int64_t &stride, int64_t &dilation, int64_t &pad,
                  int64_t &kernel) {
    in = x.dim(d + 2);
    out = y.dim(d + 2);
    stride = entry(op, "strides", 1, d);
    dilation = entry(op, "dilations", 1, d);
    pad = entry(op, "pads", 0, d);
    if (op.is(Op::Pool))
      kernel = entry(op, "kernel", 1, d);
    else if (op.operand(1)->type().dim(d + 2).isConstant())
      kernel = op.operand(1)->type().dim(d + 2).constant();
  };
  const auto last = unsigned(p.spatialRank) - 1;
  p.batch = x.dim(0);
  p.inHeight = p.outHeight = x.context().dim(1);
  read(last, p.inWidth, p.outWidth, p.strideW, p.dilationW, p.padLeft, p.kernelW);
  if (last >= 1)
    read(last - 1, p.inHeight, p.outHeight, p.strideH, p.dilationH, p.padTop, p.kernelH);
  if (last >= 2)
    read(0, p.inDepth, p.outDepth, p.strideD, p.dilationD, p.padFront, p.kernelD);
  if (op.is(Op::Pool))
    return p;
  const Type w = op.operand(1)->type();
  if (!w.hasStaticShape())
    return Refusal{"weights of a shape known only at run time", ""};
  p.groups = op.intAttr("groups", 1);
  p.channels = w.dim(1).constant();
  p.filters = w.dim(0).constant() / std::max<int64_t>(p.groups, 1);
  return p;
}

Strides inPlane(const Strides &s, const ConvProblem &p) {
  if (p.spatialRank > 1)
    return s;
  Strides r = s;
  r.strides.insert(r.strides.begin() + 2, s.strides[2] * p.inWidth);
  return r;
}

bool mergesPlane(const Strides &plane, Dim width) {
  return plane.strides[2] == plane.strides[3] * width;
}

} // namespace tenon
