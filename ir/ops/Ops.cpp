// Implements the checks that inference functions of all families share.
#include "ir/ops/Ops.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <set>

namespace tenon {

bool fail(std::string &error, const llvm::Twine &message) {
  error = message.str();
  return false;
}

std::string text(Dim d) {
  std::string s;
  llvm::raw_string_ostream(s) << d;
  return s;
}

std::string text(llvm::ArrayRef<Dim> shape) {
  std::string s = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    s += (i ? ", " : "") + text(shape[i]);
  return s + "]";
}

//===----------------------------------------------------------------------===//
// Form
//===----------------------------------------------------------------------===//

namespace {

llvm::StringRef kindName(AttrKind k) {
  switch (k) {
  case AttrKind::Bool: return "a boolean";
  case AttrKind::Int: return "an integer";
  case AttrKind::Float: return "a number";
  case AttrKind::String: return "a string";
  case AttrKind::Word: return "a word";
  case AttrKind::Ints: return "a list of integers";
  case AttrKind::IntLists: return "a list of integer lists";
  case AttrKind::Floats: return "a list of numbers";
  case AttrKind::Dims: return "a list of extents";
  case AttrKind::Strings: return "a list of strings";
  case AttrKind::Type: return "a type";
  case AttrKind::Schedule: return "a schedule";
  case AttrKind::Literal: return "a literal";
  }
  return "";
}

bool hasKind(const Attribute &a, AttrKind k) {
  switch (k) {
  case AttrKind::Bool: return a.get<bool>();
  case AttrKind::Int: return a.get<int64_t>();
  case AttrKind::Float: return a.get<double>();
  case AttrKind::String: return a.get<std::string>();
  case AttrKind::Word: return a.get<Word>();
  case AttrKind::Ints: return a.get<Ints>();
  case AttrKind::IntLists: return a.get<IntLists>();
  case AttrKind::Floats: return a.get<Floats>();
  case AttrKind::Dims: return a.get<Dims>();
  case AttrKind::Strings: return a.get<Strings>();
  case AttrKind::Type: return a.get<Type>();
  case AttrKind::Schedule: return a.get<Schedule>();
  case AttrKind::Literal: return a.get<Literal>() && *a.get<Literal>();
  }
  return false;
}

bool checkOperandCount(const Operation &op, std::string &error) {
  unsigned least = 0, most = 0;
  bool variadic = false;
  for (llvm::StringRef o : op.info().operands) {
    if (o.endswith("…")) {
      variadic = true;
      continue;
    }
    ++most;
    if (!o.endswith("?"))
      ++least;
  }
  const unsigned n = op.numOperands();
  if (n >= least && (variadic || n <= most))
    return true;
  std::string expected = std::to_string(least);
  if (variadic)
    expected = "at least " + expected;
  else if (most != least)
    expected += " to " + std::to_string(most);
  return fail(error, "expected " + expected + " operands, found " + llvm::Twine(n));
}

bool checkAttributeKinds(const Operation &op, std::string &error) {
  for (const AttrInfo &a : op.info().attributes)
    if (const Attribute *found = op.find(a.name); found && !hasKind(*found, a.kind))
      return fail(error, "attribute " + a.name + ": expected " + kindName(a.kind));
  return true;
}

} // namespace

bool checkAttributeNames(const Operation &op, std::string &error) {
  const OpInfo &info = op.info();
  // First, for a name that is misspelt is missing, too.
  for (const auto &entry : op.attributes())
    if (!info.attribute(entry.first))
      return fail(error, unknownAttribute(info, entry.first));
  for (const AttrInfo &a : info.attributes)
    if (a.required && !op.has(a.name))
      return fail(error, info.name + " needs attribute '" + a.name + "', " + kindName(a.kind));
  return true;
}

bool checkForm(const Operation &op, std::string &error) {
  for (Value *v : op.operands())
    if (!v || !v->type())
      return fail(error, "an operand has no type");
  if (!checkOperandCount(op, error) || !checkAttributeNames(op, error) ||
      !checkAttributeKinds(op, error))
    return false;
  const int regions = op.info().regions;
  if (regions != kVariadic && unsigned(regions) != op.numRegions())
    return fail(error, "expected " + llvm::Twine(regions) + " regions, found " +
                           llvm::Twine(op.numRegions()));
  return true;
}

bool checkTensor(const Operation &op, unsigned i, int rank, std::string &error) {
  Type t = op.operand(i)->type();
  llvm::ArrayRef<llvm::StringRef> names = op.info().operands;
  std::string who = i < names.size() ? names[i].rtrim("?…").str() : "operand " + std::to_string(i);
  if (!t.isTensor())
    return fail(error, llvm::Twine(who) + ": expected a tensor, found " + toString(t));
  if (rank >= 0 && t.rank() != unsigned(rank))
    return fail(error, llvm::Twine(who) + ": expected rank " + llvm::Twine(rank) + ", found " +
                           llvm::Twine(t.rank()));
  return true;
}

bool checkAxis(int64_t axis, unsigned rank, llvm::StringRef what, std::string &error) {
  if (axis >= 0 && axis < int64_t(rank))
    return true;
  return fail(error,
              what + " " + llvm::Twine(axis) + " is out of range for rank " + llvm::Twine(rank));
}

bool checkInts(const Operation &op, llvm::StringRef name, size_t count, int64_t lowest,
               bool optional, std::string &error) {
  if (!op.has(name))
    return optional || fail(error, "attribute " + name + " is missing");
  const Ints &v = op.intsAttr(name);
  if (v.size() != count)
    return fail(error, "attribute " + name + ": expected " + llvm::Twine(count) +
                           " integers, found " + llvm::Twine(v.size()));
  for (int64_t x : v)
    if (x < lowest || x > INT32_MAX) // larger ones would overflow sums of products
      return fail(error, "attribute " + name + ": expected " + llvm::Twine(lowest) + " to " +
                             llvm::Twine(INT32_MAX) + ", found " + llvm::Twine(x));
  return true;
}

int64_t intAt(const Operation &op, llvm::StringRef name, size_t i, int64_t otherwise) {
  const Ints &v = op.intsAttr(name);
  return i < v.size() ? v[i] : otherwise;
}

bool checkWord(const Operation &op, llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> allowed,
               std::string &error) {
  if (!op.has(name))
    return true;
  llvm::StringRef word = op.wordAttr(name);
  if (llvm::is_contained(allowed, word))
    return true;
  std::string list;
  for (llvm::StringRef a : allowed)
    list += (list.empty() ? "" : ", ") + a.str();
  return fail(error, "attribute " + name + ": expected one of " + list + ", found " + word);
}

//===----------------------------------------------------------------------===//
// Extents and types
//===----------------------------------------------------------------------===//

Context *contextOf(const Operation &op) {
  if (op.numOperands())
    return &op.operand(0)->type().context();
  for (const auto &entry : op.attributes()) {
    if (const Dims *dims = entry.second.get<Dims>())
      if (!dims->empty())
        return dims->front().node()->context;
    if (const Type *type = entry.second.get<Type>())
      return &type->context();
  }
  for (Region *r = op.parent(); r; r = r->parentOp() ? r->parentOp()->parent() : nullptr) {
    if (Graph *g = r->graph())
      return &g->module().context();
    if (r->numArguments())
      return &r->argument(0)->type().context();
  }
  return nullptr;
}

namespace {
bool countNodes(const DimNode *n, unsigned &budget) {
  if (budget == 0)
    return false;
  --budget;
  return !n->lhs || (countNodes(n->lhs, budget) && countNodes(n->rhs, budget));
}
} // namespace

bool isSmall(Dim d, unsigned nodes) { return countNodes(d.node(), nodes); }

bool sameExtent(Dim a, Dim b) {
  if (a == b)
    return true;
  if (!a || !b || (a.isConstant() && b.isConstant()))
    return false;
  // Values of symbols in trial `user`: spread, reproducible, and small enough not to saturate.
  auto lookup = [](llvm::StringRef symbol, void *user) -> llvm::Optional<int64_t> {
    uint64_t h = 14695981039346656037ull ^ *static_cast<uint64_t *>(user) * 0x9e3779b97f4a7c15ull;
    for (unsigned char c : symbol)
      h = (h ^ c) * 1099511628211ull;
    return int64_t((h >> 33) % 997) + 1;
  };
  for (uint64_t trial = 0; trial < 16; ++trial)
    if (evaluate(a, lookup, &trial) != evaluate(b, lookup, &trial))
      return false;
  return true;
}

bool sameShape(llvm::ArrayRef<Dim> a, llvm::ArrayRef<Dim> b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), sameExtent);
}

Type logical(Type t) {
  return t.isTensor() ? Type::tensor(t.context(), t.element(), t.shape()) : t;
}

bool sameLogical(Type a, Type b) {
  if (!a || !b || a.kind() != b.kind())
    return false;
  switch (a.kind()) {
  case TypeKind::Scalar: return a.element() == b.element();
  case TypeKind::Tensor: return a.element() == b.element() && sameShape(a.shape(), b.shape());
  case TypeKind::Sequence:
  case TypeKind::Optional: return sameLogical(a.inner(), b.inner());
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Iteration
//===----------------------------------------------------------------------===//

bool iterationSpace(const Operation &op, llvm::SmallVectorImpl<Dim> &space, std::string &error) {
  const IntLists &maps = op.intListsAttr("maps");
  const Dims &given = op.dimsAttr("space");
  if (maps.size() != op.numOperands())
    return fail(error, "attribute maps: expected one list per operand (" +
                           llvm::Twine(op.numOperands()) + "), found " + llvm::Twine(maps.size()));
  int64_t rank = int64_t(given.size());
  if (!op.has("space"))
    for (const Ints &m : maps)
      for (int64_t d : m)
        rank = std::max(rank, d < 64 ? d + 1 : 64);
  space.assign(given.begin(), given.end());
  space.resize(size_t(rank));
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    if (!checkTensor(op, i, -1, error))
      return false;
    Type t = op.operand(i)->type();
    auto who = [&] { return "operand " + std::to_string(i); };
    if (maps[i].size() != t.rank())
      return fail(error, who() + ": expected an index map of " + llvm::Twine(t.rank()) +
                             " entries, found " + llvm::Twine(maps[i].size()));
    uint64_t seen = 0;
    for (unsigned k = 0; k < t.rank(); ++k) {
      const int64_t d = maps[i][k];
      if (d == -1) {
        if (!t.dim(k).isConstant(1))
          return fail(error, who() + ": dimension " + llvm::Twine(k) +
                                 " is broadcast: expected extent 1, found " + text(t.dim(k)));
        continue;
      }
      if (d < 0 || d >= rank || d >= 64)
        return fail(error, who() + ": index map entry " + llvm::Twine(d) +
                               " is outside the iteration space of rank " + llvm::Twine(rank));
      if (seen >> d & 1)
        return fail(error,
                    who() + ": index map names iteration dimension " + llvm::Twine(d) + " twice");
      seen |= uint64_t(1) << d;
      if (!space[size_t(d)])
        space[size_t(d)] = t.dim(k);
      else if (!sameExtent(space[size_t(d)], t.dim(k)))
        return fail(error, who() + ": iteration dimension " + llvm::Twine(d) +
                               ": expected extent " + text(space[size_t(d)]) + ", found " +
                               text(t.dim(k)));
    }
  }
  for (size_t d = 0; d < space.size(); ++d)
    if (!space[d])
      return fail(error, "no operand carries iteration dimension " + llvm::Twine(d) +
                             ": attribute space must give it");
  return true;
}

bool checkBody(const Operation &op, size_t rank, std::string &error) {
  Region &body = op.region();
  for (Operation &inner : body) {
    for (Value *v : inner.operands())
      if (!v || (v->def() ? v->def()->parent() : v->argumentOf()) != &body)
        return fail(error, inner.name() + " in the body reads a value from outside: pass it as an "
                                          "operand");
    if (inner.isTerminator())
      continue;
    if (!(inner.info().traits & OpTrait::Scalar))
      return fail(error, "the body holds " + inner.name() + ": expected scalar functions");
    if (inner.is(Op::Index) &&
        !checkAxis(inner.intAttr("dim", -1), unsigned(rank), "index: iteration dimension", error))
      return false;
  }
  return true;
}

Operation *regionEnd(const Operation &op, unsigned region, std::string &error) {
  Operation *end = op.region(region).terminator();
  if (!end || !end->is(Op::Yield)) {
    fail(error, "region " + llvm::Twine(region) + " does not end with yield");
    return nullptr;
  }
  for (Value *v : end->operands())
    if (!v || !v->type()) {
      fail(error, "region " + llvm::Twine(region) + " yields a value without a type");
      return nullptr;
    }
  return end;
}

} // namespace tenon
