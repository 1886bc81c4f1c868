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

/// What --state calls a state, for messages.
static std::string spelling(const ImportState &s) {
  return "--state " + s.input + "=" + s.output +
         (s.appendAxis ? ":append@" + std::to_string(*s.appendAxis) : "");
}

/// A word after the last colon of an output's name that is none: a misspelt mode.
static std::string modeHint(const Graph &graph, llvm::StringRef output) {
  const llvm::StringRef name = output.rsplit(':').first;
  return name != output && llvm::is_contained(graph.outputNames, name)
             ? "; a cache that grows is " + quoted(name.str() + ":append@AXIS")
             : "";
}

/// Why a value of type `to` cannot be what the next run finds in an input of type `from`.
static std::string checkCarried(const ImportState &wanted, Type from, Type to) {
  std::string why = toString(to) + " cannot become the next " + toString(from);
  if (from.element() != to.element() || from.rank() != to.rank())
    return why;
  const auto axis = wanted.axisOf(from.rank());
  if (wanted.appendAxis && !axis)
    return "there is no axis " + std::to_string(*wanted.appendAxis) + " in " + toString(from);
  llvm::SmallVector<unsigned, 4> other; // axes whose extents differ
  for (unsigned d = 0; d < from.rank(); ++d)
    if (axis != d && from.dim(d) != to.dim(d))
      other.push_back(d);
  if (other.empty())
    return "";
  if (other.size() == 1 && from.dim(other[0]).isSymbol())
    why += "; what grows along axis " + std::to_string(other[0]) + " is " +
           quoted(wanted.input + "=" + wanted.output + ":append@" + std::to_string(other[0]));
  return why;
}

bool resolveStates(ModelImport &state, Graph &graph) {
  for (const ImportState &wanted : state.options.states) {
    auto in = llvm::find(graph.inputNames, wanted.input);
    auto out = llvm::find(graph.outputNames, wanted.output);
    if (in == graph.inputNames.end() || out == graph.outputNames.end()) {
      state.error(spelling(wanted) + ": the model has no " +
                  (in == graph.inputNames.end()
                       ? "input " + quoted(wanted.input)
                       : "output " + quoted(wanted.output) + modeHint(graph, wanted.output)));
      return false;
    }
    State s;
    s.input = unsigned(in - graph.inputNames.begin());
    s.output = unsigned(out - graph.outputNames.begin());
    Type from = graph.body().argument(s.input)->type();
    Type to = graph.returnOp()->operand(s.output)->type();
    if (const std::string why = checkCarried(wanted, from, to); !why.empty()) {
      state.error(spelling(wanted) + ": " + why);
      return false;
    }
    if (const auto axis = wanted.axisOf(from.rank()))
      s.appendAxis = int(*axis);
    for (const State &other : graph.states)
      if (other.input == s.input || other.output == s.output) {
        state.error(spelling(wanted) + ": " +
                    (other.input == s.input ? "the input" : "the output") +
                    " is part of another state");
        return false;
      }
    if (s.appendAxis >= 0)
      if (const std::string why = checkGrowth(graph, s, from, to); !why.empty()) {
        state.error(spelling(wanted) + ": " + why);
        return false;
      }
    graph.states.push_back(s);
  }
  return true;
}

} // namespace tenon::frontend
