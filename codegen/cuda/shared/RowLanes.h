// Defines what softmax and scan share: the schedule of kernels in which a group of lanes goes along
// a row, its choice, its cost, and the views that such a kernel takes.
#pragma once

#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/forms/RowNest.h"

namespace tenon::cuda {

struct RowLanes {
  int64_t lanes;  // of a row
  int64_t across; // neighbouring threads take neighbouring rows

  static llvm::ArrayRef<Field<RowLanes>> fields() {
    static const Field<RowLanes> kFields[] = {
        {"lanes", &RowLanes::lanes, oneOf(1, 2, 4, 8, 16, 32, 64, 128, 256)},
        {"across", &RowLanes::across, oneOf(0, 1)},
    };
    return kFields;
  }

  /// As many lanes as leave each of them four elements; a warp at most where lanes are apart in
  /// memory.
  static RowLanes of(const RowProblem &p) {
    const GroupForm &form = p.in.form;
    const Strides y = p.nest(stridesOf(form.outputs[0], unsigned(form.body.space.size())));
    const size_t last = p.nest.extents.size() - 1;
    const bool across = !y.strides[last].isConstant(1) && y.strides[last - 1].isConstant(1);
    int64_t lanes = 1;
    while (lanes < (across ? 32 : 256) && lanes * 4 < p.nest.rowLength())
      lanes *= 2;
    return {lanes, across};
  }

  /// Of blocks of 256 threads that move the group's bytes `passes` times.
  double microseconds(const RowProblem &p, double passes) const {
    const Work w = workOf(*p.in.form.group);
    Effort e;
    e.bytes = double(w.bytes) * passes;
    e.operations = w.flops * 8;
    e.efficiency = 0.2;
    e.blocks = double(p.in.form.anchor->result()->type().upperElements()) /
               double(p.nest.rowLength()) * double(lanes) / 256;
    return cuda::microseconds(p.in.level, e);
  }

  std::string finish(StepWriter::Config &cfg, const GroupForm &form) const {
    cfg.number("lanes", lanes).flag("across", across);
    if (isLarge(form))
      cfg.flag("large", true);
    return cfg.finish();
  }
};

/// Writes the call of `kernel` over x, outs and ins, with `arguments` (such as a combiner) behind
/// x.
inline void launchOnRows(const RowProblem &p, StepWriter &out, llvm::StringRef kernel,
                         const std::string &config, std::vector<std::string> arguments = {}) {
  const GroupForm &form = p.in.form;
  const RowNest &nest = p.nest;
  const std::string x = operandView(out, form.anchorInputs[0], nest, nest.placeOf, "prologue");
  arguments.insert(arguments.begin(), {config, "x"});
  const std::string body = out.body(form.body, {form.anchor->result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto x = " + x + ";");
  w.line("const auto outs = " + out.outputs(form, nest) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, nest, nest.placeOf) + ";");
  arguments.insert(arguments.end(), {"outs", "ins", body});
  launch(out, kernel, arguments);
}

} // namespace tenon::cuda
