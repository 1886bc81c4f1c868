// Defines the tactics `conv_shared` and `depthwise_shared` of --optimize=size: sums of 8-bit
// integers by code that has no extents in its types (runtime/cpu/conv_shared.h). Matrix products
// are taken, too, as convolutions of one row.
#include "codegen/core/TacticOf.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/shared/ReadOrder.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

namespace tenon::cpu {
namespace {

/// As in codegen/cpu/conv_dsp/Tactic.cpp: patches up to this many bytes are on the stack.
constexpr int64_t kStackBytes = 512;

struct SharedProblem : ByteProblem {
  /// The members of window_shape but for the strides, in order.
  llvm::SmallVector<int64_t, 16> extents;
};

Result<SharedProblem> sharedProblem(const GroupQuery &in) {
  if (in.level.family->facts.hosted)
    return Refusal{"not for a microcontroller", ""};
  auto bytes = plainByteProblem(in);
  if (!bytes)
    return std::move(bytes).refusal();
  if (auto line = readsAlongLine(*bytes); !line)
    return std::move(line).refusal();
  if (in.form.outputs.size() != 1)
    return Refusal{"several results", ""};
  SharedProblem problem{*std::move(bytes), {}};
  const ConvProblem &p = problem.conv();
  const auto isLarge = [](Dim d, unsigned bits) {
    return !d.isConstant() || !llvm::isIntN(bits, d.constant());
  };
  bool large = llvm::any_of(problem.x.strides, [&](Dim d) { return isLarge(d, 32); });
  for (Dim d : {p.batch, p.inHeight, p.inWidth, p.outHeight, p.outWidth}) {
    large |= isLarge(d, 16);
    problem.extents.push_back(d.upper());
  }
  for (int64_t n :
       {p.isDepthwise() ? p.groups : p.filters, p.channels, p.kernelH, p.kernelW, p.strideH,
        p.strideW, p.dilationH, p.dilationW, p.padTop, p.padLeft, *problem.zero}) {
    large |= !llvm::isInt<16>(n);
    problem.extents.push_back(n);
  }
  if (large)
    return Refusal{"extents of more than 16 bits, or known at run time", ""};
  return problem;
}

double macs(const ByteProblem &p) {
  return double(p.pixels() * p.conv().groups * p.conv().filters * p.depth());
}

/// Writes the call of kernel<numbers>(…, patches, …).
void emitCall(const SharedProblem &p, llvm::StringRef kernel, const std::string &numbers,
              int64_t patchBytes, StepWriter &out) {
  const GroupForm &form = p.in.form;
  const Strides &x = p.x;
  out.include("cpu/conv_shared.h");
  out.shareCode();
  std::string extentsText;
  for (int64_t n : p.extents)
    extentsText += std::to_string(n) + ", ";
  std::string strides;
  for (Dim d : x.strides)
    strides += (strides.empty() ? "" : ", ") + std::to_string(d.constant());
  const std::string shape = out.name() + "_shape";
  out.declarations().line("static const cpu::window_shape " + shape + " = {" + extentsText + "{" +
                          strides + "}};");

  const Dim zero = x.offset.node()->context->dim(0);
  auto plane = [&](const Strides &given) { // the kernels' third index is 0
    Strides s = p.q.plane(given);
    s.strides[2] = zero;
    return s;
  };
  const std::string body = out.name() + "_numbers";
  const std::string value = out.body(form.body, {Element::I32});
  out.declarations().line("static constexpr auto " + body + " = " + value + ";");
  SourceWriter &c = out.code();
  std::string room;
  if (patchBytes > 0) {
    room = ", patches";
    if (patchBytes <= kStackBytes)
      c.line("alignas(8) uint32_t patches[" + std::to_string(patchBytes / 4) + "];");
    else
      c.line("uint32_t *const patches = " + out.scratchPointer("uint32_t") + ";");
  }
  const unsigned rank = unsigned(form.body.space.size());
  std::string views = out.resultView(0, plane(stridesOf(form.outputs[0], rank)));
  for (const Access &a : form.body.inputs)
    views += ", " + out.view(a.source, plane(stridesOf(a, rank)));
  c.line("cpu::" + kernel.str() + "<" + numbers + ">(" + shape + ", " +
         out.pointer(form.anchorInputs[0].inputs[0].source, x.offset) + ", " +
         out.pointer(p.weightsOperand(), zero) + room + ", " + body + ", " + views + ");");
}

struct ConvSharedSchedule {
  int64_t mr; // outputs at a time
  int64_t weightBits = 8;

  static llvm::ArrayRef<Field<ConvSharedSchedule>> fields() {
    static const Field<ConvSharedSchedule> kFields[] = {
        {"mr", &ConvSharedSchedule::mr, oneOf(1, 4)},
        weightBitsField<ConvSharedSchedule>(),
    };
    return kFields;
  }
};

struct ConvShared {
  static constexpr llvm::StringLiteral id = "conv_shared",
                                       summary =
                                           "sums of 8-bit integers, one code for all layers (size)";
  static constexpr bool sharesCode = true;
  using Problem = SharedProblem;
  using Schedule = ConvSharedSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = sharedProblem(in);
    if (!p)
      return p;
    return hasOneGroup(*p).andThen([&] { return std::move(p); });
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const bool one = (p.conv().outHeight * p.conv().outWidth).isConstant(1);
    out.push_back({one ? 1 : 4, fewestBits(p, 4)});
  }
  static Result<> legal(const Problem &p, const Schedule &s) { return fitsBits<ConvShared>(p, s); }
  static int64_t weightBits(const Schedule &s) { return s.weightBits; }

  static double microseconds(const Problem &p, const Schedule &s) {
    return instructionTime(p.in.level, macs(p) * (s.mr == 1 ? 3 : 1.5));
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packFilters(p, storedWeights(s.weightBits, 4), out);
  }
  static int64_t scratch(const Problem &p, const Schedule &s) {
    const int64_t bytes = patchBytes(p, s);
    return bytes <= kStackBytes ? 0 : bytes;
  }
  static llvm::Optional<Overlap> overlap(const Problem &p, const Schedule &s) {
    return overlapByTiles(p, s.mr, /*copied=*/true);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    emitCall(p, id, std::to_string(s.mr) + ", " + std::to_string(s.weightBits), patchBytes(p, s),
             out);
  }

private:
  static int64_t patchBytes(const Problem &p, const Schedule &s) {
    return s.mr * 2 * int64_t(llvm::alignTo(p.depth(), 4));
  }
};

struct DepthwiseShared {
  static constexpr llvm::StringLiteral id = "depthwise_shared",
                                       summary = "depthwise convolution of 8-bit integers, one "
                                                 "code for all (size)";
  static constexpr bool sharesCode = true;
  using Problem = SharedProblem;
  using Schedule = FieldSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = sharedProblem(in);
    if (!p)
      return p;
    return isDepthwise(*p).andThen([&] { return std::move(p); });
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out.push_back({fewestBits(p, 1)});
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    return fitsBits<DepthwiseShared>(p, s);
  }
  static int64_t weightBits(const Schedule &s) { return s.weightBits; }

  static double microseconds(const Problem &p, const Schedule &) {
    return instructionTime(p.in.level, macs(p) * 8);
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packFilters(p, storedWeights(s.weightBits, 1), out);
  }
  static llvm::Optional<Overlap> overlap(const Problem &p, const Schedule &) {
    return overlapByTiles(p, 1, /*copied=*/false);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    emitCall(p, id, std::to_string(s.weightBits), 0, out);
  }
};

} // namespace

const Tactic &kConvShared = kTacticOf<ConvShared>;
const Tactic &kDepthwiseShared = kTacticOf<DepthwiseShared>;

} // namespace tenon::cpu
