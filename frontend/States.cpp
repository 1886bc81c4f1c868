// Implements the states of a graph.
#include "frontend/States.h"

#include "ir/Names.h"

namespace tenon::frontend {

/// An appended state's extent is what its context counts: one symbol, which has one next value.
static std::string checkGrowth(const Graph &graph, const State &s, Type from, Type to) {
  const Dim length = from.dim(unsigned(s.appendAxis)), next = to.dim(unsigned(s.appendAxis));
  const std::string name = quoted(graph.inputNames[s.input]);
  if (!length.isSymbol())
    return "dimension " + std::to_string(s.appendAxis) + " of " + name +
           " has to be known at run time, found " + toString(from) +
           "; keep it within bounds with --range NAME=0..16";
  if (next.lower() < length.lower())
    return "dimension " + std::to_string(s.appendAxis) + " of the output is smaller than that of " +
           name + ", found " + toString(from) + " and " + toString(to);
  for (const State &other : graph.states) {
    if (other.appendAxis < 0)
      continue;
    const auto axis = unsigned(other.appendAxis);
    const Dim theirs =
        const_cast<Graph &>(graph).returnOp()->operand(other.output)->type().dim(axis);
    if (graph.body().argument(other.input)->type().dim(axis) == length && theirs != next)
      return name + " and " + quoted(graph.inputNames[other.input]) +
             " have one length but grow by different numbers of elements";
  }
  return "";
}

bool resolveStates(ModelImport &state, Graph &graph) {
  for (const ImportState &wanted : state.options.states) {
    auto in = llvm::find(graph.inputNames, wanted.input);
    auto out = llvm::find(graph.outputNames, wanted.output);
    if (in == graph.inputNames.end() || out == graph.outputNames.end()) {
      state.error("--state " + wanted.input + "=" + wanted.output + ": the model has no " +
                  (in == graph.inputNames.end() ? "input " + quoted(wanted.input)
                                                : "output " + quoted(wanted.output)));
      return false;
    }
    State s;
    s.input = unsigned(in - graph.inputNames.begin());
    s.output = unsigned(out - graph.outputNames.begin());
    Type from = graph.body().argument(s.input)->type();
    Type to = graph.returnOp()->operand(s.output)->type();
    bool fits = from.element() == to.element() && from.rank() == to.rank();
    if (wanted.appendAxis) {
      const int64_t rank = from.rank();
      const int64_t axis = *wanted.appendAxis < 0 ? *wanted.appendAxis + rank : *wanted.appendAxis;
      fits &= axis >= 0 && axis < rank;
      s.appendAxis = int(axis);
    }
    for (unsigned d = 0; fits && d < from.rank(); ++d)
      fits = int(d) == s.appendAxis || from.dim(d) == to.dim(d);
    if (!fits) {
      state.error("--state " + wanted.input + "=" + wanted.output + ": " + toString(to) +
                  " cannot become the next " + toString(from));
      return false;
    }
    for (const State &other : graph.states)
      if (other.input == s.input || other.output == s.output) {
        state.error("--state " + wanted.input + "=" + wanted.output + ": " +
                    (other.input == s.input ? "the input" : "the output") +
                    " is part of another state");
        return false;
      }
    if (s.appendAxis >= 0)
      if (const std::string why = checkGrowth(graph, s, from, to); !why.empty()) {
        state.error("--state " + wanted.input + "=" + wanted.output + ": " + why);
        return false;
      }
    graph.states.push_back(s);
  }
  return true;
}

} // namespace tenon::frontend
