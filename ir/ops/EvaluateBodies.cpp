// Evaluates map, reduce and scan: tiles of the iteration space run through the body.
#include "ir/ops/Body.h"
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"
#include "ir/ops/Parallel.h"
#include "ir/ops/Strided.h"

namespace tenon {
namespace {

/// The iteration space with values, and the strides of each operand in it.
struct Iteration {
  Extents extents;
  std::vector<Extents> strides;

  bool init(const Operation &op, const EvaluationFrame &frame, std::string &error) {
    llvm::SmallVector<Dim, 6> space;
    if (!iterationSpace(op, space, error))
      return false;
    for (Dim d : space) {
      llvm::Optional<int64_t> v = frame.value(d);
      if (!v)
        return fail(error, "extent " + text(d) + " has no value");
      extents.push_back(*v);
    }
    const IntLists &maps = op.intListsAttr("maps");
    for (size_t i = 0; i < maps.size(); ++i) {
      const Tensor &t = frame.operands[i];
      Extents own = rowMajorStrides(t.shape());
      strides.emplace_back(extents.size(), 0);
      for (size_t k = 0; k < maps[i].size(); ++k) {
        const int64_t d = maps[i][k];
        if (t.shape()[k] != (d < 0 ? 1 : extents[size_t(d)]))
          return fail(error, "operand " + llvm::Twine(i) + ": dimension " + llvm::Twine(k) +
                                 ": expected extent " +
                                 llvm::Twine(d < 0 ? 1 : extents[size_t(d)]) + ", found " +
                                 llvm::Twine(t.shape()[k]));
        if (d >= 0)
          strides.back()[size_t(d)] = own[k];
      }
    }
    return true;
  }
};

/// Offsets Σ index · stride of consecutive row-major points.
class Offsets {
public:
  Offsets(llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<int64_t> strides) {
    // Dimensions that lie one behind the other become one.
    for (size_t d = 0; d < extents.size(); ++d) {
      if (extents[d] == 1)
        continue;
      if (!extents_.empty() && strides_.back() == strides[d] * extents[d]) {
        extents_.back() *= extents[d];
        strides_.back() = strides[d];
      } else {
        extents_.push_back(extents[d]);
        strides_.push_back(strides[d]);
      }
    }
    if (extents_.empty())
      extents_.push_back(1), strides_.push_back(0);
  }
  bool isConstant() const { return extents_.size() == 1 && strides_[0] == 0; }
  bool isDense() const { return extents_.size() == 1 && strides_[0] == 1; }

  void fill(int64_t begin, int64_t n, int64_t *out) const {
    const size_t last = extents_.size() - 1;
    for (int64_t i = 0; i < n;) {
      int64_t rest = (begin + i) / extents_[last], first = (begin + i) % extents_[last];
      int64_t base = first * strides_[last];
      const int64_t run = std::min(n - i, extents_[last] - first);
      for (size_t d = last; d-- > 0; rest /= extents_[d])
        base += rest % extents_[d] * strides_[d];
      for (int64_t k = 0; k < run; ++k)
        out[i + k] = base + k * strides_[last];
      i += run;
    }
  }

private:
  Extents extents_, strides_;
};

/// Positions along dimension `dim` of consecutive row-major points.
void fillIndex(llvm::ArrayRef<int64_t> extents, size_t dim, int64_t begin, int64_t n,
               int64_t *out) {
  const int64_t inner = product(extents.drop_front(dim + 1));
  for (int64_t i = 0; i < n; ++i)
    out[i] = (begin + i) / inner % extents[dim];
}

} // namespace

//===----------------------------------------------------------------------===//
// Map
//===----------------------------------------------------------------------===//

bool evaluateMap(const Operation &op, EvaluationFrame &frame, std::string &error) {
  Iteration space;
  if (!space.init(op, frame, error))
    return false;
  const BodyProgram program(op.region(), /*exact=*/false, frame.wide);
  if (program.isIdentity()) { // movement: any element type, bit for bit
    for (unsigned i = 0; i < program.numYields(); ++i) {
      const unsigned from = program.yielded(i);
      frame.results.push_back(
          readStrided(space.extents, frame.operands[from], {0, space.strides[from]}));
    }
    return true;
  }
  const int64_t points = product(space.extents);
  std::vector<Offsets> offsets;
  for (const Extents &s : space.strides)
    offsets.emplace_back(space.extents, s);
  for (unsigned i = 0; i < program.numYields(); ++i) {
    frame.results.emplace_back(program.slots()[program.yielded(i)], space.extents);
    frame.results.back().mutableBytes();
  }
  const int64_t tiles = (points + kTile - 1) / kTile;
  parallelFor(tiles, 8, [&](int64_t begin, int64_t end) {
    BodyTile tile(program);
    std::vector<int64_t> at(static_cast<size_t>(kTile));
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t * kTile, n = std::min(kTile, points - first);
      for (unsigned i = 0; i < offsets.size(); ++i) {
        const Tensor &x = frame.operands[i];
        if (offsets[i].isDense()) {
          tile.slot(i).loadRun(x, first, n);
        } else if (!offsets[i].isConstant() || t == begin) {
          offsets[i].fill(first, n, at.data());
          tile.slot(i).load(x, at.data(), 0, n);
        }
      }
      tile.run(n, [&](int64_t dim, int64_t *out, int64_t count) {
        fillIndex(space.extents, size_t(dim), first, count, out);
      });
      for (unsigned i = 0; i < program.numYields(); ++i)
        tile.yielded(i).store(frame.results[i], first, n);
    }
  });
  return true;
}

//===----------------------------------------------------------------------===//
// Reduce
//===----------------------------------------------------------------------===//

namespace {

/// A reduce with its space split into kept and folded dimensions.
struct Reduction {
  const BodyProgram &program;
  const EvaluationFrame &frame;
  Extents kept, folded;
  std::vector<bool> isFolded; // per iteration dimension
  std::vector<size_t> place;  // its place among the kept or folded ones
  std::vector<Extents> keptStrides, foldedStrides;
  llvm::ArrayRef<double> init;

  Reduction(const Operation &op, const Iteration &space, const BodyProgram &program,
            const EvaluationFrame &frame)
      : program(program), frame(frame), init(op.floatsAttr("init")) {
    keptStrides.resize(space.strides.size());
    foldedStrides.resize(space.strides.size());
    for (size_t d = 0; d < space.extents.size(); ++d) {
      const bool fold = llvm::is_contained(op.intsAttr("axes"), int64_t(d));
      Extents &extents = fold ? folded : kept;
      isFolded.push_back(fold);
      place.push_back(extents.size());
      extents.push_back(space.extents[d]);
      for (size_t i = 0; i < space.strides.size(); ++i)
        (fold ? foldedStrides : keptStrides)[i].push_back(space.strides[i][d]);
    }
  }

  void start(BodyTile &tile, int64_t n) const {
    for (unsigned a = 0; a < init.size(); ++a)
      tile.slot(a).fill(init[a], truncateToInt(tile.slot(a).element, init[a]), n);
  }
  void evaluate(llvm::MutableArrayRef<Tensor> results, int64_t begin, int64_t end) const;
};

void copyLanes(const Lanes &from, Lanes &to, int64_t n) {
  if (isFloat(to.element))
    std::copy_n(from.reals.begin(), n, to.reals.begin());
  else
    std::copy_n(from.integers.begin(), n, to.integers.begin());
}

/// A tile of results at a time: each folded point updates all of them.
void Reduction::evaluate(llvm::MutableArrayRef<Tensor> results, int64_t begin, int64_t end) const {
  const unsigned accumulators = unsigned(init.size()), operands = unsigned(keptStrides.size());
  const int64_t depth = product(folded), n = end - begin;
  BodyTile tile(program);
  start(tile, n);
  std::vector<Lanes> next;
  for (unsigned a = 0; a < accumulators; ++a)
    next.emplace_back(program.slots()[a]);
  std::vector<std::vector<int64_t>> at(operands);
  std::vector<Offsets> steps;
  for (unsigned i = 0; i < operands; ++i) {
    at[i].resize(size_t(n));
    Offsets(kept, keptStrides[i]).fill(begin, n, at[i].data());
    steps.emplace_back(folded, foldedStrides[i]);
  }
  std::vector<std::vector<int64_t>> shift(operands, std::vector<int64_t>(size_t(kTile)));
  for (int64_t r = 0; r < depth; ++r) {
    for (unsigned i = 0; i < operands; ++i) {
      if (r % kTile == 0)
        steps[i].fill(r, std::min(kTile, depth - r), shift[i].data());
      tile.slot(accumulators + i)
          .load(frame.operands[i], at[i].data(), shift[i][size_t(r % kTile)], n);
    }
    tile.run(n, [&](int64_t dim, int64_t *out, int64_t count) {
      const size_t d = size_t(dim);
      if (!isFolded[d])
        return fillIndex(kept, place[d], begin, count, out);
      fillIndex(folded, place[d], r, 1, out);
      std::fill_n(out, count, out[0]);
    });
    // All are read before any is replaced: an accumulator may be yielded in another's place.
    for (unsigned a = 0; a < accumulators; ++a)
      copyLanes(tile.yielded(a), next[a], n);
    for (unsigned a = 0; a < accumulators; ++a)
      copyLanes(next[a], tile.slot(a), n);
  }
  for (unsigned a = 0; a < accumulators; ++a)
    tile.slot(a).store(results[a], begin, n);
}

/// A body that ends in one scalar function of its only accumulator and something computed from the
/// elements alone: acc ∘ f(x…). It can fold along the reduced dimensions, too.
const ScalarInfo *foldingStep(Region &body, size_t accumulators, Value *&element) {
  Operation *end = body.terminator();
  if (accumulators != 1 || !end || end->numOperands() != 1)
    return nullptr;
  Value *acc = body.argument(0);
  Operation *step = end->operand(0)->def();
  if (!acc->hasOneUse() || !step || step->numOperands() != 2 ||
      !step->isAny(Op::Add, Op::Mul, Op::Min, Op::Max, Op::LogicalAnd, Op::LogicalOr, Op::BitAnd,
                   Op::BitOr, Op::BitXor))
    return nullptr;
  if (step->operand(0) != acc && step->operand(1) != acc)
    return nullptr;
  element = step->operand(step->operand(0) == acc ? 1 : 0);
  return element == acc ? nullptr : scalarInfo(step->kind());
}

/// One result at a time, elements in tiles along the folded dimensions: the body gives f(x…) in
/// `element`, which is folded in order; what it does with the accumulator is not looked at.
void foldAlong(const Reduction &r, const ScalarInfo &step, unsigned element, Tensor &result,
               int64_t begin, int64_t end) {
  const unsigned operands = unsigned(r.keptStrides.size());
  const int64_t depth = product(r.folded);
  BodyTile tile(r.program);
  std::vector<Offsets> along;
  for (unsigned i = 0; i < operands; ++i)
    along.emplace_back(r.folded, r.foldedStrides[i]);
  std::vector<int64_t> at(static_cast<size_t>(kTile));
  r.start(tile, kTile);
  const bool real = isFloat(result.element());
  const IntReference combine = step.integer(result.element());
  for (int64_t o = begin; o < end; ++o) {
    double sum = r.init[0];
    int64_t integer = truncateToInt(result.element(), r.init[0]);
    for (int64_t p = 0; p < depth; p += kTile) {
      const int64_t n = std::min(kTile, depth - p);
      for (unsigned i = 0; i < operands; ++i) {
        int64_t base;
        Offsets(r.kept, r.keptStrides[i]).fill(o, 1, &base);
        if (along[i].isDense()) {
          tile.slot(1 + i).loadRun(r.frame.operands[i], base + p, n);
        } else {
          along[i].fill(p, n, at.data());
          tile.slot(1 + i).load(r.frame.operands[i], at.data(), base, n);
        }
      }
      tile.run(n, [&](int64_t dim, int64_t *out, int64_t count) {
        const size_t d = size_t(dim);
        if (r.isFolded[d])
          return fillIndex(r.folded, r.place[d], p, count, out);
        fillIndex(r.kept, r.place[d], o, 1, out);
        std::fill_n(out, count, out[0]);
      });
      const Lanes &values = tile.slot(element);
      if (step.op == Op::Add && real)
        for (int64_t i = 0; i < n; ++i)
          sum += values.reals[size_t(i)];
      else if (real)
        for (int64_t i = 0; i < n; ++i)
          sum = step.onFloat(sum, values.reals[size_t(i)], 0);
      else
        for (int64_t i = 0; i < n; ++i)
          integer = wrapScalar(result.element(), combine(integer, values.integers[size_t(i)], 0));
    }
    if (real)
      result.set(o, sum);
    else
      result.setInt(o, integer);
  }
}

} // namespace

bool evaluateReduce(const Operation &op, EvaluationFrame &frame, std::string &error) {
  Iteration space;
  if (!space.init(op, frame, error))
    return false;
  const BodyProgram program(op.region(), /*exact=*/true, frame.wide);
  const Reduction reduction(op, space, program, frame);
  const size_t accumulators = op.floatsAttr("init").size();
  for (unsigned a = 0; a < accumulators; ++a) {
    frame.results.emplace_back(program.slots()[a], reduction.kept);
    frame.results.back().mutableBytes();
  }
  const int64_t outputs = product(reduction.kept), depth = product(reduction.folded);
  Value *element = nullptr;
  const ScalarInfo *step = foldingStep(op.region(), accumulators, element);
  // Lanes along whichever side has more of them; packed results are written by one thread.
  if (step && depth > outputs && bitWidth(frame.results[0].element()) >= 8) {
    parallelFor(outputs, 1 + 16384 / std::max<int64_t>(depth, 1), [&](int64_t begin, int64_t end) {
      foldAlong(reduction, *step, program.slotOf(element), frame.results[0], begin, end);
    });
    return true;
  }
  parallelFor((outputs + kTile - 1) / kTile, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      reduction.evaluate(frame.results, t * kTile, std::min((t + 1) * kTile, outputs));
  });
  return true;
}

//===----------------------------------------------------------------------===//
// Scan
//===----------------------------------------------------------------------===//

bool evaluateScan(const Operation &op, EvaluationFrame &frame, std::string &) {
  const Tensor &x = frame.operands[0];
  const BodyProgram program(op.region(), /*exact=*/true, frame.wide);
  frame.results.emplace_back(program.slots()[0], x.shape());
  Tensor &y = frame.results.back();
  y.mutableBytes();
  const auto axis = size_t(op.intAttr("axis"));
  const int64_t n = x.shape()[axis], inner = product(x.shape().drop_front(axis + 1));
  const int64_t lines = n ? x.size() / n : 0;
  const bool exclusive = op.boolAttr("exclusive"), reverse = op.boolAttr("reverse");
  const double init = op.floatAttr("init");
  // A tile of lines at a time; packed results are written by one thread.
  const int64_t tiles = (lines + kTile - 1) / kTile;
  parallelFor(tiles, bitWidth(y.element()) < 8 ? tiles : 1, [&](int64_t begin, int64_t end) {
    BodyTile tile(program);
    Lanes next(program.slots()[0]);
    Lanes &before = tile.slot(0);
    std::vector<int64_t> at(static_cast<size_t>(kTile));
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t * kTile, count = std::min(kTile, lines - first);
      for (int64_t k = 0; k < count; ++k)
        at[size_t(k)] = (first + k) / inner * n * inner + (first + k) % inner;
      const auto give = [&](int64_t i) {
        for (int64_t k = 0; k < count; ++k)
          if (isFloat(before.element))
            y.set(at[size_t(k)] + i * inner, before.reals[size_t(k)]);
          else
            y.setInt(at[size_t(k)] + i * inner, before.integers[size_t(k)]);
      };
      before.fill(init, truncateToInt(before.element, init), count);
      for (int64_t step = 0; step < n; ++step) {
        const int64_t i = reverse ? n - 1 - step : step;
        if (exclusive)
          give(i);
        tile.slot(1).load(x, at.data(), i * inner, count);
        tile.run(count, [](int64_t, int64_t *, int64_t) {});
        copyLanes(tile.yielded(0), next, count); // may be an argument
        copyLanes(next, before, count);
        if (!exclusive)
          give(i);
      }
    }
  });
  return true;
}

} // namespace tenon
