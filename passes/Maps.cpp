// Implements the helpers over map and reduce.
#include "passes/Maps.h"

#include "ir/Scalar.h"

namespace tenon {

IterationSpace iterationSpace(const Operation &op) {
  if (op.is(Op::Map)) {
    llvm::ArrayRef<Dim> s = op.result()->type().shape();
    return IterationSpace(s.begin(), s.end());
  }
  if (op.has("space")) {
    const Dims &s = op.dimsAttr("space");
    return IterationSpace(s.begin(), s.end());
  }
  IterationSpace space;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    const IndexMap &m = indexMap(op, i);
    for (size_t d = 0; d < m.size(); ++d) {
      if (m[d] < 0)
        continue;
      if (size_t(m[d]) >= space.size())
        space.resize(m[d] + 1);
      space[m[d]] = op.operand(i)->type().dim(d);
    }
  }
  return space;
}

bool isIdentityMap(const IndexMap &m, unsigned rank) {
  if (m.size() != rank)
    return false;
  for (unsigned i = 0; i < rank; ++i)
    if (m[i] != int64_t(i))
      return false;
  return true;
}
bool readsInPlace(const Operation &map, unsigned i) {
  return map.operand(i)->type().shape() == map.result()->type().shape() &&
         isIdentityMap(indexMap(map, i), map.result()->type().rank());
}

void setMapOperands(Operation &op, llvm::ArrayRef<Value *> operands, const IntLists &maps,
                    llvm::ArrayRef<Dim> space) {
  llvm::SmallVector<bool, 6> carried(space.size(), false);
  for (const IndexMap &m : maps)
    for (int64_t d : m)
      if (d >= 0)
        carried[d] = true;
  Dims kept(space.begin(), space.end()); // `space` may live in what is changed next
  if (llvm::is_contained(carried, false))
    op.set("space", kept);
  else
    op.remove("space");
  op.set("maps", maps);
  op.setOperands(operands);
}

bool readInstead(Operation &op, unsigned i, Value *x, const IndexMap &map) {
  const IterationSpace space = iterationSpace(op);
  auto operands = op.operands();
  IntLists maps = op.intListsAttr("maps");
  operands[i] = x;
  maps[i] = map;
  setMapOperands(op, operands, maps, space);
  return true;
}

void dropMapOperand(Operation &op, unsigned i) {
  IterationSpace space = iterationSpace(op);
  auto operands = op.operands();
  IntLists maps = op.intListsAttr("maps");
  operands.erase(operands.begin() + i);
  maps.erase(maps.begin() + i);
  op.region().eraseArgument(accumulators(op) + i);
  setMapOperands(op, operands, maps, space);
}

void shareOperands(Operation &map) {
  for (unsigned i = 0; i < map.numOperands(); ++i)
    for (unsigned k = map.numOperands(); --k > i;)
      if (map.operand(i) == map.operand(k) && indexMap(map, i) == indexMap(map, k)) {
        elementArgument(map, k)->replaceAllUsesWith(elementArgument(map, i));
        dropMapOperand(map, k);
      }
}

void inlineBody(Region &body, Builder &b, std::map<const Value *, Value *> &map,
                llvm::ArrayRef<int64_t> dims) {
  for (Operation &op : body) {
    if (op.isTerminator())
      break;
    if (op.is(Op::Index)) {
      const int64_t to = dims[op.intAttr("dim")];
      NamedAttributes attributes = op.attributes();
      if (to >= 0)
        attributes.insert_or_assign("dim", Attribute(to));
      map[op.result()] = to >= 0 ? b.scalar(Op::Index, {}, std::move(attributes))
                                 : b.scalarInt(op.result()->type().element(), 0);
      continue;
    }
    llvm::SmallVector<Value *, 4> operands;
    for (Value *v : op.operands()) {
      auto it = map.find(v);
      operands.push_back(it == map.end() ? v : it->second);
    }
    Value *copy = b.scalar(op.kind(), operands, op.attributes());
    copy->setHint(op.result()->hint());
    map[op.result()] = copy;
  }
}

Operation *mapOver(Builder &b, Operation &map, llvm::ArrayRef<Value *> operands,
                   llvm::ArrayRef<Dim> space) {
  llvm::SmallVector<int64_t, 6> dims;
  for (unsigned d = 0; d < space.size(); ++d)
    dims.push_back(d);
  return mapOver(b, map, operands, map.intListsAttr("maps"), space, dims);
}

Operation *mapOver(Builder &b, Operation &map, llvm::ArrayRef<Value *> operands,
                   const IntLists &maps, llvm::ArrayRef<Dim> space, llvm::ArrayRef<int64_t> dims) {
  return b.map(operands, maps, space, [&](Builder &body, llvm::ArrayRef<Value *> args) {
    std::map<const Value *, Value *> values;
    for (unsigned i = 0; i < args.size(); ++i)
      values[map.region().argument(i)] = args[i];
    inlineBody(map.region(), body, values, dims);
    llvm::SmallVector<Value *, 2> ends;
    for (Value *end : map.region().terminator()->operands())
      ends.push_back(values.count(end) ? values[end] : end);
    return ends;
  });
}

bool isReadBesides(const Value *v, const Operation &second) {
  return llvm::any_of(v->uses(), [&](Use *u) { return u->owner() != &second; });
}

Operation *mergedMap(Builder &b, Operation &first, Operation &second) {
  llvm::SmallVector<Value *, 8> operands;
  IntLists maps;
  for (Operation *op : {&first, &second})
    for (unsigned i = 0; i < op->numOperands(); ++i)
      if (op->operand(i)->def() != &first) {
        operands.push_back(op->operand(i));
        maps.push_back(indexMap(*op, i));
      }
  const IterationSpace space = iterationSpace(second);
  const Ints dims = identityMap(unsigned(space.size()));
  return b.map(operands, maps, space, [&](Builder &inner, llvm::ArrayRef<Value *> args) {
    inner.location.clear(); // the map has it; hundreds of maps become one
    std::map<const Value *, Value *> values;
    auto inlined = [&](Value *v) { return values.count(v) ? values[v] : v; };
    llvm::SmallVector<Value *, 2> made, yields;
    unsigned next = 0;
    for (Value *argument : first.region().arguments())
      values[argument] = args[next++];
    inlineBody(first.region(), inner, values, dims);
    for (Value *v : first.results()) {
      made.push_back(inlined(first.region().terminator()->operand(v->index())));
      if (isReadBesides(v, second))
        yields.push_back(made.back());
    }
    for (unsigned i = 0; i < second.numOperands(); ++i) {
      const Value *v = second.operand(i);
      values[second.region().argument(i)] = v->def() == &first ? made[v->index()] : args[next++];
    }
    inlineBody(second.region(), inner, values, dims);
    for (Value *v : second.region().terminator()->operands())
      yields.push_back(inlined(v));
    return yields;
  });
}

llvm::SmallVector<Value *, 2> reshapedResults(Builder &b, Operation &map, const Operation &like) {
  llvm::SmallVector<Value *, 2> results;
  for (unsigned r = 0; r < like.numResults(); ++r) {
    map.result(r)->setHint(like.result(r)->hint());
    results.push_back(b.reshape(map.result(r), like.result(r)->type().shape()));
  }
  return results;
}

Operation *soleScalar(const Operation &op) {
  Operation *found = nullptr;
  for (Operation &s : op.region()) {
    if (s.isTerminator() || s.is(Op::Const))
      continue;
    if (found)
      return nullptr;
    found = &s;
  }
  Operation *end = op.region().terminator();
  return found && end->numOperands() == 1 && end->operand(0) == found->result() ? found : nullptr;
}

llvm::Optional<double> scalarValue(const Value *v) {
  const Operation *def = v->def();
  if (!def || !def->is(Op::Const))
    return llvm::None;
  const Attribute *a = def->find("value");
  if (const double *d = a->get<double>())
    return *d;
  if (const int64_t *i = a->get<int64_t>())
    return double(*i);
  if (const bool *t = a->get<bool>())
    return double(*t);
  return llvm::None;
}

/// Functions of floats are costly, but those that round; new rows of the table, therefore, too.
static bool isCostly(const Operation &op) {
  switch (op.kind()) {
  case Op::Pow:
  case Op::Div:
  case Op::Mod:
  case Op::FMod:
  case Op::Quantize: return true;
  case Op::Fma:
  case Op::Floor:
  case Op::Ceil:
  case Op::Round:
  case Op::Trunc: return false;
  default: break;
  }
  const ScalarInfo *row = scalarInfo(op.kind());
  return row && row->signature == ScalarSignature::Float;
}

bool isCheapBody(Region &body) { return llvm::none_of(body, isCostly); }

bool isCopyBody(Region &body) { return &body.front() == &body.back(); }

bool hasScalarConst(Element e) {
  return isBool(e) || (isInteger(e) && e != Element::U64) || e == Element::F16 ||
         e == Element::BF16 || e == Element::F32 || e == Element::F64;
}

Value *scalarFromTensor(Builder &b, const Tensor &t, int64_t i) {
  return isFloat(t.element()) || isBool(t.element()) ? b.scalarConst(t.element(), t.at(i))
                                                     : b.scalarInt(t.element(), t.intAt(i));
}

} // namespace tenon
