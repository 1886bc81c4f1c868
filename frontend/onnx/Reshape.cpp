// Imports operators whose results have the operand's elements in another shape or order: reshapes,
// permutations, space to depth and back.
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {

void importReshape(Node &n) {
  auto wanted = n.shapeOperand(1);
  if (!wanted)
    return;
  llvm::ArrayRef<Dim> from = n.type(0).shape();
  const bool allowZero = n.boolAttr("allowzero", false);
  Shape to, rest;
  int open = -1;
  for (size_t i = 0; i < wanted->size(); ++i) {
    Dim d = (*wanted)[i];
    if (d.isConstant(-1)) {
      if (open >= 0) {
        n.error("shape [" + text(*wanted, ", ") + "] has more than one -1");
        return;
      }
      open = int(i);
      to.push_back(Dim());
      continue;
    }
    if (d.isConstant(0) && !allowZero) {
      if (i >= from.size()) {
        n.error("shape [" + text(*wanted, ", ") + "] copies dimension " + std::to_string(i) +
                " of " + toString(n.type(0)));
        return;
      }
      d = from[i];
    }
    if (d.upper() < 0) {
      n.error("shape [" + text(*wanted, ", ") + "] has a negative extent");
      return;
    }
    to.push_back(d);
    rest.push_back(d);
  }
  if (open >= 0) {
    Dim known = product(n.context(), rest);
    if (known.isConstant(0)) {
      n.error("shape [" + text(*wanted, ", ") +
              "] has both 0 and -1, which leaves the extent open");
      return;
    }
    to[size_t(open)] = quotient(n.context(), from, rest);
  }
  n.set(0, n.b.reshape(n.input(0), to));
}

void importFlatten(Node &n) {
  const int64_t rank = n.rank(0), given = n.intAttr("axis", 1);
  if (given < -rank || given > rank) {
    n.error("axis " + std::to_string(given) + " is out of range for rank " + std::to_string(rank));
    return;
  }
  const size_t axis = size_t(given < 0 ? given + rank : given);
  llvm::ArrayRef<Dim> shape = n.type(0).shape();
  n.set(0, n.b.reshape(n.input(0), {product(n.context(), shape.take_front(axis)),
                                    product(n.context(), shape.drop_front(axis))}));
}

namespace {
/// Axes from the attribute (before opset 13) or operand 1; None after an error.
llvm::Optional<Ints> squeezeAxes(Node &n, int64_t rank) {
  Ints axes = n.intsAttr("axes");
  if (n.opset >= 13 && n.has(1)) {
    auto given = n.intsOperand(1);
    if (!given)
      return llvm::None;
    axes = *given;
  }
  return n.axes(axes, rank);
}
} // namespace

void importSqueeze(Node &n) {
  auto axes = squeezeAxes(n, n.rank(0));
  if (!axes)
    return;
  const bool all = n.opset >= 13 ? !n.has(1) : !n.hasAttr("axes");
  Shape shape;
  for (int64_t d = 0; d < int64_t(n.rank(0)); ++d) {
    Dim extent = n.type(0).dim(unsigned(d));
    const bool goes = all ? extent.isConstant(1) : llvm::is_contained(*axes, d);
    if (!goes)
      shape.push_back(extent);
    else if (!extent.isConstant(1)) {
      n.error("axis " + std::to_string(d) + " of " + toString(n.type(0)) +
              " cannot be squeezed: expected extent 1");
      return;
    }
  }
  n.set(0, n.b.reshape(n.input(0), shape));
}

void importUnsqueeze(Node &n) {
  const Ints given = n.intsAttr("axes");
  size_t count = given.size();
  if (n.opset >= 13) {
    if (!n.has(1)) {
      n.error("operand 1 (axes) is missing: expected it in this operator; write it");
      return;
    }
    auto operand = n.intsOperand(1);
    if (!operand)
      return;
    count = operand->size();
  }
  const int64_t rank = int64_t(n.rank(0)) + int64_t(count);
  auto axes = squeezeAxes(n, rank);
  if (!axes)
    return;
  if (axes->size() != count) {
    n.error("axes name a dimension twice");
    return;
  }
  Shape shape;
  unsigned next = 0;
  for (int64_t d = 0; d < rank; ++d)
    shape.push_back(llvm::is_contained(*axes, d) ? n.dim(1) : n.type(0).dim(next++));
  n.set(0, n.b.reshape(n.input(0), shape));
}

void importTranspose(Node &n) {
  Ints perm = n.intsAttr("perm");
  if (!n.hasAttr("perm"))
    for (int64_t d = n.rank(0); d-- > 0;)
      perm.push_back(d);
  n.set(0, n.b.transpose(n.input(0), perm));
}

void importDepthToSpace(Node &n) {
  const int64_t block = n.intAttr("blocksize", 0);
  const std::string mode = n.stringAttr("mode", "DCR");
  if (!n.checkRank(0, 4, 4))
    return;
  Type t = n.type(0);
  if (block < 1 || block > INT32_MAX || (mode != "DCR" && mode != "CRD")) {
    n.error("expected a positive blocksize and mode DCR or CRD, found " + std::to_string(block) +
            " and '" + mode + "'");
    return;
  }
  if (t.dim(1).isConstant() && t.dim(1).constant() % (block * block)) {
    n.error("expected channels that divide by " + std::to_string(block * block) + ", found " +
            toString(t));
    return;
  }
  Dim s = n.dim(block), c = floorDiv(t.dim(1), block * block), h = t.dim(2), w = t.dim(3);
  const bool depthFirst = mode == "DCR";
  Value *v = depthFirst ? n.b.reshape(n.input(0), {t.dim(0), s, s, c, h, w})
                        : n.b.reshape(n.input(0), {t.dim(0), c, s, s, h, w});
  v = n.b.transpose(v, depthFirst ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3});
  n.set(0, n.b.reshape(v, {t.dim(0), c, h * block, w * block}));
}

void importSpaceToDepth(Node &n) {
  const int64_t block = n.intAttr("blocksize", 0);
  const std::string mode = n.stringAttr("mode", "DCR");
  if (!n.checkRank(0, 4, 4))
    return;
  Type t = n.type(0);
  bool divides = block >= 1 && block <= INT32_MAX && (mode == "DCR" || mode == "CRD");
  for (unsigned d : {2u, 3u})
    divides = divides && !(t.dim(d).isConstant() && t.dim(d).constant() % block);
  if (!divides) {
    n.error("expected a blocksize that divides the spatial extents of " + toString(t) +
            " and mode DCR or CRD, found " + std::to_string(block) + " and '" + mode + "'");
    return;
  }
  Dim s = n.dim(block), h = floorDiv(t.dim(2), block), w = floorDiv(t.dim(3), block);
  Value *v = n.b.reshape(n.input(0), {t.dim(0), t.dim(1), h, s, w, s});
  v = n.b.transpose(v, mode == "DCR" ? Ints{0, 3, 5, 1, 2, 4} : Ints{0, 1, 3, 5, 2, 4});
  n.set(0, n.b.reshape(v, {t.dim(0), t.dim(1) * (block * block), h, w}));
}

} // namespace tenon::frontend
