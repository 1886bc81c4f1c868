// Implements user operators: the declared module's graph is the reference body, its inputs' and
// output's types are the signature, and symbols in them stand for the extents of each use.
#include "frontend/UserOperator.h"

#include "ir/Text.h"

#include <cmath>

namespace tenon {
namespace {

/// A declaration lives in a context of its own, so that its symbols are nobody else's.
struct Declaration {
  Context context;
  std::unique_ptr<Module> module;
  std::string name;
  Graph &graph() const { return module->graph(); }
};

/// Rebuilds pieces of a declaration in another context, with extents in place of symbols.
class Instance {
public:
  Instance(Context &context, Builder &b) : context_(context), b_(b) {}

  /// Makes the extents of `declared` those of `actual`; false with a message where they differ.
  bool bind(Type declared, Type actual, std::string &error) {
    if (!actual.isTensor() || declared.element() != actual.element() ||
        declared.rank() != actual.rank()) {
      error = "expected " + toString(declared) + ", found " + toString(actual);
      return false;
    }
    for (unsigned i = 0; i < declared.rank(); ++i) {
      const Dim d = declared.dim(i), a = actual.dim(i);
      if (d.isSymbol() && symbols_.insert({d.symbol().str(), a}).second)
        continue;
      if (dim(d) != a) {
        error = "extent " + std::to_string(i) + ": expected " + toString(declared) + ", found " +
                toString(actual);
        return false;
      }
    }
    return true;
  }

  Type type(Type t) const {
    if (t.isScalar())
      return Type::scalar(context_, t.element());
    llvm::SmallVector<Dim, 6> shape;
    for (Dim d : t.shape())
      shape.push_back(dim(d));
    return Type::tensor(context_, t.element(), shape);
  }

  /// Copies the operations of `from` into `into`; `values` gives its arguments.
  void copy(Region &from, Region &into, std::map<const Value *, Value *> &values, Op terminator) {
    for (Operation &op : from) {
      llvm::SmallVector<Value *, 4> operands;
      for (Value *v : op.operands())
        operands.push_back(values.at(v));
      NamedAttributes attributes;
      for (auto &[key, value] : op.attributes())
        attributes.insert({key, attribute(value)});
      llvm::SmallVector<Type, 2> results;
      for (Value *v : op.results())
        results.push_back(type(v->type()));
      const Op kind = op.is(Op::Return) ? terminator : op.kind();
      Operation *made =
          Operation::create(kind, operands, std::move(attributes), results, op.numRegions());
      made->loc() = b_.location;
      for (unsigned i = 0; i < op.numRegions(); ++i) {
        for (Value *a : op.region(i).arguments())
          values[a] = made->region(i).addArgument(type(a->type()), a->hint());
        copy(op.region(i), made->region(i), values, terminator);
      }
      for (unsigned i = 0; i < op.numResults(); ++i) {
        made->result(i)->setHint(op.result(i)->hint());
        values[op.result(i)] = made->result(i);
      }
      into.push_back(made);
    }
  }

private:
  Dim dim(Dim d) const {
    const DimNode *n = d.node();
    auto side = [&](const DimNode *s) { return dim(Dim(s)); };
    switch (n->kind) {
    case DimKind::Constant: return context_.dim(n->value);
    case DimKind::Symbol: {
      auto it = symbols_.find(n->symbol.str());
      return it == symbols_.end() ? context_.dim(0) : it->second;
    }
    case DimKind::Add: return side(n->lhs) + side(n->rhs);
    case DimKind::Mul: return side(n->lhs) * side(n->rhs);
    case DimKind::FloorDiv: return floorDiv(side(n->lhs), side(n->rhs));
    case DimKind::CeilDiv: return ceilDiv(side(n->lhs), side(n->rhs));
    case DimKind::Mod: return mod(side(n->lhs), side(n->rhs));
    case DimKind::Min: return min(side(n->lhs), side(n->rhs));
    case DimKind::Max: return max(side(n->lhs), side(n->rhs));
    }
    return context_.dim(0);
  }

  Attribute attribute(const Attribute &a) const {
    if (const Dims *dims = a.get<Dims>()) {
      Dims out;
      for (Dim d : *dims)
        out.push_back(dim(d));
      return out;
    }
    if (const Type *t = a.get<Type>())
      return type(*t);
    return a;
  }

  Context &context_;
  Builder &b_;
  std::map<std::string, Dim> symbols_;
};

/// A node's attribute as the scalar or vector that an input of the declaration asks for.
llvm::Optional<Tensor> tensorOf(const Attribute &a, Type declared) {
  Floats values;
  if (const int64_t *i = a.get<int64_t>())
    values.push_back(double(*i));
  else if (const double *d = a.get<double>())
    values.push_back(*d);
  else if (const Ints *l = a.get<Ints>())
    values.assign(l->begin(), l->end());
  else if (const Floats *l = a.get<Floats>())
    values = *l;
  else
    return llvm::None;
  llvm::SmallVector<int64_t, 1> shape;
  if (declared.rank() == 1)
    shape.push_back(int64_t(values.size()));
  else if (declared.rank() != 0 || values.size() != 1)
    return llvm::None;
  Tensor t(declared.element(), shape);
  for (size_t i = 0; i < values.size(); ++i)
    t.set(int64_t(i), values[i]);
  return t;
}

llvm::SmallVector<Value *, 2> build(const Declaration &declaration, Builder &b,
                                    llvm::ArrayRef<Value *> given,
                                    const NamedAttributes &nodeAttributes) {
  auto fail = [&](std::string message) {
    b.diagnostics().error("operator " + declaration.name + ": " + message);
    return llvm::SmallVector<Value *, 2>();
  };
  Graph &graph = declaration.graph();
  Region &reference = graph.body();
  if (given.size() > reference.numArguments())
    return fail("expected at most " + std::to_string(reference.numArguments()) +
                " operands, found " + std::to_string(given.size()));
  Instance instance(b.context(), b);
  llvm::SmallVector<Value *, 4> operands;
  for (unsigned i = 0; i < reference.numArguments(); ++i) {
    const Type declared = reference.argument(i)->type();
    Value *v = i < given.size() ? given[i] : nullptr;
    if (!v) { // an attribute of the node
      auto a = nodeAttributes.find(graph.inputNames[i]);
      auto t = a == nodeAttributes.end() ? llvm::None : tensorOf(a->second, declared);
      if (!t)
        return fail("expected an operand or an attribute '" + graph.inputNames[i] + "' of type " +
                    toString(declared));
      v = b.constant(*t, graph.inputNames[i]);
    }
    std::string error;
    if (!instance.bind(declared, v->type(), error))
      return fail("operand '" + graph.inputNames[i] + "': " + error);
    operands.push_back(v);
  }

  const Type result = instance.type(graph.returnOp()->operand(0)->type());
  NamedAttributes attributes;
  attributes.insert({"name", declaration.name});
  attributes.insert({"types", result});
  for (const char *key : {"function", "header"})
    if (auto it = declaration.module->facts.find(key); it != declaration.module->facts.end())
      attributes.insert({key, it->second});
  Operation *op =
      b.create(Op::User, operands, std::move(attributes), 1, [&](unsigned, Region &body) {
        std::map<const Value *, Value *> values;
        for (unsigned i = 0; i < reference.numArguments(); ++i)
          values[reference.argument(i)] =
              body.addArgument(operands[i]->type(), reference.argument(i)->hint());
        instance.copy(reference, body, values, Op::Yield);
      });
  if (!op)
    return {};
  return {op->result()};
}

/// Without a function of its own an operator is what its reference body says.
llvm::SmallVector<Value *, 2> buildInline(const Declaration &declaration, Builder &b,
                                          llvm::ArrayRef<Value *> given,
                                          const NamedAttributes &nodeAttributes) {
  llvm::SmallVector<Value *, 2> results = build(declaration, b, given, nodeAttributes);
  if (results.empty())
    return results;
  Operation *user = results[0]->def();
  std::map<const Value *, Value *> values;
  for (unsigned i = 0; i < user->numOperands(); ++i)
    values[user->region().argument(i)] = user->operand(i);
  Value *result = nullptr;
  for (Operation &op : user->region()) {
    if (op.isTerminator())
      result = values.at(op.operand(0));
    else
      user->parent()->insertBefore(user, op.clone(values));
  }
  user->erase();
  return {result};
}

} // namespace

bool readUserOperator(llvm::StringRef path, ImportOptions &options, Diagnostics &diagnostics) {
  auto declaration = std::make_shared<Declaration>();
  declaration->module = readModule(declaration->context, path, diagnostics);
  if (!declaration->module)
    return false;
  auto fail = [&](std::string message) {
    diagnostics.error("operator in '" + path.str() + "': " + message);
    return false;
  };
  declaration->name = declaration->module->name;
  if (!llvm::StringRef(declaration->name).contains("::"))
    return fail("expected the module's name to be DOMAIN::OPERATOR, found '" + declaration->name +
                "'");
  Graph &graph = declaration->graph();
  if (graph.outputNames.size() != 1)
    return fail("expected one output, found " + std::to_string(graph.outputNames.size()));
  std::map<std::string, bool> bound;
  for (Value *a : graph.body().arguments()) {
    if (!a->type().isTensor())
      return fail("expected inputs that are tensors, found " + toString(a->type()));
    for (Dim d : a->type().shape())
      if (d.isSymbol())
        bound[d.symbol().str()] = true;
  }
  for (Dim s : declaration->module->symbols)
    if (!bound.count(s.symbol().str()))
      return fail("symbol " + s.symbol().str() + " is the extent of no input");
  const bool called = declaration->module->facts.count("function");
  UserOperator op;
  op.build = [declaration, called](Builder &b, llvm::ArrayRef<Value *> operands,
                                   const NamedAttributes &attributes) {
    return called ? build(*declaration, b, operands, attributes)
                  : buildInline(*declaration, b, operands, attributes);
  };
  options.userOperators[declaration->name] = std::move(op);
  return true;
}

} // namespace tenon
