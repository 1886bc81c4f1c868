// Defines the tactics `conv_shared` and `depthwise_shared` of --optimize=size: sums of 8-bit
// integers by code that has no extents in its types (runtime/cpu/conv_shared.h). Matrix products
// are taken, too, as convolutions of one row.
#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/ByteContraction.h"
#include "codegen/cpu/Tactics.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

namespace tenon::cpu {
namespace {

/// As in Pairs.cpp: patches up to this many bytes are on the stack.
constexpr int64_t kStackBytes = 512;

/// The members of window_shape but for the strides, in order; None when one does not fit.
llvm::Optional<llvm::SmallVector<int64_t, 16>> extentsOf(const ByteContraction &q, int64_t zero) {
  const ConvProblem &p = q.conv;
  llvm::SmallVector<int64_t, 16> all;
  for (Dim d : {p.batch, p.inHeight, p.inWidth, p.outHeight, p.outWidth}) {
    if (!d.isConstant())
      return llvm::None;
    all.push_back(d.constant());
  }
  all.append({p.isDepthwise() ? p.groups : p.filters, p.channels, p.kernelH, p.kernelW, p.strideH,
              p.strideW, p.dilationH, p.dilationW, p.padTop, p.padLeft, zero});
  if (llvm::any_of(all, [](int64_t n) { return !llvm::isInt<16>(n); }))
    return llvm::None;
  return all;
}

bool isConstant(const Strides &s) {
  return llvm::all_of(s.strides,
                      [](Dim d) { return d.isConstant() && llvm::isInt<32>(d.constant()); });
}

llvm::Optional<ByteContraction> matchShared(const TacticInput &in, std::string &why) {
  if (in.level.family->facts.hosted) {
    why = "not for a microcontroller";
    return llvm::None;
  }
  auto q = matchByteContraction(in, why);
  if (!q || !readsAlongLine(in, *q, why))
    return llvm::None;
  if (in.form.outputs.size() != 1) {
    why = "several results";
    return llvm::None;
  }
  if (!extentsOf(*q, *zeroPoint(in.form, why)) || !isConstant(inputStrides(in.form, *q))) {
    why = "extents of more than 16 bits, or known at run time";
    return llvm::None;
  }
  return q;
}

bool matchConv(const TacticInput &in, std::string &why) {
  auto q = matchShared(in, why);
  if (q && q->conv.groups != 1) {
    why = "several groups";
    return false;
  }
  return q.hasValue();
}

bool matchDepthwise(const TacticInput &in, std::string &why) {
  auto q = matchShared(in, why);
  if (q && !q->isDepthwise()) {
    why = "not depthwise with one filter a channel";
    return false;
  }
  return q.hasValue();
}

double macs(const ConvProblem &p) {
  return double((p.batch * p.outHeight * p.outWidth).upper() * p.groups * p.filters * p.channels *
                p.kernelH * p.kernelW);
}

void enumerateConv(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const ConvProblem p = byteContraction(*in.form.anchor, why)->conv;
  out.push_back({"conv_shared", {{"mr", (p.outHeight * p.outWidth).isConstant(1) ? 1 : 4}}});
  addWeightBits(in, 4, out.back());
}
void enumerateDepthwise(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"depthwise_shared", {}});
  addWeightBits(in, 1, out.back());
}

double costConv(const TacticInput &in, const Schedule &s) {
  std::string why;
  const ConvProblem p = byteContraction(*in.form.anchor, why)->conv;
  return instructionTime(in.level, macs(p) * (*s.get("mr") == 1 ? 3 : 1.5));
}
double costDepthwise(const TacticInput &in, const Schedule &) {
  std::string why;
  return instructionTime(in.level, macs(byteContraction(*in.form.anchor, why)->conv) * 8);
}

int64_t patchBytes(const TacticInput &in, const Schedule &s) {
  std::string why;
  const ConvProblem p = byteContraction(*in.form.anchor, why)->conv;
  return *s.get("mr") * 2 * int64_t(llvm::alignTo(p.channels * p.kernelH * p.kernelW, 4));
}
int64_t scratchConv(const TacticInput &in, const Schedule &s) {
  const int64_t bytes = patchBytes(in, s);
  return bytes <= kStackBytes ? 0 : bytes;
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  std::string why, extentsText;
  const ByteContraction q = *byteContraction(*form.anchor, why);
  const Strides x = inputStrides(form, q);
  out.include("cpu/conv_shared.h");
  out.shareCode();
  const auto extents = extentsOf(q, *zeroPoint(form, why));
  for (int64_t n : *extents)
    extentsText += std::to_string(n) + ", ";
  std::string strides;
  for (Dim d : x.strides)
    strides += (strides.empty() ? "" : ", ") + std::to_string(d.constant());
  const std::string shape = out.name() + "_shape";
  out.declarations().line("static const cpu::window_shape " + shape + " = {" + extentsText + "{" +
                          strides + "}};");

  const Dim zero = x.offset.node()->context->dim(0);
  auto plane = [&](const Strides &given) { // the kernels' third index is 0
    Strides s = q.plane(given);
    s.strides[2] = zero;
    return s;
  };
  const std::string body = out.name() + "_numbers";
  const std::string value = out.body(form.body, {Element::I32});
  out.declarations().line("static constexpr auto " + body + " = " + value + ";");
  SourceWriter &c = out.code();
  std::string room;
  if (s.tactic == "conv_shared") {
    room = ", patches";
    const int64_t bytes = patchBytes(in, s);
    if (bytes <= kStackBytes)
      c.line("alignas(8) uint32_t patches[" + std::to_string(bytes / 4) + "];");
    else
      c.line("uint32_t *const patches = " + out.scratchPointer("uint32_t") + ";");
  }
  std::string numbers = std::to_string(s.get("weight_bits").getValueOr(8));
  if (s.tactic == "conv_shared")
    numbers = std::to_string(*s.get("mr")) + ", " + numbers;
  const unsigned rank = unsigned(form.body.space.size());
  std::string views = out.resultView(0, plane(stridesOf(form.outputs[0], rank)));
  for (const Access &a : form.body.inputs)
    views += ", " + out.view(a.source, plane(stridesOf(a, rank)));
  c.line("cpu::" + s.tactic + "<" + numbers + ">(" + shape + ", " +
         out.pointer(form.anchorInputs[0].inputs[0].source, x.offset) + ", " +
         out.pointer(form.anchorInputs[1].inputs[0].source, zero) + room + ", " + body + ", " +
         views + ");");
}

Tactic shared(Tactic t) {
  t.sharesCode = true;
  return t;
}

} // namespace

const Tactic kConvShared =
    shared({"conv_shared", "sums of 8-bit integers, one code for all layers (size)", matchConv,
            enumerateConv, costConv, packFilters<4>, scratchConv, emit});
const Tactic kDepthwiseShared =
    shared({"depthwise_shared", "depthwise convolution of 8-bit integers, one code for all (size)",
            matchDepthwise, enumerateDepthwise, costDepthwise, packFilters<1>, nullptr, emit});

} // namespace tenon::cpu
