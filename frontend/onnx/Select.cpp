// Imports operators that keep a number of elements which depends on the data.
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Operators.h"

#include "ir/Equality.h"
#include "ir/Names.h"

#include <algorithm>
#include <vector>

namespace tenon::frontend {

llvm::Optional<double> fillOf(Value *v) {
  Operation *def = v->def();
  if (!def || isOpaque(v->type().element()))
    return llvm::None;
  if (def->is(Op::Map) && def->numOperands() == 1 && def->numResults() == 1 &&
      def->region(0).terminator()->operand(0) == def->region(0).argument(0))
    return fillOf(def->operand(0)); // a broadcast
  return def->is(Op::Reshape) ? fillOf(def->operand(0)) : splatValue(v);
}

namespace {

/// The indices of all elements of a tensor of `shape`, [rank, elements].
Value *allIndices(Node &n, llvm::ArrayRef<Dim> shape, Dim elements) {
  llvm::SmallVector<Value *, 4> rows;
  for (unsigned d = 0; d < shape.size(); ++d) {
    Value *row = generate(n.b, Element::I64, shape, [&](Scalars &s, llvm::ArrayRef<Value *>) {
      return s.cast(s.index(d), Element::I64);
    });
    rows.push_back(row ? n.b.reshape(row, {n.dim(1), elements}) : nullptr);
    if (!rows.back())
      return nullptr;
  }
  return rows.size() == 1 ? rows[0] : n.b.value(Op::Concat, rows, {{"axis", int64_t(0)}});
}

} // namespace

Value *nonZero(Node &n, Value *v) {
  const Type type = v->type();
  if (type.rank() == 0) {
    Value *list = n.b.reshape(v, {n.dim(1)});
    Value *found = list ? nonZero(n, list) : nullptr;
    return found ? sliceAlong(n.b, found, 0, n.dim(0), n.dim(0), 1) : nullptr;
  }
  if (const auto fill = fillOf(v)) {
    if (*fill != 0)
      return allIndices(n, type.shape(), type.elements());
    return n.b.constant(Tensor(Element::I64, {int64_t(type.rank()), 0}));
  }
  if (const auto known = isOpaque(type.element()) ? llvm::None : knownTensor(v)) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < known->size(); ++i)
      if (known->at(i) != 0)
        places.push_back(i);
    Tensor indices(Element::I64, {int64_t(type.rank()), int64_t(places.size())});
    for (size_t k = 0; k < places.size(); ++k)
      for (int64_t d = type.rank() - 1, rest = places[k]; d >= 0; --d) {
        indices.setInt(d * int64_t(places.size()) + int64_t(k), rest % known->shape()[d]);
        rest /= known->shape()[d];
      }
    return n.b.constant(indices);
  }
  for (Operation &op : v->def() ? *v->def()->parent() : *v->argumentOf())
    if (op.is(Op::NonZero) && sameNumbers(op.operand(0), v))
      return op.result();
  Dim found =
      n.graph.state.bornSymbol(n.context(), sanitizeName(n.id + "_count"), 0, type.upperElements());
  return n.b.value(Op::NonZero, {v}, {{"symbol", found.symbol().str()}});
}

void importNonZero(Node &n) { n.set(0, nonZero(n, n.input(0))); }

void importCompress(Node &n) {
  enum { X, Condition };
  Value *x = n.input(X);
  int64_t axis = 0;
  if (n.hasAttr("axis")) {
    auto given = n.axis(n.intAttr("axis", 0), n.rank(X));
    if (!given)
      return;
    axis = *given;
  } else {
    x = n.b.reshape(x, {x->type().elements()});
    if (!x)
      return;
  }
  // A condition may be shorter than the axis; what it does not mention goes.
  const Type condition = n.type(Condition);
  if (condition.rank() != 1 || !isBool(condition.element()) ||
      condition.dim(0).lower() > x->type().dim(unsigned(axis)).upper()) {
    n.error("operand " + n.inputName(Condition) + ": expected at most one boolean per element of " +
            "dimension " + std::to_string(axis) + " of " + toString(x->type()) + ", found " +
            toString(condition));
    return;
  }
  Value *kept = nonZero(n, n.input(Condition));
  kept = kept ? n.b.reshape(kept, {kept->type().dim(1)}) : nullptr;
  n.set(0, kept ? n.b.value(Op::Gather, {x, kept}, {{"axis", axis}}) : nullptr);
}

void importNonMaxSuppression(Node &n) {
  enum { Boxes, Scores, MostBoxes, Overlap, Score };
  if (!n.checkRank(Boxes, 3, 3) || !n.checkRank(Scores, 3, 3))
    return;
  double numbers[5] = {};
  for (unsigned i : {MostBoxes, Overlap, Score})
    if (n.has(i)) {
      auto known = n.constantOperand(i);
      if (!known)
        return;
      if (known->size() != 1) {
        n.error("operand " + n.inputName(i) + ": expected one number, found " +
                toString(n.type(i)));
        return;
      }
      numbers[i] = known->at(0);
    }
  const Type scores = n.type(Scores);
  const Dim most = n.dim(int64_t(std::max(0.0, std::min(numbers[MostBoxes], double(INT32_MAX)))));
  const Dim k = min(most, n.dim(scores.dim(2).upper())); // places; the data say how many are taken
  if (!scores.dim(1).isConstant()) {
    n.error("expected a known number of classes, found " + toString(scores));
    return;
  }
  NamedAttributes attributes{{"k", Dims{k}},
                             {"iou_threshold", numbers[Overlap]},
                             {"center", n.boolAttr("center_point_box", false)}};
  if (n.has(Score))
    attributes.insert_or_assign("score_threshold", numbers[Score]);
  // Boxes [batch, class, k], -1 behind the last; those that are there become rows of three indices.
  Value *boxes = n.b.value(Op::NonMaxSuppression, {n.input(Boxes), n.input(Scores)}, attributes);
  if (!boxes)
    return;
  Value *taken = pointwise(n.b, {boxes}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
    return s(Op::GreaterEqual, a[0], s.c(0));
  });
  Value *places = taken ? nonZero(n, taken) : nullptr;
  if (!places)
    return;
  const Dim found = places->type().dim(1);
  Value *columns[3];
  for (int64_t d = 0; d < 3; ++d) {
    Value *row = sliceAlong(n.b, places, 0, n.dim(d), n.dim(1), 1);
    columns[d] = row ? n.b.reshape(row, {found}) : nullptr;
    if (!columns[d])
      return;
  }
  Value *linear = pointwise(n.b, columns, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    auto times = [&](Value *v, Dim f) {
      return s(Op::Mul, v, s.b.scalarInt(Element::I64, f.constant()));
    };
    return s(Op::Add, times(s(Op::Add, times(a[0], scores.dim(1)), a[1]), k), a[2]);
  });
  columns[2] = gatherLinear(n.b, boxes, linear);
  for (Value *&column : columns)
    if (!(column = column ? n.b.reshape(column, {found, n.dim(1)}) : nullptr))
      return;
  n.set(0, n.b.value(Op::Concat, columns, {{"axis", int64_t(1)}}));
}

namespace {

/// Where the results of an operator stand besides the elements, which come first; None: it has no
/// such result.
struct UniqueResults {
  llvm::Optional<unsigned> first;
  unsigned inverse, counts;
};

void importUniqueAs(Node &n, bool sorted, UniqueResults results) {
  Value *x = n.input(0);
  int64_t axis = 0;
  Ints order = allAxes(0, n.rank(0)); // with the axis first
  if (n.hasAttr("axis")) {
    auto given = n.axis(n.intAttr("axis", 0), n.rank(0));
    if (!given)
      return;
    axis = *given;
    std::rotate(order.begin(), order.begin() + axis, order.begin() + axis + 1);
    x = n.b.transpose(x, order);
  } else {
    order = {0};
    x = n.b.reshape(x, {x->type().elements()});
  }
  if (!x)
    return;
  const Dim rows = x->type().dim(0);
  Value *classes = n.b.value(
      Op::Unique, {n.b.reshape(x, {rows, product(n.context(), x->type().shape().drop_front())})},
      {{"sorted", sorted}});
  Value *parts[3];
  for (int64_t i = 0; i < 3; ++i) {
    parts[i] = classes ? sliceAlong(n.b, classes, 0, n.dim(i), n.dim(1), 1) : nullptr;
    parts[i] = parts[i] ? n.b.reshape(parts[i], {rows}) : nullptr;
    if (!parts[i])
      return;
  }
  Value *taken = pointwise(n.b, {parts[2]}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
    return s(Op::Greater, a[0], s.c(0));
  });
  Value *places = taken ? nonZero(n, taken) : nullptr;
  places = places ? n.b.reshape(places, {places->type().dim(1)}) : nullptr;
  if (!places)
    return;
  auto pick = [&](Value *v) { return n.b.value(Op::Gather, {v, places}, {{"axis", int64_t(0)}}); };
  Value *first = pick(parts[1]);
  Value *y = first ? n.b.value(Op::Gather, {x, first}, {{"axis", int64_t(0)}}) : nullptr;
  Ints back(order.size());
  for (size_t d = 0; d < back.size(); ++d) // the first dimension returns to its place
    back[d] = int64_t(d) == axis ? 0 : int64_t(d) < axis ? int64_t(d) + 1 : int64_t(d);
  n.set(0, y && axis > 0 ? n.b.transpose(y, back) : y);
  if (results.first)
    n.set(*results.first, first);
  n.set(results.inverse, parts[0]);
  if (n.wants(results.counts))
    n.set(results.counts, pick(parts[2]));
}

} // namespace

void importUnique(Node &n) { importUniqueAs(n, n.boolAttr("sorted", true), {1u, 2, 3}); }

void importMicrosoftUnique(Node &n) { importUniqueAs(n, false, {llvm::None, 1, 2}); }

} // namespace tenon::frontend
