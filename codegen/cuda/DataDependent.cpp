// Defines the tactics whose results hang on data: `nonzero` and `unique` (runtime/cuda/nonzero.cuh,
// unique.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cuda/Common.h"

namespace tenon::cuda {
namespace {

double bytesCost(const TacticInput &in, double operations) {
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.operations = operations;
  e.efficiency = 0.05;
  e.launches = 2;
  return microseconds(in.level, e);
}

//===----------------------------------------------------------------------===//
// nonzero
//===----------------------------------------------------------------------===//

bool matchNonZero(const TacticInput &in, std::string &why) {
  return matchAlone(in, Op::NonZero, why) && fitsInt(in.form, why);
}

void enumerateNonZero(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"nonzero", {}});
}

double costNonZero(const TacticInput &in, const Schedule &) { return bytesCost(in, 0); }

/// struct counted: the number that the host reads stands first.
int64_t scratchNonZero(const TacticInput &, const Schedule &) { return 8 + 4 * 1024; }

void emitNonZero(const TacticInput &in, const Schedule &, StepWriter &out) {
  const Operation &op = *in.form.anchor;
  const Type x = op.operand(0)->type();
  out.include("cuda/nonzero.cuh");
  StepWriter::Config cfg(out, "config");
  cfg.extents("space", x.shape());
  const std::string config = cfg.finish();
  SourceWriter &w = out.code();
  w.line("const auto x = " + plainView(out, in.form.anchorInputs[0]) + ";");
  w.line("const auto numbers = " + out.scratchPointer("cuda::counted") + ";");
  w.line("TENON_CHECK(to.launch<V>(cuda::nonzero_count(" + config + ", x, numbers)));");
  launch(out, "nonzero_place", {config, "x", "numbers", out.resultPointer(0, x.context().dim(0))});
}

//===----------------------------------------------------------------------===//
// unique
//===----------------------------------------------------------------------===//

bool matchUnique(const TacticInput &in, std::string &why) {
  return matchAlone(in, Op::Unique, why) && fitsInt(in.form, why);
}

void enumerateUnique(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"unique", {}});
}

/// Every row is compared with every other.
double costUnique(const TacticInput &in, const Schedule &) {
  const Type x = in.form.anchor->operand(0)->type();
  return bytesCost(in, double(x.upperElements()) * double(x.dim(0).upper()) * 2);
}

int64_t scratchUnique(const TacticInput &in, const Schedule &) {
  return in.form.anchor->operand(0)->type().dim(0).upper() * 4;
}

void emitUnique(const TacticInput &in, const Schedule &, StepWriter &out) {
  const Operation &op = *in.form.anchor;
  const Type x = op.operand(0)->type();
  out.include("cuda/unique.cuh");
  StepWriter::Config cfg(out, "config");
  cfg.extent("rows", x.dim(0)).extent("columns", x.dim(1));
  cfg.flag("sorted", op.boolAttr("sorted", true));
  const std::string config = cfg.finish();
  SourceWriter &w = out.code();
  w.line("const auto x = " + plainView(out, in.form.anchorInputs[0]) + ";");
  w.line("const auto y = " + resultView(out, in.form) + ";");
  w.line("const auto firsts = " + out.scratchPointer("int") + ";");
  w.line("TENON_CHECK(to.launch<V>(cuda::unique_first(" + config + ", x, y, firsts)));");
  launch(out, "unique_class", {config, "x", "y", "firsts"});
}

} // namespace

const Tactic kNonZero = {"nonzero",      "indices of the elements other than zero",
                         matchNonZero,   enumerateNonZero,
                         costNonZero,    nullptr,
                         scratchNonZero, emitNonZero};
const Tactic kUnique = {"unique",      "classes of equal rows, each compared with each",
                        matchUnique,   enumerateUnique,
                        costUnique,    nullptr,
                        scratchUnique, emitUnique};

} // namespace tenon::cuda
