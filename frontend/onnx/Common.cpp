// Implements what the importers share.
#include "frontend/onnx/Common.h"

#include "llvm/Support/raw_ostream.h"

#include <numeric>

namespace tenon::frontend {

Value *Scalars::index(unsigned dim) const {
  return b.scalar(Op::Index, {},
                  {{"dim", int64_t(dim)}, {"to", Type::scalar(b.context(), Element::I64)}});
}

Value *Scalars::cast(Value *v, Element to) const {
  if (!v || v->type().element() == to)
    return v;
  return b.scalar(Op::Cast, {v}, {{"to", Type::scalar(b.context(), to)}});
}

namespace {
Value *single(Operation *op) { return op ? op->result() : nullptr; }
} // namespace

Value *pointwise(Builder &b, llvm::ArrayRef<Value *> operands, ScalarBody body) {
  return single(b.map(operands, [&](Builder &inner, llvm::ArrayRef<Value *> args) {
    Scalars s{inner, operands[0]->type().element()};
    return llvm::SmallVector<Value *, 2>{body(s, args)};
  }));
}

Value *pointwise(Builder &b, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<IndexMap> maps,
                 llvm::ArrayRef<Dim> space, ScalarBody body) {
  return single(b.map(operands, maps, space, [&](Builder &inner, llvm::ArrayRef<Value *> args) {
    Scalars s{inner, operands[0]->type().element()};
    return llvm::SmallVector<Value *, 2>{body(s, args)};
  }));
}

Value *generate(Builder &b, Element type, llvm::ArrayRef<Dim> space, ScalarBody body) {
  return single(b.map({}, {}, space, [&](Builder &inner, llvm::ArrayRef<Value *> args) {
    Scalars s{inner, type};
    return llvm::SmallVector<Value *, 2>{body(s, args)};
  }));
}

Value *keepDims(Builder &b, Value *reduced, Type original, llvm::ArrayRef<int64_t> axes) {
  if (!reduced || axes.empty())
    return reduced;
  Shape shape(original.shape().begin(), original.shape().end());
  for (int64_t a : axes)
    shape[size_t(a)] = b.context().dim(1);
  return b.reshape(reduced, shape);
}

Value *sum(Builder &b, Value *v, llvm::ArrayRef<int64_t> axes) {
  return b.reduce(Op::Add, v, axes, 0);
}

Value *mean(Builder &b, Value *v, llvm::ArrayRef<int64_t> axes) {
  if (!v)
    return nullptr;
  Shape extents;
  for (int64_t a : axes)
    extents.push_back(v->type().dim(unsigned(a)));
  Value *total = sum(b, v, axes);
  if (auto count = product(b.context(), extents).asConstant())
    return pointwise(b, {total}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s(Op::Div, a[0], s.c(double(*count)));
    });
  return b.pointwise(Op::Div, {total, extentProduct(b, v, axes, v->type().element())});
}

Value *extentProduct(Builder &b, Value *v, llvm::ArrayRef<int64_t> axes, Element e) {
  Value *shape = b.value(Op::ShapeOf, {v});
  Value *picked =
      b.value(Op::Gather, {shape, b.constant(Tensor::fromInts(axes))}, {{"axis", int64_t(0)}});
  return b.cast(b.reduce(Op::Mul, picked, {0}, 1), e);
}

Dim product(Context &c, llvm::ArrayRef<Dim> dims) {
  Dim n = c.dim(1);
  for (Dim d : dims)
    n = n * d;
  return n;
}

Dim quotient(Context &c, llvm::ArrayRef<Dim> numerator, llvm::ArrayRef<Dim> denominator) {
  Shape over(numerator.begin(), numerator.end()), under;
  for (Dim d : denominator) {
    auto same = llvm::find(over, d);
    if (same != over.end())
      over.erase(same);
    else
      under.push_back(d);
  }
  return floorDiv(product(c, over), product(c, under));
}

std::string text(llvm::ArrayRef<Dim> shape, llvm::StringRef separator) {
  std::string s;
  llvm::raw_string_ostream os(s);
  for (size_t i = 0; i < shape.size(); ++i)
    os << (i ? separator : "") << shape[i];
  return os.str();
}

Value *wrapIndex(Scalars &s, Value *index, Value *extent) {
  index = s.cast(index, Element::I64);
  Value *wrapped = s(Op::Add, index, extent);
  return s(Op::Select, s(Op::Less, index, s.c(Element::I64, 0)), wrapped, index);
}

Value *gatherLinear(Builder &b, Value *x, Value *linear) {
  if (!x || !linear)
    return nullptr;
  Value *flat = b.reshape(x, {x->type().elements()});
  return b.value(Op::Gather, {flat, linear}, {{"axis", int64_t(0)}});
}

Ints allAxes(int64_t first, int64_t last) {
  Ints axes(size_t(std::max<int64_t>(0, last - first)));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

Element computeType(Element e) { return e == Element::F64 ? e : Element::F32; }

} // namespace tenon::frontend
