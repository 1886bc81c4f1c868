// Implements what CUDA tactics share.
#include "codegen/cuda/shared/Common.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>

namespace tenon::cuda {

int64_t vectorLength(const GroupForm &form) {
  unsigned bits = 8;
  for (const Access &a : form.body.inputs)
    bits = std::max(bits, bitWidth(a.source->type().element()));
  for (const OutputForm &o : form.outputs)
    bits = std::max(bits, bitWidth(o.type.element()));
  return std::max<int64_t>(1, 128 / bits);
}

bool isLarge(const GroupForm &form) {
  auto large = [](Value *v) {
    return v->type().isTensor() && allocatedElements(v->type()) >= int64_t(1) << 30;
  };
  return llvm::any_of(form.group->operands(), large) || llvm::any_of(form.group->results(), large);
}

Result<> fitsInt(const GroupForm &form) {
  if (isLarge(form))
    return Refusal{"a tensor of 2^30 elements or more", ""};
  return Accepted{};
}

Result<> isPlainBody(const ScalarProgram &body) {
  for (const Access &a : body.inputs)
    if (a.bounded)
      return Refusal{"a padded epilogue input", ""};
  if (body.usesIndex())
    return Refusal{"an index in the epilogue", ""};
  return Accepted{};
}

Result<> fitsShared(const TargetLevel &level, const ScheduleText &schedule, int64_t bytes) {
  if (bytes > int64_t(level.sharedBytes))
    return impossible(schedule, std::to_string(bytes) +
                                    " bytes of shared memory where a block has " +
                                    std::to_string(level.sharedBytes));
  return Accepted{};
}

llvm::ArrayRef<Field<VectorSchedule>> VectorSchedule::fields() {
  static const Field<VectorSchedule> kFields[] = {{"vector", &VectorSchedule::vector, allowed()}};
  return kFields;
}

llvm::ArrayRef<Field<WindowSchedule>> WindowSchedule::fields() {
  static const Field<WindowSchedule> kFields[] = {
      {"along", &WindowSchedule::along, oneOf(1, 3)},
      {"vector", &WindowSchedule::vector, VectorSchedule::allowed()},
  };
  return kFields;
}

void WindowSchedule::candidates(const GroupForm &form, const ConvProblem &p,
                                std::vector<WindowSchedule> &out) {
  const int64_t along = runsAlong(form, p);
  if (along == 1)
    out.push_back({along, std::min<int64_t>(8, vectorLength(form))});
  out.push_back({along, 1});
}

std::string operandView(StepWriter &out, const ScalarProgram &program, StepWriter::Change change,
                        llvm::ArrayRef<int> placeOf, llvm::StringRef suffix) {
  if (program.isPlainRead()) {
    const Access &a = program.inputs[0];
    return out.view(a.source, change(stridesOf(a, unsigned(program.space.size()))));
  }
  out.include("cuda/base/computed.cuh");
  const std::string body = out.body(program, {}, suffix);
  return "cuda::make_computed_view<" +
         cppElement(computeElement(program.nodes[program.outputs[0]].element)).str() + ", " +
         std::to_string(rankThrough(program, change)) + ">(" +
         inputsIn(out, program, change, placeOf) + ", " + body + ")";
}

std::string declareOperands(StepWriter &out, const GroupForm &form, const ScalarProgram &program,
                            StepWriter::Change change, llvm::ArrayRef<int> placeOf) {
  const std::string x = operandView(out, program, change, placeOf, "prologue");
  llvm::SmallVector<Element, 2> made;
  for (const Value *v : form.anchor->results())
    made.push_back(v->type().element());
  std::string body = out.body(form.body, made);
  SourceWriter &w = out.code();
  w.line("const auto x = " + x + ";");
  w.line("const auto outs = " + out.outputs(form, change) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, change, placeOf) + ";");
  return body;
}

llvm::SmallVector<int, 6> planePlaces(const ConvProblem &p) {
  return p.spatialRank == 1 ? llvm::SmallVector<int, 6>{0, 1, 3}
                            : llvm::SmallVector<int, 6>{0, 1, 2, 3};
}

int64_t runsAlong(const GroupForm &form, const ConvProblem &p) {
  const Strides s = inPlane(stridesOf(form.outputs.front(), unsigned(form.body.space.size())), p);
  return s.strides[3].isConstant(1) && !s.strides[1].isConstant(1) ? 3 : 1;
}

bool hasWholeRuns(const StepWriter &out, Value *value, const Strides &s, unsigned along, Dim extent,
                  int64_t vector) {
  if (!s.strides[along].isConstant(1) || !extent.isConstant() || extent.constant() % vector)
    return false;
  for (unsigned d = 0; d < s.strides.size(); ++d)
    if (d != along && (!s.strides[d].isConstant() || s.strides[d].constant() % vector))
      return false;
  return out.isAligned(value, s.offset, vector * bitWidth(value->type().element()) / 8);
}

bool areReadInWholeRuns(const StepWriter &out, llvm::ArrayRef<Access> reads, unsigned rank,
                        StepWriter::Change change, unsigned along, Dim extent, int64_t vector) {
  return extent.isConstant() && extent.constant() % vector == 0 &&
         llvm::all_of(reads, [&](const Access &a) {
           const Strides s = change(stridesOf(a, rank));
           return !a.bounded && (s.strides[along].isConstant(0) ||
                                 hasWholeRuns(out, a.source, s, along, extent, vector));
         });
}

bool areRunsWhole(const StepWriter &out, const GroupForm &form, StepWriter::Change change,
                  unsigned along, Dim extent, int64_t vector) {
  return areReadInWholeRuns(out, form.anchorInputs[0].inputs, unsigned(form.body.space.size()),
                            change, along, extent, vector) &&
         areResultsWhole(out, form, change, along, extent, vector);
}

bool areResultsWhole(const StepWriter &out, const GroupForm &form, StepWriter::Change change,
                     unsigned along, Dim extent, int64_t vector) {
  if (!areReadInWholeRuns(out, form.body.inputs, unsigned(form.body.space.size()), change, along,
                          extent, vector))
    return false;
  const auto rank = unsigned(form.body.space.size());
  for (unsigned i = 0; i < form.outputs.size(); ++i) {
    const Strides s = change(stridesOf(form.outputs[i], rank));
    for (unsigned d = 0; d < s.strides.size(); ++d)
      if (d != along && (!s.strides[d].isConstant() || s.strides[d].constant() % vector))
        return false;
    if (!s.strides[along].isConstant(1) ||
        !out.isResultAligned(i, s.offset, vector * bitWidth(form.outputs[i].type.element()) / 8))
      return false;
  }
  return true;
}

double microseconds(const TargetLevel &level, const Effort &e) {
  const double sms = std::max(1u, level.multiprocessors);
  // Blocks run in whole waves of one per multiprocessor: the last wave takes as long as the others.
  const double waves = std::ceil(std::max(1.0, e.blocks) / sms);
  const double occupancy = std::min(1.0, e.blocks / (waves * sms));
  const double peak = (e.tensorCores ? level.tensorTflops * 1e12 : level.peakGflops * 1e9) * 1e-6;
  const double arithmetic = e.operations / (peak * e.efficiency * occupancy);
  // A quarter of the multiprocessors saturates memory.
  const double memory = e.bytes / (level.bandwidthGBs * 1e3 * std::min(1.0, 4 * e.blocks / sms));
  return e.launches * level.launchMicroseconds + std::max(arithmetic, memory);
}

namespace {

/// Whether elements in row-major order over `extents` follow one another in memory from a whole
/// byte on, as far as the strides tell.
bool fillsBytes(llvm::ArrayRef<Dim> extents, const Strides &s, unsigned perByte) {
  if (!s.offset.isConstant() || s.offset.constant() % perByte)
    return false;
  int64_t next = 1;
  for (size_t d = extents.size(); d-- > 0;) {
    if (!extents[d].isConstant(1) && !s.strides[d].isConstant(next))
      return false;
    if (d > 0 && !extents[d].isConstant())
      return false;
    next *= extents[d].upper();
  }
  return true;
}

} // namespace

MapKernel mapKernel(StepWriter &out, const GroupForm &form, llvm::ArrayRef<Dim> extents,
                    llvm::ArrayRef<Strides> outputs, int64_t vector) {
  MapKernel kernel{"map", ""};
  // Elements of a thread: whole bytes of every result.
  int64_t together = 16;
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    const Element e = form.outputs[i].type.element();
    if (!isPacked(e))
      continue;
    kernel.name = "map_packed";
    if (!fillsBytes(extents, outputs[i], 8 / bitWidth(e)) || !out.startsByte(unsigned(i)))
      together = 0;
  }
  StepWriter::Config cfg(out, "config");
  cfg.parameters("space", extents);
  if (kernel.name == "map")
    cfg.number("vector", vector);
  else
    cfg.number("together", together);
  if (isLarge(form))
    cfg.flag("large", true);
  kernel.config = cfg.finish();
  out.include(kernel.name == "map" ? "cuda/map/kernel.cuh" : "cuda/map/packed.cuh");
  return kernel;
}

MapKernel mapKernel(StepWriter &out, const GroupForm &form) {
  std::vector<Strides> outputs;
  for (const OutputForm &o : form.outputs)
    outputs.push_back(stridesOf(o, unsigned(form.body.space.size())));
  return mapKernel(out, form, form.body.space, outputs, 1);
}

void emitCopy(StepWriter &out, Dim count, const std::string &to, const std::string &from) {
  out.include("cuda/map/kernel.cuh");
  StepWriter::Config cfg(out, "config");
  cfg.extents("space", {count}).number("vector", 4);
  const std::string config = cfg.finish();
  out.code().line("const auto outs = pack(make_view(" + to + ", extents<1>{}));");
  out.code().line("const auto ins = pack(make_view(" + from + ", extents<1>{}));");
  launch(out, "map", {config, "outs", "ins", "cuda::identity_body{}"});
}

void launchParts(StepWriter &out, llvm::StringRef kernel, llvm::ArrayRef<std::string> arguments) {
  SourceWriter &w = out.code();
  w.line("void *const parts = " + out.scratchPointer("void") + ";");
  w.line("TENON_CHECK(to.launch<V>(cuda::" + kernel.str() + "_parts(" +
         llvm::join(arguments, ", ") + ", parts)));");
}

void launch(StepWriter &out, llvm::StringRef kernel, llvm::ArrayRef<std::string> arguments) {
  out.code().line("return to.launch<V>(cuda::" + kernel.str() + "(" + llvm::join(arguments, ", ") +
                  "));");
}

void launchFirstFor(StepWriter &out, Dim value, llvm::StringRef kernel,
                    llvm::ArrayRef<BoundedKernel> kernels) {
  if (kernels.size() == 1)
    return launch(out, kernel, kernels[0].arguments);
  std::string which, calls;
  for (const BoundedKernel &k : kernels) {
    if (&k != &kernels.back())
      which += (which.empty() ? "" : " + ") + ("(" + out.dims().value(value)) + " > " +
               std::to_string(k.most) + ")";
    calls += ", cuda::" + kernel.str() + "(" + llvm::join(k.arguments, ", ") + ")";
  }
  out.code().line("return to.launch_one_of<V>(" + which + calls + ");");
}

} // namespace tenon::cuda
