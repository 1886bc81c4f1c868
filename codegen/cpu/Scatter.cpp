// Defines the tactics `scatter` and `non_max_suppression`: kernels whose threads would meet, so
// that one does the work.
#include "codegen/cpu/Tactics.h"

#include "codegen/cpu/Operands.h"

#include <cmath>

namespace tenon::cpu {
namespace {

/// The anchor alone, on operands as they lie.
bool matchAlone(const TacticInput &in, Op op, std::string &why) {
  if (!matchAnchor(in, op, why))
    return false;
  for (const ScalarProgram &p : in.form.anchorInputs)
    if (!p.isPlainRead()) {
      why = "an operand computed in the group";
      return false;
    }
  if (!in.form.bodyIsIdentity()) {
    why = "an epilogue";
    return false;
  }
  return true;
}

std::string plainView(StepWriter &out, const ScalarProgram &program) {
  return out.view(program.inputs[0], unsigned(program.space.size()));
}
std::string resultView(StepWriter &out, const GroupForm &form) {
  return out.view(form.outputs[0], 0, unsigned(form.body.space.size()));
}
std::string single(StepWriter &out, Dim d) { return out.dims().list({d}) + ".head"; }

double cost(const TacticInput &in, const Schedule &) { return directCost(in); }

//===----------------------------------------------------------------------===//
// scatter
//===----------------------------------------------------------------------===//

bool matchScatter(const TacticInput &in, std::string &why) {
  return matchAlone(in, Op::Scatter, why);
}

void enumerateScatter(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"scatter", {}});
}

void emitScatter(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const llvm::StringRef combiner = form.anchor->wordAttr("combiner", "none");
  const std::string name = combiner == "none" ? "replace" : combiner.str();
  out.include("cpu/scatter.h");
  out.code().line(
      "cpu::scatter<cpu::scatter_" + name + ">(" + out.dims().list(form.body.space) + ", " +
      out.dims().list(form.anchorInputs[1].space) + ", " + plainView(out, form.anchorInputs[0]) +
      ", " + plainView(out, form.anchorInputs[1]) + ", " + plainView(out, form.anchorInputs[2]) +
      ", " + resultView(out, form) + ", *f.workers);");
}

//===----------------------------------------------------------------------===//
// non_max_suppression
//===----------------------------------------------------------------------===//

bool matchSuppression(const TacticInput &in, std::string &why) {
  return matchAlone(in, Op::NonMaxSuppression, why);
}

void enumerateSuppression(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"non_max_suppression", {}});
}

int64_t scratchSuppression(const TacticInput &in, const Schedule &) {
  return in.form.anchor->operand(0)->type().dim(1).upper() * 8; // one index_t each
}

void emitSuppression(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const llvm::ArrayRef<Dim> scores = op.operand(1)->type().shape();
  auto number = [&](llvm::StringRef name, double otherwise) {
    return cppScalar(Element::F32, op.floatAttr(name, otherwise));
  };
  out.include("cpu/non_max_suppression.h");
  out.code().line(
      std::string("cpu::non_max_suppression<") + (op.boolAttr("center", false) ? "true" : "false") +
      ">(" + single(out, scores[0]) + ", " + single(out, scores[1]) + ", " +
      single(out, scores[2]) + ", " + single(out, op.dimsAttr("k")[0]) + ", " +
      plainView(out, form.anchorInputs[0]) + ", " + plainView(out, form.anchorInputs[1]) + ", " +
      resultView(out, form) + ", " + number("iou_threshold", 0) + ", " +
      number("score_threshold", -INFINITY) + ", " + out.scratchPointer("index_t") + ");");
}

} // namespace

const Tactic kScatter = {"scatter",    "rows replaced or combined at indices",
                         matchScatter, enumerateScatter,
                         cost,         nullptr,
                         nullptr,      emitScatter};
const Tactic kNonMaxSuppression = {"non_max_suppression",
                                   "the best boxes that overlap little",
                                   matchSuppression,
                                   enumerateSuppression,
                                   cost,
                                   nullptr,
                                   scratchSuppression,
                                   emitSuppression};

} // namespace tenon::cpu
