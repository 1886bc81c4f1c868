// Implements Builder and the broadcasting helpers.
#include "ir/Builder.h"

#include "ir/Scalar.h"
#include "ir/ops/Ops.h"

#include <cmath>

namespace tenon {

IndexMap identityMap(unsigned rank) {
  IndexMap m(rank);
  for (unsigned i = 0; i < rank; ++i)
    m[i] = i;
  return m;
}

IndexMap broadcastMap(Type operand, llvm::ArrayRef<Dim> space) {
  assert(operand.rank() <= space.size() && "an operand of more dimensions is no broadcast");
  IndexMap m(operand.rank());
  const int64_t shift = int64_t(space.size()) - operand.rank();
  for (unsigned i = 0; i < operand.rank(); ++i)
    m[i] = operand.dim(i).isConstant(1) && space[i + shift] != operand.dim(i) ? -1 : i + shift;
  return m;
}

bool broadcastShapes(llvm::ArrayRef<llvm::ArrayRef<Dim>> shapes, llvm::SmallVectorImpl<Dim> &out) {
  size_t rank = 0;
  for (llvm::ArrayRef<Dim> s : shapes)
    rank = std::max(rank, s.size());
  out.assign(rank, Dim());
  for (llvm::ArrayRef<Dim> s : shapes)
    for (size_t i = 0; i < s.size(); ++i) {
      Dim &d = out[i + rank - s.size()];
      if (!d || d == s[i] || (d.isConstant(1) && !s[i].isConstant(1)))
        d = s[i];
      else if (!s[i].isConstant(1))
        return false;
    }
  return true;
}

namespace {
constexpr unsigned kMaxExtentNodes = 4096;
}

bool inferTypes(const Operation &op, llvm::SmallVectorImpl<Type> &types, std::string &error) {
  const OpInfo &info = op.info();
  if (!checkAttributeNames(op, error) || (info.infer && !info.infer(op, types, error)))
    return false;
  for (Type t : types) {
    if (!t.isTensor())
      continue;
    // A hostile graph can double an expression with every op.
    for (Dim d : t.shape())
      if (!isSmall(d, kMaxExtentNodes)) {
        error = "an extent of the result is an expression of more than " +
                std::to_string(kMaxExtentNodes) + " terms: bind its symbols";
        return false;
      }
    error = whyNotInMemory(t);
    if (!error.empty())
      return false;
  }
  return true;
}

Builder::Builder(Region &region, Diagnostics &diagnostics)
    : context_(region.graph() ? region.graph()->module().context()
                              : region.argument(0)->type().context()),
      diagnostics_(diagnostics), region_(&region) {}

Builder::Builder(Operation *where, Diagnostics &diagnostics)
    : context_(where->parent()->graph()->module().context()), diagnostics_(diagnostics),
      region_(where->parent()), before_(where) {
  location = where->loc();
}

void Builder::insert(Operation *op) {
  if (op->loc().empty())
    op->loc() = location;
  if (before_)
    region_->insertBefore(before_, op);
  else
    region_->push_back(op);
}

Operation *Builder::create(Op kind, llvm::ArrayRef<Value *> operands, NamedAttributes attributes,
                           unsigned regions, llvm::function_ref<void(unsigned, Region &)> body) {
  for (Value *v : operands)
    if (!v)
      return nullptr; // an earlier error, already reported
  Operation *op = Operation::create(kind, operands, std::move(attributes), {}, regions);
  // Inserted first, so that nested builders find the context through the parents.
  insert(op);
  if (body)
    for (unsigned i = 0; i < regions; ++i)
      body(i, op->region(i));
  llvm::SmallVector<Type, 2> types;
  std::string error;
  if (!inferTypes(*op, types, error)) {
    diagnostics_.error(*op, std::move(error));
    op->erase();
    return nullptr;
  }
  for (Type t : types)
    op->addResult(t);
  return op;
}

Value *Builder::value(Op kind, llvm::ArrayRef<Value *> operands, NamedAttributes attributes) {
  Operation *op = create(kind, operands, std::move(attributes));
  return op ? op->result() : nullptr;
}

Value *Builder::constant(Literal literal, llvm::StringRef hint) {
  Value *v = value(Op::Constant, {}, {{"value", std::move(literal)}});
  if (v && !hint.empty())
    v->setHint(hint);
  return v;
}

Value *Builder::constant(const Tensor &tensor, llvm::StringRef hint) {
  return constant(std::make_shared<const Tensor>(tensor), hint);
}

Value *Builder::scalarConstant(Element e, double v) { return constant(Tensor::scalar(e, v)); }

Operation *Builder::map(llvm::ArrayRef<Value *> operands, Body body) {
  llvm::SmallVector<llvm::ArrayRef<Dim>, 4> shapes;
  for (Value *v : operands) {
    if (!v)
      return nullptr;
    shapes.push_back(v->type().shape());
  }
  llvm::SmallVector<Dim, 6> space;
  if (!broadcastShapes(shapes, space)) {
    std::string message = "shapes do not broadcast:";
    for (Value *v : operands)
      message += " " + toString(v->type());
    message +=
        "; expected extents that are equal, or 1, counted from the last: reshape one operand, "
        "or give open extents their values with --bind";
    Diagnostic &d = diagnostics_.error(std::move(message));
    d.nodes = location;
    return nullptr;
  }
  std::vector<IndexMap> maps;
  for (Value *v : operands)
    maps.push_back(broadcastMap(v->type(), space));
  return map(operands, maps, space, body);
}

Operation *Builder::map(llvm::ArrayRef<Value *> operands, llvm::ArrayRef<IndexMap> maps,
                        llvm::ArrayRef<Dim> space, Body body) {
  for (Value *v : operands)
    if (!v)
      return nullptr;
  NamedAttributes attributes;
  attributes.insert({"maps", IntLists(maps.begin(), maps.end())});
  // The space is written down only where no operand carries it.
  llvm::SmallVector<bool, 6> carried(space.size(), false);
  for (const IndexMap &m : maps)
    for (int64_t d : m)
      if (d >= 0 && d < int64_t(space.size())) // the verifier reports others
        carried[size_t(d)] = true;
  if (llvm::is_contained(carried, false))
    attributes.insert({"space", Dims(space.begin(), space.end())});
  return create(Op::Map, operands, std::move(attributes), 1, [&](unsigned, Region &region) {
    for (Value *v : operands)
      region.addArgument(Type::scalar(context_, v->type().element()));
    Builder inner(region, diagnostics_);
    inner.location = location;
    inner.yield(body(inner, region.arguments()));
  });
}

Value *Builder::pointwise(Op scalar, llvm::ArrayRef<Value *> operands, NamedAttributes attributes) {
  Operation *op = map(operands, [&](Builder &b, llvm::ArrayRef<Value *> args) {
    return llvm::SmallVector<Value *, 2>{b.scalar(scalar, args, attributes)};
  });
  return op ? op->result() : nullptr;
}

Value *Builder::cast(Value *v, Element to) {
  if (!v || v->type().element() == to)
    return v;
  return pointwise(Op::Cast, {v}, {{"to", Type::scalar(context_, to)}});
}

Value *Builder::broadcastTo(Value *v, llvm::ArrayRef<Dim> shape) {
  if (!v)
    return nullptr;
  IndexMap m = broadcastMap(v->type(), shape);
  Operation *op = map({v}, {m}, shape, [](Builder &, llvm::ArrayRef<Value *> args) {
    return llvm::SmallVector<Value *, 2>{args[0]};
  });
  return op ? op->result() : nullptr;
}

Value *Builder::reduce(Op combiner, Value *v, llvm::ArrayRef<int64_t> axes, double identity) {
  if (!v)
    return nullptr;
  NamedAttributes attributes{{"maps", IntLists{identityMap(v->type().rank())}},
                             {"axes", Ints(axes.begin(), axes.end())},
                             {"init", Floats{identity}}};
  Operation *op = create(Op::Reduce, {v}, std::move(attributes), 1, [&](unsigned, Region &region) {
    Type t = Type::scalar(context_, v->type().element());
    Value *acc = region.addArgument(t), *x = region.addArgument(t);
    Builder inner(region, diagnostics_);
    inner.location = location;
    inner.yield({inner.scalar(combiner, {acc, x})});
  });
  return op ? op->result() : nullptr;
}

Operation *Builder::scan(Op combiner, Value *v, int64_t axis, double identity, bool exclusive,
                         bool reverse) {
  if (!v)
    return nullptr;
  NamedAttributes attributes{
      {"axis", axis}, {"init", identity}, {"exclusive", exclusive}, {"reverse", reverse}};
  return create(Op::Scan, {v}, std::move(attributes), 1, [&](unsigned, Region &region) {
    Type t = Type::scalar(context_, v->type().element());
    Value *before = region.addArgument(t), *x = region.addArgument(t);
    Builder inner(region, diagnostics_);
    inner.location = location;
    inner.yield({inner.scalar(combiner, {before, x})});
  });
}

Value *Builder::reshape(Value *v, llvm::ArrayRef<Dim> shape) {
  return value(Op::Reshape, {v}, {{"shape", Dims(shape.begin(), shape.end())}});
}

Value *Builder::transpose(Value *v, llvm::ArrayRef<int64_t> perm) {
  return value(Op::Transpose, {v}, {{"perm", Ints(perm.begin(), perm.end())}});
}

Value *Builder::scalar(Op kind, llvm::ArrayRef<Value *> operands, NamedAttributes attributes) {
  return value(kind, operands, std::move(attributes));
}

Value *Builder::scalarConst(Element e, double v) {
  // Integers take the nearest that they have; of what is no number 0.
  const auto nearest = [e](double x) {
    const int64_t least = isInteger(e) ? minInt(e) : INT64_MIN,
                  most = isInteger(e) ? maxInt(e) : INT64_MAX;
    return std::isnan(x)        ? int64_t(0)
           : x >= double(most)  ? most
           : x <= double(least) ? least
                                : int64_t(x);
  };
  Attribute value = isFloat(e)  ? Attribute(v)
                    : isBool(e) ? Attribute(v != 0)
                                : Attribute(nearest(v));
  return scalar(Op::Const, {}, {{"value", value}, {"to", Type::scalar(context_, e)}});
}

Value *Builder::scalarInt(Element e, int64_t v) {
  return scalar(Op::Const, {}, {{"value", v}, {"to", Type::scalar(context_, e)}});
}

void Builder::yield(llvm::ArrayRef<Value *> values, Op terminator) {
  for (Value *v : values)
    if (!v)
      return; // reported where it failed; the missing terminator makes inference fail
  Operation *op = Operation::create(terminator, values, {}, {});
  insert(op);
}

} // namespace tenon
