// Implements the finding of values in a program's memory.
#include "tools/Watch.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace tenon {
namespace {

/// The run as a whole in place of a step (`whole_run` of the runtimes).
constexpr int kWholeRun = -1;

} // namespace

Watch::Watch(Graph &graph, SymbolValues symbols)
    : symbols_(std::move(symbols)), names_(graph), plan_(planMemory(graph)) {
  for (const Step &step : plan_.steps) {
    if (!step.op->is(Op::Group) || step.op->parent() != &graph.body())
      continue;
    WatchedGroup g{step.op, {}, {}};
    for (Value *v : step.op->results())
      if (auto s = spot(v, step.number))
        g.results.push_back(std::move(*s));
    llvm::SmallPtrSet<Value *, 8> seen;
    for (Value *v : step.op->operands()) {
      const Home home = plan_[v].home;
      if ((home == Home::Arena || home == Home::Output) && seen.insert(v).second)
        if (auto s = spot(v, step.number))
          g.operands.push_back(std::move(*s));
    }
    groups.push_back(std::move(g));
  }
  // After the run a state is what it becomes; what is appended to lies elsewhere while it is
  // longer than the input, and stays there until the end (see Plan.cpp).
  for (const State &s : graph.states) {
    Value *in = graph.body().argument(s.input), *out = graph.returnOp()->operand(s.output);
    if (auto t = spot(in, kWholeRun))
      states.push_back({s.input, std::move(*t)});
    if (auto t = spot(s.appendAxis < 0 ? in : out, kWholeRun))
      carried.push_back({s.output, std::move(*t)});
  }
}

llvm::Optional<Spot> Watch::spot(Value *v, int step) const {
  auto found = plan_.placements.find(v);
  if (!MemoryImage::exists(v->type(), symbols_) || found == plan_.placements.end() ||
      found->second.home == Home::Weights || found->second.home == Home::Text)
    return llvm::None;
  Spot s{names_[v].str(), v->type(), found->second, step};
  if (s.place.start) {
    auto start = valueOf(s.place.start, symbols_);
    if (!start)
      return llvm::None;
    const bool indexed = s.place.home == Home::Input || s.place.home == Home::Output;
    (indexed ? s.place.offset : s.place.at) += byteSize(v->type().element(), *start);
  }
  return s;
}

Transfer Watch::read(const Spot &spot) const {
  Transfer t;
  t.step = spot.step;
  t.read = true;
  t.place = spot.place;
  t.form = *MemoryImage::of(spot.type, symbols_);
  return t;
}

llvm::Optional<Transfer> Watch::write(const Spot &spot, const Tensor &tensor) const {
  if (tensor.isNull())
    return llvm::None;
  Transfer t = read(spot);
  t.read = false;
  if (t.form.bytes() != int64_t(tensor.bytes().size()))
    return llvm::None;
  t.bytes = t.form.pack(tensor);
  return t;
}

} // namespace tenon
