// Imports operators on sequences and optionals. A sequence is the list of its tensors, so every
// operator here only rearranges what is known at compile time; positions have to be.
#include "frontend/DataExtents.h"
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Operators.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::frontend {
namespace {

/// Operand i as a place from 0 to `last` in a sequence of `length`, from whose end negative ones
/// count; None after an error.
llvm::Optional<size_t> position(Node &n, unsigned i, size_t length, size_t last) {
  auto known = n.constantOperand(i);
  if (!known)
    return llvm::None;
  const int64_t given = known->size() == 1 ? known->intAt(0) : INT64_MAX;
  const int64_t at = given < 0 ? given + int64_t(length) : given;
  if (at >= 0 && at <= int64_t(last) && last < SIZE_MAX)
    return size_t(at);
  n.error("operand " + n.inputName(i) + ": expected one position in a sequence of " +
          std::to_string(length));
  return llvm::None;
}

} // namespace

Value *stackAlong(Builder &b, llvm::ArrayRef<Value *> values, int64_t axis, bool isNew) {
  llvm::SmallVector<Value *, 8> pieces(values.begin(), values.end());
  for (Value *&v : pieces)
    if (v && isNew) {
      Shape shape(v->type().shape().begin(), v->type().shape().end());
      shape.insert(shape.begin() + axis, b.context().dim(1));
      v = b.reshape(v, shape);
    }
  return llvm::is_contained(pieces, nullptr) ? nullptr
                                             : b.value(Op::Concat, pieces, {{"axis", axis}});
}

Value *cut(Node &n, Value *v, int64_t axis, Value *length) {
  length = length ? n.b.reshape(length, {n.dim(1)}) : nullptr;
  const double most = double(v->type().dim(unsigned(axis)).upper());
  length = length ? pointwise(n.b, {length},
                              [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                                return s(Op::Clamp, a[0], s.c(0), s.c(most)); // says the bounds
                              })
                  : nullptr;
  const auto extent = length ? dataExtents(n, length) : llvm::None;
  return extent ? sliceAlong(n.b, v, axis, n.dim(0), (*extent)[0], 1) : nullptr;
}

Value *evened(Node &n, const Stack &stack) {
  Value *most = stack.lengths ? n.b.reduce(Op::Max, stack.lengths, {0}, 0) : nullptr;
  return stack.lengths ? cut(n, stack.pieces, stack.axis + 1, most) : stack.pieces;
}

Value *joinStack(Node &n, const Stack &stack, int64_t axis, bool isNew) {
  Builder &b = n.b;
  const bool ragged = stack.lengths && !isNew && axis == stack.axis;
  Value *pieces = ragged ? stack.pieces : evened(n, stack);
  if (!pieces)
    return nullptr;
  Ints perm = allAxes(1, axis + 1);
  perm.push_back(0);
  for (int64_t d = axis + 1; d < int64_t(pieces->type().rank()); ++d)
    perm.push_back(d);
  Value *turned = b.transpose(pieces, perm);
  if (!turned || isNew)
    return turned;
  const auto rows = unsigned(axis);
  Shape shape(turned->type().shape().begin(), turned->type().shape().end());
  shape[rows] = shape[rows] * shape[rows + 1];
  shape.erase(shape.begin() + rows + 1);
  Value *all = b.reshape(turned, shape);
  if (!all || !ragged)
    return all;
  // What counts of each piece is picked.
  const Dim count = stack.pieces->type().dim(0), most = stack.pieces->type().dim(rows + 1);
  Value *counts = pointwise(
      b, {stack.lengths}, {{0}}, {count, most},
      [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Less, s.index(1), a[0]); });
  counts = counts ? b.reshape(counts, {count * most}) : nullptr;
  Value *kept = counts ? nonZero(n, counts) : nullptr;
  kept = kept ? b.reshape(kept, {kept->type().dim(1)}) : nullptr;
  return kept ? b.value(Op::Gather, {all, kept}, {{"axis", axis}}) : nullptr;
}

void importSequenceConstruct(Node &n) {
  for (unsigned i = 0; i < n.numInputs(); ++i)
    if (!n.has(i)) {
      n.error("operand " + std::to_string(i) + " is missing: expected a tensor for each element");
      return;
    }
  n.set(0, TensorOrSequence(Elements(n.inputs().begin(), n.inputs().end())));
}

void importSequenceEmpty(Node &n) { n.set(0, TensorOrSequence(Elements())); }

void importSequenceAt(Node &n) {
  if (const auto stack = n.item(0).stack()) {
    const NamedAttributes first{{"axis", int64_t(0)}};
    Value *at = n.numInputs() > 1 && n.has(1) ? n.b.reshape(n.input(1), {}) : nullptr;
    Value *piece = at ? n.b.value(Op::Gather, {stack->pieces, at}, first) : nullptr;
    if (piece && stack->lengths)
      piece = cut(n, piece, stack->axis, n.b.value(Op::Gather, {stack->lengths, at}, first));
    n.set(0, piece);
    return;
  }
  const Elements *list = n.sequence(0);
  auto at = list ? position(n, 1, list->size(), list->size() - 1) : llvm::None;
  if (at)
    n.set(0, (*list)[*at]);
}

void importSequenceInsert(Node &n) {
  const Elements *list = n.sequence(0);
  if (!list)
    return;
  auto at = n.numInputs() > 2 && n.has(2) ? position(n, 2, list->size(), list->size())
                                          : llvm::Optional<size_t>(list->size());
  if (!at || !n.has(1))
    return;
  Elements longer = *list;
  longer.insert(longer.begin() + std::ptrdiff_t(*at), n.input(1));
  n.set(0, TensorOrSequence(std::move(longer)));
}

void importSequenceErase(Node &n) {
  const Elements *list = n.sequence(0);
  if (!list)
    return;
  if (list->empty()) {
    n.error("operand " + n.inputName(0) + ": nothing can be erased from an empty sequence");
    return;
  }
  auto at = n.has(1) ? position(n, 1, list->size(), list->size() - 1)
                     : llvm::Optional<size_t>(list->size() - 1);
  if (!at)
    return;
  Elements shorter = *list;
  shorter.erase(shorter.begin() + std::ptrdiff_t(*at));
  n.set(0, TensorOrSequence(std::move(shorter)));
}

void importSequenceLength(Node &n) {
  if (const auto stack = n.item(0).stack())
    return n.set(0, extentProduct(n.b, stack->pieces, {0}, Element::I64));
  if (const Elements *list = n.sequence(0))
    n.set(0, n.b.constant(Tensor::fromInts({int64_t(list->size())}).reshaped({})));
}

void importConcatFromSequence(Node &n) {
  if (const auto stack = n.item(0).stack()) {
    const bool isNew = n.boolAttr("new_axis", false);
    const int64_t rank = int64_t(stack->pieces->type().rank()) - (isNew ? 0 : 1);
    if (auto axis = n.axis(n.intAttr("axis", 0), rank))
      n.set(0, joinStack(n, *stack, *axis, isNew));
    return;
  }
  const Elements *list = n.sequence(0);
  if (!list)
    return;
  if (list->empty()) {
    n.error("operand " + n.inputName(0) + ": an empty sequence has no type");
    return;
  }
  const bool isNew = n.boolAttr("new_axis", false);
  const unsigned first = list->front()->type().rank();
  for (Value *v : *list)
    if (v->type().rank() != first) {
      n.error("operand " + n.inputName(0) + ": expected tensors of one rank, found " +
              std::to_string(first) + " and " + std::to_string(v->type().rank()));
      return;
    }
  const int64_t rank = int64_t(first) + (isNew ? 1 : 0);
  if (auto axis = n.axis(n.intAttr("axis", 0), rank))
    n.set(0, stackAlong(n.b, *list, *axis, isNew));
}

/// Every element of a sequence is a value of its own.
static bool checkPieces(Node &n, int64_t count) {
  constexpr int64_t kMost = 16384;
  if (count > kMost)
    n.error("expected at most " + std::to_string(kMost) + " pieces, found " +
            std::to_string(count) + "; use Split or Slice on larger parts");
  return count <= kMost;
}

/// Whether pieces of `size`, None where they differ, lose the dimension that is split. ONNX lets
/// keepdims count without sizes only; onnxruntime and PyTorch's unbind, which writes the size 1,
/// also with a scalar.
static bool dropsAxis(Node &n, llvm::Optional<int64_t> size) {
  return !n.boolAttr("keepdims", true) && (!n.has(1) || (n.rank(1) == 0 && size == int64_t(1)));
}

/// Splits operand 0 along `axis`, of open extent, into pieces of one size, slices of a stack: the
/// last one may be shorter.
static void splitOpen(Node &n, int64_t axis) {
  const Type t = n.type(0);
  const auto at = unsigned(axis);
  const Dim extent = t.dim(at);
  const auto fill = n.has(1) ? fillOf(n.input(1)) : llvm::Optional<double>(1);
  const auto size = fill ? llvm::Optional<int64_t>(int64_t(*fill)) : llvm::None;
  if (!size || *size < 1 || (n.has(1) && n.rank(1) == 1 && n.type(1).dim(0) * *size != extent)) {
    n.error("expected a known extent of dimension " + std::to_string(axis) +
            ", or one known size of all pieces, found " + toString(t) +
            (size ? " and pieces of " + std::to_string(*size) : "") +
            "; give its symbols values with --bind");
    return;
  }
  const Dim count = ceilDiv(extent, *size), missing = count * *size - extent;
  const bool even = mod(extent, n.dim(*size)).isConstant(0);
  Value *x = n.input(0);
  if (!even) {
    Dims low(t.rank(), n.dim(0)), high = low;
    high[at] = missing;
    x = n.b.value(Op::Pad, {x}, {{"low", low}, {"high", high}, {"mode", Word{"constant"}}});
  }
  Shape shape(t.shape().begin(), t.shape().end());
  shape[at] = count;
  if (!dropsAxis(n, size))
    shape.insert(shape.begin() + at + 1, n.dim(*size));
  Value *split = x ? n.b.reshape(x, shape) : nullptr;
  Ints perm = allAxes(0, int64_t(shape.size()));
  std::rotate(perm.begin(), perm.begin() + at, perm.begin() + at + 1);
  Stack stack{split ? n.b.transpose(split, perm) : nullptr};
  if (stack.pieces && !even) {
    stack.axis = axis;
    stack.lengths = pointwise(n.b, {extentProduct(n.b, n.input(0), {axis}, Element::I64)}, {{}},
                              {count}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                                Value *whole = s.c(double(*size));
                                Value *left = s(Op::Sub, a[0], s(Op::Mul, s.index(0), whole));
                                return s(Op::Min, left, whole);
                              });
  }
  if (stack.pieces && (even || stack.lengths))
    n.set(0, TensorOrSequence(stack));
}

void importSplitToSequence(Node &n) {
  if (!n.checkRank(0, 1))
    return;
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (!axis)
    return;
  const Type t = n.type(0);
  const Dim extent = t.dim(unsigned(*axis));
  if (!extent.isConstant())
    return splitOpen(n, *axis);
  // One size for all pieces but the last, or one for each.
  Ints sizes;
  bool drops = dropsAxis(n, llvm::None);
  if (n.has(1)) {
    auto given = n.constantOperand(1);
    if (!given)
      return;
    const int64_t size = given->size() == 1 ? given->intAt(0) : 0;
    drops = dropsAxis(n, size);
    if (n.rank(1) == 0 && size < 1) {
      n.error("operand " + n.inputName(1) + ": expected pieces of 1 and more, found " +
              std::to_string(size));
      return;
    }
    if (n.rank(1) == 0 &&
        !checkPieces(n, extent.constant() / size + (extent.constant() % size > 0)))
      return;
    if (n.rank(1) == 0)
      for (int64_t left = extent.constant(); left > 0; left -= size)
        sizes.push_back(std::min(size, left));
    else
      for (int64_t i = 0; i < given->size(); ++i)
        sizes.push_back(given->intAt(i));
  } else {
    if (!checkPieces(n, extent.constant()))
      return;
    sizes.assign(size_t(extent.constant()), 1);
  }
  int64_t total = 0;
  for (int64_t s : sizes)
    if (s < 0 || llvm::AddOverflow(total, s, total)) {
      total = -1;
      break;
    }
  if (total != extent.constant()) {
    n.error("operand " + n.inputName(1) + ": expected sizes that add up to " + text({extent}, ""));
    return;
  }
  Elements pieces;
  Dim start = n.dim(0);
  for (int64_t s : sizes) {
    Value *piece = sliceAlong(n.b, n.input(0), *axis, start, n.dim(s), 1);
    if (piece && drops) {
      Shape shape(t.shape().begin(), t.shape().end());
      shape.erase(shape.begin() + *axis);
      piece = n.b.reshape(piece, shape);
    }
    if (!piece)
      return;
    pieces.push_back(piece);
    start = start + s;
  }
  n.set(0, TensorOrSequence(std::move(pieces)));
}

void importSequenceMap(Node &n) {
  const onnx::AttributeProto *body = n.attr("body");
  const Elements *first = n.sequence(0);
  if (!first)
    return;
  if (!body || !body->has_g() || body->g().input_size() != int(n.numInputs()) ||
      body->g().output_size() != int(n.numOutputs())) {
    n.error("attribute body: expected a graph of " + std::to_string(n.numInputs()) +
            " inputs and " + std::to_string(n.numOutputs()) + " outputs");
    return;
  }
  std::vector<Elements> results(n.numOutputs());
  for (size_t i = 0; i < first->size(); ++i) {
    TensorsOrSequences arguments, made;
    for (const TensorOrSequence &item : n.items()) { // a tensor is the same for every element
      if (item.elements() && item.elements()->size() != first->size()) {
        n.error("sequences differ in length: " + std::to_string(first->size()) + " and " +
                std::to_string(item.elements()->size()));
        return;
      }
      arguments.push_back(item.elements() ? TensorOrSequence((*item.elements())[i]) : item);
    }
    if (!n.graph.importInline(n, body->g(), "body_" + std::to_string(i), arguments, made))
      return;
    for (size_t k = 0; k < made.size(); ++k) {
      if (!made[k].tensor()) {
        n.error("attribute body: result " + std::to_string(k) + " is no tensor");
        return;
      }
      results[k].push_back(made[k].tensor());
    }
  }
  for (unsigned k = 0; k < results.size(); ++k)
    n.set(k, TensorOrSequence(std::move(results[k])));
}

void importOptional(Node &n) { n.set(0, n.numInputs() > 0 ? n.item(0) : TensorOrSequence()); }

void importOptionalGetElement(Node &n) {
  if (n.item(0))
    n.set(0, n.item(0));
  else
    n.error("operand " + n.inputName(0) + " holds no value");
}

void importOptionalHasElement(Node &n) {
  n.set(0, n.b.scalarConstant(Element::Bool, n.numInputs() > 0 && n.item(0) ? 1 : 0));
}

} // namespace tenon::frontend
