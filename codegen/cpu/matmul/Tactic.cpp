// Defines the tactics of matrix products: `matmul` (constant right operand, packed into blocks of
// columns), `matmul_i8` (the same for 8-bit integers with exact 32-bit sums), `matmul_bf16` (of
// bf16 by pairs, runtime/cpu/matmul_bf16.h), `matmul_dynamic` (two run-time operands, blocked on
// the stack) and `matmul_direct` (whatever else: integers, computed operands).
#include "codegen/core/TacticOf.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/core/Work.h"
#include "codegen/cpu/matmul/Problem.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/cpu/shared/Prologue.h"
#include "codegen/cpu/shared/Tile.h"
#include "codegen/cpu/shared/Window.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace tenon::cpu {
namespace {

/// A product of operands of one kind.
Result<> matchProduct(const GroupQuery &in) {
  return matchAnchor(in, Op::MatMul).andThen([&] { return isWithoutScales(*in.form.anchor); });
}

/// What sums accumulate in, and how many of them a vector holds.
Element sumsOf(const GroupQuery &in) {
  return accumulatorOf(in.form.anchor->result()->type().element());
}
unsigned widthOf(const GroupQuery &in) { return lanesFor(in.level, sumsOf(in)); }

//===----------------------------------------------------------------------===//
// matmul
//===----------------------------------------------------------------------===//

struct PackedProblem {
  GroupQuery in;
  MatMulProblem product;
  PackedNest nest;
  unsigned depth, tensor; // of a: its dimension k, and the input that prologues work on

  /// Rows that one call of the register tile may take.
  int64_t rows() const {
    Context &c = in.form.anchor->result()->type().context();
    return std::max<int64_t>(1, nest.extents(c)[2].upper());
  }
};

Result<PackedProblem> packedProblem(const GroupQuery &in) {
  const GroupForm &f = in.form;
  if (!constantOperand(f, 1))
    return Refusal{"right operand known only at run time", ""};
  MatMulProblem p(*f.anchor);
  if (!p.space[p.k].isConstant())
    return Refusal{"depth known only at run time", ""};
  const unsigned depth = f.anchor->operand(0)->type().rank() - (p.transA ? 2 : 1);
  auto tensor = prologueTensor(f.anchorInputs[0], depth, sumsOf(in));
  if (!tensor)
    return std::move(tensor).refusal();
  auto nest = packedNest(in, p);
  if (!nest)
    return std::move(nest).refusal();
  return PackedProblem{in, std::move(p), *std::move(nest), depth, *tensor};
}

struct PackedNames {
  llvm::StringLiteral id, summary, kernel;
};
constexpr PackedNames packedNames(Factors factors) {
  switch (factors) {
  case Factors::Floats:
    return {"matmul", "product with a packed constant, register-blocked", "matmul"};
  case Factors::Bytes:
    return {"matmul_i8", "product of 8-bit integers with a packed constant, exact 32-bit sums",
            "matmul"};
  case Factors::Bf16: break;
  }
  return {"matmul_bf16", "product of bf16 with a packed constant by pairs, sums in f32",
          "matmul_bf16"};
}

template <Factors F> struct Packed {
  static constexpr llvm::StringLiteral id = packedNames(F).id, summary = packedNames(F).summary;
  using Problem = PackedProblem;
  using Schedule = TileSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = matchProduct(in).andThen([&] { return multiplies(in, F); }).andThen([&] {
      return packedProblem(in);
    });
    if (p && mostRows(*p) == 0)
      return Refusal{"rows too long for the stack", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const int64_t columns = p.product.space[p.product.n].upper();
    for (const TileShape &t :
         tileShapes(p.rows(), columns, widthOf(p.in), p.in.level.simdRegisters))
      out.push_back({{std::min(t.mr, mostRows(p)), t.nr}});
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    if (s.mr > mostRows(p))
      return impossible<Packed>(s, "so many rows have no room on the stack");
    return isWholeTile<Packed>(s, p.in.level, widthOf(p.in));
  }

  static double microseconds(const Problem &problem, const Schedule &s) {
    const MatMulProblem &p = problem.product;
    const TargetLevel &level = problem.in.level;
    double outer = 1;
    for (unsigned d = 0; d <= p.m; ++d)
      outer *= double(p.space[d].upper());
    const int64_t rows = problem.rows();
    return (F == Factors::Floats ? storageCost(problem.in) : 1) *
               tileCost(level, s, widthOf(problem.in), rows, p.space[p.n].upper(),
                        double(p.space[p.k].upper()), outer / double(rows)) +
           double(workOf(*problem.in.form.group).bytes) / (level.bandwidthGBs * 1e3) * 0.2;
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    const Value *source = p.in.form.anchorInputs[1].inputs[0].source;
    const Type b = source->type();
    const bool turned = p.product.transB;
    const int n = int(b.rank()) - (turned ? 2 : 1), k = int(b.rank()) - (turned ? 1 : 2);
    if (F == Factors::Bf16) {
      llvm::SmallVector<int, 4> batches;
      for (unsigned d = 0; d + 2 < b.rank(); ++d)
        batches.push_back(int(d));
      out.push_back({source->index(), packedWords(b, batches, n, {k}, widthOf(p.in), 2)});
      return;
    }
    llvm::SmallVector<LayoutAxis, 6> axes;
    for (unsigned d = 0; d + 2 < b.rank(); ++d)
      axes.push_back({int(d), 0, false, Dim(), 0});
    axes.push_back({n, s.nr, false, Dim(), 0});
    axes.push_back({k, 0, false, Dim(), 0});
    axes.push_back({n, s.nr, true, Dim(), 0});
    out.push_back({source->index(), Layout::get(b.context(), axes)});
  }

  static void emit(const Problem &problem, const Schedule &s, StepWriter &out) {
    const GroupForm &form = problem.in.form;
    const Operation &op = *form.anchor;
    Context &c = op.result()->type().context();
    const MatMulProblem &p = problem.product;
    const PackedNest &nest = problem.nest;
    const ScalarProgram &a = form.anchorInputs[0];
    const Element e = sumsOf(problem.in);

    const llvm::StringRef kernel = packedNames(F).kernel;
    out.include("cpu/" + kernel.str() + ".h");
    StepWriter::Config cfg(out, "config", "cpu::matmul_defaults");
    const auto extents = nest.extents(c);
    cfg.extent("batch0", extents[0]).extent("batch1", extents[1]).extent("m", extents[2]);
    cfg.extent("n", p.space[p.n]).extent("k", p.space[p.k]);
    const Strides b = nest.leading(
        F == Factors::Bf16 ? packedStrides(p, op.operand(1)->type(), widthOf(problem.in), 2)
                           : packedStrides(p, op.operand(1)->type(), s.nr));
    for (size_t i = 0; i < b.strides.size(); ++i)
      cfg.extent(i + 1 == b.strides.size() ? "b_stride1" : "b_stride0", b.strides[i]);
    cfg.number("mr", s.mr).number("nr", s.nr);
    if (F != Factors::Bf16 && (!a.isPlainRead() || hasZeroPoint(form)))
      cfg.flag("filters_outer", false);
    if (e == Element::F64)
      cfg.type("lanes", lanesType(widthOf(problem.in)));
    cfg.type("accumulator", cppElement(e));
    const std::string config = cfg.finish();

    auto overResult = [&](const Strides &x) { return nest(p.widen(x), p); };
    // a has no n, and k stands in its place.
    Strides x = p.spread(0, stridesOf(a.inputs[problem.tensor], unsigned(a.space.size())), a.space);
    x.strides[p.n] = x.strides[p.k];
    SourceWriter &w = out.code();
    const std::string body = out.body(form.body, {op.result()->type().element()});
    const std::string prologue =
        prologueArguments(out, a, problem.tensor, problem.depth) + zeroPointArguments(out, form);
    w.line("const auto a = " + out.view(a.inputs[problem.tensor].source, nest(x, p)) + ";");
    w.line("const auto *b = " + out.pointer(form.anchorInputs[1].inputs[0].source, c.dim(0)) + ";");
    w.line("const auto outs = " + out.outputs(form, overResult) + ";");
    w.line("const auto ins = " + inputsIn(out, form.body, overResult, nest.placeOf(p)) + ";");
    w.line("cpu::" + kernel.str() + "(" + config + ", a, b, outs, ins, " + body + ", *f.workers" +
           prologue + ");");
  }

private:
  static int64_t mostRows(const Problem &p) {
    return F == Factors::Bf16 ? mostRowsOfPairs((p.product.space[p.product.k].constant() + 1) / 2)
                              : INT64_MAX;
  }
};

//===----------------------------------------------------------------------===//
// matmul_dynamic
//===----------------------------------------------------------------------===//

/// Leading dimensions of the result, merged; m and n stay.
MergedDims leadingDims(const GroupQuery &in, const MatMulProblem &p) {
  const GroupForm &form = in.form;
  std::vector<Strides> operands;
  for (unsigned i = 0; i < 2; ++i) {
    const ScalarProgram &x = form.anchorInputs[i];
    operands.push_back(p.spread(i, stridesOf(x.inputs[0], unsigned(x.space.size())), x.space));
  }
  for (const Strides &s : bodyStrides(form))
    operands.push_back(p.widen(s));
  llvm::SmallVector<bool, 6> kept = indexedDims(form.body);
  kept.push_back(false);
  llvm::SmallVector<unsigned, 6> leading;
  for (unsigned d = 0; d < p.m; ++d)
    leading.push_back(d);
  return mergeDims(p.space, leading, operands, kept);
}

/// Whether both operands are 8-bit integers, whose products are summed by pairs.
bool hasPairs(const GroupForm &f) {
  return llvm::all_of(f.anchor->operands(), [](Value *v) {
    return isInteger(v->type().element()) && bitWidth(v->type().element()) == 8;
  });
}

/// The zero point of operand i.
int64_t zeroOf(const GroupForm &f, unsigned i) {
  if (i + 2 >= f.anchorInputs.size())
    return 0;
  return (*constantOperand(f, i + 2)->def()->find("value")->get<Literal>())->intAt(0);
}

Result<> matchPairs(const GroupQuery &in) {
  const GroupForm &f = in.form;
  if (!in.level.family->facts.hosted)
    return Refusal{"copies too large for small stacks", ""};
  for (unsigned i = 2; i < f.anchorInputs.size(); ++i)
    if (!constantOperand(f, i) || f.anchor->operand(i)->type().upperElements() != 1)
      return Refusal{"zero points known only at run time, or one for each column", ""};
  if (constantOperand(f, 1) && zeroOf(f, 1) == 0)
    return Refusal{"weights that are known are packed", ""};
  return Accepted{};
}

struct Dynamic {
  static constexpr llvm::StringLiteral id = "matmul_dynamic",
                                       summary =
                                           "product of two run-time operands, blocked on the stack";
  struct Problem {
    GroupQuery in;
    MatMulProblem product;
    MergedDims leading;
    bool pairs;

    /// Blocks of columns that share the copies of a: small stacks have room for one.
    int64_t panels() const { return in.level.family->facts.hosted ? 4 : 1; }
  };
  using Schedule = TileSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    const GroupForm &f = in.form;
    if (auto product = matchProduct(in); !product)
      return std::move(product).refusal();
    const bool pairs = hasPairs(f);
    if (pairs)
      if (auto matched = matchPairs(in); !matched)
        return std::move(matched).refusal();
    if (!isFloat(f.anchor->operand(0)->type().element()) && !pairs)
      return Refusal{"integer operands of more than 8 bits", ""};
    if (!f.anchorInputs[0].isPlainRead() || !f.anchorInputs[1].isPlainRead())
      return Refusal{"an operand computed in the group", ""};
    MatMulProblem product(*f.anchor);
    MergedDims leading = leadingDims(in, product);
    if (leading.extents.size() > 2)
      return Refusal{"more than two leading dimensions that do not merge", ""};
    return Problem{in, std::move(product), std::move(leading), pairs};
  }

  static void candidates(const Problem &problem, std::vector<Schedule> &out) {
    const MatMulProblem &p = problem.product;
    for (const TileShape &t : tileShapes(p.space[p.m].upper(), p.space[p.n].upper(),
                                         widthOf(problem.in), problem.in.level.simdRegisters))
      if (t.mr > 1 || p.space[p.m].upper() == 1)
        out.push_back({t});
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    return isWholeTile<Dynamic>(s, p.in.level, widthOf(p.in));
  }

  /// The packed product and the copying of both operands.
  static double microseconds(const Problem &problem, const Schedule &s) {
    const MatMulProblem &p = problem.product;
    const TargetLevel &level = problem.in.level;
    double batch = 1;
    for (unsigned d = 0; d < p.m; ++d)
      batch *= double(p.space[d].upper());
    const double m = double(p.space[p.m].upper()), n = double(p.space[p.n].upper()),
                 k = double(p.space[p.k].upper());
    const double panels = std::ceil(n / double(s.nr * problem.panels()));
    const double depth = problem.pairs ? k / 2 : k;
    return tileCost(level, s, widthOf(problem.in), int64_t(m), int64_t(n), depth, batch) +
           batch * k * (n + m * panels) * 4 / (level.bandwidthGBs * 1e3);
  }

  static void emit(const Problem &problem, const Schedule &s, StepWriter &out) {
    const GroupForm &form = problem.in.form;
    const Operation &op = *form.anchor;
    Context &c = op.result()->type().context();
    const MatMulProblem &p = problem.product;
    const MergedDims &leading = problem.leading;
    const Element e = sumsOf(problem.in);
    llvm::SmallVector<Dim, 2> batches(2 - leading.extents.size(), c.dim(1));
    batches.append(leading.extents.begin(), leading.extents.end());

    out.include("cpu/matmul_dynamic.h");
    StepWriter::Config cfg(out, "config", "cpu::matmul_dynamic_defaults");
    cfg.extent("batch0", batches[0]).extent("batch1", batches[1]);
    cfg.extent("m", p.space[p.m]).extent("n", p.space[p.n]).extent("k", p.space[p.k]);
    cfg.number("mr", s.mr).number("nr", s.nr);
    if (problem.panels() > 1)
      cfg.number("panels", problem.panels());
    if (e == Element::F64)
      cfg.type("lanes", lanesType(widthOf(problem.in)));
    cfg.type("accumulator", cppElement(e));
    if (problem.pairs)
      cfg.flag("pairs", true)
          .constant("zero_a", zeroOf(form, 0))
          .constant("zero_b", zeroOf(form, 1));
    const std::string config = cfg.finish();

    // Strides over (b0, b1, then two of m, n and k).
    auto select = [&](const Strides &wide, unsigned row, unsigned column) {
      Strides r, l = leading(wide);
      r.offset = wide.offset;
      r.strides.assign(2 - l.strides.size(), c.dim(0));
      r.strides.append(l.strides.begin(), l.strides.end());
      r.strides.push_back(wide.strides[row]);
      r.strides.push_back(wide.strides[column]);
      return r;
    };
    auto operand = [&](unsigned i) {
      const ScalarProgram &x = form.anchorInputs[i];
      const Strides wide = p.spread(i, stridesOf(x.inputs[0], unsigned(x.space.size())), x.space);
      return out.view(x.inputs[0].source, i == 0 ? select(wide, p.m, p.k) : select(wide, p.k, p.n));
    };
    auto overResult = [&](const Strides &x) { return select(p.widen(x), p.m, p.n); };
    llvm::SmallVector<int, 6> places;
    for (unsigned d = 0; d < p.k; ++d)
      places.push_back(d == p.m   ? 2
                       : d == p.n ? 3
                       : leading.placeOf[d] < 0
                           ? -1
                           : leading.placeOf[d] + 2 - int(leading.extents.size()));
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &w = out.code();
    w.line("const auto a = " + operand(0) + ";");
    w.line("const auto b = " + operand(1) + ";");
    w.line("const auto outs = " + out.outputs(form, overResult) + ";");
    w.line("const auto ins = " + inputsIn(out, form.body, overResult, places) + ";");
    w.line("cpu::matmul_dynamic(" + config + ", a, b, outs, ins, " + body + ", *f.workers);");
  }
};

//===----------------------------------------------------------------------===//
// matmul_direct
//===----------------------------------------------------------------------===//

struct Direct {
  static constexpr llvm::StringLiteral id = "matmul_direct",
                                       summary = "product of any operands, one sum at a time";
  struct Problem {
    GroupQuery in;
    MatMulProblem product;
  };
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    if (auto product = matchProduct(in); !product)
      return std::move(product).refusal();
    for (const ScalarProgram &p : in.form.anchorInputs) {
      if (auto unbounded = isUnbounded(p); !unbounded)
        return std::move(unbounded).refusal();
      if (p.usesIndex())
        return Refusal{"an operand is computed from its index", ""};
    }
    return Problem{in, MatMulProblem(*in.form.anchor)};
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p.in); }

  static void emit(const Problem &problem, const Schedule &, StepWriter &out) {
    const GroupForm &form = problem.in.form;
    const Operation &op = *form.anchor;
    const MatMulProblem &p = problem.product;
    const auto places = inPlaceDims(p.rank());
    out.include("cpu/matmul_direct.h");
    auto operand = [&](unsigned i, llvm::StringRef name) {
      const ScalarProgram &x = form.anchorInputs[i];
      return operandView(
          out, x, [&](const Strides &s) { return p.spread(i, s, x.space); }, places, name);
    };
    auto zero = [&](unsigned i, llvm::StringRef suffix) {
      return zeroPointView(out, form, i, unsigned(p.rank()), /*along: columns*/ unsigned(p.n),
                           suffix);
    };
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &w = out.code();
    w.line("const auto a = " + operand(0, "a") + ";");
    w.line("const auto b = " + operand(1, "b") + ";");
    w.line("const auto outs = " + out.outputs(form) + ";");
    w.line("const auto ins = " + out.inputs(form.body) + ";");
    w.line("cpu::matmul_direct<" + cppElement(sumsOf(problem.in)).str() + ">(" +
           out.dims().list(form.body.space) + ", " + out.dims().list({p.space[p.k]}) +
           ".head, a, " + zero(2, "a_zero") + ", b, " + zero(3, "b_zero") + ", outs, ins, " + body +
           ", *f.workers);");
  }
};

} // namespace

const Tactic &kMatMul = kTacticOf<Packed<Factors::Floats>>;
const Tactic &kMatMulInt8 = kTacticOf<Packed<Factors::Bytes>>;
const Tactic &kMatMulBf16 = kTacticOf<Packed<Factors::Bf16>>;
const Tactic &kMatMulDynamic = kTacticOf<Dynamic>;
const Tactic &kMatMulDirect = kTacticOf<Direct>;

} // namespace tenon::cpu
