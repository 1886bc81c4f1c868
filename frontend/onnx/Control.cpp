// Imports control flow: If and Loop. Regions are isolated, so what a subgraph captures
// becomes an operand; a branch that is decided at compile time is imported where the node stands.
#include "frontend/onnx/Control.h"
#include "frontend/DataExtents.h"
#include "frontend/onnx/CarriedValues.h"
#include "frontend/onnx/LoopCondition.h"
#include "frontend/onnx/Operators.h"

#include "ir/BornExtents.h"
#include "ir/Names.h"

namespace tenon::frontend {

const onnx::GraphProto *subgraph(Node &n, llvm::StringRef name) {
  const onnx::AttributeProto *a = n.attr(name);
  if (a && a->has_g())
    return &a->g();
  return n.error("attribute " + name.str() + ": expected a graph");
}

void appendOperands(const std::vector<Capture> &captures,
                    llvm::SmallVectorImpl<Value *> &operands) {
  for (const Capture &c : captures)
    for (Value *v : c.item.values())
      if (!isRepeatable(v))
        operands.push_back(v);
}

bool checkCount(Node &n, size_t found, size_t expected, const char *what) {
  if (found == expected)
    return true;
  n.error("expected " + std::to_string(expected) + " " + what + ", found " + std::to_string(found));
  return false;
}

Value *oneTensor(Node &n, const TensorOrSequence &item) {
  return item.tensor() ? item.tensor()
                       : n.error("a result of the body is a sequence that the loop does not start "
                                 "with, or an optional without a value");
}

Value *integer(Builder &b, int64_t v) { return b.constant(Tensor::fromInts({v}).reshaped({})); }

namespace {

/// `v` as a rank-0 tensor of `e`, where `b` builds; null after an error.
Value *oneElement(Node &n, Builder &b, Value *v, Element e, const char *what) {
  if (v && v->type().element() == e && v->type().elements().isConstant(1))
    return v->type().rank() == 0 ? v : b.reshape(v, {});
  return n.error(std::string(what) + ": expected one " + name(e).str() +
                 (v ? ", found " + toString(v->type()) : ""));
}

/// Both branches give as many tensors of the same rank in each result.
bool areAlike(llvm::ArrayRef<TensorOrSequence> first, llvm::ArrayRef<TensorOrSequence> second) {
  auto likeRank = [](Value *a, Value *b) { return a->type().rank() == b->type().rank(); };
  for (auto [a, b] : llvm::zip(first, second))
    if (!a.isLike(b) || !std::equal(a.values().begin(), a.values().end(), b.values().begin(),
                                    [&](Value *x, Value *y) { return likeRank(x, y); }))
      return false;
  return true;
}

/// What one branch gives, for a message.
std::string described(const TensorOrSequence &item) {
  if (Value *v = item.tensor())
    return toString(v->type());
  return item.elements() ? "a sequence of " + std::to_string(item.elements()->size())
                         : "an optional without a value";
}

/// Reports what the branches of an If give differently, called `name`.
void reportUnlike(Node &n, llvm::StringRef name, const TensorOrSequence &first,
                  const TensorOrSequence &second) {
  n.error("what is asked for as " + quoted(name) + " is " + described(first) +
          " where the condition " + n.inputName(0) + " is true, else " + described(second) +
          ": expected one rank, or as long a sequence; the condition has to be known; bind the "
          "input that it is computed from with --bind NAME=@FILE");
}

/// The shapes of an If's results: an extent that its branches do not share is a symbol of the
/// node's own, the same one wherever the same two extents meet. Empty when all are shared, and
/// where types differ in more than extents.
Dims joinedExtents(Node &n, llvm::ArrayRef<Value *> first, llvm::ArrayRef<Value *> second) {
  Dims shapes;
  llvm::SmallVector<BornExtent, 4> born;
  for (auto [a, b] : llvm::zip(first, second)) {
    const Type x = a->type(), y = b->type();
    if (!x.isTensor() || !y.isTensor() || x.rank() != y.rank())
      return {};
    for (auto [d, e] : llvm::zip(x.shape(), y.shape())) {
      if (d == e) {
        shapes.push_back(d);
        continue;
      }
      const BornExtent *known = llvm::find_if(
          born, [&, d = d, e = e](auto &k) { return k.yielded[0] == d && k.yielded[1] == e; });
      if (known == born.end()) {
        const Dim joined = n.graph.state.bornSymbol(n.context(), sanitizeName(n.id + "_extent"),
                                                    std::min(d.lower(), e.lower()),
                                                    std::max(d.upper(), e.upper()));
        born.push_back({joined, {d, e}});
        known = &born.back();
      }
      shapes.push_back(known->symbol);
    }
  }
  return born.empty() ? Dims() : shapes;
}

/// The two branches of an If whose condition data decide.
class Branches {
public:
  Branches(Node &n, Value *cond, llvm::ArrayRef<const onnx::GraphProto *> graphs)
      : n(n), cond(cond), graphs(graphs) {}

  TensorsOrSequences yields[2];
  /// The operation; it has no results where the branches are not alike.
  Operation *op = nullptr;

  /// Result i outside.
  TensorOrSequence result(unsigned i) const {
    const auto all = op->results();
    llvm::ArrayRef<Value *> results(all.begin(), all.end());
    for (unsigned k = 0; k < i; ++k)
      yields[0][k].with(results);
    return yields[0][i].with(results);
  }

  /// Imports both, each with `rest` behind it where there is one. False after an error.
  bool import(const Continuation *rest) {
    const std::vector<Capture> captures =
        rest ? n.graph.captures(graphs, n, *rest) : n.graph.captures(graphs);
    llvm::SmallVector<Value *, 8> operands{cond};
    appendOperands(captures, operands);
    op = n.b.create(Op::If, operands, {}, 2, [&](unsigned i, Region &region) {
      yields[i].clear();
      if (n.failed() || !branch(i, region, captures, rest) || i == 0)
        return;
      // Nothing that depends on the lengths of results follows, but a loop may; outputs of the
      // model have a known one.
      if (rest && !n.graph.path().empty())
        stackUnlike();
      if (!areAlike(yields[0], yields[1]))
        yieldBoth({}, {});
      else if (const Dims shapes = yieldBoth(flattened(yields[0]), flattened(yields[1]));
               !shapes.empty())
        region.parentOp()->set("extents", shapes);
    });
    return op && !n.failed();
  }

private:
  bool branch(unsigned i, Region &region, llvm::ArrayRef<Capture> captures,
              const Continuation *rest) {
    const char *const name = i == 0 ? "then_branch" : "else_branch";
    std::vector<Capture> inside;
    regions_[i] = &region;
    if (!n.graph.importRegion(n, *graphs[i], name, region, {}, captures, yields[i], nullptr,
                              &inside)) {
      noteWhatDecides(name);
      return false;
    }
    return checkCount(n, yields[i].size(), n.numOutputs(), "results of the branch") &&
           (!rest || n.graph.importContinuation(n, region, name, inside, *rest, yields[i]));
  }

  /// Sequences that differ in length alone become stacks, which do so in an extent.
  void stackUnlike() {
    const auto born =
        llvm::makeArrayRef(n.graph.state.symbols).drop_front(n.graph.state.inputSymbols);
    for (size_t k = 0; k < yields[0].size(); ++k) {
      const Elements *lists[] = {yields[0][k].elements(), yields[1][k].elements()};
      if (!lists[0] || !lists[1] || lists[0]->size() == lists[1]->size())
        continue;
      const Type t = lists[lists[0]->empty() ? 1 : 0]->front()->type();
      const auto isLike = [&](Value *v) { return v->type() == t; };
      if (!llvm::all_of(*lists[0], isLike) || !llvm::all_of(*lists[1], isLike) ||
          llvm::any_of(t.shape(), [&](Dim d) { return mentions(d, born); }))
        continue;
      for (unsigned i : {0u, 1u}) {
        Builder b(*regions_[i], n.b.diagnostics());
        b.location = n.b.location;
        Shape none(t.shape().begin(), t.shape().end());
        none.insert(none.begin(), n.dim(0));
        Value *stack = lists[i]->empty() ? b.broadcastTo(b.scalarConstant(t.element(), 0), none)
                                         : stackAlong(b, *lists[i], 0, true);
        if (!stack)
          return;
        yields[i][k] = TensorOrSequence(Stack{stack});
      }
    }
  }

  /// An error may be in a branch that is never taken: which one is has to be known then.
  void noteWhatDecides(llvm::StringRef name) {
    const std::vector<std::string> inputs = n.graph.state.inputsOf(cond);
    if (inputs.size() == 1)
      n.graph.state.note("the input " + quoted(inputs[0]) + " decides whether the " + name.str() +
                         " of " + quoted(n.id) + " is taken: with --bind " + inputs[0] +
                         "=VALUE only the one that is taken is compiled");
  }

  /// Ends both regions; gives the shapes of the results where they differ.
  Dims yieldBoth(llvm::ArrayRef<Value *> first, llvm::ArrayRef<Value *> second) {
    Builder(*regions_[0], n.b.diagnostics()).yield(first);
    Builder(*regions_[1], n.b.diagnostics()).yield(second);
    return joinedExtents(n, first, second);
  }

  Node &n;
  Value *const cond;
  const llvm::ArrayRef<const onnx::GraphProto *> graphs;
  Region *regions_[2] = {};
};

/// `v`, one element, in the shape that the body declares for its input i: exporters write the
/// number of the iteration and the condition as [1], too. Null after an error.
Value *declared(Node &n, Builder &b, Value *v, const onnx::GraphProto &body, int i) {
  const onnx::TypeProto::Tensor &type = body.input(i).type().tensor_type();
  Shape ones;
  for (const auto &dim : type.shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() != 1)
      return n.error("input " + quoted(body.input(i).name()) + " of the body has a dimension of " +
                     std::to_string(dim.dim_value()) + ": expected one element; declare it as []");
    ones.push_back(n.dim(1));
  }
  return v && !ones.empty() ? b.reshape(v, ones) : v;
}

/// What `v` is before reshapes.
Value *unshaped(Value *v) {
  while (v->def() && v->def()->is(Op::Reshape))
    v = v->def()->operand(0);
  return v;
}

/// Most iterations that are imported one by one.
constexpr int64_t kMostUnrolled = 1024;

/// The number of iterations is known, or may be found by writing them out.
bool hasKnownTrips(Node &n) {
  if (const auto trip = n.has(0) ? n.knownOperand(0) : llvm::None)
    return trip->size() != 1 || trip->intAt(0) <= kMostUnrolled;
  return !n.has(0) && (!n.has(1) || n.knownOperand(1));
}

/// Whether a carried value has another type in each iteration: sequences change their length,
/// optionals whether they hold a value. What is only appended to needs no iteration of its own.
bool changesType(Node &n, const onnx::GraphProto &body, unsigned carried) {
  bool changes = false, appended = true;
  for (unsigned i = 0; i < carried; ++i)
    if (!n.has(i + 2)) {
      changes = true;
      appended &= isAppendedSequence(n, body, i);
    }
  return changes && (!appended || hasKnownTrips(n));
}

/// A loop that `carries` what has another type in each iteration: what is known of it decides how
/// often the body is imported.
void unrollLoop(Node &n, const onnx::GraphProto &body, unsigned carried,
                const std::string &carries) {
  const std::string remedy = " of a loop that carries " + carries +
                             " has to be known; bind the input that it is computed from with "
                             "--bind NAME=@FILE";
  Value *going = n.has(1) ? n.input(1) : n.b.scalarConstant(Element::Bool, 1);
  const auto trip = n.has(0) ? n.knownOperand(0) : Tensor::fromInts({INT64_MAX});
  if (!trip || trip->size() != 1) {
    n.error("the trip count" + remedy);
    return;
  }
  TensorsOrSequences state(n.items().begin() + 2, n.items().end());
  std::vector<Elements> stacked(n.numOutputs() - carried);
  for (int64_t i = 0; i < trip->intAt(0); ++i) {
    const auto known = knownTensor(going);
    if (!known || known->size() != 1 || !isBool(known->element())) {
      n.error("the condition" + remedy);
      return;
    }
    if (known->intAt(0) == 0)
      break;
    if (i == kMostUnrolled) {
      n.error("a loop that carries " + carries + " has more than " + std::to_string(kMostUnrolled) +
              " iterations: expected fewer, as each is written out");
      return;
    }
    TensorsOrSequences arguments{declared(n, n.b, integer(n.b, i), body, 0),
                                 declared(n, n.b, going, body, 1)},
        results;
    arguments.append(state.begin(), state.end());
    if (!n.graph.importInline(n, body, "body_" + std::to_string(i), arguments, results))
      return;
    going = results[0].tensor();
    for (unsigned k = 0; k < carried; ++k)
      state[k] = results[1 + k];
    for (size_t k = 0; k < stacked.size(); ++k)
      stacked[k].push_back(oneTensor(n, results[1 + carried + k]));
    if (n.failed())
      return;
  }
  for (unsigned k = 0; k < carried; ++k)
    n.set(k, state[k]);
  for (unsigned k = 0; k < stacked.size(); ++k) {
    if (stacked[k].empty()) {
      n.error("result " + std::to_string(carried + k) +
              " of a loop without iterations has no type");
      return;
    }
    n.set(carried + k, stackAlong(n.b, stacked[k], 0, true));
  }
}

/// The extent of what a loop stacks: a piece of each of its iterations, `most` at most. It is
/// `count` where that alone limits them. Null after an error.
Dim stackedExtent(Node &n, Dim count, bool always, int64_t most, unsigned result) {
  if (most > kElementLimit) {
    n.error("result " + std::to_string(result) + " " + quoted(n.proto.output(int(result))) +
            " stacks a piece of each iteration, and nothing bounds their number: expected a "
            "known trip count; " +
            (n.has(0) ? "say how many there are at most with --range " + n.proto.input(0) +
                            "=0..100, or bind it with --bind " + n.proto.input(0) + "=@FILE"
                      : "the loop has none: give it one as operand 0"));
    return Dim();
  }
  return count && always
             ? count
             : n.graph.state.bornSymbol(n.context(), sanitizeName(n.id + "_count"), 0, most);
}

/// The number of iterations when only `trip` limits it; null where it is not known. What data
/// decide within bounds becomes an extent where results are `stacked`.
Dim tripCount(Node &n, Value *trip, bool stacked) {
  const auto known = knownShape(trip);
  const bool hasRange = n.graph.state.valueRanges.count(n.input(0)) > 0;
  if (!known && (!stacked || hasRange || !hasBounds(n, trip)))
    return Dim();
  const auto extent = known ? known : dataExtents(n, trip);
  return extent ? max((*extent)[0], n.dim(0)) : Dim();
}

/// As certainTrips; where they are certain, what `yields` says of the condition is true.
Dim freeTrips(Builder &b, Region &body, llvm::MutableArrayRef<Value *> yields, Dim count) {
  const Dim trips = certainTrips(body, yields, count);
  if (trips && !constantValue(yields[0]) && unshaped(yields[0]) != body.argument(1))
    yields[0] = b.scalarConstant(Element::Bool, 1);
  return trips;
}

void setTripCount(Builder &b, Operation *loop, int64_t trips) {
  Value *count = integer(b, trips);
  count->def()->moveBefore(loop);
  loop->setOperand(0, count);
}

} // namespace

void importIf(Node &n) {
  const onnx::GraphProto *graphs[] = {subgraph(n, "then_branch"), nullptr};
  graphs[1] = graphs[0] ? subgraph(n, "else_branch") : nullptr;
  const char *const names[] = {"then_branch", "else_branch"};
  if (!graphs[1])
    return;
  Value *cond = oneElement(n, n.b, n.input(0), Element::Bool, "condition");
  if (!cond)
    return;
  if (auto known = knownTensor(cond)) {
    TensorsOrSequences results;
    const int taken = known->intAt(0) ? 0 : 1;
    if (n.graph.importInline(n, *graphs[taken], names[taken], {}, results) &&
        checkCount(n, results.size(), n.numOutputs(), "results of the branch"))
      for (unsigned i = 0; i < results.size(); ++i)
        n.set(i, results[i]);
    return;
  }
  ImportTrial trial(n.graph.state);
  Branches branches(n, cond, graphs);
  if (!branches.import(nullptr))
    return;
  if (areAlike(branches.yields[0], branches.yields[1])) {
    for (unsigned i = 0; i < n.numOutputs(); ++i)
      n.set(i, branches.result(i));
    return;
  }
  // Ranks, and lengths of sequences, are known while a graph is imported: what depends on them goes
  // into the branches.
  branches.op->erase();
  trial.undo();
  const Continuation rest = n.graph.takeContinuation(n);
  if (n.failed() || !branches.import(&rest))
    return;
  for (size_t i = 0; i < rest.results.size(); ++i)
    if (!areAlike(branches.yields[0][i], branches.yields[1][i]))
      return reportUnlike(n, rest.results[i], branches.yields[0][i], branches.yields[1][i]);
  for (unsigned i = 0; i < n.numOutputs(); ++i)
    n.set(i, TensorOrSequence()); // unless it is asked for below
  for (unsigned i = 0; i < rest.results.size(); ++i)
    n.graph.defineResult(n, rest.results[i], branches.result(i));
}

void importLoop(Node &n) {
  const onnx::GraphProto *body = subgraph(n, "body");
  if (!body)
    return;
  const unsigned carried = n.numInputs() < 2 ? 0 : n.numInputs() - 2;
  if (n.numOutputs() < carried ||
      !checkCount(n, size_t(body->input_size()), carried + 2, "inputs of the body") ||
      !checkCount(n, size_t(body->output_size()), n.numOutputs() + 1, "outputs of the body"))
    return;
  const unsigned scans = n.numOutputs() - carried;
  if (changesType(n, *body, carried))
    return unrollLoop(n, *body, carried, "sequences or optionals");
  Value *trip = n.has(0) ? oneElement(n, n.b, n.input(0), Element::I64, "trip count")
                         : integer(n.b, INT64_MAX);
  Value *cond = n.has(1) ? oneElement(n, n.b, n.input(1), Element::Bool, "condition")
                         : n.b.scalarConstant(Element::Bool, 1);
  if (!trip || !cond)
    return;
  const bool begins = isSurelyTrue(cond);
  if (begins && !constantValue(cond))
    cond = n.b.scalarConstant(Element::Bool, 1);

  llvm::SmallVector<Value *, 8> operands{trip, cond};
  llvm::SmallVector<Type, 8> arguments{trip->type(), cond->type()};
  CarriedValues values(n, *body, carried);
  for (unsigned i : values.kept()) {
    operands.push_back(n.input(i + 2));
    arguments.push_back(n.type(i + 2));
  }
  const std::vector<Capture> captures = n.graph.captures({body});
  appendOperands(captures, operands);

  const unsigned stacked = scans + unsigned(values.lists().size());
  Dim count = tripCount(n, trip, stacked > 0);
  NamedAttributes attributes{{"carried", int64_t(values.kept().size())},
                             {"scans", int64_t(stacked)}};
  auto inputs = [&](Builder &b, llvm::ArrayRef<Value *> given) {
    auto all = values.inputs(n, b, given);
    for (unsigned i : {0u, 1u})
      all[i] = declared(n, b, all[i].tensor(), *body, int(i));
    return all;
  };
  ImportTrial trial(n.graph.state);
  bool always = false, counted = false; // the condition never ends the loop early; is its only end
  std::string changes;                  // of what a carried value starts as, and becomes
  Operation *loop = n.b.create(Op::Loop, operands, attributes, 1, [&](unsigned, Region &region) {
    TensorsOrSequences items;
    const size_t outside = n.graph.state.symbols.size();
    if (!n.graph.importRegion(n, *body, "body", region, arguments, captures, items, inputs))
      return;
    llvm::SmallVector<Value *, 8> yields;
    for (const TensorOrSequence &item : values.appended(items))
      yields.push_back(oneTensor(n, item));
    if (n.failed())
      return;
    Builder inner(region, n.b.diagnostics());
    inner.location = n.b.location;
    yields[0] = oneElement(n, inner, yields[0], Element::Bool, "condition of the body");
    if (!yields[0])
      return;
    yields = values.results(n, inner, yields,
                            llvm::makeArrayRef(n.graph.state.symbols).drop_front(outside));
    if (yields.empty())
      return;
    region.parentOp()->set("scans", int64_t(yields.size() - 1 - values.kept().size()));
    if (const Dim trips = begins && count ? freeTrips(inner, region, yields, count) : Dim()) {
      counted = count != trips;
      always = true;
      count = trips;
    }
    if (stacked) {
      int64_t most = count ? count.upper() : INT64_MAX;
      if (const auto range = n.graph.state.valueRanges.find(n.input(0));
          range != n.graph.state.valueRanges.end())
        most = std::min(most, range->second.upper);
      const unsigned result = values.lists().empty() ? carried : values.lists()[0].carried;
      const Dim extent = stackedExtent(n, count, always, most, result);
      if (!extent)
        return;
      region.parentOp()->set("max_trip", Dims{extent});
    }
    for (unsigned k = 0; k < values.kept().size(); ++k) {
      const Type in = arguments[2 + k], out = yields[1 + k]->type();
      if (changes.empty() && in != out && in.element() == out.element())
        changes = "a value, " + n.inputName(values.kept()[k] + 2) + ", that starts as " +
                  toString(in) + " and becomes " + toString(out) + ",";
      if (!changes.empty())
        yields[1 + k] = region.argument(2 + k); // so that the operation can be erased whole
    }
    inner.yield(yields);
  });
  if (loop && !changes.empty()) {
    loop->erase();
    trial.undo();
    return unrollLoop(n, *body, carried, changes);
  }
  if (loop && counted)
    setTripCount(n.b, loop, count.constant());
  values.set(n, loop);
}

} // namespace tenon::frontend
