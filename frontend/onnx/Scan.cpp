// Imports Scan: a loop whose body takes its slice of each scanned operand itself.
#include "frontend/onnx/Control.h"
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {
namespace {

/// One Scan without a batch dimension: operands are the initial states, then what is scanned.
class Scan {
public:
  Scan(Node &n, const onnx::GraphProto &body, size_t states, size_t scans)
      : inputAxes(scans, 0), inputReversed(scans, 0), outputAxes(n.numOutputs() - states, 0),
        outputReversed(n.numOutputs() - states, 0), n_(n), body_(body), states_(states) {}

  /// How many iterations count, as an i64 of rank 0; null: all. Later ones leave the states as they
  /// are and stack zeros, so that extents stay known.
  Value *count = nullptr;
  /// Per scanned operand and per stacked result: its axis, and whether it runs backwards.
  Ints inputAxes, inputReversed, outputAxes, outputReversed;

  /// The final states and the stacked results; none after an error.
  llvm::SmallVector<Value *, 4> run(llvm::ArrayRef<Value *> operands, llvm::StringRef name) {
    if (!prepare(operands))
      return {};
    Operation *loop = makeLoop(name);
    llvm::SmallVector<Value *, 4> results;
    for (unsigned i = 0; loop && !n_.failed() && i < loop->numResults(); ++i)
      results.push_back(i < states_ ? loop->result(i) : stacked(loop->result(i), i - states_));
    return results;
  }

private:
  /// Trip count, condition and operands of the loop, and their types.
  bool prepare(llvm::ArrayRef<Value *> operands) {
    const Type i64 = Type::tensor(n_.context(), Element::I64, llvm::ArrayRef<Dim>());
    const Type i1 = Type::tensor(n_.context(), Element::Bool, llvm::ArrayRef<Dim>());
    operands_ = {nullptr, n_.b.scalarConstant(Element::Bool, 1)};
    arguments_ = {i64, i1};
    length_ = Dim();
    for (size_t i = 0; i < operands.size(); ++i) {
      Value *v = operands[i];
      if (!v) {
        n_.error("operand " + std::to_string(i) +
                 " is missing: expected it in this operator; write it");
        return false;
      }
      operands_.push_back(v);
      arguments_.push_back(v->type());
      if (i < states_)
        continue;
      auto axis = n_.axis(inputAxes[i - states_], v->type().rank());
      if (!axis)
        return false;
      inputAxes[i - states_] = *axis;
      const Dim extent = v->type().dim(unsigned(*axis));
      if (length_ && length_ != extent) {
        n_.error("scanned operands differ in length: " + text({length_, extent}, " and "));
        return false;
      }
      length_ = extent;
      if (i == states_)
        operands_[0] = extent.isConstant() ? integer(n_.b, extent.constant())
                                           : extentProduct(n_.b, v, {*axis}, Element::I64);
    }
    if (count) {
      operands_.push_back(count);
      arguments_.push_back(i64);
    }
    if (llvm::is_contained(inputReversed, 1) && !length_.isConstant()) {
      n_.error("scanning backwards needs a known length, found " + text({length_}, ""));
      return false;
    }
    return true;
  }

  /// What the body's graph gets: the states, and the slices of this iteration.
  TensorsOrSequences slices(Builder &b, llvm::ArrayRef<Value *> args) const {
    TensorsOrSequences given(args.begin() + 2, args.begin() + 2 + int64_t(states_));
    for (size_t i = 0; i < inputAxes.size(); ++i) {
      Value *at = args[0];
      if (inputReversed[i] != 0 && count) // from the last one that counts
        at = pointwise(b, {args[2 + states_ + inputAxes.size()], at},
                       [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                         Value *before = s(Op::Sub, a[0], s.c(1));
                         return s(Op::Clamp, s(Op::Sub, before, a[1]), s.c(0),
                                  s.c(double(length_.constant() - 1)));
                       });
      else if (inputReversed[i] != 0)
        at = pointwise(b, {at}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          return s(Op::Sub, s.b.scalarInt(Element::I64, length_.constant() - 1), a[0]);
        });
      given.push_back(b.value(Op::Gather, {args[2 + states_ + i], at}, {{"axis", inputAxes[i]}}));
    }
    return given;
  }

  Operation *makeLoop(llvm::StringRef name) {
    const std::vector<Capture> captures = n_.graph.captures({&body_});
    appendOperands(captures, operands_);
    const NamedAttributes attributes{{"carried", int64_t(states_)},
                                     {"scans", int64_t(outputAxes.size())},
                                     {"max_trip", Dims{length_}}};
    auto inputs = [&](Builder &b, llvm::ArrayRef<Value *> args) { return slices(b, args); };
    return n_.b.create(Op::Loop, operands_, attributes, 1, [&](unsigned, Region &region) {
      // Scanned operands stay as they are: they follow the carried ones like captures.
      TensorsOrSequences items;
      if (!n_.graph.importRegion(n_, body_, name, region, arguments_, captures, items, inputs))
        return;
      llvm::SmallVector<Value *, 8> yields{region.argument(1)};
      for (const TensorOrSequence &item : items)
        yields.push_back(oneTensor(n_, item));
      if (n_.failed())
        return;
      Builder inner(region, n_.b.diagnostics());
      inner.location = n_.b.location;
      if (count)
        for (size_t i = 1; i < yields.size(); ++i)
          yields[i] = whileCounted(inner, region, yields[i], i - 1);
      if (!llvm::is_contained(yields, nullptr))
        inner.yield(yields);
    });
  }

  /// Result k of the body where the iteration counts, else the state as it was, or zero.
  Value *whileCounted(Builder &b, Region &region, Value *v, size_t k) const {
    Value *last = region.argument(unsigned(2 + states_ + inputAxes.size()));
    llvm::SmallVector<Value *, 4> operands{v, region.argument(0), last};
    if (k < states_)
      operands.push_back(region.argument(unsigned(2 + k)));
    return pointwise(b, operands, [](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s(Op::Select, s(Op::Less, a[1], a[2]), a[0], a.size() > 3 ? a[3] : s.c(0));
    });
  }

  Value *stacked(Value *v, size_t k) {
    if (outputReversed[k] != 0)
      v = sliceAlong(n_.b, v, 0, length_ - 1, length_, -1);
    auto axis = v ? n_.axis(outputAxes[k], v->type().rank()) : llvm::None;
    if (!axis || *axis == 0)
      return v;
    Ints perm = allAxes(1, v->type().rank());
    perm.insert(perm.begin() + *axis, 0);
    return n_.b.transpose(v, perm);
  }

  Node &n_;
  const onnx::GraphProto &body_;
  const size_t states_;
  llvm::SmallVector<Value *, 8> operands_;
  llvm::SmallVector<Type, 8> arguments_;
  Dim length_;
};

/// One entry per scan of an attribute; its own values stay where the model has none.
void readPerScan(Node &n, llvm::StringRef name, Ints &values) {
  Ints given = n.intsAttr(name);
  if (given.empty())
    return;
  if (given.size() != values.size())
    n.error("attribute " + name.str() + ": expected " + std::to_string(values.size()) + " entries");
  else
    values = std::move(given);
}

/// The number of states among `operands` operands; None after an error.
llvm::Optional<int64_t> countStates(Node &n, const onnx::GraphProto &body, unsigned operands) {
  const int64_t scans = n.intAttr("num_scan_inputs", 0),
                states =
                    int64_t(operands) - std::min<int64_t>(std::max<int64_t>(scans, 0), operands);
  if (scans < 1 || scans > int64_t(operands) || int64_t(n.numOutputs()) < states) {
    n.error("attribute num_scan_inputs: expected 1 to " + std::to_string(operands) + ", found " +
            std::to_string(scans));
    return llvm::None;
  }
  if (!checkCount(n, size_t(body.input_size()), operands, "inputs of the body") ||
      !checkCount(n, size_t(body.output_size()), n.numOutputs(), "outputs of the body"))
    return llvm::None;
  return states;
}

} // namespace

void importScan(Node &n) {
  const onnx::GraphProto *body = subgraph(n, "body");
  const auto states = body ? countStates(n, *body, n.numInputs()) : llvm::None;
  if (!states)
    return;
  Scan scan(n, *body, size_t(*states), n.numInputs() - size_t(*states));
  readPerScan(n, "scan_input_axes", scan.inputAxes);
  readPerScan(n, "scan_input_directions", scan.inputReversed);
  readPerScan(n, "scan_output_axes", scan.outputAxes);
  readPerScan(n, "scan_output_directions", scan.outputReversed);
  if (n.failed())
    return;
  const auto results = scan.run(n.inputs(), "body");
  for (unsigned i = 0; i < results.size(); ++i)
    n.set(i, results[i]);
}

void importScanOfBatch(Node &n) {
  // Operand 0 says how long each sequence is; all others begin with a batch dimension that the body
  // does not see.
  const onnx::GraphProto *body = subgraph(n, "body");
  const auto states = body ? countStates(n, *body, n.numInputs() - 1) : llvm::None;
  if (!states)
    return;
  for (unsigned i = 1; i < n.numInputs(); ++i)
    if (!n.has(i) || !n.checkRank(i, int64_t(i) > *states ? 2 : 1) ||
        n.type(i).dim(0) != n.type(1).dim(0)) {
      n.error("operand " + n.inputName(i) + ": expected a batch dimension like the others");
      return;
    }
  const Dim batch = n.type(1).dim(0);
  if (!batch.isConstant() || batch.constant() < 1 || batch.constant() > 64) {
    n.error("expected a batch of 1 to 64, found " + text({batch}, ""));
    return;
  }
  if (n.has(0) && (!isInteger(n.element(0)) || n.rank(0) != 1 || n.type(0).dim(0) != batch)) {
    n.error("operand " + n.inputName(0) + ": expected one length per batch entry, found " +
            toString(n.type(0)));
    return;
  }
  std::vector<llvm::SmallVector<Value *, 4>> entries(n.numOutputs());
  for (int64_t k = 0; k < batch.constant(); ++k) {
    Scan scan(n, *body, size_t(*states), n.numInputs() - 1 - size_t(*states));
    readPerScan(n, "directions", scan.inputReversed);
    llvm::SmallVector<Value *, 8> operands;
    for (unsigned i = 1; i < n.numInputs(); ++i) {
      Value *entry = sliceAlong(n.b, n.input(i), 0, n.dim(k), n.dim(1), 1);
      operands.push_back(entry ? n.b.reshape(entry, n.type(i).shape().drop_front()) : nullptr);
    }
    if (n.has(0)) {
      Value *own = sliceAlong(n.b, n.input(0), 0, n.dim(k), n.dim(1), 1);
      scan.count = own ? n.b.cast(n.b.reshape(own, {}), Element::I64) : nullptr;
    }
    if (n.failed())
      return;
    const auto results = scan.run(operands, k ? "body_" + std::to_string(k) : "body");
    if (results.size() != entries.size())
      return;
    for (size_t i = 0; i < entries.size(); ++i)
      entries[i].push_back(results[i]);
  }
  for (unsigned i = 0; i < entries.size(); ++i)
    n.set(i, stackAlong(n.b, entries[i], 0, true));
}

} // namespace tenon::frontend
