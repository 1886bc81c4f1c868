// Defines the tactic `contract_any`: every convolution, transposed convolution and matrix product
// that the tiled kernels do not take (runtime/cuda/contract_any/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"

namespace tenon::cuda {
namespace {

/// The first `from` entries of an attribute that is empty or holds one per spatial dimension (or
/// two).
llvm::SmallVector<Dim, 3> perDimension(const Operation &op, llvm::StringRef name,
                                       int64_t otherwise) {
  const Type x = op.operand(0)->type();
  const Ints &all = op.intsAttr(name);
  llvm::SmallVector<Dim, 3> dims;
  for (unsigned d = 0; d + 2 < x.rank(); ++d)
    dims.push_back(x.context().dim(all.empty() ? otherwise : all[d]));
  return dims;
}

/// A zero point as a view over one dimension, along which it varies at most.
std::string zeroPoint(const GroupForm &form, unsigned i, StepWriter &out, llvm::StringRef suffix) {
  if (i >= form.anchorInputs.size())
    return "cuda::no_zero_point{}";
  const ScalarProgram &z = form.anchorInputs[i];
  return operandView(
      out, z,
      [&](const Strides &s) {
        Strides along;
        along.offset = s.offset;
        Dim stride = s.offset.node()->context->dim(0);
        for (size_t d = 0; d < s.strides.size(); ++d)
          if (!z.space[d].isConstant(1))
            stride = s.strides[d];
        along.strides.push_back(stride);
        return along;
      },
      {0}, suffix);
}

void emitConv(const GroupForm &form, StepWriter &out) {
  const Operation &op = *form.anchor;
  const bool transposed = op.is(Op::ConvTranspose);
  const Type x = op.operand(0)->type();
  const int64_t groups = op.intAttr("groups", 1);
  const auto shape = op.operand(1)->type().staticShape();

  StepWriter::Config cfg(out, "config");
  llvm::SmallVector<Dim, 3> kernel;
  for (int64_t k : llvm::makeArrayRef(shape).drop_front(2))
    kernel.push_back(x.context().dim(k));
  cfg.extents("space", form.body.space).extents("in", x.shape().drop_front(2));
  cfg.extents("kernel", kernel).extents("strides", perDimension(op, "strides", 1));
  cfg.extents("dilations", perDimension(op, "dilations", 1))
      .extents("pads", perDimension(op, "pads", 0));
  cfg.extent("channels", transposed ? shape[0] / groups : shape[1]);
  cfg.extent("filters", transposed ? shape[1] : shape[0] / groups);
  cfg.flag("transposed", transposed);
  cfg.type("accumulator", cppElement(accumulatorOf(op.result()->type().element())));
  const std::string config = cfg.finish();

  const auto places = inPlaceDims(x.rank());
  auto same = [](const Strides &s) { return s; };
  const std::string body = out.body(form.body, {op.result()->type().element()});
  SourceWriter &code = out.code();
  code.line("const auto x = " + operandView(out, form.anchorInputs[0], same, places, "x") + ";");
  code.line("const auto w = " + operandView(out, form.anchorInputs[1], same, places, "w") + ";");
  code.line("const auto outs = " + out.outputs(form) + ";");
  code.line("const auto ins = " + out.inputs(form.body) + ";");
  launch(out, "conv_any",
         {config, "x", zeroPoint(form, 2, out, "x_zero"), "w", zeroPoint(form, 3, out, "w_zero"),
          "outs", "ins", body});
}

void emitMatMul(const GroupForm &form, StepWriter &out) {
  const Operation &op = *form.anchor;
  const Type a = op.operand(0)->type();
  const size_t rank = form.body.space.size();
  StepWriter::Config cfg(out, "config");
  cfg.extents("space", form.body.space);
  cfg.extent("depth", a.dim(a.rank() - (op.boolAttr("trans_a") ? 2 : 1)));
  cfg.type("accumulator", cppElement(accumulatorOf(op.result()->type().element())));
  const std::string config = cfg.finish();

  // Operands over all dimensions of the result, broadcast where they have fewer.
  auto matrix = [&](bool transposed) {
    return [=](const Strides &s) {
      Strides r;
      r.offset = s.offset;
      r.strides.assign(rank - s.strides.size(), s.offset.node()->context->dim(0));
      r.strides.append(s.strides.begin(), s.strides.end());
      if (transposed)
        std::swap(r.strides[rank - 1], r.strides[rank - 2]);
      return r;
    };
  };
  const auto places = inPlaceDims(unsigned(rank));
  const std::string body = out.body(form.body, {op.result()->type().element()});
  SourceWriter &code = out.code();
  code.line("const auto a = " +
            operandView(out, form.anchorInputs[0], matrix(op.boolAttr("trans_a")), places, "a") +
            ";");
  code.line("const auto b = " +
            operandView(out, form.anchorInputs[1], matrix(op.boolAttr("trans_b")), places, "b") +
            ";");
  code.line("const auto outs = " + out.outputs(form) + ";");
  code.line("const auto ins = " + out.inputs(form.body) + ";");
  launch(out, "matmul_any",
         {config, "a", zeroPoint(form, 2, out, "a_zero"), "b", zeroPoint(form, 3, out, "b_zero"),
          "outs", "ins", body});
}

struct ContractAny {
  static constexpr llvm::StringRef id = "contract_any",
                                   summary = "any contraction, one sum per thread";
  struct Problem {
    GroupQuery in;
  };
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    const GroupForm &form = in.form;
    if (!form.anchor || !form.anchor->isAny(Op::Conv, Op::ConvTranspose, Op::MatMul))
      return Refusal{"no contraction", ""};
    const Operation &op = *form.anchor;
    if (auto plain = isWithoutScales(op); !plain)
      return std::move(plain).refusal();
    for (const ScalarProgram &p : form.anchorInputs) {
      if (auto unbounded = isUnbounded(p); !unbounded)
        return std::move(unbounded).refusal();
      if (op.is(Op::MatMul) && p.usesIndex())
        return Refusal{"an operand computed from indices", ""};
    }
    if (!op.is(Op::MatMul) && !op.operand(1)->type().hasStaticShape())
      return Refusal{"weights of a shape known only at run time", ""};
    if (auto body = isUnbounded(form.body).andThen([&] { return fitsInt(form); }); !body)
      return std::move(body).refusal();
    return Problem{in};
  }

  static void candidates(const Problem &, std::vector<Schedule> &out) { out.push_back({}); }

  /// Each multiply-add loads both operands, from the caches at best, and waits for them.
  static double microseconds(const Problem &p, const Schedule &) {
    const Work w = workOf(*p.in.form.group);
    const double results =
        double(std::max<int64_t>(1, p.in.form.anchor->result()->type().upperElements()));
    Effort e;
    e.bytes = double(w.bytes) + w.flops;
    e.operations = w.flops;
    e.efficiency = 0.02;
    e.blocks = results / 128;
    return cuda::microseconds(p.in.level, e) + w.flops / results * 0.01;
  }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    out.include("cuda/contract_any/kernel.cuh");
    p.in.form.anchor->is(Op::MatMul) ? emitMatMul(p.in.form, out) : emitConv(p.in.form, out);
  }
};

} // namespace

const Tactic &kContractAny = kTacticOf<ContractAny>;

} // namespace tenon::cuda
