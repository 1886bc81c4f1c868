// Imports recurrent networks as loops: the share of the inputs in all gates is one matrix product
// over the whole sequence before the loop, the share of the hidden state one product in its body.
#include "frontend/onnx/Activation.h"
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {
namespace {

/// What the three operators have in common: X [length, batch, inputs], W [directions, gates ·
/// hidden, inputs], R [directions, gates · hidden, hidden], B [directions, 2 · gates · hidden].
struct Network {
  Network(Node &n, unsigned gates) : n(n), b(n.b), gates(gates) {}

  Node &n;
  Builder &b;
  const unsigned gates;
  unsigned directions = 1;
  bool batchFirst = false;
  Value *x = nullptr; // [length, batch, inputs]
  Dim length, batch;
  int64_t hidden = 0;
  llvm::SmallVector<Activation, 6> activations;
  double clip = 0; // of what activations receive; 0: none

  enum { X, W, R, B, Lengths, InitialH, InitialC, Peepholes };

  bool read(llvm::ArrayRef<const char *> defaults) {
    const std::string direction = n.stringAttr("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
      n.error("attribute direction: expected forward, reverse or bidirectional, found '" +
              direction + "'");
      return false;
    }
    directions = direction == "bidirectional" ? 2 : 1;
    reversed_ = direction == "reverse";
    batchFirst = n.intAttr("layout", 0) != 0;
    clip = n.floatAttr("clip", 0);
    if (!n.checkRank(X, 3, 3) || !n.checkRank(W, 3, 3) || !n.checkRank(R, 3, 3) ||
        !n.checkFloat(X) || !readActivations(n, defaults, directions, activations))
      return false;
    x = batchFirst ? b.transpose(n.input(X), {1, 0, 2}) : n.input(X);
    length = x->type().dim(0);
    batch = x->type().dim(1);
    const Type r = n.type(R);
    hidden = r.dim(2).isConstant() ? r.dim(2).constant() : 0;
    return hidden >= 1 && expectShape(R, {n.dim(directions), n.dim(gates * hidden), r.dim(2)}) &&
           expectShape(W, {n.dim(directions), n.dim(gates * hidden), x->type().dim(2)}) &&
           expectShape(B, {n.dim(directions), n.dim(2 * gates * hidden)}) &&
           expectShape(Lengths, {batch}) && expectState(InitialH) && expectState(InitialC) &&
           expectShape(Peepholes, {n.dim(directions), n.dim(3 * hidden)});
  }

  bool runsBackwards(unsigned direction) const { return reversed_ || direction == 1; }
  Element element() const { return n.element(X); }
  Activation activation(unsigned direction, unsigned i) const {
    return activations[direction * activations.size() / directions + i];
  }
  /// Activation of a clipped value.
  Value *activate(Scalars &s, const Activation &f, Value *v) const {
    if (clip > 0)
      v = s(Op::Max, s(Op::Min, v, s.c(clip)), s.c(-clip));
    return f(s, v);
  }

  /// Entry `direction` of an operand, without its first dimension; null when it is absent.
  Value *part(unsigned i, unsigned direction) {
    if (!n.has(i))
      return nullptr;
    Value *one = sliceAlong(b, n.input(i), 0, n.dim(direction), n.dim(1), 1);
    return one ? b.reshape(one, one->type().shape().drop_front()) : nullptr;
  }
  /// [start, start + count) · hidden along the last dimension of `v`.
  Value *columns(Builder &builder, Value *v, unsigned start, unsigned count) const {
    return v ? sliceAlong(builder, v, v->type().rank() - 1, n.dim(start * hidden),
                          n.dim(count * hidden), 1)
             : nullptr;
  }
  Value *rows(Value *v, unsigned start, unsigned count) const {
    return v ? sliceAlong(b, v, 0, n.dim(start * hidden), n.dim(count * hidden), 1) : nullptr;
  }
  /// Initial state [batch, hidden] of a direction: an operand, or zeros.
  Value *initial(unsigned i, unsigned direction) {
    Value *v = n.input(i);
    if (!v)
      return generate(b, element(), {batch, n.dim(hidden)},
                      [](Scalars &s, llvm::ArrayRef<Value *>) { return s.c(0); });
    if (batchFirst)
      v = b.transpose(v, {1, 0, 2});
    Value *one = v ? sliceAlong(b, v, 0, n.dim(direction), n.dim(1), 1) : nullptr;
    return one ? b.reshape(one, {batch, n.dim(hidden)}) : nullptr;
  }
  /// X · Wᵀ plus biases, [length, batch, gates · hidden], in the order in which the loop reads it.
  /// `recurrentBias`: how many gates get the bias of R here, too.
  Value *inputShare(unsigned direction, unsigned recurrentBias) {
    Value *w = part(W, direction), *bias = part(B, direction);
    Value *flat = b.reshape(x, {length * batch, x->type().dim(2)});
    Value *share = w && flat ? b.value(Op::MatMul, {flat, w}, {{"trans_b", true}}) : nullptr;
    if (share && bias) {
      Value *own = columns(b, bias, 0, gates), *other = columns(b, bias, gates, gates);
      Value *total = pointwise(b, {own, other}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
        if (recurrentBias == gates)
          return s(Op::Add, a[0], a[1]);
        Value *has = s(Op::Less, s.index(0), s.b.scalarInt(Element::I64, recurrentBias * hidden));
        return s(Op::Add, a[0], s(Op::Select, has, a[1], s.c(0)));
      });
      share = b.pointwise(Op::Add, {share, total});
    }
    share = share ? b.reshape(share, {length, batch, n.dim(gates * hidden)}) : nullptr;
    return share && runsBackwards(direction) ? sliceAlong(b, share, 0, length - 1, length, -1)
                                             : share;
  }

  /// One step: the new states from those before and the inputs' share [batch, gates · hidden].
  using Step = llvm::function_ref<llvm::SmallVector<Value *, 2>(
      Builder &, Value *share, llvm::ArrayRef<Value *> states, llvm::ArrayRef<Value *> captures)>;

  /// Runs a direction; gives the last states, then the sequence [length, batch, hidden] of the
  /// first.
  llvm::SmallVector<Value *, 3> run(unsigned direction, Value *share,
                                    llvm::ArrayRef<Value *> states,
                                    llvm::ArrayRef<Value *> captures, Step step) {
    const bool backwards = runsBackwards(direction);
    Value *trip = length.isConstant()
                      ? b.constant(Tensor::fromInts({length.constant()}).reshaped({}))
                      : extentProduct(b, x, {0}, Element::I64);
    llvm::SmallVector<Value *, 12> operands{trip, b.scalarConstant(Element::Bool, 1)};
    operands.append(states.begin(), states.end());
    operands.push_back(share);
    if (n.has(Lengths)) {
      operands.push_back(n.input(Lengths));
      operands.push_back(trip);
    }
    operands.append(captures.begin(), captures.end());
    if (llvm::is_contained(operands, nullptr))
      return {};
    const NamedAttributes attributes{
        {"carried", int64_t(states.size())}, {"scans", int64_t(1)}, {"max_trip", Dims{length}}};
    Operation *loop = b.create(Op::Loop, operands, attributes, 1, [&](unsigned, Region &region) {
      llvm::SmallVector<Value *, 12> arguments;
      for (Value *v : operands)
        arguments.push_back(region.addArgument(v->type()));
      Builder inner(region, b.diagnostics());
      inner.location = b.location;
      llvm::ArrayRef<Value *> given = llvm::makeArrayRef(arguments).drop_front(2);
      llvm::ArrayRef<Value *> before = given.take_front(states.size());
      given = given.drop_front(states.size());
      Value *now = inner.value(Op::Gather, {given[0], arguments[0]}, {{"axis", int64_t(0)}});
      if (!now)
        return;
      llvm::SmallVector<Value *, 2> after =
          step(inner, now, before, given.drop_front(n.has(Lengths) ? 3 : 1));
      if (llvm::is_contained(after, nullptr))
        return;
      llvm::SmallVector<Value *, 4> yields{arguments[1]};
      if (!n.has(Lengths)) {
        yields.append(after.begin(), after.end());
        yields.push_back(after[0]);
        inner.yield(yields);
        return;
      }
      // A sequence that has ended, or running backwards not yet begun, keeps its state and gives 0.
      auto whereActive = [&](Value *active, Value *otherwise) {
        llvm::SmallVector<Value *, 5> values{active, given[1], arguments[0], given[2]};
        std::vector<IndexMap> maps{identityMap(2), along(0), {}, {}};
        if (otherwise) {
          values.push_back(otherwise);
          maps.push_back(identityMap(2));
        }
        return pointwise(inner, values, maps, active->type().shape(),
                         [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                           Value *at = a[2];
                           if (backwards)
                             at = s(Op::Sub, s(Op::Sub, a[3], s.c(Element::I64, 1)), at);
                           Value *holds = s(Op::Less, at, s.cast(a[1], Element::I64));
                           return s(Op::Select, holds, a[0], otherwise ? a[4] : s.c(0));
                         });
      };
      for (size_t i = 0; i < after.size(); ++i)
        yields.push_back(whereActive(after[i], before[i]));
      yields.push_back(whereActive(after[0], nullptr));
      if (!llvm::is_contained(yields, nullptr))
        inner.yield(yields);
    });
    if (!loop)
      return {};
    llvm::SmallVector<Value *, 3> results;
    for (unsigned i = 0; i < loop->numResults(); ++i)
      results.push_back(loop->result(i));
    if (backwards)
      results.back() = sliceAlong(b, results.back(), 0, length - 1, length, -1);
    return results;
  }

  /// Sets the node's results from those of run() for each direction.
  void finish(llvm::ArrayRef<llvm::SmallVector<Value *, 3>> results) {
    for (const auto &r : results)
      if (r.empty() || llvm::is_contained(r, nullptr))
        return;
    const size_t states = results[0].size() - 1;
    auto stacked = [&](size_t i, int64_t axis) {
      llvm::SmallVector<Value *, 2> parts;
      for (const auto &r : results) {
        Shape shape(r[i]->type().shape().begin(), r[i]->type().shape().end());
        shape.insert(shape.begin() + axis, n.dim(1));
        parts.push_back(b.reshape(r[i], shape));
      }
      return parts.size() == 1 ? parts[0] : b.value(Op::Concat, parts, {{"axis", axis}});
    };
    if (n.wants(0)) { // [length, directions, batch, hidden] or [batch, length, directions, hidden]
      Value *y = stacked(states, 1);
      n.set(0, batchFirst && y ? b.transpose(y, {2, 0, 1, 3}) : y);
    }
    for (unsigned i = 0; i < states; ++i)
      if (n.wants(1 + i)) {
        Value *last = stacked(i, 0);
        n.set(1 + i, batchFirst && last ? b.transpose(last, {1, 0, 2}) : last);
      }
  }

private:
  bool expectShape(unsigned i, llvm::ArrayRef<Dim> shape) {
    if (!n.has(i) || n.type(i).shape() == shape)
      return true;
    n.error("operand " + n.inputName(i) + ": expected extents [" + text(shape, ", ") + "], found " +
            toString(n.type(i)));
    return false;
  }
  bool expectState(unsigned i) {
    const Dim each = n.dim(directions), size = n.dim(hidden);
    return batchFirst ? expectShape(i, {batch, each, size}) : expectShape(i, {each, batch, size});
  }
  bool reversed_ = false;
};

Value *timesTransposed(Builder &b, Value *x, Value *w) {
  return x && w ? b.value(Op::MatMul, {x, w}, {{"trans_b", true}}) : nullptr;
}

} // namespace

void importRNN(Node &n) {
  Network net(n, 1);
  if (!net.read({"Tanh"}))
    return;
  llvm::SmallVector<llvm::SmallVector<Value *, 3>, 2> results;
  for (unsigned d = 0; d < net.directions; ++d) {
    const Activation f = net.activation(d, 0);
    results.push_back(net.run(
        d, net.inputShare(d, 1), {net.initial(Network::InitialH, d)}, {net.part(Network::R, d)},
        [&](Builder &b, Value *share, llvm::ArrayRef<Value *> states,
            llvm::ArrayRef<Value *> captures) -> llvm::SmallVector<Value *, 2> {
          Value *recurrent = timesTransposed(b, states[0], captures[0]);
          if (!recurrent)
            return {nullptr};
          return {pointwise(b, {recurrent, share}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
            return net.activate(s, f, s(Op::Add, a[0], a[1]));
          })};
        }));
  }
  net.finish(results);
}

void importLSTM(Node &n) {
  // Gates in the order input, output, forget, cell; peepholes input, output, forget.
  Network net(n, 4);
  if (!net.read({"Sigmoid", "Tanh", "Tanh"}))
    return;
  const bool coupled = n.boolAttr("input_forget", false);
  llvm::SmallVector<llvm::SmallVector<Value *, 3>, 2> results;
  for (unsigned d = 0; d < net.directions; ++d) {
    const Activation f = net.activation(d, 0), g = net.activation(d, 1), h = net.activation(d, 2);
    llvm::SmallVector<Value *, 4> captures{net.part(Network::R, d)};
    if (Value *p = net.part(Network::Peepholes, d))
      for (unsigned i = 0; i < 3; ++i)
        captures.push_back(net.columns(n.b, p, i, 1));
    results.push_back(net.run(
        d, net.inputShare(d, 4),
        {net.initial(Network::InitialH, d), net.initial(Network::InitialC, d)}, captures,
        [&](Builder &b, Value *share, llvm::ArrayRef<Value *> states,
            llvm::ArrayRef<Value *> captures) -> llvm::SmallVector<Value *, 2> {
          Value *recurrent = timesTransposed(b, states[0], captures[0]);
          Value *gates = recurrent ? b.pointwise(Op::Add, {recurrent, share}) : nullptr;
          if (!gates)
            return {nullptr};
          llvm::SmallVector<Value *, 8> operands;
          for (unsigned i = 0; i < 4; ++i)
            operands.push_back(net.columns(b, gates, i, 1));
          operands.push_back(states[1]);
          operands.append(captures.begin() + 1, captures.end());
          Operation *cell = b.map(
              operands,
              [&](Builder &inner, llvm::ArrayRef<Value *> a) -> llvm::SmallVector<Value *, 2> {
                Scalars s{inner, net.element()};
                Value *c = a[4];
                auto gate = [&](unsigned i, unsigned peephole, Value *state) {
                  Value *v = a[i];
                  if (a.size() > 5)
                    v = s(Op::Add, v, s(Op::Mul, a[5 + peephole], state));
                  return net.activate(s, f, v);
                };
                Value *in = gate(0, 0, c);
                Value *forget = coupled ? s(Op::Sub, s.c(1), in) : gate(2, 2, c);
                Value *next =
                    s(Op::Add, s(Op::Mul, forget, c), s(Op::Mul, in, net.activate(s, g, a[3])));
                Value *out = gate(1, 1, next);
                return {s(Op::Mul, out, h(s, next)), next};
              });
          if (!cell)
            return {nullptr};
          return {cell->result(0), cell->result(1)};
        }));
  }
  net.finish(results);
}

void importGRU(Node &n) {
  // Gates in the order update, reset, hidden.
  Network net(n, 3);
  if (!net.read({"Sigmoid", "Tanh"}))
    return;
  const bool linear = n.boolAttr("linear_before_reset", false);
  llvm::SmallVector<llvm::SmallVector<Value *, 3>, 2> results;
  for (unsigned d = 0; d < net.directions; ++d) {
    const Activation f = net.activation(d, 0), g = net.activation(d, 1);
    // Where the reset gate multiplies a whole product, the product's bias belongs to it.
    llvm::SmallVector<Value *, 4> captures;
    Value *r = net.part(Network::R, d);
    if (linear) {
      captures = {r};
      if (Value *bias = net.part(Network::B, d))
        captures.push_back(net.columns(n.b, bias, 5, 1));
    } else {
      captures = {net.rows(r, 0, 2), net.rows(r, 2, 1)};
    }
    results.push_back(
        net.run(d, net.inputShare(d, linear ? 2 : 3), {net.initial(Network::InitialH, d)}, captures,
                [&](Builder &b, Value *share, llvm::ArrayRef<Value *> states,
                    llvm::ArrayRef<Value *> captures) -> llvm::SmallVector<Value *, 2> {
                  Value *before = states[0], *recurrent = timesTransposed(b, before, captures[0]);
                  if (!recurrent)
                    return {nullptr};
                  auto gate = [&](Scalars &s, Value *x, Value *y) {
                    return net.activate(s, f, s(Op::Add, x, y));
                  };
                  auto mix = [&](Scalars &s, Value *z, Value *h, Value *state) {
                    return s(Op::Add, s(Op::Mul, s(Op::Sub, s.c(1), z), h), s(Op::Mul, z, state));
                  };
                  llvm::SmallVector<Value *, 8> operands;
                  for (unsigned i = 0; i < 3; ++i)
                    operands.push_back(net.columns(b, share, i, 1));
                  for (unsigned i = 0; i < (linear ? 3u : 2u); ++i)
                    operands.push_back(net.columns(b, recurrent, i, 1));
                  if (llvm::is_contained(operands, nullptr))
                    return {nullptr};
                  if (linear) {
                    operands.push_back(before);
                    operands.append(captures.begin() + 1, captures.end());
                    return {pointwise(b, operands, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                      Value *product = a.size() > 7 ? s(Op::Add, a[5], a[7]) : a[5];
                      Value *reset = s(Op::Mul, gate(s, a[1], a[4]), product);
                      Value *h = net.activate(s, g, s(Op::Add, a[2], reset));
                      return mix(s, gate(s, a[0], a[3]), h, a[6]);
                    })};
                  }
                  Value *kept = pointwise(b, {operands[1], operands[4], before},
                                          [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                                            return s(Op::Mul, gate(s, a[0], a[1]), a[2]);
                                          });
                  Value *reset = timesTransposed(b, kept, captures[1]);
                  if (!reset)
                    return {nullptr};
                  return {pointwise(b, {operands[0], operands[3], operands[2], reset, before},
                                    [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                                      Value *h = net.activate(s, g, s(Op::Add, a[2], a[3]));
                                      return mix(s, gate(s, a[0], a[1]), h, a[4]);
                                    })};
                }));
  }
  net.finish(results);
}

} // namespace tenon::frontend
