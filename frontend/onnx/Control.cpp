// Imports control flow: If and Loop. Regions are isolated, so what a subgraph captures
// becomes an operand; a branch that is decided at compile time is imported where the node stands.
#include "frontend/onnx/Control.h"
#include "frontend/onnx/CarriedValues.h"
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

Value *oneTensor(Node &n, const Item &item) {
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

/// Both branches give as many tensors in each result.
bool checkAlike(Node &n, llvm::ArrayRef<Item> first, llvm::ArrayRef<Item> second) {
  for (size_t i = 0; i < first.size(); ++i)
    if (!first[i].isLike(second[i])) {
      n.error("result " + std::to_string(i) + " is not as long a sequence in both branches: the " +
              "condition " + n.inputName(0) + " has to be known; bind the input that it is " +
              "computed from with --bind NAME=@FILE");
      return false;
    }
  return true;
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
        const Dim joined =
            n.graph.state.newSymbol(n.context(), sanitizeName(n.id + "_extent"),
                                    std::min(d.lower(), e.lower()), std::max(d.upper(), e.upper()));
        born.push_back({joined, {d, e}});
        known = &born.back();
      }
      shapes.push_back(known->symbol);
    }
  }
  return born.empty() ? Dims() : shapes;
}

bool isKnownTrue(Value *v) {
  auto t = knownTensor(v);
  return t && t->size() == 1 && t->intAt(0) != 0;
}

/// Most iterations that are imported one by one.
constexpr int64_t kMostUnrolled = 1024;

/// A loop that carries sequences or optionals: what is known of it decides how often the body is
/// imported.
void unrollLoop(Node &n, const onnx::GraphProto &body, unsigned carried) {
  const char *const remedy = " of a loop that carries sequences or optionals has to be known; bind "
                             "the input that it is computed from with --bind NAME=@FILE";
  Value *going = n.has(1) ? n.input(1) : n.b.scalarConstant(Element::Bool, 1);
  const auto trip = n.has(0) ? n.knownOperand(0) : Tensor::fromInts({INT64_MAX});
  if (!trip || trip->size() != 1) {
    n.error(std::string("the trip count") + remedy);
    return;
  }
  Items state(n.items().begin() + 2, n.items().end());
  std::vector<Elements> stacked(n.numOutputs() - carried);
  for (int64_t i = 0; i < trip->intAt(0); ++i) {
    const auto known = knownTensor(going);
    if (!known || known->size() != 1 || !isBool(known->element())) {
      n.error(std::string("the condition") + remedy);
      return;
    }
    if (known->intAt(0) == 0)
      break;
    if (i == kMostUnrolled) {
      n.error("a loop that carries sequences or optionals has more than " +
              std::to_string(kMostUnrolled) + " iterations");
      return;
    }
    Items arguments{integer(n.b, i), going}, results;
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
    Items results;
    const int taken = known->intAt(0) ? 0 : 1;
    if (n.graph.importInline(n, *graphs[taken], names[taken], {}, results) &&
        checkCount(n, results.size(), n.numOutputs(), "results of the branch"))
      for (unsigned i = 0; i < results.size(); ++i)
        n.set(i, results[i]);
    return;
  }
  const std::vector<Capture> captures = n.graph.captures({graphs[0], graphs[1]});
  llvm::SmallVector<Value *, 8> operands{cond};
  appendOperands(captures, operands);
  Items yields[2];
  Operation *op = n.b.create(Op::If, operands, {}, 2, [&](unsigned i, Region &region) {
    if (!n.failed() &&
        n.graph.importRegion(n, *graphs[i], names[i], region, {}, captures, yields[i]) &&
        checkCount(n, yields[i].size(), n.numOutputs(), "results of the branch") &&
        (i == 0 || checkAlike(n, yields[0], yields[1])))
      Builder(region, n.b.diagnostics()).yield(flattened(yields[i]));
    if (i == 0 || n.failed())
      return;
    const Dims shapes = joinedExtents(n, flattened(yields[0]), flattened(yields[1]));
    if (!shapes.empty())
      region.parentOp()->set("extents", shapes);
  });
  if (!op || n.failed())
    return;
  const auto all = op->results();
  llvm::ArrayRef<Value *> results(all.begin(), all.end());
  for (unsigned i = 0; i < yields[0].size(); ++i)
    n.set(i, yields[0][i].with(results));
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
  for (unsigned i = 0; i < carried; ++i)
    if (!n.has(i + 2)) // sequences change their length, optionals whether they hold a value
      return unrollLoop(n, *body, carried);
  Value *trip = n.has(0) ? oneElement(n, n.b, n.input(0), Element::I64, "trip count")
                         : integer(n.b, INT64_MAX);
  Value *cond = n.has(1) ? oneElement(n, n.b, n.input(1), Element::Bool, "condition")
                         : n.b.scalarConstant(Element::Bool, 1);
  if (!trip || !cond)
    return;

  llvm::SmallVector<Value *, 8> operands{trip, cond};
  llvm::SmallVector<Type, 8> arguments{trip->type(), cond->type()};
  const CarriedValues values(n, *body, carried);
  for (unsigned i : values.kept()) {
    operands.push_back(n.input(i + 2));
    arguments.push_back(n.type(i + 2));
  }
  const std::vector<Capture> captures = n.graph.captures({body});
  appendOperands(captures, operands);

  // The number of iterations when only the trip count limits it.
  Dim count;
  if (auto known = knownShape(trip))
    count = max((*known)[0], n.dim(0));
  auto range = n.graph.state.valueRanges.find(n.input(0));
  const unsigned stacked = scans + unsigned(values.lists().size());
  NamedAttributes attributes{{"carried", int64_t(values.kept().size())},
                             {"scans", int64_t(stacked)}};
  auto inputs = [&](Builder &b, llvm::ArrayRef<Value *> given) {
    return values.inputs(n, b, given);
  };
  Operation *loop = n.b.create(Op::Loop, operands, attributes, 1, [&](unsigned, Region &region) {
    Items items;
    if (!n.graph.importRegion(n, *body, "body", region, arguments, captures, items, inputs))
      return;
    llvm::SmallVector<Value *, 8> yields;
    for (const Item &item : items)
      yields.push_back(oneTensor(n, item));
    if (n.failed())
      return;
    Builder inner(region, n.b.diagnostics());
    inner.location = n.b.location;
    if (Value *again = oneElement(n, inner, yields[0], Element::Bool, "condition of the body"))
      yields[0] = again;
    else
      return;
    if (stacked) {
      const bool always =
          isKnownTrue(cond) && (yields[0] == region.argument(1) || isKnownTrue(yields[0]));
      int64_t most = count ? count.upper() : INT64_MAX;
      if (range != n.graph.state.valueRanges.end())
        most = std::min(most, range->second.upper);
      if (most > kElementLimit) {
        const unsigned longest = values.lists().empty() ? carried : values.lists()[0].carried;
        n.error("the number of iterations, and so the extent of result " + std::to_string(longest) +
                ", has no bound: bound the trip count " + n.inputName(0) +
                " with --range or --bind");
        return;
      }
      Dim extent =
          count && always
              ? count
              : n.graph.state.newSymbol(n.context(), sanitizeName(n.id + "_count"), 0, most);
      region.parentOp()->set("max_trip", Dims{extent});
    }
    inner.yield(values.results(yields));
  });
  values.set(n, loop);
}

} // namespace tenon::frontend
