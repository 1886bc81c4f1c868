// Defines the tactic `normalize`: zero mean and unit variance with a fused epilogue
// (runtime/cuda/normalize/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/forms/RowNest.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kWarp = 32, kMostLanes = 1024;
constexpr int64_t kHeldElements = 32;   // of a row that one thread keeps in registers
constexpr int64_t kThreadsToFill = 512; // of a multiprocessor, each with several loads under way

struct NormalizeSchedule {
  int64_t threads, lanes; // of a block, of a row
  int64_t across;         // neighbouring threads take neighbouring rows
  int64_t vector, held;   // elements of a run; runs that a thread keeps (0: it reads them again)

  static llvm::ArrayRef<Field<NormalizeSchedule>> fields() {
    static const Field<NormalizeSchedule> kFields[] = {
        {"threads", &NormalizeSchedule::threads, oneOf(32, 64, 128, 256, 512, 1024)},
        {"lanes", &NormalizeSchedule::lanes, oneOf(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)},
        {"across", &NormalizeSchedule::across, oneOf(0, 1)},
        {"vector", &NormalizeSchedule::vector, VectorSchedule::allowed()},
        {"held", &NormalizeSchedule::held, between(0, kHeldElements)},
    };
    return kFields;
  }
};

int64_t powerOfTwo(int64_t atLeast) {
  int64_t p = 1;
  while (p < atLeast)
    p *= 2;
  return p;
}

/// Elements of a run: 16 bytes of the widest operand where rows are contiguous in all that is read
/// and written, and no run crosses a boundary inside a row.
int64_t runLength(const GroupForm &form, const RowNest &nest) {
  const size_t last = nest.extents.size() - 1;
  std::vector<Strides> operands = bodyStrides(form);
  for (const Access &a : form.anchorInputs[0].inputs)
    operands.push_back(stridesOf(a, unsigned(form.body.space.size())));
  int64_t length = vectorLength(form);
  for (const Strides &s : operands) {
    const Dim step = nest(s).strides[last];
    if (!step.isConstant(1) && !step.isConstant(0))
      return 1;
  }
  if (nest.reducedExtents().size() == 1)
    return std::min(length, powerOfTwo(nest.rowLength()));
  const Dim inner = nest.extents[last];
  while (length > 1 && (!inner.isConstant() || inner.constant() % length))
    length /= 2;
  return length;
}

struct Normalize {
  static constexpr llvm::StringLiteral id = "normalize", summary = "zero mean and unit variance";
  using Problem = RowProblem;
  using Schedule = NormalizeSchedule;

  static Result<Problem> match(const GroupQuery &in) { return matchRows(in, Op::Normalize); }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const auto &[in, nest] = p;
    const Strides y = nest(stridesOf(in.form.outputs[0], unsigned(in.form.body.space.size())));
    const bool across = !y.strides.back().isConstant(1) && y.strides[nest.kept - 1].isConstant(1);
    const int64_t vector = runLength(in.form, nest);
    const int64_t runs = (nest.rowLength() + vector - 1) / vector;
    // A warp a row, as long as its lanes have a few runs each; neighbouring rows share lines of
    // memory, so fewer lanes do there. Where rows are many fewer do, too: none is idle then.
    const int64_t few = powerOfTwo((runs + 3) / 4);
    const int64_t rows = in.form.anchor->result()->type().upperElements() / nest.rowLength();
    const bool many = rows * few >= kThreadsToFill * int64_t(in.level.multiprocessors);
    const int64_t lanes =
        across || many ? std::min<int64_t>(few, kWarp)
                       : std::min(std::max(few, std::min(kWarp, powerOfTwo(runs))), kMostLanes);
    const int64_t held = (runs + lanes - 1) / lanes;
    out.push_back({std::max<int64_t>(across ? 256 : 128, lanes), lanes, across, vector,
                   held * vector <= kHeldElements ? held : 0});
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const ScheduleText text = printSchedule(id, s);
    if (s.lanes > s.threads)
      return impossible(text, "lanes are at most threads");
    const Dim inner = p.nest.extents.back();
    if (p.nest.reducedExtents().size() > 1 && s.vector > 1 &&
        (!inner.isConstant() || inner.constant() % s.vector))
      return impossible(text, "vector divides the last of several extents of a row");
    if (s.held * s.vector > kHeldElements)
      return impossible(text, "held times vector is at most " + std::to_string(kHeldElements));
    if (s.held && s.held * s.lanes * s.vector < p.nest.rowLength())
      return impossible(text, "held times lanes times vector is 0, or at least a row, " +
                                  std::to_string(p.nest.rowLength()));
    return Accepted{};
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    const Work w = workOf(*p.in.form.group);
    Effort e;
    e.bytes = double(w.bytes) * (s.held ? 1 : 2);
    e.operations = w.flops;
    e.efficiency = 0.2;
    e.blocks = double(p.in.form.anchor->result()->type().upperElements()) /
               double(p.nest.rowLength()) * double(s.lanes) / double(s.threads);
    return cuda::microseconds(p.in.level, e);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    const RowNest &nest = p.nest;
    const Element compute = op.result()->type().element();
    out.include("cuda/normalize/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("kept", nest.keptExtents()).extents("reduced", nest.reducedExtents());
    cfg.flag("centered", op.boolAttr("centered"));
    cfg.number("threads", s.threads).number("lanes", s.lanes);
    cfg.number("vector", s.vector).number("held", s.held).flag("across", s.across);
    if (isLarge(form))
      cfg.flag("large", true);
    const std::string config = cfg.finish();
    const std::string x = operandView(out, form.anchorInputs[0], nest, nest.placeOf, "prologue");
    const std::string body = out.body(form.body, {compute});
    SourceWriter &w = out.code();
    w.line("const auto x = " + x + ";");
    w.line("const auto outs = " + out.outputs(form, nest) + ";");
    w.line("const auto ins = " + inputsIn(out, form.body, nest, nest.placeOf) + ";");
    launch(out, "normalize",
           {config, cppScalar(compute, op.floatAttr("epsilon")), "x", "outs", "ins", body});
  }
};

} // namespace

const Tactic &kNormalize = kTacticOf<Normalize>;

} // namespace tenon::cuda
