// Defines the tactic `attention`: one pass over keys and values for a block of queries, whose
// scores stay in the first cache (runtime/cpu/attention.h).
#include "codegen/cpu/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cpu/Operands.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {
namespace {

/// Larger heads do not fit the stack that a block may take.
constexpr int64_t kLargestHead = 256;
/// Keys whose scores are held at once, or a few more to make whole blocks.
constexpr int64_t kTile = 64;

/// The dimensions of an attention as the kernel takes them: leading ones merged, then two of an
/// operand's own.
class Problem {
public:
  explicit Problem(const GroupForm &form) : form_(form), c_(result().context()) {
    space_.assign(result().shape().begin(), result().shape().end());
    std::vector<Strides> operands{spread(stridesOf(form.outputs[0], rank()), result().shape())};
    for (unsigned i = 0; i < form.anchorInputs.size(); ++i)
      operands.push_back(operand(i));
    llvm::SmallVector<unsigned, 6> order;
    for (unsigned d = 0; d + 2 < rank(); ++d)
      order.push_back(d);
    leading_ = mergeDims(space_, order, operands);
  }

  llvm::ArrayRef<Dim> leading() const { return leading_.extents; }
  Dim queries() const { return space_[rank() - 2]; }
  Dim keys() const { return own(1)[own(1).size() - 2]; }
  Dim depth() const { return own(0).back(); }
  Dim extent() const { return space_.back(); }

  /// Strides of operand i, and of the result, over (leading…, row, column).
  Strides view(unsigned i) const { return merged(operand(i)); }
  Strides resultView() const {
    return merged(spread(stridesOf(form_.outputs[0], rank()), result().shape()));
  }

private:
  Type result() const { return form_.anchor->result()->type(); }
  unsigned rank() const { return result().rank(); }
  llvm::ArrayRef<Dim> own(unsigned i) const { return form_.anchorInputs[i].space; }

  Strides operand(unsigned i) const {
    const ScalarProgram &x = form_.anchorInputs[i];
    Strides s = spread(stridesOf(x.inputs[0], unsigned(x.space.size())), x.space);
    if (x.space.back().isConstant(1) && i < 3)
      s.strides.back() = c_.dim(1); // whatever it is, nothing lies between
    return s;
  }
  /// Strides over an operand's own dimensions, aligned at the right with those of the result.
  Strides spread(const Strides &own, llvm::ArrayRef<Dim> shape) const {
    Strides s;
    s.offset = own.offset;
    s.strides.assign(rank(), c_.dim(0));
    for (size_t d = 0; d < shape.size(); ++d)
      if (!shape[d].isConstant(1))
        s.strides[rank() - shape.size() + d] = own.strides[d];
    return s;
  }
  Strides merged(const Strides &s) const {
    Strides r = leading_(s);
    r.strides.append(s.strides.end() - 2, s.strides.end());
    return r;
  }

  const GroupForm &form_;
  Context &c_;
  llvm::SmallVector<Dim, 6> space_;
  MergedDims leading_;
};

bool match(const TacticInput &in, std::string &why) {
  if (!matchAlone(in, Op::Attention, why))
    return false;
  const Problem p(in.form);
  const Element e = in.form.anchor->operand(0)->type().element();
  if (in.level.family != Family::Cpu)
    why = "blocks too large for small stacks";
  else if (e == Element::F64)
    why = "elements of f64";
  else if (!p.depth().isConstant() || !p.extent().isConstant() ||
           std::max(p.depth().constant(), p.extent().constant()) > kLargestHead)
    why = "heads of more than " + std::to_string(kLargestHead) + " elements";
  else if (!p.view(1).strides.back().isConstant(1) || !p.view(2).strides.back().isConstant(1))
    why = "keys or values that are not contiguous along their last dimension";
  return why.empty();
}

/// Registers of queries, and keys or elements of values, whose sums stay in registers beside the
/// queries and one broadcast.
struct Shape {
  int64_t vectors, rows;
};
llvm::ArrayRef<Shape> shapes(const TargetLevel &level) {
  static const Shape kSixteen[] = {{3, 4}, {2, 6}, {1, 12}};
  static const Shape kThirtyTwo[] = {{4, 6}, {3, 8}, {2, 12}, {1, 16}};
  if (level.simdRegisters >= 32)
    return kThirtyTwo;
  return kSixteen;
}

void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  const int64_t queries = std::max<int64_t>(1, Problem(in.form).queries().upper());
  const auto needed = int64_t(llvm::divideCeil(queries, lanesFor(in.level, Element::F32)));
  for (const Shape &s : shapes(in.level))
    if (s.vectors <= needed || s.vectors == 1)
      out.push_back({"attention", {{"vectors", s.vectors}, {"rows", s.rows}}});
}

/// Multiply-adds of whole blocks, and for each score as much again as 16 of them for its
/// exponential and the search of the largest.
double cost(const TacticInput &in, const Schedule &s) {
  const Problem p(in.form);
  const auto vectors = double(*s.get("vectors")), rows = double(*s.get("rows"));
  const int64_t block = *s.get("vectors") * lanesFor(in.level, Element::F32);
  double batches = 1;
  for (Dim d : p.leading())
    batches *= double(d.upper());
  auto whole = [](int64_t n, int64_t step) { return double(llvm::divideCeil(n, step) * step); };
  const double queries = whole(p.queries().upper(), block), keys = double(p.keys().upper());
  const auto depth = double(p.depth().upper());
  const double elements = whole(p.extent().upper(), *s.get("rows"));
  // Loads beside the multiply-adds, and the sums that hide their latency.
  const double sums = vectors * rows;
  const double efficiency = sums / (sums + 0.1 * rows + 0.5 * vectors) * std::min(1.0, sums / 12);
  const double macs = batches * queries * keys * (depth + elements + 16);
  // Every block of queries reads all keys and values again, from some cache.
  const double bytes = 4 * batches * queries / double(block) * keys * (depth + elements);
  return 2 * macs / (in.level.peakGflops * 1e3 * efficiency) +
         bytes / (in.level.bandwidthGBs * 4e3);
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const Problem p(form);
  out.include("cpu/attention.h");
  StepWriter::Config cfg(out, "config", "cpu::attention_defaults");
  cfg.extent("m", p.queries()).extent("n", p.keys());
  cfg.extent("d", p.depth()).extent("e", p.extent());
  const int64_t rows = *s.get("rows");
  cfg.number("vectors", *s.get("vectors")).number("rows", rows);
  cfg.number("tile", int64_t(llvm::divideCeil(kTile, rows)) * rows);
  if (op.boolAttr("zero_undefined"))
    cfg.flag("zero_undefined", true);
  const std::string config = cfg.finish();
  SourceWriter &w = out.code();
  auto operand = [&](unsigned i) {
    return out.view(form.anchorInputs[i].inputs[0].source, p.view(i));
  };
  w.line("const auto q = " + operand(0) + ";");
  w.line("const auto k = " + operand(1) + ";");
  w.line("const auto v = " + operand(2) + ";");
  w.line("const auto bias = pack(" + (op.numOperands() > 3 ? operand(3) : std::string()) + ");");
  w.line("const auto y = " + out.resultView(0, p.resultView()) + ";");
  w.line("cpu::attention(" + config + ", " + out.dims().list(p.leading()) + ", " +
         cppScalar(Element::F32, op.floatAttr("scale")) + ", q, k, v, bias, y, *f.workers);");
}

} // namespace

const Tactic kAttention = {
    "attention", "attention, blocks of queries over tiles of keys and values",
    match,       enumerate,
    cost,        nullptr,
    nullptr,     emit};

} // namespace tenon::cpu
