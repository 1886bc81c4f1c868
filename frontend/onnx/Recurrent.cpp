// Imports recurrent networks: one step of RNN, LSTM and GRU each, and of the LSTM whose weights are
// integers (com.microsoft).
#include "frontend/onnx/RecurrentNetwork.h"

namespace tenon::frontend {
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
          Value *recurrent = net.product(b, states[0], captures);
          if (!recurrent)
            return {nullptr};
          return {pointwise(b, {recurrent, share}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
            return net.activate(s, f, s(Op::Add, a[0], a[1]));
          })};
        }));
  }
  net.finish(results);
}

namespace {
/// Gates in the order input, output, forget, cell; peepholes input, output, forget.
void lstm(Node &n, bool dynamic) {
  Network net(n, 4, dynamic);
  if (!net.read({"Sigmoid", "Tanh", "Tanh"}))
    return;
  const bool coupled = n.boolAttr("input_forget", false);
  llvm::SmallVector<llvm::SmallVector<Value *, 3>, 2> results;
  for (unsigned d = 0; d < net.directions; ++d) {
    const Activation f = net.activation(d, 0), g = net.activation(d, 1), h = net.activation(d, 2);
    llvm::SmallVector<Value *, 4> captures = net.weights(Network::R, d);
    const size_t weights = captures.size();
    if (Value *p = net.part(Network::Peepholes, d))
      for (unsigned i = 0; i < 3; ++i)
        captures.push_back(net.columns(n.b, p, i, 1));
    results.push_back(net.run(
        d, net.inputShare(d, 4),
        {net.initial(Network::InitialH, d), net.initial(Network::InitialC, d)}, captures,
        [&](Builder &b, Value *share, llvm::ArrayRef<Value *> states,
            llvm::ArrayRef<Value *> captures) -> llvm::SmallVector<Value *, 2> {
          Value *recurrent = net.product(b, states[0], captures.take_front(weights));
          Value *gates = recurrent ? b.pointwise(Op::Add, {recurrent, share}) : nullptr;
          if (!gates)
            return {nullptr};
          llvm::SmallVector<Value *, 8> operands;
          for (unsigned i = 0; i < 4; ++i)
            operands.push_back(net.columns(b, gates, i, 1));
          operands.push_back(states[1]);
          operands.append(captures.begin() + weights, captures.end());
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
} // namespace

void importLSTM(Node &n) { lstm(n, false); }
void importDynamicQuantizeLSTM(Node &n) { lstm(n, true); }

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
                  Value *before = states[0], *recurrent = net.product(b, before, captures[0]);
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
                  Value *reset = net.product(b, kept, captures[1]);
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
