// Implements the look for tables of positions that are too short.
//
//   %at = map %length { length + index }      : i64 [count]
//   %y = gather %table, %at {axis = 0}         rows length … length + count − 1 of the table
//
// Extents are evaluated for runs that fill the caches, of the most tokens and of the fewest: where
// one of them reads beyond the table, that run is a witness. A gather within a branch is not looked
// at, since the branch may be the one for short texts.
#include "frontend/PositionTables.h"

#include "ir/Ramps.h"

namespace tenon::frontend {
namespace {

/// A run of `count` tokens behind `length` others.
struct Run {
  Dim length, count;
  int64_t lengthValue, countValue;
};

llvm::Optional<int64_t> valueIn(const Run &run, Dim d) {
  return evaluate(
      d,
      [](llvm::StringRef symbol, void *user) -> llvm::Optional<int64_t> {
        const Run &r = *static_cast<const Run *>(user);
        if (symbol == r.length.symbol())
          return r.lengthValue;
        if (r.count.isSymbol() && symbol == r.count.symbol())
          return r.countValue;
        return llvm::None;
      },
      const_cast<Run *>(&run));
}

std::string nameOf(const ModelImport &state, const Value *v) {
  for (const auto &[name, value] : state.names)
    if (value == v)
      return quoted(name);
  return "its table";
}

} // namespace

std::string expectedAtMost(int64_t most) {
  return (most > 0 ? ": expected --decoder=" + std::to_string(most) + " or less, or "
                   : std::string(": expected ")) +
         "a model exported for more positions";
}

bool checkPositionTables(ModelImport &state, Graph &graph, Dim length, Dim count) {
  const int64_t capacity = state.options.decoder->request.capacity;
  Ramps ramps;
  for (Operation &op : graph.body()) {
    if (!op.is(Op::Gather))
      continue;
    const MaybeRamp ramp = ramps.of(op.operand(1));
    if (!ramp)
      continue;
    const Dim rows = op.operand(0)->type().dim(unsigned(op.intAttr("axis")));
    Dim end = ramp->base + 1; // behind the last row that is read
    if (!ramp->isSame())
      end = ramp->base + op.operand(1)->type().dim(unsigned(ramp->dim));
    for (const int64_t tokens : {count.upper(), count.lower()}) {
      const Run run{length, count, capacity - tokens, tokens};
      const auto wanted = valueIn(run, end), there = valueIn(run, rows);
      if (run.lengthValue < 0 || !wanted || !there || *wanted <= *there)
        continue;
      state.error("--decoder: the caches hold " + std::to_string(capacity) +
                      " tokens, the last of which asks for row " + std::to_string(*wanted - 1) +
                      " of " + nameOf(state, op.operand(0)) + ", which has " +
                      std::to_string(*there) + " rows" +
                      expectedAtMost(capacity - (*wanted - *there)),
                  op.loc().empty() ? "" : op.loc().front(), "");
      return false;
    }
  }
  return true;
}

} // namespace tenon::frontend
