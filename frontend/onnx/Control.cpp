// Imports control flow: If, Loop and Scan. Regions are isolated, so what a subgraph captures
// becomes an operand; a branch that is decided at compile time is imported where the node stands.
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Operators.h"

#include "ir/Names.h"

namespace tenon::frontend {
namespace {

const onnx::GraphProto *subgraph(Node &n, llvm::StringRef name) {
  const onnx::AttributeProto *a = n.attr(name);
  if (a && a->has_g())
    return &a->g();
  return n.error("attribute " + name.str() + ": expected a graph");
}

/// The captures that stay operands.
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

/// `v` as a rank-0 tensor of `e`; null after an error.
Value *oneElement(Node &n, Value *v, Element e, const char *what) {
  if (v && v->type().element() == e && v->type().elements().isConstant(1))
    return v->type().rank() == 0 ? v : n.b.reshape(v, {});
  return n.error(std::string(what) + ": expected one " + name(e).str() +
                 (v ? ", found " + toString(v->type()) : ""));
}

/// A result of a body that stays a loop.
Value *oneTensor(Node &n, const Item &item) {
  return item.tensor() ? item.tensor()
                       : n.error("a result of the body is a sequence that the loop does not start "
                                 "with, or an optional without a value");
}

Value *integer(Builder &b, int64_t v) { return b.constant(Tensor::fromInts({v}).reshaped({})); }

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
    if (!known || known->size() != 1) {
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
  Value *cond = oneElement(n, n.input(0), Element::Bool, "condition");
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
  Value *trip =
      n.has(0) ? oneElement(n, n.input(0), Element::I64, "trip count") : integer(n.b, INT64_MAX);
  Value *cond = n.has(1) ? oneElement(n, n.input(1), Element::Bool, "condition")
                         : n.b.scalarConstant(Element::Bool, 1);
  if (!trip || !cond)
    return;

  llvm::SmallVector<Value *, 8> operands{trip, cond};
  llvm::SmallVector<Type, 8> arguments{trip->type(), cond->type()};
  for (unsigned i = 0; i < carried; ++i) {
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
  NamedAttributes attributes{{"carried", int64_t(carried)}, {"scans", int64_t(scans)}};
  Operation *loop = n.b.create(Op::Loop, operands, attributes, 1, [&](unsigned, Region &region) {
    Items items;
    if (!n.graph.importRegion(n, *body, "body", region, arguments, captures, items))
      return;
    llvm::SmallVector<Value *, 8> yields;
    for (const Item &item : items)
      yields.push_back(oneTensor(n, item));
    if (n.failed())
      return;
    if (Value *again = oneElement(n, yields[0], Element::Bool, "condition of the body"))
      yields[0] = again;
    else
      return;
    if (scans) {
      const bool always =
          isKnownTrue(cond) && (yields[0] == region.argument(1) || isKnownTrue(yields[0]));
      int64_t most = count ? count.upper() : INT64_MAX;
      if (range != n.graph.state.valueRanges.end())
        most = std::min(most, range->second.upper);
      if (most > kElementLimit) {
        n.error("the number of iterations, and so the extent of result " + std::to_string(carried) +
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
    Builder inner(region, n.b.diagnostics());
    inner.location = n.b.location;
    inner.yield(yields);
  });
  n.setAll(loop);
}

void importScan(Node &n) {
  const onnx::GraphProto *body = subgraph(n, "body");
  if (!body)
    return;
  const int64_t scanInputs = n.intAttr("num_scan_inputs", 0);
  const int64_t states = int64_t(n.numInputs()) - scanInputs;
  const int64_t scanOutputs = int64_t(n.numOutputs()) - states;
  if (scanInputs < 1 || states < 0 || scanOutputs < 0) {
    n.error("attribute num_scan_inputs: expected 1 to " + std::to_string(n.numInputs()) +
            ", found " + std::to_string(scanInputs));
    return;
  }
  if (!checkCount(n, size_t(body->input_size()), n.numInputs(), "inputs of the body") ||
      !checkCount(n, size_t(body->output_size()), n.numOutputs(), "outputs of the body"))
    return;
  auto perScan = [&](llvm::StringRef name, int64_t count) {
    Ints v = n.intsAttr(name);
    if (v.empty())
      v.assign(size_t(count), 0);
    if (int64_t(v.size()) != count) {
      n.error("attribute " + name.str() + ": expected " + std::to_string(count) + " entries");
      v.assign(size_t(count), 0);
    }
    return v;
  };
  const Ints inputAxes = perScan("scan_input_axes", scanInputs);
  const Ints inputReversed = perScan("scan_input_directions", scanInputs);
  const Ints outputAxes = perScan("scan_output_axes", scanOutputs);
  const Ints outputReversed = perScan("scan_output_directions", scanOutputs);

  // A loop whose body takes its slice of each scanned operand itself.
  llvm::SmallVector<Value *, 8> operands{nullptr, n.b.scalarConstant(Element::Bool, 1)};
  Type i64 = Type::tensor(n.context(), Element::I64, llvm::ArrayRef<Dim>());
  Type i1 = Type::tensor(n.context(), Element::Bool, llvm::ArrayRef<Dim>());
  llvm::SmallVector<Type, 8> arguments{i64, i1};
  Ints axes;
  Dim length;
  for (unsigned i = 0; i < n.numInputs(); ++i) {
    if (!n.has(i)) {
      n.error("operand " + std::to_string(i) + " is missing");
      return;
    }
    operands.push_back(n.input(i));
    arguments.push_back(n.type(i));
    if (int64_t(i) < states)
      continue;
    auto axis = n.axis(inputAxes[size_t(i - states)], n.rank(i));
    if (!axis)
      return;
    axes.push_back(*axis);
    Dim extent = n.type(i).dim(unsigned(*axis));
    if (length && length != extent) {
      n.error("scanned operands differ in length: " + text({length, extent}, " and "));
      return;
    }
    length = extent;
    if (axes.size() == 1)
      operands[0] = length.isConstant() ? integer(n.b, length.constant())
                                        : extentProduct(n.b, n.input(i), {*axis}, Element::I64);
  }
  const std::vector<Capture> captures = n.graph.captures({body});
  appendOperands(captures, operands);
  NamedAttributes attributes{
      {"carried", states}, {"scans", scanOutputs}, {"max_trip", Dims{length}}};
  auto inputs = [&](Builder &b, llvm::ArrayRef<Value *> args) {
    llvm::SmallVector<Value *, 8> given(args.begin() + 2, args.begin() + 2 + states);
    for (size_t i = 0; i < axes.size(); ++i) {
      Value *at = args[0];
      if (inputReversed[i] != 0)
        at = pointwise(b, {at}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          Value *last =
              s.b.scalarInt(Element::I64, length.isConstant() ? length.constant() - 1 : 0);
          return s(Op::Sub, last, a[0]);
        });
      given.push_back(b.value(Op::Gather, {args[size_t(2 + states) + i], at}, {{"axis", axes[i]}}));
    }
    return given;
  };
  for (int64_t reversed : inputReversed)
    if (reversed != 0 && !length.isConstant()) {
      n.error("scanning backwards needs a known length, found " + text({length}, ""));
      return;
    }
  Operation *loop = n.b.create(Op::Loop, operands, attributes, 1, [&](unsigned, Region &region) {
    // Scanned operands stay as they are: they follow the carried ones like captures.
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
    yields.insert(yields.begin(), region.argument(1));
    inner.yield(yields);
  });
  for (unsigned i = 0; loop && i < loop->numResults(); ++i) {
    Value *v = loop->result(i);
    if (int64_t(i) >= states) {
      const size_t k = size_t(i - states);
      if (outputReversed[k] != 0)
        v = sliceAlong(n.b, v, 0, length - 1, length, -1);
      auto axis = v ? n.axis(outputAxes[k], v->type().rank()) : llvm::None;
      if (axis && *axis != 0) {
        Ints perm = allAxes(1, v->type().rank());
        perm.insert(perm.begin() + *axis, 0);
        v = n.b.transpose(v, perm);
      }
    }
    n.set(i, v);
  }
}

} // namespace tenon::frontend
