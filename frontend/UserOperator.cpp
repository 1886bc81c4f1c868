// Implements user operators: the declared module's graph is the reference body, its inputs' and
// output's types are the signature, and symbols in them stand for the extents of each use.
#include "frontend/UserOperator.h"

#include "frontend/UserDeclaration.h"

#include "llvm/Support/raw_ostream.h"

namespace tenon {
namespace {

/// A declaration lives in a context of its own, so that its symbols are nobody else's.
struct Declaration {
  Context context;
  std::unique_ptr<Module> module;
  std::string name, path;
  Graph &graph() const { return module->graph(); }
};

/// Rebuilds pieces of a declaration in another context, with extents in place of symbols.
class Instance {
public:
  Instance(Context &context, Builder &b) : context_(context), b_(b) {}

  /// Takes the symbols that are extents of `declared` to stand for those of `actual`, where they
  /// stand for nothing yet; false with a message where element or rank differ or a bound is passed.
  bool bind(Type declared, Type actual, std::string &error) {
    if (!actual.isTensor() || declared.element() != actual.element() ||
        declared.rank() != actual.rank())
      return mismatch(declared, actual, "", error);
    for (unsigned i = 0; i < declared.rank(); ++i) {
      const Dim d = declared.dim(i), a = actual.dim(i);
      if (!d.isSymbol())
        continue;
      if (a.lower() < d.lower() || a.upper() > d.upper())
        return mismatch(declared, actual,
                        " with " + d.symbol().str() + " in " + std::to_string(d.lower()) + ".." +
                            std::to_string(d.upper()),
                        error);
      symbols_.insert({d.symbol().str(), a});
    }
    return true;
  }

  /// Whether `actual` is `declared` for what the symbols stand for; false with a message.
  bool check(Type declared, Type actual, std::string &error) const {
    for (unsigned i = 0; i < declared.rank(); ++i)
      if (dim(declared.dim(i)) != actual.dim(i))
        return mismatch(declared, actual,
                        ", where " + text(declared.dim(i)) + " is " + text(dim(declared.dim(i))),
                        error);
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
    case DimKind::Min: return min(side(n->lhs), side(n->rhs));
    case DimKind::Max: return max(side(n->lhs), side(n->rhs));
    }
    return context_.dim(0);
  }

private:
  static std::string text(Dim d) {
    std::string s;
    llvm::raw_string_ostream(s) << d;
    return s;
  }
  static bool mismatch(Type declared, Type actual, const std::string &more, std::string &error) {
    error = "expected " + toString(declared) + more + ", found " + toString(actual);
    return false;
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

/// A node's attribute as the tensor that an input of the declaration asks for; None where it has
/// another form or would lose digits.
llvm::Optional<Tensor> tensorOf(const Attribute &a, Type declared) {
  if (const Literal *l = a.get<Literal>())
    return **l;
  Ints integers;
  Floats reals;
  if (const int64_t *i = a.get<int64_t>())
    integers.push_back(*i);
  else if (const double *d = a.get<double>())
    reals.push_back(*d);
  else if (const Ints *l = a.get<Ints>())
    integers = *l;
  else if (const Floats *l = a.get<Floats>())
    reals = *l;
  else
    return llvm::None;
  if (!reals.empty() && !isFloat(declared.element()))
    return llvm::None;
  const auto count = int64_t(integers.size() + reals.size());
  llvm::SmallVector<int64_t, 1> shape;
  if (declared.rank() == 1)
    shape.push_back(count);
  else if (declared.rank() != 0 || count != 1)
    return llvm::None;
  Tensor t(declared.element(), shape);
  for (size_t i = 0; i < integers.size(); ++i)
    if (isFloat(declared.element()))
      t.set(int64_t(i), double(integers[i]));
    else if (t.setInt(int64_t(i), integers[i]); t.intAt(int64_t(i)) != integers[i])
      return llvm::None;
  for (size_t i = 0; i < reals.size(); ++i)
    t.set(int64_t(i), reals[i]);
  return t;
}

llvm::SmallVector<Value *, 2> build(const Declaration &declaration, Builder &b,
                                    llvm::ArrayRef<Value *> given,
                                    const NamedAttributes &nodeAttributes) {
  auto fail = [&](std::string message) {
    b.diagnostics().error(declaration.name + ": " + message).notes = {"declared by '" +
                                                                      declaration.path + "'"};
    return llvm::SmallVector<Value *, 2>();
  };
  Graph &graph = declaration.graph();
  Region &reference = graph.body();
  if (given.size() > reference.numArguments())
    return fail("expected at most " + std::to_string(reference.numArguments()) +
                " operands, found " + std::to_string(given.size()));
  Instance instance(b.context(), b);
  llvm::SmallVector<Value *, 4> operands;
  std::string error;
  for (unsigned i = 0; i < reference.numArguments(); ++i) {
    const Type declared = reference.argument(i)->type();
    const std::string &name = graph.inputNames[i];
    Value *v = i < given.size() ? given[i] : nullptr;
    if (!v) { // an attribute of the node
      auto a = nodeAttributes.find(name);
      auto t = a == nodeAttributes.end() ? llvm::None : tensorOf(a->second, declared);
      if (!t)
        return fail("expected operand " + std::to_string(i) + " or an attribute '" + name +
                    "' as " + toString(declared) +
                    (a == nodeAttributes.end() ? "" : ", found an attribute of another form"));
      v = b.constant(*t, name);
    }
    if (!instance.bind(declared, v->type(), error))
      return fail("operand '" + name + "': " + error);
    operands.push_back(v);
  }
  for (unsigned i = 0; i < operands.size(); ++i)
    if (!instance.check(reference.argument(i)->type(), operands[i]->type(), error))
      return fail("operand '" + graph.inputNames[i] + "': " + error);
  for (const auto &entry : nodeAttributes)
    if (!llvm::is_contained(graph.inputNames, entry.first))
      b.diagnostics().warning(declaration.name + ": attribute '" + entry.first +
                              "' is no input of the declaration and is ignored");

  const Type result = instance.type(graph.returnOp()->operand(0)->type());
  NamedAttributes attributes;
  attributes.insert({"name", declaration.name});
  attributes.insert({"types", result});
  for (const char *key : {"function", "header"})
    if (auto it = declaration.module->facts.find(key); it != declaration.module->facts.end())
      attributes.insert({key, it->second});
  Dims extents;
  for (Dim s : declaration.module->symbols)
    extents.push_back(instance.dim(s));
  if (attributes.count("function"))
    attributes.insert({"extents", extents});
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

/// Adds what a declaration declares; its module is null after errors.
static bool add(std::shared_ptr<Declaration> declaration, llvm::StringRef path,
                ImportOptions &options, Diagnostics &diagnostics) {
  if (!declaration->module)
    return false;
  declaration->name = declaration->module->name;
  declaration->path = path.str();
  if (auto earlier = options.userOperators.find(declaration->name);
      earlier != options.userOperators.end()) {
    diagnostics.error("operator '" + declaration->name + "' is declared twice: by '" +
                      earlier->second.path + "' and '" + path.str() + "'");
    return false;
  }
  const bool called = declaration->module->facts.count("function");
  UserOperator op;
  op.path = declaration->path;
  op.build = [declaration, called](Builder &b, llvm::ArrayRef<Value *> operands,
                                   const NamedAttributes &attributes) {
    return called ? build(*declaration, b, operands, attributes)
                  : buildInline(*declaration, b, operands, attributes);
  };
  options.userOperators[declaration->name] = std::move(op);
  return true;
}

bool readUserOperator(llvm::StringRef path, ImportOptions &options, Diagnostics &diagnostics) {
  auto declaration = std::make_shared<Declaration>();
  declaration->module = readModule(declaration->context, path, diagnostics, checkUserDeclaration);
  return add(declaration, path, options, diagnostics);
}

bool readUserOperator(const llvm::MemoryBuffer &text, llvm::StringRef data, llvm::StringRef name,
                      ImportOptions &options, Diagnostics &diagnostics) {
  auto declaration = std::make_shared<Declaration>();
  declaration->module =
      readModule(declaration->context, text, data, name, diagnostics, checkUserDeclaration);
  return add(declaration, name, options, diagnostics);
}

} // namespace tenon
