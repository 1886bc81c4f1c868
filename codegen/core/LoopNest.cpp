// Implements the ordering and merging of loops.
#include "codegen/core/LoopNest.h"

#include <algorithm>

namespace tenon {
namespace {

/// An innermost extent below this costs more in loop control than contiguous stores gain: two
/// interleaved channels take 25 times as long with the pair innermost.
constexpr int64_t kShortestInner = 8;

/// Moves a long dimension inside a short innermost one: the innermost that some input walks
/// contiguously, else the innermost long one.
void avoidShortInner(const ScalarProgram &program, llvm::ArrayRef<Strides> in,
                     llvm::SmallVectorImpl<unsigned> &order) {
  auto isLong = [&](unsigned d) { return program.space[d].upper() >= kShortestInner; };
  if (order.empty() || isLong(order.back()))
    return;
  auto contiguous = [&](unsigned d) {
    return isLong(d) &&
           llvm::any_of(in, [&](const Strides &s) { return s.strides[d].isConstant(1); });
  };
  auto last = [&](auto pick) {
    auto it = std::find_if(order.rbegin(), order.rend(), pick);
    return it == order.rend() ? order.end() : std::prev(it.base());
  };
  auto it = last(contiguous);
  if (it == order.end())
    it = last(isLong);
  if (it != order.end())
    std::rotate(it, std::next(it), order.end());
}

/// Runs of so many elements are whole lines of a cache, whose order costs stores nothing.
constexpr int64_t kWholeLines = 16;

/// What moves whole lines from one tensor to another reads them in the order in which they lie:
/// processors fetch ahead what is read so, while stores do not wait. Heads of attention that are
/// put in front of positions take 0.65 of the time.
void readInOrder(const ScalarProgram &program, llvm::ArrayRef<Strides> in,
                 llvm::ArrayRef<Strides> out, llvm::SmallVectorImpl<unsigned> &order) {
  if (order.empty() || in.size() != 1 || out.size() != 1 || program.inputs[0].bounded)
    return;
  const unsigned inner = order.back();
  if (!in[0].strides[inner].isConstant(1) || !out[0].strides[inner].isConstant(1) ||
      !program.space[inner].isConstant() || program.space[inner].constant() < kWholeLines ||
      llvm::any_of(order, [&](unsigned d) { return in[0].strides[d].isConstant(0); }))
    return;
  std::stable_sort(order.begin(), std::prev(order.end()), [&](unsigned a, unsigned b) {
    return in[0].strides[a].upper() > in[0].strides[b].upper();
  });
}

} // namespace

LoopNest loopNest(const ScalarProgram &program, llvm::ArrayRef<OutputForm> outputs,
                  bool longInner) {
  const auto rank = unsigned(program.space.size());
  std::vector<Strides> in, out;
  for (const Access &a : program.inputs)
    in.push_back(stridesOf(a, rank));
  for (const OutputForm &o : outputs)
    out.push_back(stridesOf(o, rank));

  llvm::SmallVector<bool, 6> indexed(rank, false);
  for (const ScalarNode &n : program.nodes)
    if (n.indexDim >= 0)
      indexed[n.indexDim] = true;
  llvm::SmallVector<unsigned, 6> order;
  for (unsigned d = 0; d < rank; ++d)
    if (!program.space[d].isConstant(1) || indexed[d])
      order.push_back(d);
  // By upper bounds: with run-time extents the strides are expressions.
  auto reach = [&](unsigned d) { return out.empty() ? int64_t(0) : out[0].strides[d].upper(); };
  std::stable_sort(order.begin(), order.end(),
                   [&](unsigned a, unsigned b) { return reach(a) > reach(b); });
  if (longInner) {
    avoidShortInner(program, in, order);
    readInOrder(program, in, out, order);
  }

  LoopNest nest;
  nest.placeOf.assign(rank, -1);
  nest.inputs.resize(in.size());
  nest.outputs.resize(out.size());
  nest.inside.resize(in.size());
  for (size_t i = 0; i < in.size(); ++i)
    nest.inputs[i].offset = in[i].offset;
  for (size_t i = 0; i < out.size(); ++i)
    nest.outputs[i].offset = out[i].offset;

  auto restricted = [&](unsigned d) {
    if (indexed[d])
      return true;
    for (const Access &a : program.inputs)
      if (a.bounded && (!a.inside[d].first.isConstant(0) || a.inside[d].second != program.space[d]))
        return true;
    return false;
  };
  for (size_t k = 0; k < order.size(); ++k) {
    const unsigned d = order[k];
    bool merge = !nest.extents.empty() && k > 0 && !restricted(d) && !restricted(order[k - 1]);
    if (merge) {
      auto contiguous = [&](const Strides &s, const Strides &built) {
        return built.strides.back() == s.strides[d] * program.space[d];
      };
      for (size_t i = 0; i < in.size() && merge; ++i)
        merge = contiguous(in[i], nest.inputs[i]);
      for (size_t i = 0; i < out.size() && merge; ++i)
        merge = contiguous(out[i], nest.outputs[i]);
    }
    auto set = [&](const Strides &s, Strides &built) {
      if (merge)
        built.strides.back() = s.strides[d];
      else
        built.strides.push_back(s.strides[d]);
    };
    for (size_t i = 0; i < in.size(); ++i) {
      set(in[i], nest.inputs[i]);
      const Access &a = program.inputs[i];
      const auto range =
          a.bounded ? a.inside[d]
                    : std::pair(program.space[d].node()->context->dim(0), program.space[d]);
      if (merge) // unrestricted: the whole merged extent
        nest.inside[i].back().second = nest.extents.back() * program.space[d];
      else
        nest.inside[i].push_back(range);
    }
    for (size_t i = 0; i < out.size(); ++i)
      set(out[i], nest.outputs[i]);
    if (merge) {
      nest.extents.back() = nest.extents.back() * program.space[d];
      nest.placeOf[d] = -1;
    } else {
      nest.placeOf[d] = int(nest.extents.size());
      nest.extents.push_back(program.space[d]);
    }
  }
  if (nest.extents.empty()) {
    Context *c = nullptr;
    for (const OutputForm &o : outputs)
      c = &o.type.context();
    nest.extents.push_back(c->dim(1));
    for (Strides &s : nest.inputs)
      s.strides.push_back(c->dim(0));
    for (Strides &s : nest.outputs)
      s.strides.push_back(c->dim(0));
    for (auto &r : nest.inside)
      r.push_back({c->dim(0), c->dim(1)});
  }
  return nest;
}

} // namespace tenon
