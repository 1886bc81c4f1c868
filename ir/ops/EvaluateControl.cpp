// Evaluates control flow and groups by running their regions.
#include "ir/BornExtents.h"
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"
#include "ir/ops/Strided.h"

namespace tenon {

bool evaluateIf(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const unsigned branch = frame.operands[0].intAt(0) ? 0 : 1;
  if (!frame.run(op.region(branch), llvm::makeArrayRef(frame.operands).drop_front(), frame.results,
                 error))
    return false;
  for (const BornExtent &b : bornExtents(op)) {
    const llvm::Optional<int64_t> v = frame.value(b.yielded[branch]);
    if (!v)
      return fail(error, "extent " + text(b.yielded[branch]) + " of the branch has no value");
    frame.symbols->insert_or_assign(b.symbol.symbol().str(), *v);
  }
  return true;
}

bool evaluateGroup(const Operation &op, EvaluationFrame &frame, std::string &error) {
  return frame.run(op.region(), frame.operands, frame.results, error);
}

bool evaluateUser(const Operation &op, EvaluationFrame &frame, std::string &error) {
  if (op.numRegions() == 0)
    return fail(error, "operator " + op.stringAttr("name") + " has no reference body");
  return frame.run(op.region(), frame.operands, frame.results, error);
}

namespace {

/// Joins the elements of all iterations along a new first dimension.
Tensor stack(llvm::ArrayRef<Tensor> elements, llvm::ArrayRef<int64_t> shape, Element element) {
  Tensor result(element, shape);
  int64_t at = 0;
  for (const Tensor &t : elements) {
    copyElements({t.size()}, t, {0, {1}}, result, {at, {1}});
    at += t.size();
  }
  return result;
}

} // namespace

bool evaluateLoop(const Operation &op, EvaluationFrame &frame, std::string &error) {
  // Such a loop would not end within anybody's patience.
  constexpr int64_t kMostIterations = int64_t(1) << 32;
  const size_t carried = size_t(op.intAttr("carried")), scans = size_t(op.intAttr("scans"));
  const int64_t trip = frame.operands[0].intAt(0);
  bool again = frame.operands[1].intAt(0) != 0;
  llvm::SmallVector<Tensor, 8> arguments(frame.operands.begin(), frame.operands.end());
  std::vector<std::vector<Tensor>> elements(scans);
  int64_t iteration = 0;
  for (; again && iteration < trip; ++iteration) {
    if (iteration == kMostIterations)
      return fail(error, "loop does not end");
    arguments[0] = Tensor(Element::I64, op.region().argument(0)->type().staticShape());
    arguments[0].setInt(0, iteration);
    arguments[1] = Tensor(Element::Bool, op.region().argument(1)->type().staticShape());
    arguments[1].setInt(0, 1);
    llvm::SmallVector<Tensor, 2> yielded;
    if (!frame.run(op.region(), arguments, yielded, error))
      return false;
    again = yielded[0].intAt(0) != 0;
    for (size_t i = 0; i < carried; ++i)
      arguments[2 + i] = yielded[1 + i];
    for (size_t i = 0; i < scans; ++i)
      elements[i].push_back(yielded[1 + carried + i]);
  }
  frame.results.append(arguments.begin() + 2, arguments.begin() + 2 + int64_t(carried));
  if (scans) {
    Dim extent = op.dimsAttr("max_trip")[0];
    if (extent.isSymbol() && frame.symbols)
      frame.symbols->insert_or_assign(extent.symbol().str(), iteration);
    llvm::Optional<int64_t> expected = frame.value(extent);
    if (expected != iteration)
      return fail(error, "loop ran " + llvm::Twine(iteration) + " times: expected " + text(extent));
  }
  for (size_t i = 0; i < scans; ++i)
    frame.results.push_back(
        stack(elements[i], frame.resultShape(op, unsigned(carried + i)),
              frame.stored(op.result(unsigned(carried + i))->type().element())));
  return true;
}

} // namespace tenon
