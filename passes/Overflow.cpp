// Implements the search for overflows of fp16.
//
// What stays inside a group is held in fp32; its results are rounded when they are stored. A result
// that may overflow is named once: what follows is judged as if it had not.
#include "passes/Overflow.h"

#include <cmath>
#include <cstdio>

namespace tenon {
namespace {

constexpr double kLargest = 65504;
/// What rounding to fp16, and in the sum before it, may add to a magnitude.
constexpr double kRounding = 1 + 1.0 / 1024;
/// Of inputs of which nothing is known: normalised images and features lie within.
constexpr Interval kAssumed = {-10, 10};

/// The contraction of a group that multiplies most, or the operation whose bound is lost.
std::string reasonOf(Operation &group, FloatRanges &ranges) {
  std::string reason;
  double most = 0;
  for (Operation &op : group.region()) {
    const Growth g = ranges.growthOf(op);
    if (g.gain * g.input <= most)
      continue;
    most = g.gain * g.input;
    char text[128];
    std::snprintf(text, sizeof text, "weights of a sum add up to %.3g, times inputs up to %.3g",
                  g.gain, g.input);
    reason = text;
  }
  if (!reason.empty())
    return reason;
  for (Operation &op : group.region())
    if (op.numResults() > 0 && op.result()->type().isTensor() &&
        !hull(ranges.of(op.result())).isBounded())
      return "nothing bounds this " + op.name().str();
  return "large values come in";
}

} // namespace

OverflowReport findOverflows(Graph &graph, const std::map<std::string, Interval> &inputs) {
  OverflowReport report;
  report.assumed = kAssumed;
  for (unsigned i = 0; i < graph.inputNames.size(); ++i) {
    const Type t = graph.body().argument(i)->type();
    report.usesAssumption |=
        t.isTensor() && isFloat(t.element()) && !inputs.count(graph.inputNames[i]);
  }
  FloatRanges ranges(graph, inputs, kAssumed);
  for (Operation &op : graph.body()) {
    if (!op.is(Op::Group))
      continue;
    for (Value *v : op.results()) {
      if (!v->type().isTensor() || v->type().element() != Element::F16)
        continue;
      ++report.results;
      Intervals found = ranges.of(v);
      for (Interval &i : found)
        i = {std::min(i.low * kRounding, i.low), std::max(i.high * kRounding, i.high)};
      const double bound = hull(found).bound();
      if (bound <= kLargest)
        ++report.safe;
      else
        report.risks.push_back({op.loc(), bound, reasonOf(op, ranges)});
      for (Interval &i : found)
        i = {std::max(i.low, -kLargest), std::min(i.high, kLargest)};
      ranges.set(v, std::move(found));
    }
  }
  return report;
}

} // namespace tenon
