// Implements the IR data structures: use lists, ownership, cloning, walking.
#include "ir/IR.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace tenon {

void mergeLocation(Location &a, const Location &b) {
  for (const std::string &s : b)
    if (std::find(a.begin(), a.end(), s) == a.end())
      a.push_back(s);
}

//===----------------------------------------------------------------------===//
// Use, Value
//===----------------------------------------------------------------------===//

void Use::set(Value *v) {
  if (value_) {
    *back_ = next_;
    if (next_)
      next_->back_ = back_;
  }
  value_ = v;
  next_ = nullptr;
  back_ = nullptr;
  if (v) {
    next_ = v->first_;
    if (next_)
      next_->back_ = &next_;
    back_ = &v->first_;
    v->first_ = this;
  }
}

Value::~Value() { assert(!first_ && "value dies with uses"); }

unsigned Value::useCount() const {
  unsigned n = 0;
  for (Use *u = first_; u; u = u->next())
    ++n;
  return n;
}

llvm::SmallVector<Use *, 4> Value::uses() const {
  llvm::SmallVector<Use *, 4> list;
  for (Use *u = first_; u; u = u->next())
    list.push_back(u);
  std::reverse(list.begin(), list.end()); // order of creation
  return list;
}

void Value::replaceAllUsesWith(Value *other) {
  assert(other != this);
  for (Use *u : uses())
    u->set(other);
}

void Value::replaceUsesIf(Value *other, llvm::function_ref<bool(Use &)> pick) {
  for (Use *u : uses())
    if (pick(*u))
      u->set(other);
}

//===----------------------------------------------------------------------===//
// Operation
//===----------------------------------------------------------------------===//

Operation *Operation::create(Op kind, llvm::ArrayRef<Value *> operands, NamedAttributes attributes,
                             llvm::ArrayRef<Type> results, unsigned regions) {
  auto *op = new Operation();
  op->kind_ = kind;
  op->attributes_ = std::move(attributes);
  op->setOperands(operands);
  for (Type t : results)
    op->addResult(t);
  for (unsigned i = 0; i < regions; ++i)
    op->addRegion();
  return op;
}

Operation::~Operation() {
  // Uses inside the regions must go before the values they refer to.
  for (auto &r : regions_)
    r.reset();
}

void Operation::setOperands(llvm::ArrayRef<Value *> operands) {
  llvm::SmallVector<Value *, 8> kept(operands.begin(), operands.end());
  uses_.reset();
  numOperands_ = unsigned(kept.size());
  uses_ = numOperands_ ? std::make_unique<Use[]>(numOperands_) : nullptr;
  for (unsigned i = 0; i < numOperands_; ++i) {
    uses_[i].owner_ = this;
    uses_[i].index_ = i;
    uses_[i].set(kept[i]);
  }
}

llvm::SmallVector<Value *, 4> Operation::operands() const {
  llvm::SmallVector<Value *, 4> list;
  for (unsigned i = 0; i < numOperands_; ++i)
    list.push_back(operand(i));
  return list;
}

llvm::SmallVector<Value *, 2> Operation::results() const {
  llvm::SmallVector<Value *, 2> list;
  for (auto &r : results_)
    list.push_back(r.get());
  return list;
}

Value *Operation::addResult(Type type) {
  results_.push_back(std::make_unique<Value>(type, this, numResults()));
  return results_.back().get();
}

void Operation::eraseResult(unsigned i) {
  results_.erase(results_.begin() + i);
  for (unsigned k = i; k < results_.size(); ++k)
    results_[k]->index_ = k;
}

const Attribute *Operation::find(llvm::StringRef name) const {
  auto it = attributes_.find(name);
  return it == attributes_.end() ? nullptr : &it->second;
}

void Operation::set(llvm::StringRef name, Attribute value) {
  attributes_.insert_or_assign(name.str(), std::move(value));
}

void Operation::remove(llvm::StringRef name) {
  auto it = attributes_.find(name);
  if (it != attributes_.end())
    attributes_.erase(it);
}

namespace {
template <class T> const T *read(const Operation &op, llvm::StringRef name) {
  const Attribute *a = op.find(name);
  return a ? a->get<T>() : nullptr;
}
template <class T> const T &readOrEmpty(const Operation &op, llvm::StringRef name) {
  static const T kEmpty{};
  const T *v = read<T>(op, name);
  return v ? *v : kEmpty;
}
} // namespace

int64_t Operation::intAttr(llvm::StringRef name, int64_t otherwise) const {
  auto *v = read<int64_t>(*this, name);
  return v ? *v : otherwise;
}
double Operation::floatAttr(llvm::StringRef name, double otherwise) const {
  auto *v = read<double>(*this, name);
  return v ? *v : otherwise;
}
bool Operation::boolAttr(llvm::StringRef name, bool otherwise) const {
  auto *v = read<bool>(*this, name);
  return v ? *v : otherwise;
}
llvm::StringRef Operation::wordAttr(llvm::StringRef name, llvm::StringRef otherwise) const {
  auto *v = read<Word>(*this, name);
  return v ? llvm::StringRef(v->text) : otherwise;
}
llvm::StringRef Operation::stringAttr(llvm::StringRef name, llvm::StringRef otherwise) const {
  auto *v = read<std::string>(*this, name);
  return v ? llvm::StringRef(*v) : otherwise;
}
const Ints &Operation::intsAttr(llvm::StringRef n) const { return readOrEmpty<Ints>(*this, n); }
const Dims &Operation::dimsAttr(llvm::StringRef n) const { return readOrEmpty<Dims>(*this, n); }
const IntLists &Operation::intListsAttr(llvm::StringRef n) const {
  return readOrEmpty<IntLists>(*this, n);
}
const Floats &Operation::floatsAttr(llvm::StringRef n) const {
  return readOrEmpty<Floats>(*this, n);
}

Region &Operation::addRegion() {
  regions_.push_back(std::make_unique<Region>(this, nullptr));
  return *regions_.back();
}

Operation *Operation::parentOp() const { return parent_ ? parent_->parentOp() : nullptr; }

bool Operation::isBefore(const Operation *other) const {
  assert(parent_ && parent_ == other->parent_);
  for (const Operation &op : parent_->ops_) {
    if (&op == this)
      return this != other;
    if (&op == other)
      return false;
  }
  return false;
}

void Operation::removeFromParent() {
  assert(parent_);
  parent_->ops_.remove(this);
  parent_ = nullptr;
}

void Operation::erase() {
  if (parent_)
    removeFromParent();
  delete this;
}

void Operation::moveBefore(Operation *other) {
  if (parent_)
    removeFromParent();
  other->parent_->insertBefore(other, this);
}

void Operation::moveToEnd(Region &region) {
  if (parent_)
    removeFromParent();
  region.push_back(this);
}

Operation *Operation::clone(std::map<const Value *, Value *> &map) const {
  auto mapped = [&](Value *v) {
    auto it = map.find(v);
    return it == map.end() ? v : it->second;
  };
  llvm::SmallVector<Value *, 4> ins;
  for (Value *v : operands())
    ins.push_back(mapped(v));
  llvm::SmallVector<Type, 2> types;
  for (auto &r : results_)
    types.push_back(r->type());
  Operation *copy = create(kind_, ins, attributes_, types);
  copy->loc_ = loc_;
  for (unsigned i = 0; i < numResults(); ++i) {
    copy->result(i)->setHint(result(i)->hint());
    map[result(i)] = copy->result(i);
  }
  for (auto &r : regions_) {
    Region &to = copy->addRegion();
    for (auto &a : r->arguments_)
      map[a.get()] = to.addArgument(a->type(), a->hint());
    for (Operation &inner : r->ops_)
      to.push_back(inner.clone(map));
  }
  return copy;
}

void Operation::walk(llvm::function_ref<void(Operation *)> visit) {
  visit(this);
  for (auto &r : regions_)
    r->walk(visit);
}

//===----------------------------------------------------------------------===//
// Region, Graph, Module
//===----------------------------------------------------------------------===//

Region::~Region() {
  // A module that is given up half-read may use a region's values outside of it.
  if (graph_)
    walk([](Operation *op) { op->setOperands({}); });
  // Later operations use earlier ones: destroy backwards.
  while (!ops_.empty()) {
    Operation *op = &ops_.back();
    ops_.remove(op);
    delete op;
  }
}

Graph *Region::graph() const {
  const Region *r = this;
  while (!r->graph_ && r->parent_ && r->parent_->parent())
    r = r->parent_->parent();
  return r->graph_;
}

llvm::SmallVector<Value *, 4> Region::arguments() const {
  llvm::SmallVector<Value *, 4> list;
  for (auto &a : arguments_)
    list.push_back(a.get());
  return list;
}

Value *Region::addArgument(Type type, llvm::StringRef hint) {
  arguments_.push_back(std::make_unique<Value>(type, this, numArguments()));
  arguments_.back()->setHint(hint);
  return arguments_.back().get();
}

void Region::eraseArgument(unsigned i) {
  arguments_.erase(arguments_.begin() + i);
  for (unsigned k = i; k < arguments_.size(); ++k)
    arguments_[k]->index_ = k;
}

Operation *Region::terminator() {
  return !ops_.empty() && ops_.back().isTerminator() ? &ops_.back() : nullptr;
}

void Region::push_back(Operation *op) {
  assert(!op->parent_);
  op->parent_ = this;
  ops_.push_back(op);
}

void Region::insertBefore(Operation *where, Operation *op) {
  assert(!op->parent_ && where->parent_ == this);
  op->parent_ = this;
  ops_.insert(where->getIterator(), op);
}

void Region::walk(llvm::function_ref<void(Operation *)> visit) {
  for (Operation &op : opsEarlyInc())
    op.walk(visit);
}

Graph::Graph(Module &module, llvm::StringRef name)
    : name(name.str()), module_(module), body_(std::make_unique<Region>(nullptr, this)) {}

const State *Graph::stateOfInput(unsigned input) const {
  for (const State &s : states)
    if (s.input == input)
      return &s;
  return nullptr;
}

const State *Graph::stateOfOutput(unsigned output) const {
  for (const State &s : states)
    if (s.output == output)
      return &s;
  return nullptr;
}

llvm::StringRef name(Stage s) {
  return s == Stage::Imported ? "imported" : s == Stage::Optimized ? "optimized" : "scheduled";
}

Graph &Module::addGraph(llvm::StringRef name) {
  graphs.push_back(std::make_unique<Graph>(*this, name));
  return *graphs.back();
}

std::unique_ptr<Module> Module::clone() const {
  auto copy = std::make_unique<Module>(context_);
  copy->name = name;
  copy->stage = stage;
  copy->facts = facts;
  copy->symbols = symbols;
  for (auto &g : graphs) {
    Graph &to = copy->addGraph(g->name);
    to.target = g->target;
    to.inputNames = g->inputNames;
    to.outputNames = g->outputNames;
    to.states = g->states;
    std::map<const Value *, Value *> map;
    for (Value *a : g->body().arguments())
      map[a] = to.body().addArgument(a->type(), a->hint());
    for (Operation &op : const_cast<Region &>(g->body()))
      to.body().push_back(op.clone(map));
  }
  return copy;
}

Literal constantValue(const Value *v) {
  const Operation *def = v->def();
  if (!def || !def->is(Op::Constant))
    return nullptr;
  const Attribute *a = def->find("value");
  const Literal *l = a ? a->get<Literal>() : nullptr;
  return l ? *l : nullptr;
}

llvm::Optional<double> splatValue(const Value *v) {
  Literal l = constantValue(v);
  if (!l || l->size() == 0 || isOpaque(l->element()) || !l->isSplat())
    return llvm::None;
  return l->at(0);
}

} // namespace tenon
