// Defines the tactics `scatter`, `non_max_suppression` and `unique`, kernels whose threads would
// meet, so that one does the work; and `bitcast`.
#include "codegen/cpu/Tactics.h"

#include "codegen/cpu/Operands.h"

#include <cmath>

namespace tenon::cpu {
namespace {

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
      "cpu::scatter<scatter_" + name + ">(" + out.dims().list(form.body.space) + ", " +
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

//===----------------------------------------------------------------------===//
// unique
//===----------------------------------------------------------------------===//

bool matchUnique(const TacticInput &in, std::string &why) {
  return matchAlone(in, Op::Unique, why);
}

void enumerateUnique(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"unique", {}});
}

int64_t scratchUnique(const TacticInput &in, const Schedule &) {
  return in.form.anchor->operand(0)->type().dim(0).upper() * 16; // two index_t each
}

void emitUnique(const TacticInput &in, const Schedule &, StepWriter &out) {
  const Type x = in.form.anchor->operand(0)->type();
  out.include("cpu/unique.h");
  out.code().line(std::string("cpu::unique<") +
                  (in.form.anchor->boolAttr("sorted", true) ? "true" : "false") + ">(" +
                  single(out, x.dim(0)) + ", " + single(out, x.dim(1)) + ", " +
                  plainView(out, in.form.anchorInputs[0]) + ", " + resultView(out, in.form) + ", " +
                  out.scratchPointer("index_t") + ");");
}

//===----------------------------------------------------------------------===//
// bitcast
//===----------------------------------------------------------------------===//

bool matchBitcast(const TacticInput &in, std::string &why) {
  return matchAlone(in, Op::Bitcast, why);
}

void enumerateBitcast(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"bitcast", {}});
}

void emitBitcast(const TacticInput &in, const Schedule &, StepWriter &out) {
  out.include("cpu/bitcast.h");
  out.code().line("cpu::bitcast(" + out.dims().list(in.form.body.space) + ", " +
                  resultView(out, in.form) + ", " + plainView(out, in.form.anchorInputs[0]) +
                  ", *f.workers);");
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

const Tactic kUnique = {"unique",      "classes of equal rows, by sorting",
                        matchUnique,   enumerateUnique,
                        cost,          nullptr,
                        scratchUnique, emitUnique};
const Tactic kBitcast = {
    "bitcast",  "bits copied as they are", matchBitcast, enumerateBitcast, cost, nullptr, nullptr,
    emitBitcast};

} // namespace tenon::cpu
