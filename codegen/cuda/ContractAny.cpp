// Defines the tactic `contract_any`: every convolution, transposed convolution and matrix product
// that the tiled kernels do not take (runtime/cuda/contract_any.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cuda/Common.h"

namespace tenon::cuda {
namespace {

bool match(const TacticInput &in, std::string &why) {
  if (!in.form.anchor || !in.form.anchor->isAny(Op::Conv, Op::ConvTranspose, Op::MatMul)) {
    why = "no contraction";
    return false;
  }
  const Operation &op = *in.form.anchor;
  if (!isWithoutScales(op, why))
    return false;
  for (const ScalarProgram &p : in.form.anchorInputs) {
    if (!isUnbounded(p, why))
      return false;
    if (op.is(Op::MatMul) && p.usesIndex()) {
      why = "an operand computed from indices";
      return false;
    }
  }
  if (!op.is(Op::MatMul) && !op.operand(1)->type().hasStaticShape()) {
    why = "weights of a shape known only at run time";
    return false;
  }
  return isUnbounded(in.form.body, why) && fitsInt(in.form, why);
}

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"contract_any", {}});
}

/// Each multiply-add loads both operands, from the caches at best, and waits for them.
double cost(const TacticInput &in, const Schedule &) {
  const Work w = workOf(*in.form.group);
  const double results =
      double(std::max<int64_t>(1, in.form.anchor->result()->type().upperElements()));
  Effort e;
  e.bytes = double(w.bytes) + w.flops;
  e.operations = w.flops;
  e.efficiency = 0.02;
  e.blocks = results / 128;
  return microseconds(in.level, e) + w.flops / results * 0.01;
}

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

void emitConv(const TacticInput &in, StepWriter &out) {
  const GroupForm &form = in.form;
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

void emitMatMul(const TacticInput &in, StepWriter &out) {
  const GroupForm &form = in.form;
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

void emit(const TacticInput &in, const Schedule &, StepWriter &out) {
  out.include("cuda/contract_any.cuh");
  in.form.anchor->is(Op::MatMul) ? emitMatMul(in, out) : emitConv(in, out);
}

} // namespace

const Tactic kContractAny = {"contract_any", "any contraction, one sum per thread",
                             match,          enumerate,
                             cost,           nullptr,
                             nullptr,        emit};

} // namespace tenon::cuda
