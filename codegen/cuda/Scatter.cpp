// Defines the tactics `scatter` (rows replaced or combined at indices, runtime/cuda/scatter.cuh)
// and `bitcast` (a map of the bits).
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cuda/Common.h"

namespace tenon::cuda {
namespace {

double bytesCost(const TacticInput &in, double launches) {
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.launches = launches;
  return microseconds(in.level, e);
}

//===----------------------------------------------------------------------===//
// scatter
//===----------------------------------------------------------------------===//

bool matchScatter(const TacticInput &in, std::string &why) {
  return matchAlone(in, Op::Scatter, why) && fitsInt(in.form, why);
}

void enumerateScatter(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"scatter", {}});
}

/// Every element of the updates looks at all indices.
double costScatter(const TacticInput &in, const Schedule &) {
  const double updates = double(in.form.anchor->operand(2)->type().upperElements());
  const double rows = double(in.form.anchor->operand(1)->type().upperElements());
  Effort e;
  e.operations = updates * rows * 4;
  e.efficiency = 0.1;
  e.blocks = updates / 128;
  return bytesCost(in, 2) + microseconds(in.level, e);
}

void emitScatter(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const llvm::StringRef combiner = form.anchor->wordAttr("combiner", "none");
  const llvm::ArrayRef<Dim> space = form.body.space;
  out.include("cuda/scatter.cuh");
  const LoopNest copy = loopNest(form.anchorInputs[0], form.outputs);
  const MapKernel map = mapKernel(out, form, copy.extents, copy.outputs, vectorLength(form));
  StepWriter::Config cfg(out, "scatter");
  cfg.extents("space", space).extents("rows", form.anchorInputs[1].space);
  cfg.extents("inner", space.drop_front());
  const std::string config = cfg.finish();
  SourceWriter &w = out.code();
  w.line("TENON_CHECK(to.launch<V>(cuda::" + map.name + "(" + map.config + ", " +
         out.outputs(form, copy) + ", " + out.inputs(form.anchorInputs[0], copy) +
         ", cuda::identity_body{})));");
  launch(out, "scatter<scatter_" + (combiner == "none" ? "replace" : combiner.str()) + ">",
         {config, plainView(out, form.anchorInputs[1]), plainView(out, form.anchorInputs[2]),
          resultView(out, form)});
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

double costBitcast(const TacticInput &in, const Schedule &) { return bytesCost(in, 1); }

void emitBitcast(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const LoopNest nest = loopNest(form.anchorInputs[0], form.outputs);
  out.include("common/raw_view.h");
  const MapKernel kernel = mapKernel(out, form, nest.extents, nest.outputs, vectorLength(form));
  const Access &x = form.anchorInputs[0].inputs[0];
  SourceWriter &w = out.code();
  w.line("const auto y = " + out.outputs(form, nest) + ".head;");
  w.line("const auto x = " + out.view(x.source, nest.inputs[0]) + ";");
  launch(out, kernel.name,
         {kernel.config, "pack(raw_view(y))", "pack(raw_view(x))", "cuda::identity_body{}"});
}

} // namespace

const Tactic kScatter = {"scatter",    "rows replaced or combined at indices",
                         matchScatter, enumerateScatter,
                         costScatter,  nullptr,
                         nullptr,      emitScatter};
const Tactic kBitcast = {"bitcast",
                         "bits copied as they are",
                         matchBitcast,
                         enumerateBitcast,
                         costBitcast,
                         nullptr,
                         nullptr,
                         emitBitcast,
                         nullptr,
                         nullptr,
                         /*takesPacked=*/true};

} // namespace tenon::cuda
