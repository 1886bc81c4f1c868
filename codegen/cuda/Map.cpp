// Defines the tactics `map` and `map_transposed`: pointwise groups, broadcasts, and movement that
// is a strided copy (runtime/cuda/map.cuh), through shared memory where an input is contiguous
// along another dimension than the output (runtime/cuda/map_transposed.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cuda/Common.h"

namespace tenon::cuda {
namespace {

bool matchMap(const TacticInput &in, std::string &why) {
  if (in.form.anchor)
    why = "the group has an anchor, " + in.form.anchor->name().str();
  return !in.form.anchor;
}

void enumerateMap(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"map", {{"vector", vectorLength(in.form)}}});
}

bool isUnit(const Strides &s, size_t dim) { return s.strides[dim].isConstant(1); }
bool isBroadcast(const Strides &s, size_t dim) { return s.strides[dim].isConstant(0); }

/// Inputs whose neighbours along the last dimension lie apart in memory.
bool isScattered(const Strides &s) {
  const size_t last = s.strides.size() - 1;
  return !isUnit(s, last) && !isBroadcast(s, last);
}

/// How much of what is moved for a scattered operand is moved for nothing else: of a sector one
/// element, unless its neighbours are used soon after.
double neighboursApart(const Strides &s) {
  const Dim step = s.strides.back();
  return step.isConstant() ? std::min(8.0, std::max(1.0, double(std::abs(step.constant())))) : 8;
}

/// penalty(strides): by how much more is moved for a scattered operand.
template <class Penalty> double mapCost(const TacticInput &in, Penalty penalty) {
  const LoopNest nest = loopNest(in.form.body, in.form.outputs);
  const Work w = workOf(*in.form.group);
  double bytes = 0;
  for (size_t i = 0; i < in.form.body.inputs.size(); ++i) {
    const Type t = in.form.body.inputs[i].source->type();
    bytes += double(byteSize(t.element(), t.upperElements())) *
             (isScattered(nest.inputs[i]) ? penalty(nest.inputs[i]) : 1);
  }
  double points = 1;
  for (Dim d : nest.extents)
    points *= double(std::max<int64_t>(1, d.upper()));
  for (size_t i = 0; i < in.form.outputs.size(); ++i)
    bytes += points * bitWidth(in.form.outputs[i].type.element()) / 8 *
             (isScattered(nest.outputs[i]) ? penalty(nest.outputs[i]) : 1);
  Effort e;
  e.bytes = bytes;
  e.operations = w.flops * 4;
  e.blocks = points / (256.0 * double(vectorLength(in.form)));
  return microseconds(in.level, e);
}

double costMap(const TacticInput &in, const Schedule &) { return mapCost(in, neighboursApart); }

void emitLaunch(const TacticInput &in, const LoopNest &nest, StepWriter &out,
                const MapKernel &kernel) {
  const std::string body = out.body(in.form.body, {});
  out.code().line("const auto outs = " + out.outputs(in.form, nest) + ";");
  out.code().line("const auto ins = " + out.inputs(in.form.body, nest) + ";");
  launch(out, kernel.name, {kernel.config, "outs", "ins", body});
}

void emitMap(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const LoopNest nest = loopNest(in.form.body, in.form.outputs);
  out.letShapeVary();
  emitLaunch(in, nest, out, mapKernel(out, in.form, nest.extents, nest.outputs, *s.get("vector")));
}

/// The dimension that some input is contiguous along while the output is so along the last; −1 when
/// there is none.
int acrossOf(const LoopNest &nest, const ScalarProgram &body) {
  const size_t last = nest.extents.size() - 1;
  for (const Strides &s : nest.outputs)
    if (!isUnit(s, last))
      return -1;
  for (size_t i = 0; i < nest.inputs.size(); ++i)
    if (!body.inputs[i].bounded && isScattered(nest.inputs[i]))
      for (size_t d = 0; d < last; ++d)
        if (isUnit(nest.inputs[i], d))
          return int(d);
  return -1;
}

bool matchTransposed(const TacticInput &in, std::string &why) {
  if (!matchMap(in, why))
    return false;
  if (llvm::any_of(in.form.outputs,
                   [](const OutputForm &o) { return isPacked(o.type.element()); })) {
    why = "elements of a result share bytes";
    return false;
  }
  if (acrossOf(loopNest(in.form.body, in.form.outputs), in.form.body) < 0) {
    why = "no input is contiguous along another dimension than the output";
    return false;
  }
  return true;
}

void enumerateTransposed(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  const LoopNest nest = loopNest(in.form.body, in.form.outputs);
  out.push_back({"map_transposed", {{"across", acrossOf(nest, in.form.body)}}});
}

double costTransposed(const TacticInput &in, const Schedule &s) {
  const LoopNest nest = loopNest(in.form.body, in.form.outputs);
  // Tiles of 32 x 32 that extents do not fill read and write whole sectors for nothing.
  double waste = 1;
  for (Dim d : {nest.extents[size_t(*s.get("across"))], nest.extents.back()})
    waste *= std::max(1.0, 8.0 / double(std::max<int64_t>(1, d.upper())));
  return mapCost(in, [waste](const Strides &) { return waste; }) + 0.3;
}

void emitTransposed(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const LoopNest nest = loopNest(in.form.body, in.form.outputs);
  out.include("cuda/map_transposed.cuh");
  StepWriter::Config cfg(out, "config");
  cfg.extents("space", nest.extents).number("across", *s.get("across"));
  if (isLarge(in.form))
    cfg.flag("large", true);
  emitLaunch(in, nest, out, {"map_transposed", cfg.finish()});
}

} // namespace

const Tactic kMap = {"map",
                     "pointwise work and strided copies",
                     matchMap,
                     enumerateMap,
                     costMap,
                     nullptr,
                     nullptr,
                     emitMap,
                     nullptr,
                     nullptr,
                     /*takesPacked=*/true};
const Tactic kMapTransposed = {"map_transposed",
                               "pointwise work on transposed inputs, by tiles",
                               matchTransposed,
                               enumerateTransposed,
                               costTransposed,
                               nullptr,
                               nullptr,
                               emitTransposed,
                               nullptr,
                               nullptr,
                               /*takesPacked=*/true};

} // namespace tenon::cuda
