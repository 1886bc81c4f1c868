// Defines the tactics of matrix products: `matmul` (constant right operand, packed into blocks of
// columns), `matmul_i8` (the same for 8-bit integers with exact 32-bit sums), `matmul_dynamic` (two
// run-time operands, blocked on the stack) and `matmul_direct` (whatever else: integers, computed
// operands).
#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cpu/MatMulProblem.h"
#include "codegen/cpu/Operands.h"
#include "codegen/cpu/Prologue.h"
#include "codegen/cpu/Tile.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace tenon::cpu {
namespace {

/// A product of operands of one kind.
bool matchProduct(const TacticInput &in, std::string &why) {
  return matchAnchor(in, Op::MatMul, why) && isWithoutScales(*in.form.anchor, why);
}

//===----------------------------------------------------------------------===//
// matmul
//===----------------------------------------------------------------------===//

/// What both element types ask for.
bool matchPacked(const TacticInput &in, std::string &why) {
  const GroupForm &f = in.form;
  if (!constantOperand(f, 1)) {
    why = "right operand known only at run time";
    return false;
  }
  const MatMulProblem p(*f.anchor);
  if (!p.space[p.k].isConstant()) {
    why = "depth known only at run time";
    return false;
  }
  const unsigned rank = f.anchor->operand(0)->type().rank();
  const Element sums = accumulatorOf(f.anchor->result()->type().element());
  return prologueTensor(f.anchorInputs[0], rank - (p.transA ? 2 : 1), sums, why) &&
         packedNest(in, p, 16, why);
}

bool matchFloat(const TacticInput &in, std::string &why) {
  if (!matchProduct(in, why))
    return false;
  if (!isFloat(in.form.anchor->operand(0)->type().element())) {
    why = "integer operands";
    return false;
  }
  return matchPacked(in, why);
}

bool matchInt8(const TacticInput &in, std::string &why) {
  return matchProduct(in, why) && matchInt8Operands(in.form, why) && matchPacked(in, why);
}

/// Rows that one call of the register tile may take.
int64_t rowsOf(const TacticInput &in, const MatMulProblem &p) {
  std::string why;
  return std::max<int64_t>(
      1,
      packedNest(in, p, 16, why)->extents(in.form.anchor->result()->type().context())[2].upper());
}

void enumerateTiles(const TacticInput &in, llvm::StringRef tactic,
                    llvm::SmallVectorImpl<Schedule> &out) {
  const MatMulProblem p(*in.form.anchor);
  const unsigned width =
      lanesFor(in.level, accumulatorOf(in.form.anchor->result()->type().element()));
  for (const TileShape &t :
       tileShapes(rowsOf(in, p), p.space[p.n].upper(), width, in.level.simdRegisters))
    out.push_back({tactic.str(), {{"mr", t.mr}, {"nr", t.nr}}});
}
void enumeratePacked(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  enumerateTiles(in, "matmul", out);
}
void enumerateInt8(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  enumerateTiles(in, "matmul_i8", out);
}

double costPacked(const TacticInput &in, const Schedule &s) {
  const MatMulProblem p(*in.form.anchor);
  const unsigned width =
      lanesFor(in.level, accumulatorOf(in.form.anchor->result()->type().element()));
  double outer = 1;
  for (unsigned d = 0; d <= p.m; ++d)
    outer *= double(p.space[d].upper());
  const int64_t rows = rowsOf(in, p);
  return tileCost(in.level, {*s.get("mr"), *s.get("nr")}, width, rows, p.space[p.n].upper(),
                  double(p.space[p.k].upper()), outer / double(rows)) +
         double(workOf(*in.form.group).bytes) / (in.level.bandwidthGBs * 1e3) * 0.2;
}

void packB(const TacticInput &in, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
  const MatMulProblem p(*in.form.anchor);
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  const Type b = source->type();
  const int64_t nr = *s.get("nr");
  const int n = int(b.rank()) - (p.transB ? 2 : 1), k = int(b.rank()) - (p.transB ? 1 : 2);
  llvm::SmallVector<LayoutAxis, 6> axes;
  for (unsigned d = 0; d + 2 < b.rank(); ++d)
    axes.push_back({int(d), 0, false, Dim(), 0});
  axes.push_back({n, nr, false, Dim(), 0});
  axes.push_back({k, 0, false, Dim(), 0});
  axes.push_back({n, nr, true, Dim(), 0});
  out.push_back({source->index(), Layout::get(b.context(), axes)});
}

void emitPacked(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  Context &c = op.result()->type().context();
  const MatMulProblem p(op);
  std::string why;
  const PackedNest nest = *packedNest(in, p, *s.get("nr"), why);
  const ScalarProgram &a = form.anchorInputs[0];
  const unsigned kDim = unsigned(a.space.size()) - (p.transA ? 2 : 1);
  const Element e = accumulatorOf(op.result()->type().element());
  const unsigned tensor = *prologueTensor(a, kDim, e, why);

  out.include("cpu/matmul.h");
  StepWriter::Config cfg(out, "config", "cpu::matmul_defaults");
  const auto extents = nest.extents(c);
  cfg.extent("batch0", extents[0]).extent("batch1", extents[1]).extent("m", extents[2]);
  cfg.extent("n", p.space[p.n]).extent("k", p.space[p.k]);
  const Strides b = nest.leading(nest.b);
  for (size_t i = 0; i < b.strides.size(); ++i)
    cfg.extent(i + 1 == b.strides.size() ? "b_stride1" : "b_stride0", b.strides[i]);
  cfg.number("mr", *s.get("mr")).number("nr", *s.get("nr"));
  if (!a.isPlainRead() || hasZeroPoint(form))
    cfg.flag("filters_outer", false);
  if (e == Element::F64)
    cfg.type("lanes", lanesType(lanesFor(in.level, e)));
  cfg.type("accumulator", cppElement(e));
  const std::string config = cfg.finish();

  auto overResult = [&](const Strides &x) { return nest(p.widen(x), p); };
  // a has no n, and k stands in its place.
  Strides x = p.spread(0, stridesOf(a.inputs[tensor], unsigned(a.space.size())), a.space);
  x.strides[p.n] = x.strides[p.k];
  SourceWriter &w = out.code();
  const std::string body = out.body(form.body, {op.result()->type().element()});
  const std::string prologue =
      prologueArguments(out, a, tensor, kDim) + zeroPointArguments(out, form);
  w.line("const auto a = " + out.view(a.inputs[tensor].source, nest(x, p)) + ";");
  w.line("const auto *b = " + out.pointer(form.anchorInputs[1].inputs[0].source, c.dim(0)) + ";");
  w.line("const auto outs = " + out.outputs(form, overResult) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, overResult, nest.placeOf(p)) + ";");
  w.line("cpu::matmul(" + config + ", a, b, outs, ins, " + body + ", *f.workers" + prologue + ");");
}

//===----------------------------------------------------------------------===//
// matmul_dynamic
//===----------------------------------------------------------------------===//

/// Leading dimensions of the result, merged; m and n stay.
MergedDims leadingDims(const TacticInput &in, const MatMulProblem &p) {
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

bool matchPairs(const TacticInput &in, std::string &why) {
  const GroupForm &f = in.form;
  if (!in.level.family->facts.hosted) {
    why = "copies too large for small stacks";
    return false;
  }
  for (unsigned i = 2; i < f.anchorInputs.size(); ++i)
    if (!constantOperand(f, i) || f.anchor->operand(i)->type().upperElements() != 1) {
      why = "zero points known only at run time, or one for each column";
      return false;
    }
  if (constantOperand(f, 1) && zeroOf(f, 1) == 0) {
    why = "weights that are known are packed";
    return false;
  }
  return true;
}

bool matchDynamic(const TacticInput &in, std::string &why) {
  if (!matchProduct(in, why))
    return false;
  const GroupForm &f = in.form;
  if (hasPairs(f) && !matchPairs(in, why))
    return false;
  if (!isFloat(f.anchor->operand(0)->type().element()) && !hasPairs(f)) {
    why = "integer operands of more than 8 bits";
    return false;
  }
  if (!f.anchorInputs[0].isPlainRead() || !f.anchorInputs[1].isPlainRead()) {
    why = "an operand computed in the group";
    return false;
  }
  if (leadingDims(in, MatMulProblem(*f.anchor)).extents.size() > 2) {
    why = "more than two leading dimensions that do not merge";
    return false;
  }
  return true;
}

void enumerateDynamic(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  const MatMulProblem p(*in.form.anchor);
  const unsigned width =
      lanesFor(in.level, accumulatorOf(in.form.anchor->result()->type().element()));
  for (const TileShape &t :
       tileShapes(p.space[p.m].upper(), p.space[p.n].upper(), width, in.level.simdRegisters))
    if (t.mr > 1 || p.space[p.m].upper() == 1)
      out.push_back({"matmul_dynamic", {{"mr", t.mr}, {"nr", t.nr}}});
}

/// The packed product and the copying of both operands.
double costDynamic(const TacticInput &in, const Schedule &s) {
  const MatMulProblem p(*in.form.anchor);
  const unsigned width =
      lanesFor(in.level, accumulatorOf(in.form.anchor->result()->type().element()));
  double batch = 1;
  for (unsigned d = 0; d < p.m; ++d)
    batch *= double(p.space[d].upper());
  const double m = double(p.space[p.m].upper()), n = double(p.space[p.n].upper()),
               k = double(p.space[p.k].upper());
  const double panels = std::ceil(n / double(*s.get("nr")));
  const double depth = hasPairs(in.form) ? k / 2 : k;
  return tileCost(in.level, {*s.get("mr"), *s.get("nr")}, width, int64_t(m), int64_t(n), depth,
                  batch) +
         batch * k * (n + m * panels) * 4 / (in.level.bandwidthGBs * 1e3);
}

void emitDynamic(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  Context &c = op.result()->type().context();
  const MatMulProblem p(op);
  const MergedDims leading = leadingDims(in, p);
  const Element e = accumulatorOf(op.result()->type().element());
  llvm::SmallVector<Dim, 2> batches(2 - leading.extents.size(), c.dim(1));
  batches.append(leading.extents.begin(), leading.extents.end());

  out.include("cpu/matmul_dynamic.h");
  StepWriter::Config cfg(out, "config", "cpu::matmul_dynamic_defaults");
  cfg.extent("batch0", batches[0]).extent("batch1", batches[1]);
  cfg.extent("m", p.space[p.m]).extent("n", p.space[p.n]).extent("k", p.space[p.k]);
  cfg.number("mr", *s.get("mr")).number("nr", *s.get("nr"));
  if (e == Element::F64)
    cfg.type("lanes", lanesType(lanesFor(in.level, e)));
  cfg.type("accumulator", cppElement(e));
  if (hasPairs(form))
    cfg.flag("pairs", true).number("zero_a", zeroOf(form, 0)).number("zero_b", zeroOf(form, 1));
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

//===----------------------------------------------------------------------===//
// matmul_direct
//===----------------------------------------------------------------------===//

bool matchDirect(const TacticInput &in, std::string &why) {
  if (!matchProduct(in, why))
    return false;
  for (const ScalarProgram &p : in.form.anchorInputs) {
    if (!isUnbounded(p, why))
      return false;
    if (p.usesIndex()) {
      why = "an operand is computed from its index";
      return false;
    }
  }
  return true;
}

void enumerateDirect(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"matmul_direct", {}});
}

double costDirect(const TacticInput &in, const Schedule &) { return directCost(in); }

void emitDirect(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const MatMulProblem p(op);
  const auto places = inPlaceDims(p.rank());
  out.include("cpu/matmul_direct.h");
  auto operand = [&](unsigned i, llvm::StringRef name) {
    const ScalarProgram &x = form.anchorInputs[i];
    return operandView(
        out, x, [&](const Strides &s) { return p.spread(i, s, x.space); }, places, name);
  };
  // Zero points are scalars, that of b perhaps one per column.
  auto zero = [&](unsigned i, llvm::StringRef name) -> std::string {
    if (i >= form.anchorInputs.size())
      return "cpu::no_zero_point{}";
    const ScalarProgram &z = form.anchorInputs[i];
    return operandView(
        out, z,
        [&](const Strides &s) {
          Strides w;
          w.offset = s.offset;
          w.strides.assign(p.rank(), s.offset.node()->context->dim(0));
          if (!s.strides.empty() && !z.space[0].isConstant(1))
            w.strides[p.n] = s.strides[0];
          return w;
        },
        places, name);
  };
  const std::string body = out.body(form.body, {op.result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto a = " + operand(0, "a") + ";");
  w.line("const auto b = " + operand(1, "b") + ";");
  w.line("const auto outs = " + out.outputs(form) + ";");
  w.line("const auto ins = " + out.inputs(form.body) + ";");
  w.line("cpu::matmul_direct<" + cppElement(accumulatorOf(op.result()->type().element())).str() +
         ">(" + out.dims().list(form.body.space) + ", " + out.dims().list({p.space[p.k]}) +
         ".head, a, " + zero(2, "a_zero") + ", b, " + zero(3, "b_zero") + ", outs, ins, " + body +
         ", *f.workers);");
}

} // namespace

const Tactic kMatMul = {"matmul",   "product with a packed constant, register-blocked",
                        matchFloat, enumeratePacked,
                        costPacked, packB,
                        nullptr,    emitPacked};
const Tactic kMatMulInt8 = {
    "matmul_i8", "product of 8-bit integers with a packed constant, exact 32-bit sums",
    matchInt8,   enumerateInt8,
    costPacked,  packB,
    nullptr,     emitPacked};
const Tactic kMatMulDynamic = {
    "matmul_dynamic", "product of two run-time operands, blocked on the stack",
    matchDynamic,     enumerateDynamic,
    costDynamic,      nullptr,
    nullptr,          emitDynamic};
const Tactic kMatMulDirect = {"matmul_direct", "product of any operands, one sum at a time",
                              matchDirect,     enumerateDirect,
                              costDirect,      nullptr,
                              nullptr,         emitDirect};

} // namespace tenon::cpu
