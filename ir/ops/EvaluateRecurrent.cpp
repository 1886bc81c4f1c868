// Evaluates recurrent: each row of the batch runs all steps by itself.
#include "ir/Recurrent.h"
#include "ir/ops/Body.h"
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"
#include "ir/ops/Parallel.h"

namespace tenon {
namespace {

std::vector<double> doubles(const Tensor &t, int64_t begin, int64_t count) {
  std::vector<double> v(static_cast<size_t>(count));
  t.toDoubles(begin, count, v.data());
  return v;
}

/// A row of the batch: what its cell takes and keeps.
class Row {
public:
  Row(const Operation &op, const RecurrentShape &s, const EvaluationFrame &frame,
      llvm::ArrayRef<BodyProgram> programs, llvm::ArrayRef<std::vector<double>> weights,
      int64_t row, int64_t rows)
      : op_(op), s_(s), frame_(frame), weights_(weights), row_(row), rows_(rows) {
    for (const BodyProgram &p : programs)
      tiles_.emplace_back(p);
    for (unsigned i = 0; i < s.states; ++i)
      states_.push_back(doubles(frame.operands[s.state(i)], row * s.hidden, s.hidden));
    for (unsigned i = 0; i < s.extras; ++i)
      extras_.push_back(doubles(frame.operands[s.extra(i)], 0, s.hidden));
  }

  void step(int64_t t, llvm::MutableArrayRef<Tensor> results) {
    std::vector<std::vector<double>> given;
    for (unsigned i = 0; i < s_.inputs; ++i)
      given.push_back(
          doubles(frame_.operands[0], ((t * rows_ + row_) * s_.inputs + i) * s_.hidden, s_.hidden));
    std::vector<double> multiplied = states_[0];
    for (unsigned p = 0; p < s_.products; ++p) {
      for (unsigned g = 0; g < s_.gates[p]; ++g)
        given.push_back(product(weights_[p], g, multiplied));
      if (p + 1 < s_.products)
        multiplied = run(p, given, 1)[0];
    }
    states_ = run(s_.products - 1, given, s_.states);
    const Ints &kept = op_.intsAttr("kept");
    for (size_t k = 0; k < kept.size(); ++k)
      results[k].fromDoubles((t * rows_ + row_) * s_.hidden, s_.hidden,
                             states_[size_t(kept[k])].data());
  }

private:
  std::vector<double> product(llvm::ArrayRef<double> weights, unsigned gate,
                              llvm::ArrayRef<double> v) const {
    std::vector<double> sums(size_t(s_.hidden), 0.0);
    for (int64_t u = 0; u < s_.hidden; ++u)
      for (int64_t k = 0; k < s_.hidden; ++k)
        sums[size_t(u)] += weights[size_t((gate * s_.hidden + u) * s_.hidden + k)] * v[size_t(k)];
    return sums;
  }

  /// What region `p` yields, rounded to the elements' type.
  std::vector<std::vector<double>> run(unsigned p, llvm::ArrayRef<std::vector<double>> given,
                                       unsigned yields) {
    std::vector<const std::vector<double> *> arguments;
    for (const std::vector<double> &v : given)
      arguments.push_back(&v);
    for (const std::vector<double> &v : states_)
      arguments.push_back(&v);
    for (const std::vector<double> &v : extras_)
      arguments.push_back(&v);
    Tensor rounded(frame_.operands[0].element(), {s_.hidden});
    std::vector<std::vector<double>> out(yields);
    for (int64_t first = 0; first < s_.hidden; first += kTile) {
      const int64_t n = std::min(kTile, s_.hidden - first);
      for (unsigned a = 0; a < arguments.size(); ++a)
        std::copy_n(arguments[a]->begin() + first, n, tiles_[p].slot(a).reals.begin());
      tiles_[p].run(n, [](int64_t, int64_t *, int64_t) {});
      for (unsigned y = 0; y < yields; ++y) {
        rounded.fromDoubles(first, n, tiles_[p].yielded(y).reals.data());
        const std::vector<double> part = doubles(rounded, first, n);
        out[y].insert(out[y].end(), part.begin(), part.end());
      }
    }
    return out;
  }

  const Operation &op_;
  const RecurrentShape &s_;
  const EvaluationFrame &frame_;
  const llvm::ArrayRef<std::vector<double>> weights_; // of each product
  const int64_t row_, rows_;
  std::vector<BodyTile> tiles_; // of each region
  std::vector<std::vector<double>> states_, extras_;
};

} // namespace

bool evaluateRecurrent(const Operation &op, EvaluationFrame &frame, std::string &) {
  const RecurrentShape s = recurrentShape(op);
  const Tensor &x = frame.operands[0];
  const int64_t steps = x.shape()[0], rows = x.shape()[1];
  std::vector<BodyProgram> programs;
  std::vector<std::vector<double>> weights;
  for (unsigned p = 0; p < s.products; ++p) {
    programs.emplace_back(op.region(p), /*exact=*/true, frame.wide);
    weights.push_back(
        doubles(frame.operands[s.weights(p)], 0, frame.operands[s.weights(p)].size()));
  }
  for (size_t k = 0; k < op.numResults(); ++k) {
    frame.results.emplace_back(x.element(), llvm::ArrayRef<int64_t>{steps, rows, s.hidden});
    frame.results.back().mutableBytes();
  }
  parallelFor(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      Row run(op, s, frame, programs, weights, row, rows);
      for (int64_t i = 0; i < steps; ++i)
        run.step(op.boolAttr("reverse") ? steps - 1 - i : i, frame.results);
    }
  });
  return true;
}

} // namespace tenon
