// Defines the graph IR: values with use lists, operations, single-block regions, graphs, modules.
//
// Ownership: Module → Graph → Region → Operation → (results, nested regions). Operations stand in
// their region in an intrusive list and may be moved or erased freely; a value's uses are linked
// through the operand slots themselves, so replacing one costs its number of uses.
#pragma once

#include "ir/Attribute.h"
#include "ir/Op.h"

#include "llvm/ADT/Optional.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ilist.h"
#include "llvm/ADT/ilist_node.h"
#include "llvm/ADT/iterator_range.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

class Graph;
class Module;
class Operation;
class Region;
class Value;

/// The ONNX nodes an operation stands for, in order of first appearance; kept through rewrites.
using Location = std::vector<std::string>;
/// Appends the names of `b` that `a` lacks.
void mergeLocation(Location &a, const Location &b);

/// One operand slot: a link in the use list of its value.
class Use {
public:
  Use() = default;
  Use(const Use &) = delete;
  Use &operator=(const Use &) = delete;
  ~Use() { set(nullptr); }

  Value *get() const { return value_; }
  Operation *owner() const { return owner_; }
  unsigned index() const { return index_; }
  void set(Value *v);
  Use *next() const { return next_; }

private:
  friend class Operation;
  Value *value_ = nullptr;
  Operation *owner_ = nullptr;
  unsigned index_ = 0;
  Use *next_ = nullptr, **back_ = nullptr;
};

/// An SSA value: the result of an operation or the argument of a region.
class Value {
public:
  Value(Type type, Operation *op, unsigned index) : type_(type), def_(op), index_(index) {}
  Value(Type type, Region *region, unsigned index) : type_(type), region_(region), index_(index) {}
  Value(const Value &) = delete;
  ~Value();

  Type type() const { return type_; }
  void setType(Type t) { type_ = t; }
  /// The operation that makes this value; null for region arguments.
  Operation *def() const { return def_; }
  /// The region whose argument this is; null for results.
  Region *argumentOf() const { return region_; }
  unsigned index() const { return index_; }
  /// Name for text and generated code; need not be unique.
  llvm::StringRef hint() const { return hint_; }
  void setHint(llvm::StringRef h) { hint_ = h.str(); }

  bool hasUses() const { return first_ != nullptr; }
  bool hasOneUse() const { return first_ && !first_->next(); }
  unsigned useCount() const;
  Use *firstUse() const { return first_; }
  /// Users in the order of their position is not guaranteed; each use is listed once.
  llvm::SmallVector<Use *, 4> uses() const;
  void replaceAllUsesWith(Value *other);
  void replaceUsesIf(Value *other, llvm::function_ref<bool(Use &)> pick);

private:
  friend class Use;
  friend class Region;
  friend class Operation;
  Type type_;
  Operation *def_ = nullptr;
  Region *region_ = nullptr;
  unsigned index_;
  Use *first_ = nullptr;
  std::string hint_;
};

class Operation : public llvm::ilist_node<Operation> {
public:
  /// Creates a detached operation with `results.size()` results and `regions` empty regions.
  static Operation *create(Op kind, llvm::ArrayRef<Value *> operands, NamedAttributes attributes,
                           llvm::ArrayRef<Type> results, unsigned regions = 0);
  ~Operation();

  Op kind() const { return kind_; }
  bool is(Op k) const { return kind_ == k; }
  template <class... Ks> bool isAny(Ks... ks) const { return ((kind_ == ks) || ...); }
  const OpInfo &info() const { return opInfo(kind_); }
  llvm::StringRef name() const { return info().name; }

  unsigned numOperands() const { return numOperands_; }
  Value *operand(unsigned i) const { return uses_[i].get(); }
  void setOperand(unsigned i, Value *v) { uses_[i].set(v); }
  Use &use(unsigned i) { return uses_[i]; }
  llvm::SmallVector<Value *, 4> operands() const;
  /// Replaces the whole operand list (count may change).
  void setOperands(llvm::ArrayRef<Value *> operands);

  unsigned numResults() const { return unsigned(results_.size()); }
  Value *result(unsigned i = 0) const { return results_[i].get(); }
  llvm::SmallVector<Value *, 2> results() const;
  Value *addResult(Type type);
  /// Removes an unused result; later results move up.
  void eraseResult(unsigned i);

  const NamedAttributes &attributes() const { return attributes_; }
  bool has(llvm::StringRef name) const { return attributes_.find(name) != attributes_.end(); }
  const Attribute *find(llvm::StringRef name) const;
  void set(llvm::StringRef name, Attribute value);
  void remove(llvm::StringRef name);
  /// Typed reads: the attribute's value, or the default when it is absent.
  int64_t intAttr(llvm::StringRef name, int64_t otherwise = 0) const;
  double floatAttr(llvm::StringRef name, double otherwise = 0) const;
  bool boolAttr(llvm::StringRef name, bool otherwise = false) const;
  llvm::StringRef wordAttr(llvm::StringRef name, llvm::StringRef otherwise = "") const;
  llvm::StringRef stringAttr(llvm::StringRef name, llvm::StringRef otherwise = "") const;
  const Ints &intsAttr(llvm::StringRef name) const; // empty when absent
  const Dims &dimsAttr(llvm::StringRef name) const;
  const IntLists &intListsAttr(llvm::StringRef name) const;
  const Floats &floatsAttr(llvm::StringRef name) const;

  unsigned numRegions() const { return unsigned(regions_.size()); }
  Region &region(unsigned i = 0) const { return *regions_[i]; }
  Region &addRegion();

  const Location &loc() const { return loc_; }
  Location &loc() { return loc_; }

  Region *parent() const { return parent_; }
  /// The operation around this one's region; null at the top of a graph.
  Operation *parentOp() const;
  bool isTerminator() const { return info().traits & OpTrait::Terminator; }
  bool isBefore(const Operation *other) const; // same region

  /// Takes the operation out of its region without destroying it.
  void removeFromParent();
  /// Destroys the operation; its results must be unused.
  void erase();
  void moveBefore(Operation *other);
  void moveToEnd(Region &region);
  /// Deep copy; operands and captured values are looked up in `map` and stay when absent there;
  /// results and region arguments are added to it.
  Operation *clone(std::map<const Value *, Value *> &map) const;
  /// This operation and all nested ones, outermost first.
  void walk(llvm::function_ref<void(Operation *)> visit);

private:
  friend class Region;
  Operation() = default;
  Op kind_{};
  unsigned numOperands_ = 0;
  std::unique_ptr<Use[]> uses_;
  std::vector<std::unique_ptr<Value>> results_;
  NamedAttributes attributes_;
  std::vector<std::unique_ptr<Region>> regions_;
  Location loc_;
  Region *parent_ = nullptr;
};

/// A list of operations with arguments; the last operation is its terminator.
class Region {
public:
  explicit Region(Operation *parent, Graph *graph) : parent_(parent), graph_(graph) {}
  ~Region();

  Operation *parentOp() const { return parent_; }
  /// The graph this region belongs to, through any nesting; null while detached.
  Graph *graph() const;

  unsigned numArguments() const { return unsigned(arguments_.size()); }
  Value *argument(unsigned i) const { return arguments_[i].get(); }
  llvm::SmallVector<Value *, 4> arguments() const;
  Value *addArgument(Type type, llvm::StringRef hint = "");
  void eraseArgument(unsigned i);

  using iterator = llvm::ilist<Operation>::iterator;
  iterator begin() { return ops_.begin(); }
  iterator end() { return ops_.end(); }
  bool empty() const { return ops_.empty(); }
  Operation &front() { return ops_.front(); }
  Operation &back() { return ops_.back(); }
  /// The terminator; null while the region is being built.
  Operation *terminator();
  void push_back(Operation *op);
  void insertBefore(Operation *where, Operation *op);
  /// Iteration that allows erasing the visited operation.
  auto opsEarlyInc() { return llvm::make_early_inc_range(llvm::make_range(begin(), end())); }
  void walk(llvm::function_ref<void(Operation *)> visit);

private:
  friend class Operation;
  Operation *parent_;
  Graph *graph_;
  std::vector<std::unique_ptr<Value>> arguments_;
  llvm::ilist<Operation> ops_;
};

/// A value carried in the context from one run to the next.
struct State {
  unsigned input = 0, output = 0; // indices into the graph's inputs and outputs
  int appendAxis = -1;            // −1: the output replaces the input; else it is appended there
};

/// One program: inputs are the arguments of `body`, outputs the operands of its `return`.
class Graph {
public:
  Graph(Module &module, llvm::StringRef name);

  Module &module() const { return module_; }
  std::string name;
  /// The target this variant was scheduled for; empty before scheduling.
  std::string target;
  std::vector<std::string> inputNames, outputNames;
  std::vector<State> states;
  /// The state that an input begins as, or an output becomes; null where it is a port.
  const State *stateOfInput(unsigned input) const;
  const State *stateOfOutput(unsigned output) const;

  Region &body() { return *body_; }
  const Region &body() const { return *body_; }
  /// The `return` operation; null while the graph is being built.
  Operation *returnOp() { return body_->terminator(); }

private:
  Module &module_;
  std::unique_ptr<Region> body_;
};

/// The literal behind a value made by a constant; null otherwise.
Literal constantValue(const Value *v);
/// The value of a constant all of whose elements are equal.
llvm::Optional<double> splatValue(const Value *v);

enum class Stage : uint8_t { Imported, Optimized, Scheduled };
llvm::StringRef name(Stage s);

/// A model: one graph, and one for each entry (ir/Entries.h); scheduled, one per variant of each.
class Module {
public:
  explicit Module(Context &context) : context_(context) {}

  Context &context() const { return context_; }
  std::string name;
  Stage stage = Stage::Imported;
  /// Facts about the source, printed in the head of text and generated files: sha256, opset, nodes.
  std::map<std::string, std::string> facts;
  /// Symbols in order of declaration; bounds stand in the context.
  std::vector<Dim> symbols;
  std::vector<std::unique_ptr<Graph>> graphs;

  Graph &addGraph(llvm::StringRef name);
  /// The only graph of a module that has not been scheduled for several variants.
  Graph &graph() const { return *graphs.front(); }
  std::unique_ptr<Module> clone() const;

private:
  Context &context_;
};

} // namespace tenon
