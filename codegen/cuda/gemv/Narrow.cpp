// Defines the tactic `gemv_narrow`: a few rows times constant weights that stay integers of at most
// 8 bits, with a scale for each block along k (runtime/cuda/gemv/narrow.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Contraction.h"

#include <cmath>

namespace tenon::cuda {
namespace {

constexpr int64_t kMaxRows = 8;

/// Bytes that one thread reads at once: within a block, and rows begin at multiples.
int64_t runOf(const Operation &op) {
  const int64_t bytes = op.intAttr("block") * bitWidth(op.operand(1)->type().element()) / 8;
  for (int64_t run : {16, 8, 4})
    if (op.intAttr("block") * bitWidth(op.operand(1)->type().element()) % 8 == 0 &&
        bytes % run == 0)
      return run;
  return 0;
}

int64_t rowsOf(const Operation &op) {
  const Type y = op.result()->type();
  int64_t rows = 1;
  for (unsigned d = 0; d + 1 < y.rank(); ++d)
    rows = y.dim(d).isConstant() && rows <= kMaxRows ? rows * y.dim(d).constant() : kMaxRows + 1;
  return rows;
}

/// The dimension that rows step along, counted from the last: the only one before it that is not 1.
/// 0 where there are several.
unsigned rowDimOf(const Operation &op) {
  const Type y = op.result()->type();
  unsigned found = 0, count = 0;
  for (unsigned d = 0; d + 1 < y.rank(); ++d)
    if (!y.dim(d).isConstant(1)) {
      found = y.rank() - d;
      ++count;
    }
  return count == 0 ? 2 : count == 1 ? found : 0;
}

struct NarrowSchedule {
  int64_t lanes, columns;

  static llvm::ArrayRef<Field<NarrowSchedule>> fields() {
    static const Field<NarrowSchedule> kFields[] = {
        {"lanes", &NarrowSchedule::lanes, oneOf(32, 64, 128)},
        {"columns", &NarrowSchedule::columns, oneOf(1, 2)},
    };
    return kFields;
  }
};

struct GemvNarrow {
  static constexpr llvm::StringRef id = "gemv_narrow",
                                   summary = "a few rows times weights of 2 to 8 bits, scales by "
                                             "blocks";
  static constexpr bool takesPacked = true;
  struct Problem {
    GroupQuery in;
    int64_t rows, run; // bytes that a thread reads at once
    unsigned rowDim;   // see rowDimOf
  };
  using Schedule = NarrowSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    if (auto product = matchNarrowProduct(in); !product)
      return std::move(product).refusal();
    const GroupForm &f = in.form;
    const Operation &op = *f.anchor;
    const Problem p{in, rowsOf(op), runOf(op), rowDimOf(op)};
    if (p.run == 0)
      return Refusal{"blocks that are no whole words", ""};
    if (p.rows < 1 || p.rows > kMaxRows)
      return Refusal{"more than " + std::to_string(kMaxRows) + " rows", ""};
    if (p.rowDim == 0)
      return Refusal{"rows that step along several dimensions", ""};
    if (f.anchorInputs[0].usesIndex())
      return Refusal{"an operand computed from its index", ""};
    auto body =
        isUnbounded(f.anchorInputs[0]).andThen([&] { return isPlainBody(f.body); }).andThen([&] {
          return fitsInt(f);
        });
    if (!body)
      return std::move(body).refusal();
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (int64_t lanes : {32, 64, 128})
      for (int64_t columns : {1, 2})
        if (columns * p.rows <= 8) // sums live in registers
          out.push_back({lanes, columns});
  }

  /// As gemv.
  static double microseconds(const Problem &p, const Schedule &s) {
    const Operation &op = *p.in.form.anchor;
    const Type w = op.operand(1)->type();
    const double lanes = double(s.lanes), columns = double(s.columns);
    const double rows = double(p.rows), n = double(w.dim(0).constant()),
                 k = double(w.dim(1).constant());
    Effort e;
    e.blocks = std::ceil(n / (256 / lanes * columns));
    e.bytes = double(workOf(*p.in.form.group).bytes) * (1 + 0.1 * rows / columns);
    e.operations = 2 * (rows + 2) * n * k;
    e.efficiency = 0.25;
    const double waves = std::ceil(e.blocks / (6 * double(p.in.level.multiprocessors)));
    const double loads = std::ceil(k * bitWidth(w.element()) / 8 / (lanes * double(p.run)));
    return cuda::microseconds(p.in.level, e) +
           waves * (0.15 * loads * rows + (lanes > 32 ? 0.3 : 0));
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    Context &context = op.result()->type().context();
    const ScalarProgram &a = form.anchorInputs[0];
    const Type w = op.operand(1)->type();
    const unsigned row = p.rowDim;
    const bool transA = op.boolAttr("trans_a");
    auto matrix = [](const Strides &x, unsigned rows, unsigned columns) {
      Strides r;
      r.offset = x.offset;
      r.strides = {strideFromLast(x, rows), strideFromLast(x, columns)};
      return r;
    };
    auto ofA = [&](const Strides &x) {
      return matrix(x, row == 2 && transA ? 1 : row, transA ? 2 : 1);
    };
    auto ofY = [&](const Strides &x) { return matrix(x, row, 1); };

    out.include("cuda/gemv/narrow.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extent("m", p.rows).extent("n", w.dim(0)).number("k", w.dim(1).constant());
    cfg.number("block", op.intAttr("block")).number("run", p.run);
    for (auto &[key, value] : membersOf(s))
      cfg.number(key, value);
    const std::string config = cfg.finish();
    const std::string x = operandView(out, a, ofA, {0, 1}, "prologue");
    const std::string body = out.body(form.body, {op.result()->type().element()});
    auto constant = [&](unsigned i) {
      return out.pointer(form.anchorInputs[i].inputs[0].source, context.dim(0));
    };
    SourceWriter &code = out.code();
    code.line("const auto x = " + x + ";");
    code.line("const auto *w = cuda::bytes_of(" + constant(1) + ");");
    code.line("const auto *scale = " + constant(2) + ";");
    code.line("const decltype(scale) zero = " + (op.numOperands() > 3 ? constant(3) : "nullptr") +
              ";");
    code.line("const auto outs = " + out.outputs(form, ofY) + ";");
    code.line("const auto ins = " + out.inputs(form.body, ofY) + ";");
    launch(out, "gemv_narrow<" + cppElement(w.element()).str() + ">",
           {config, "x", "w", "scale", "zero", "outs", "ins", body});
  }
};

} // namespace

const Tactic &kGemvNarrow = kTacticOf<GemvNarrow>;

} // namespace tenon::cuda
