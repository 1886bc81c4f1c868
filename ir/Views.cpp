// Implements the view relation by comparing strides.
#include "ir/Views.h"

#include "llvm/ADT/STLExtras.h"

namespace tenon {
namespace {

/// True when both address alike: equal strides wherever the extent is not 1.
bool sameStrides(llvm::ArrayRef<Dim> shape, llvm::ArrayRef<Dim> a, llvm::ArrayRef<Dim> b) {
  for (size_t i = 0; i < shape.size(); ++i)
    if (!shape[i].isConstant(1) && a[i] != b[i])
      return false;
  return true;
}

/// Strides over the shape `to` of the elements that `from` addresses, in row-major order; false
/// where no strides do that.
bool reshapeStrides(Type from, const Addressing &address, llvm::ArrayRef<Dim> to,
                    llvm::SmallVectorImpl<Dim> &strides) {
  Context &c = from.context();
  strides.assign(to.size(), c.dim(0));
  // Walk both shapes from the inside, matching blocks of dimensions with equal products.
  int i = int(from.rank()) - 1, j = int(to.size()) - 1;
  while (i >= 0 || j >= 0) {
    while (i >= 0 && from.dim(i).isConstant(1))
      --i;
    while (j >= 0 && to[j].isConstant(1))
      --j;
    if (i < 0 || j < 0)
      return i < 0 && j < 0;
    // One block: grow whichever product is smaller; the source side must be uniformly strided.
    Dim products[2] = {from.dim(i), to[j]};
    const Dim inner = address.strides[i];
    const int j0 = j;
    while (products[0] != products[1]) {
      if (j > 0 && (products[1].upper() < products[0].upper() || i == 0)) {
        products[1] = products[1] * to[--j];
      } else if (i > 0) {
        const Dim reach = inner * products[0];
        --i;
        if (!from.dim(i).isConstant(1)) {
          if (address.strides[i] != reach)
            return false;
          products[0] = products[0] * from.dim(i);
        }
      } else {
        return false;
      }
    }
    Dim stride = inner;
    for (int k = j0; k >= j; --k) {
      strides[k] = stride;
      stride = stride * to[k];
    }
    --i;
    --j;
  }
  return true;
}

/// Both have strides over the same kind of elements.
bool haveStrides(Type x, Type y) {
  return x.isTensor() && y.isTensor() && !x.layout().hasBlocks() && !y.layout().hasBlocks() &&
         x.element() == y.element();
}

} // namespace

llvm::Optional<Dim> reshapeOffset(Type x, Type y) {
  if (!haveStrides(x, y) || bitWidth(x.element()) < 8)
    return llvm::None;
  const Addressing ax = addressing(x), ay = addressing(y);
  llvm::SmallVector<Dim, 6> strides;
  if (!reshapeStrides(x, ax, y.shape(), strides) || !sameStrides(y.shape(), strides, ay.strides))
    return llvm::None;
  return ax.offset - ay.offset;
}

llvm::Optional<Dim> windowOffset(const Operation &concat, unsigned operand, Dim start) {
  const Type x = concat.operand(operand)->type(), y = concat.result()->type();
  if (!haveStrides(x, y))
    return llvm::None;
  const Addressing ax = addressing(x), ay = addressing(y);
  if (!sameStrides(x.shape(), ax.strides, ay.strides))
    return llvm::None;
  return ay.offset + ay.strides[size_t(concat.intAttr("axis"))] * start - ax.offset;
}

llvm::Optional<Dim> viewOffset(const Operation &op, unsigned operand) {
  if (!op.isAny(Op::Reshape, Op::Transpose, Op::Slice, Op::Concat))
    return llvm::None;
  Type x = op.operand(operand)->type(), y = op.result()->type();
  if (op.is(Op::Reshape))
    return reshapeOffset(x, y);
  if (op.is(Op::Concat)) {
    Dim start = x.context().dim(0);
    for (unsigned k = 0; k < operand; ++k)
      start = start + op.operand(k)->type().dim(unsigned(op.intAttr("axis")));
    return windowOffset(op, operand, start);
  }
  if (!haveStrides(x, y))
    return llvm::None;
  // Elements that share bytes may be written side by side, but no reader finds them inside a byte.
  if (bitWidth(x.element()) < 8)
    return llvm::None;
  const Addressing ax = addressing(x), ay = addressing(y);
  llvm::SmallVector<Dim, 6> strides;
  Dim offset = ax.offset;
  if (op.is(Op::Transpose)) {
    for (int64_t d : op.intsAttr("perm"))
      strides.push_back(ax.strides[d]);
  } else {
    for (unsigned i = 0; i < x.rank(); ++i) {
      const int64_t step = op.intsAttr("steps").empty() ? 1 : op.intsAttr("steps")[i];
      strides.push_back(ax.strides[i] * step);
      offset = offset + ax.strides[i] * op.dimsAttr("starts")[i];
    }
  }
  if (!sameStrides(y.shape(), strides, ay.strides))
    return llvm::None;
  return offset - ay.offset;
}

bool isView(const Operation &op) {
  if (!op.isAny(Op::Reshape, Op::Transpose, Op::Slice, Op::Concat))
    return false;
  if (!op.is(Op::Concat))
    return viewOffset(op).hasValue();
  // Where each operand begins decides nothing.
  const Dim start = op.result()->type().context().dim(0);
  for (unsigned i = 0; i < op.numOperands(); ++i)
    if (!windowOffset(op, i, start))
      return false;
  return true;
}

Value *renamedValue(const Operation &op) {
  if (!op.isAny(Op::Reshape, Op::Transpose))
    return nullptr;
  const auto offset = viewOffset(op);
  return offset && offset->isConstant(0) ? op.operand(0) : nullptr;
}

Value *writtenValue(Value *v) {
  while (Operation *def = v->def()) {
    Value *x = renamedValue(*def);
    if (!x)
      break;
    v = x;
  }
  return v;
}

const char *needsItsLayout(const Use &reader) {
  Operation *op = reader.owner();
  if (op->isTerminator())
    return "the value is an output of its own";
  if (op->isAny(Op::Reshape, Op::Transpose, Op::Slice) && isView(*op))
    return "another operation views the value as it lies";
  if (op->isAny(Op::If, Op::Loop, Op::Concat, Op::User))
    return "another reader needs the value dense";
  if (op->is(Op::Group)) {
    Value *argument = op->region().argument(reader.index());
    for (Operation &inner : op->region())
      if (inner.isAny(Op::Reshape, Op::User) && llvm::is_contained(inner.operands(), argument))
        return "another kernel needs the value dense";
  }
  return nullptr;
}

Operation *appendOf(Graph &graph, const State &state) {
  if (state.appendAxis < 0 || !graph.returnOp())
    return nullptr;
  Value *past = graph.body().argument(state.input);
  Value *whole = graph.returnOp()->operand(state.output);
  Operation *op = whole->def();
  if (!op || !op->is(Op::Concat) || op->operand(0) != past ||
      op->intAttr("axis") != state.appendAxis || whole->type().layout().hasBlocks() ||
      bitWidth(whole->type().element()) < 8)
    return nullptr;
  for (unsigned i = 1; i < op->numOperands(); ++i)
    if (op->operand(i) == past)
      return nullptr;
  return op;
}

Layout roomyLayout(Type whole, unsigned axis) {
  llvm::SmallVector<LayoutAxis, 6> axes;
  if (whole.layout().isRowMajor())
    for (unsigned i = 0; i < whole.rank(); ++i)
      axes.push_back({int(i), 0, false, Dim(), 0});
  else
    axes.append(whole.layout().axes().begin(), whole.layout().axes().end());
  for (LayoutAxis &a : axes) {
    if (a.dim != int(axis)) {
      if (whole.dim(unsigned(a.dim)).isConstant(1))
        continue;
      // Outer dimensions are passed over in steps of the room.
      for (LayoutAxis &b : axes)
        if (b.dim == int(axis))
          b.alloc = whole.context().dim((b.alloc ? b.alloc : whole.dim(axis)).upper());
    }
    break;
  }
  return Layout::get(whole.context(), axes);
}

Layout windowLayout(Type whole, unsigned axis, int64_t start) {
  llvm::SmallVector<LayoutAxis, 6> axes;
  if (whole.layout().isRowMajor())
    for (unsigned i = 0; i < whole.rank(); ++i)
      axes.push_back({int(i), 0, false, Dim(), 0});
  else
    axes.append(whole.layout().axes().begin(), whole.layout().axes().end());
  for (LayoutAxis &a : axes)
    if (a.dim == int(axis)) {
      if (!a.alloc)
        a.alloc = whole.dim(axis);
      a.origin += start;
    }
  return Layout::get(whole.context(), axes);
}

} // namespace tenon
