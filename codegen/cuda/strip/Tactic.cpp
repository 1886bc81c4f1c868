// Defines the tactics `strip` and `strip_joined`: up to 16 rows times constant weights on Tensor
// Cores, one read of the weights being all the time there is (runtime/cuda/strip/kernel.cuh); the
// second with a norm before the product, another product of the same rows beside it, or both.
#include "codegen/core/Work.h"
#include "codegen/cuda/strip/Problem.h"

#include "llvm/ADT/Twine.h"

#include <cmath>

namespace tenon::cuda {
namespace {

struct StripSchedule {
  int64_t tiles, strips, stages, splits;

  static llvm::ArrayRef<Field<StripSchedule>> fields() {
    static const Field<StripSchedule> kFields[] = {
        {"tiles", &StripSchedule::tiles, oneOf(2, 4)},
        {"strips", &StripSchedule::strips, oneOf(1, 2, 4)},
        {"stages", &StripSchedule::stages, between(2, 16)},
        {"splits", &StripSchedule::splits, oneOf(1, 2)},
    };
    return kFields;
  }
};

bool hasCopyEngine(const TargetLevel &level) { return level.sm >= 90; }

/// Of the kernel for `rows` rows at most.
strip_geometry geometryOf(const StripProblem &p, const StripSchedule &s, int64_t rows) {
  const StripProduct &of = p.product;
  const bool copies = hasCopyEngine(p.in.level);
  // Without a copy engine a second block hides what lanes wait for when they copy.
  const int64_t blocks = int64_t(p.in.level.multiprocessors) * (copies ? 1 : 2);
  const bool scaled = of.block > 0 && !of.scalesOutputs();
  return {rows,     of.n,     of.k,     of.bits(), scaled, p.matrices(),     s.tiles,
          s.strips, s.stages, s.splits, blocks,    copies, p.norm != nullptr};
}

/// Shared memory of one of the two blocks that a multiprocessor has at a time.
int64_t roomOf(const TargetLevel &level) {
  constexpr int64_t kOfSystem = 1024;
  return (int64_t(level.sharedBytes) + kOfSystem) / 2 - kOfSystem;
}

/// Passes whose sums the blocks that share strips have room for.
constexpr int64_t kMostSharedPasses = 4;

constexpr int64_t kLongestRing = 12; // stages, where nobody asks for more
constexpr int64_t kRowsOfTile = 8;

/// Microseconds. Source: bench/cuda/gemv/h100.csv and h100_shared_strips.csv, one row, products of
/// Llama-3.2-1B.
struct Costs {
  double start = 1.0,
         bandwidth = 0.94; // what a launch takes beyond the machine's; share of the peak
  // What a block waits for at a chunk of k: its rows, and for each 32 k of a warp. Later passes
  // wait for a part of it, since the ring goes on. Strips after the first: for each tile of a warp.
  double chunk = 0.23, run = 0.167, later = 0.5, strip = 0.05;
  double norm = 0.4; // two ways to the rows
  double split = 0.15;
  double row = 0.004; // of all, for each row after the first
  // Others' estimates are made for weights that caches hold and take less than half of what they do
  // for others: of `cold` bytes on, what strip takes counts for so much less beside them.
  double cold = 4 << 20, beside = 0.6;
};
constexpr Costs kCosts;

double microsecondsOf(const StripProblem &p, const StripSchedule &s, int64_t rows) {
  const TargetLevel &level = p.in.level;
  const strip_geometry g = geometryOf(p, s, rows);
  const double read =
      double(workOf(*p.in.form.group).bytes) / 1000 / (level.bandwidthGBs * kCosts.bandwidth);
  const double chunk = kCosts.chunk + kCosts.run * double(g.runs());
  const double strips = double(std::min(g.strips, g.slots()) - 1) * kCosts.strip * double(s.tiles);
  const double block = double(g.chunks()) *
                       (chunk + strips + double(g.passes() - 1) * (kCosts.later * chunk + strips));
  return (level.launchMicroseconds + kCosts.start + (p.norm ? kCosts.norm : 0) +
          (s.splits > 1 ? kCosts.split : 0) + std::max(read, block) + 0.1 * std::min(read, block)) *
         (1 + kCosts.row * double(rows - 1));
}

Result<> fits(const StripProblem &p, const StripSchedule &s, int64_t rows) {
  const strip_geometry g = geometryOf(p, s, rows);
  if (s.splits > 1 && g.passes() > kMostSharedPasses)
    return Refusal{"blocks that share strips go along k " + std::to_string(kMostSharedPasses) +
                       " times at most",
                   ""};
  if (g.needed_bytes() > roomOf(p.in.level))
    return Refusal{"two blocks of it have no room on a multiprocessor", ""};
  return Accepted{};
}
/// The same with as long a ring as there is room for.
StripSchedule withLongestRing(const StripProblem &p, StripSchedule s, int64_t rows) {
  while (s.stages < kLongestRing && fits(p, {s.tiles, s.strips, s.stages + 1, s.splits}, rows))
    ++s.stages;
  return s;
}

/// One of a group's kernels.
struct StripInstance {
  int64_t rows; // at most
  StripSchedule schedule;
};
/// Where the run says how many rows there are: one row, one tile of rows and two have kernels of
/// their own, of which a schedule is that of the last. Tiles and splits, on which the bits of a row
/// depend, are the same in all.
std::vector<StripInstance> instancesOf(const StripProblem &p, const StripSchedule &s) {
  const int64_t most = p.product.rows;
  std::vector<StripInstance> all;
  for (int64_t rows : {int64_t(1), kRowsOfTile})
    if (!p.product.count.isConstant() && rows < most) {
      StripSchedule own = s;
      for (int64_t strips : {2, 4})
        if (const StripSchedule other{s.tiles, strips, 2, s.splits};
            strips > own.strips && fits(p, other, rows))
          own = other;
      own.stages = std::min(own.stages, int64_t(2));
      all.push_back({rows, withLongestRing(p, own, rows)});
    }
  all.push_back({most, s});
  return all;
}
/// Of a run: one row has the weight of one, more rows that of one for all of them, since several
/// tokens come with each.
double microsecondsOf(const StripProblem &p, const StripSchedule &s) {
  double sum = 0, weights = 0;
  for (const StripInstance &i : instancesOf(p, s)) {
    sum += microsecondsOf(p, i.schedule, i.rows) / double(i.rows);
    weights += 1 / double(i.rows);
  }
  return sum / weights;
}

/// What both tactics, of which T is one, do alike.
template <class T> struct StripOf {
  using Problem = StripProblem;
  using Schedule = StripSchedule;

  static bool forTensorCores(const GroupQuery &in) {
    return isMachineOf(kMmaSm80, in.level) && in.form.anchor &&
           in.form.anchor->isAny(Op::Conv, Op::MatMul);
  }

  /// Rings as long as there is room.
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (int64_t splits : {1, 2})
      for (int64_t tiles : {4, 2})
        for (int64_t strips : {4, 2}) {
          const Schedule s{tiles, strips, 2, splits};
          // More sums, or rows of a chunk, than registers hold.
          const int64_t rows = p.product.rows;
          if ((strips == 4 && rows > kRowsOfTile && p.product.block) ||
              geometryOf(p, s, rows).runs() > 4)
            continue;
          if (legal(p, s))
            out.push_back(withLongestRing(p, s, rows));
        }
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    if (s.strips % p.matrices() != 0)
      return impossible<T>(s,
                           "strips is a multiple of the matrices, " + std::to_string(p.matrices()));
    if (s.splits > 1 && !hasCopyEngine(p.in.level))
      return impossible<T>(s, "splits is 1 on " + p.in.level.name.str());
    if (auto room = fits(p, s, p.product.rows); !room)
      return impossible<T>(s, room.refusal().reason);
    return Accepted{};
  }

  static KeyValues computed(const Problem &p, const Schedule &s) {
    return {{"blocks", geometryOf(p, s, p.product.rows).blocks}};
  }

  static double microseconds(const Problem &p, const Schedule &s) { return microsecondsOf(p, s); }
  static double rank(const Problem &p, const Schedule &s) {
    const StripProduct &of = p.product;
    const double bytes = double(of.n * of.k * of.bits()) / 8 * double(p.matrices());
    // Contractions of as many rows as there may be are ranked on a scale on which one row is not.
    const double scale = of.count.isConstant() || of.rows < kScaledRows ? 1 : kContractionScale;
    return scale * microsecondsOf(p, s) *
           (1 - (1 - kCosts.beside) * std::min(1.0, bytes / kCosts.cold));
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    p.product.pack(out);
    for (const StripProduct &other : p.beside)
      other.pack(out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const StripProduct &product = p.product;
    const auto ofX = [&](const Strides &x) { return product.ofX(x); };
    const auto ofY = [&](const Strides &y) { return product.ofY(y); };
    const ScalarProgram &rows = p.norm ? p.norm->anchorInputs[0] : form.anchorInputs[0];

    out.include("cuda/strip/kernel.cuh");
    if (!rows.isPlainRead())
      out.include("cuda/base/computed.cuh");
    std::vector<BoundedKernel> kernels;
    for (const StripInstance &i : instancesOf(p, s)) {
      StepWriter::Config cfg(out,
                             i.rows == product.rows ? "config" : "config" + std::to_string(i.rows));
      cfg.extent("m", product.count).number("rows", i.rows);
      cfg.number("n", product.n).number("k", product.k);
      for (auto &[key, value] : membersOf(i.schedule))
        cfg.number(key, value);
      cfg.number("blocks", geometryOf(p, i.schedule, i.rows).blocks);
      if (p.norm)
        cfg.flag("whole", areNormsRunsWhole(p, out));
      else
        cfg.flag("aligned", isAligned(p, rows, out));
      kernels.push_back({i.rows, {cfg.finish()}});
    }
    const std::string x = operandView(out, rows, ofX, {0, 1}, "prologue");
    const auto [body, ins] = bodyOf(p, out);
    std::string norm = "cuda::no_norm{}";
    if (p.norm) {
      const Operation &op = *p.norm->anchor;
      const std::string functor = out.body(p.norm->body, {op.result()->type().element()}, "norm");
      const auto word = [](bool b) { return std::string(b ? "true" : "false"); };
      norm = "cuda::make_row_norm<" + word(op.boolAttr("centered")) + ", " +
             word(isNormConstant(p)) + ">(" + cppScalar(Element::F32, op.floatAttr("epsilon")) +
             ", " + out.inputs(p.norm->body, ofX) + ", " + functor + ")";
    }
    SourceWriter &code = out.code();
    code.line("const auto x = " + x + ";");
    code.line("const cuda::strip_matrices<" + std::to_string(p.matrices()) + ", " +
              typesOf(product) + "> w{{" + matrixText(product, out) +
              (p.beside.empty() ? "" : ", " + matrixText(p.beside[0], out)) + "}};");
    code.line("const auto outs = " + out.outputs(form, ofY) + ";");
    code.line("const auto ins = " + ins + ";");
    for (BoundedKernel &k : kernels)
      for (const std::string &argument : {std::string("x"), std::string("w"), std::string("outs"),
                                          std::string("ins"), body, norm})
        k.arguments.push_back(argument);
    launchFirstFor(out, product.count, hasCopyEngine(p.in.level) ? "strip_sm90" : "strip_sm80",
                   kernels);
  }

private:
  /// Rows that are multiplied as they lie in words of 16 bytes.
  static bool isAligned(const Problem &p, const ScalarProgram &rows, const StepWriter &out) {
    if (!rows.isPlainRead() || p.product.k % 8 != 0 ||
        rows.inputs[0].source->type().element() != p.product.multiplied)
      return false;
    const Strides s = p.product.ofX(stridesOf(rows.inputs[0], unsigned(rows.space.size())));
    return s.strides[1].isConstant(1) &&
           (p.product.rows == 1 ||
            (s.strides[0].isConstant() && s.strides[0].constant() % 8 == 0)) &&
           out.isAligned(rows.inputs[0].source, s.offset, 16);
  }
  /// What is normalised, and what the norm reads, lies in aligned runs of eight.
  static bool areNormsRunsWhole(const Problem &p, const StepWriter &out) {
    const auto areWhole = [&](const ScalarProgram &of) {
      return areReadInWholeRuns(
          out, of.inputs, unsigned(of.space.size()),
          [&](const Strides &s) { return p.product.ofX(s); }, 1, Dim(of.space.back()), 8);
    };
    return areWhole(p.norm->anchorInputs[0]) && areWhole(p.norm->body);
  }
  /// What the norm reads are constants, the same for all rows.
  static bool isNormConstant(const Problem &p) {
    const ScalarProgram &body = p.norm->body;
    return llvm::all_of(body.inputs, [&](const Access &a) {
      const Value *source = a.source;
      if (source->argumentOf() && p.in.form.group)
        source = p.in.form.group->operand(source->index());
      return source->def() && source->def()->is(Op::Constant) &&
             p.product.ofX(stridesOf(a, unsigned(body.space.size()))).strides[0].isConstant(0);
    });
  }
  /// The functor of the body, which takes the sums of all products, and its other operands.
  static std::pair<std::string, std::string> bodyOf(const Problem &p, StepWriter &out) {
    const ScalarProgram body = bodyOfSums(p.in.form);
    const std::string functor = out.body(body, sumsOf(p.in.form));
    return {functor, out.inputs(body, [&](const Strides &y) { return p.product.ofY(y); })};
  }
  static std::string typesOf(const StripProduct &p) {
    const std::string types = (cppElement(p.weights) + ", " + cppElement(p.multiplied)).str();
    return p.scalesOutputs() ? types + ", " + cppElement(p.scale).str() : types;
  }
  static std::string matrixText(const StripProduct &p, StepWriter &out) {
    const Dim zero = p.form->anchor->result()->type().context().dim(0);
    const auto constant = [&](unsigned i) {
      return out.pointer(p.form->anchorInputs[i].inputs[0].source, zero);
    };
    return "cuda::make_strip_weights<" + typesOf(p) + ">(" + constant(1) + ", " +
           (p.block ? constant(2)
                    : "static_cast<const " + cppElement(p.multiplied).str() + " *>(nullptr)") +
           ")";
  }
};

struct Strip : StripOf<Strip> {
  static constexpr llvm::StringRef id = "strip",
                                   summary = "1 to 16 rows of halves times constant weights of 16, "
                                             "8 or 4 bits on Tensor Cores";
  static constexpr bool takesPacked = true;
  static Result<Problem> match(const GroupQuery &in) { return readStrip(in); }
};

bool isNorm(const Operation &op) { return op.is(Op::Normalize); }
bool isProduct(const Operation &op) { return op.is(Op::MatMul); }

struct StripJoined : StripOf<StripJoined> {
  static constexpr llvm::StringRef id = "strip_joined",
                                   summary = "the same with a norm before the product, or another "
                                             "product of the same rows beside it";
  static constexpr bool takesPacked = true;
  static constexpr ChainPart kNormParts[] = {{isNorm, 1}, {isProduct, 1}};
  static constexpr ChainPart kGateParts[] = {{isProduct, 1}, {isProduct, 1}};
  static constexpr ChainPart kAllParts[] = {{isNorm, 2, 1}, {isProduct, 2}, {isProduct, 2}};
  static constexpr Chain chains[] = {
      {"fuse.norm-product", "a norm of few rows and the product of what it makes", kNormParts},
      {"fuse.gated-products",
       "two products of the same few rows, of which the second reads the "
       "first",
       kGateParts},
      {"fuse.norm-gated-products", "a norm of few rows and the two products of what it makes",
       kAllParts},
  };
  static Result<Problem> match(const GroupQuery &in) { return readStrip(in); }
};

} // namespace

const Tactic &kStrip = kTacticOf<Strip>;
const Tactic &kStripJoined = kTacticOf<StripJoined>;

} // namespace tenon::cuda
