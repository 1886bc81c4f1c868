// Defines Network: what recurrent operators have in common as loops. The share of the inputs in all
// gates is one matrix product over the whole sequence before the loop, the share of the hidden
// state one product in its body.
#pragma once

#include "frontend/onnx/Activation.h"
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Quantize.h"

namespace tenon::frontend {

/// What the three operators have in common: X [length, batch, inputs], W [directions, gates ·
/// hidden, inputs], R [directions, gates · hidden, hidden], B [directions, 2 · gates · hidden].
/// Where the products are of integers (`dynamic`), W and R have their last dimensions the other way
/// round, and a scale and a zero point for each direction, or each column of one; what they
/// multiply is quantised by its range: X as a whole, the hidden state of the whole batch in each
/// step.
struct Network {
  Network(Node &n, unsigned gates, bool dynamic = false)
      : n(n), b(n.b), gates(gates), dynamic(dynamic) {}

  Node &n;
  Builder &b;
  const unsigned gates;
  const bool dynamic;
  unsigned directions = 1;
  bool batchFirst = false;
  Value *x = nullptr; // [length, batch, inputs]
  Dim length, batch;
  int64_t hidden = 0;
  llvm::SmallVector<Activation, 6> activations;
  double clip = 0; // of what activations receive; 0: none

  enum { X, W, R, B, Lengths, InitialH, InitialC, Peepholes, WScale, WZero, RScale, RZero };

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
    const Dim width = n.type(R).dim(dynamic ? 1 : 2);
    hidden = width.isConstant() ? width.constant() : 0;
    return hidden >= 1 && expectWeights(R, width) && expectWeights(W, x->type().dim(2)) &&
           expectShape(B, {n.dim(directions), n.dim(2 * gates * hidden)}) &&
           expectShape(Lengths, {batch}) && expectState(InitialH) && expectState(InitialC) &&
           expectShape(Peepholes, {n.dim(directions), n.dim(3 * hidden)}) &&
           (!dynamic || (expectParameters(WScale) && expectParameters(WZero) &&
                         expectParameters(RScale) && expectParameters(RZero)));
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
  /// What product() multiplies with: the weights `i` of a direction, then scale and zero point.
  llvm::SmallVector<Value *, 4> weights(unsigned i, unsigned direction) {
    llvm::SmallVector<Value *, 4> parts{part(i, direction)};
    if (dynamic)
      for (unsigned parameter : {0u, 1u})
        parts.push_back(part((i == W ? WScale : RScale) + parameter, direction));
    return parts;
  }
  /// `v` [rows, k] times the first of `parts`.
  Value *product(Builder &builder, Value *v, llvm::ArrayRef<Value *> parts) const {
    if (!v || llvm::is_contained(parts, nullptr))
      return nullptr;
    if (!dynamic)
      return builder.value(Op::MatMul, {v, parts[0]}, {{"trans_b", true}});
    const Dynamic q = quantizedByRange(builder, v);
    Value *acc =
        q.bytes ? builder.value(Op::MatMul, {q.bytes, parts[0], q.zero, parts[2]}) : nullptr;
    return acc ? scaledSum(builder, acc, builder.pointwise(Op::Mul, {parts[1], q.scale}), nullptr)
               : nullptr;
  }

  /// X [length · batch, inputs] as the products see it: steps beyond the longest sequence of the
  /// batch have no share in its range.
  Value *flatInputs() {
    Value *seen = x;
    if (dynamic && n.has(Lengths))
      seen = pointwise(b, {x, b.reduce(Op::Max, n.input(Lengths), {0}, 0)}, {identityMap(3), {}},
                       x->type().shape(), [](Scalars &s, llvm::ArrayRef<Value *> a) {
                         Value *holds = s(Op::Less, s.index(0), s.cast(a[1], Element::I64));
                         return s(Op::Select, holds, a[0], s.c(0));
                       });
    return seen ? b.reshape(seen, {length * batch, x->type().dim(2)}) : nullptr;
  }
  /// X · Wᵀ plus biases, [length, batch, gates · hidden], in the order in which the loop reads it.
  /// `recurrentBias`: how many gates get the bias of R here, too.
  Value *inputShare(unsigned direction, unsigned recurrentBias) {
    Value *bias = part(B, direction);
    Value *share = product(b, flatInputs(), weights(W, direction));
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
      llvm::SmallVector<Value *, 2> seen(before.begin(), before.end());
      if (dynamic && n.has(Lengths) && !backwards)
        seen[0] = withoutEnded(inner, before[0], given[1], arguments[0]);
      llvm::SmallVector<Value *, 2> after =
          step(inner, now, seen, given.drop_front(n.has(Lengths) ? 3 : 1));
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
  /// The hidden state of sequences that ended before the last step is 0, that it may have no share
  /// in the range of the others.
  static Value *withoutEnded(Builder &builder, Value *state, Value *lengths, Value *at) {
    return pointwise(builder, {state, lengths, at}, {identityMap(2), along(0), {}},
                     state->type().shape(), [](Scalars &s, llvm::ArrayRef<Value *> a) {
                       Value *ended = s(Op::Greater, a[2], s.cast(a[1], Element::I64));
                       return s(Op::Select, ended, s.c(0), a[0]);
                     });
  }
  bool expectWeights(unsigned i, Dim width) {
    const Dim each = n.dim(directions), all = n.dim(gates * hidden);
    return dynamic ? expectShape(i, {each, width, all}) : expectShape(i, {each, all, width});
  }
  bool expectParameters(unsigned i) {
    if (!n.has(i)) {
      n.error("operand " + std::to_string(i) +
              " is missing: expected scales and zero points of the "
              "weights");
      return false;
    }
    return n.rank(i) == 1 ? expectShape(i, {n.dim(directions)})
                          : expectShape(i, {n.dim(directions), n.dim(gates * hidden)});
  }
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

} // namespace tenon::frontend
