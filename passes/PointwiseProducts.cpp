// pointwise-products: convolutions of single pixels that stand alone become matrix products.
//
//   conv %x, %w : tensor<1x64x28x28xf16>   →   reshape (matmul %w', (reshape %x))
//                                              over filters x channels and channels x pixels
//
// A convolution runs with channels innermost (assign-layout), to which its image is brought and
// from which its result is taken back; the product takes both as they lie. Where others of the
// region want channels innermost, too, or the image lies so already, it stays what it is.
#include "passes/PointwiseProducts.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace tenon {
namespace {

constexpr size_t kMostOperations = 64; // of a region that is looked through
constexpr int64_t kWord = 16;          // bytes that products load at once

bool isWindowed(const Operation &op) {
  return op.isAny(Op::Conv, Op::ConvTranspose, Op::Pool, Op::Resize) &&
         op.operand(0)->type().rank() >= 3;
}

bool isPointwise(const Operation &op) {
  if (!op.is(Op::Conv) || op.numOperands() != 2 || op.intAttr("groups", 1) != 1)
    return false;
  const Type x = op.operand(0)->type(), y = op.result()->type(), w = op.operand(1)->type();
  if (!x.hasStaticShape() || !isFloat(x.element()) || w.element() != x.element() ||
      !constantValue(op.operand(1)))
    return false;
  int64_t pixels = 1;
  for (unsigned d = 2; d < x.rank(); ++d) {
    if (!w.dim(d).isConstant(1) || x.dim(d) != y.dim(d))
      return false;
    pixels *= x.dim(d).constant();
  }
  // Of a single pixel both layouts are one; rows that begin anywhere are loaded one by one.
  if (pixels == 1 || byteSize(x.element(), pixels) % kWord != 0)
    return false;
  // Strides and pads that leave the extents as they are do so for a single pixel only.
  const auto all = [&](llvm::StringRef name, int64_t value) {
    return !op.has(name) || llvm::all_of(op.intsAttr(name), [=](int64_t v) { return v == value; });
  };
  return all("strides", 1) && all("pads", 0);
}

/// Whether everything that would share the layout of the convolution, also through reshapes (norms
/// of groups, tokens of pixels), is pointwise as well, and no transposition brings it channels that
/// are innermost or takes such from it.
bool standsAlone(Operation &conv) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  llvm::SmallVector<Operation *, 16> open{&conv};
  const auto reach = [&](Operation *op) {
    if (op && seen.insert(op).second)
      open.push_back(op);
  };
  seen.insert(&conv);
  while (!open.empty()) {
    Operation &op = *open.pop_back_val();
    if (seen.size() > kMostOperations || op.is(Op::Transpose) ||
        (isWindowed(op) && !isPointwise(op)))
      return false;
    const bool follows =
        op.isAny(Op::Map, Op::Concat, Op::Pad, Op::Softmax, Op::Normalize, Op::Scan, Op::Reshape);
    if (!isWindowed(op) && !follows)
      continue;
    for (unsigned i = 0; i < op.numOperands(); ++i)
      if (!isWindowed(op) || i == 0)
        reach(op.operand(i)->def());
    for (Value *v : op.results())
      for (Use *u : v->uses())
        reach(u->owner());
  }
  return true;
}

bool convPattern(Operation &op, Rewriter &rw) {
  if (!isPointwise(op) || !standsAlone(op) || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  const Type x = op.operand(0)->type(), y = op.result()->type();
  Dim pixels = b.context().dim(1);
  for (unsigned d = 2; d < x.rank(); ++d)
    pixels = pixels * x.dim(d);
  Dims flat;
  if (!x.dim(0).isConstant(1))
    flat.push_back(x.dim(0));
  flat.push_back(x.dim(1));
  flat.push_back(pixels);
  Value *weights = b.reshape(op.operand(1), {y.dim(1), x.dim(1)});
  Value *image = b.reshape(op.operand(0), flat);
  Value *product = weights && image ? b.value(Op::MatMul, {weights, image}, {}) : nullptr;
  return rw.replace(op, {product ? b.reshape(product, y.shape()) : nullptr});
}

const Pattern kPatterns[] = {{"pointwise-products.conv", convPattern}};

} // namespace

bool runPointwiseProducts(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
