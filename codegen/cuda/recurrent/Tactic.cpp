// Defines the tactic `recurrent`: all steps of a recurrent layer in one launch
// (runtime/cuda/recurrent/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/cuda/shared/Recurrent.h"

#include <algorithm>

namespace tenon::cuda {
namespace {

/// A region as a program whose anchors are its arguments.
ScalarProgram programOf(Region &region) {
  ScalarProgram p;
  std::map<const Value *, unsigned> nodes;
  for (unsigned i = 0; i < region.numArguments(); ++i) {
    ScalarNode n;
    n.kind = ScalarNode::Anchor;
    n.index = i;
    n.element = region.argument(i)->type().element();
    nodes[region.argument(i)] = i;
    p.nodes.push_back(n);
  }
  for (const Operation &s : region) {
    if (s.isTerminator()) {
      for (const Value *v : s.operands())
        p.outputs.push_back(nodes[v]);
      break;
    }
    ScalarNode n;
    n.op = &s;
    n.element = s.result()->type().element();
    for (const Value *v : s.operands())
      n.operands.push_back(nodes[v]);
    nodes[s.result()] = unsigned(p.nodes.size());
    p.nodes.push_back(n);
  }
  return p;
}

struct Recurrent {
  static constexpr llvm::StringLiteral id = "recurrent",
                                       summary = "all steps of a recurrent layer, weights in "
                                                 "registers and shared memory";
  struct Problem {
    GroupQuery in;
    RecurrentShape shape;
  };
  using Schedule = RecurrentSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    if (auto anchor = matchAnchor(in, Op::Recurrent).andThen([&] { return fitsInt(in.form); });
        !anchor)
      return std::move(anchor).refusal();
    const Problem p{in, recurrentShape(*in.form.anchor)};
    if (p.shape.element != Element::F16 && p.shape.element != Element::BF16 &&
        p.shape.element != Element::F32)
      return Refusal{"elements of " + name(p.shape.element).str(), ""};
    for (unsigned i = 0; i < p.shape.products; ++i) {
      const ScalarProgram &w = in.form.anchorInputs[p.shape.weights(i)];
      if (!w.isPlainRead() || !w.inputs[0].type.layout().isRowMajor())
        return Refusal{"weights that are not read as they lie", ""};
    }
    if (recurrentSchedules(in.level, p.shape).empty())
      return Refusal{"weights, or states, that a cluster of blocks has no room for", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out = recurrentSchedules(p.in.level, p.shape);
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    return fits(p.in.level, p.shape, s);
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    const double steps = double(p.in.form.anchor->operand(0)->type().dim(0).upper());
    // Weights come once, through the caches where several clusters read them.
    constexpr double kBegin = 3, kWeights = 0.02; // microseconds, and of a KB of a block; assumed
    const double bytes = double(p.shape.gates[0] + p.shape.gates[1]) * double(p.shape.hidden) *
                         double(p.shape.hidden) * double(bitWidth(p.shape.element)) / 8;
    return p.in.level.launchMicroseconds + kBegin + kWeights * bytes / double(s.blocks) / 1024 +
           steps * stepMicroseconds(p.in.level, p.shape, s);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    const RecurrentShape &r = p.shape;
    out.include("cuda/recurrent/kernel.cuh");
    int64_t kept = 0;
    for (int64_t i : op.intsAttr("kept"))
      kept |= int64_t(1) << i;
    const Type x = op.operand(0)->type();
    StepWriter::Config cfg(out, "config");
    cfg.extent("steps", x.dim(0)).extent("batch", x.dim(1));
    cfg.number("hidden", r.hidden).number("inputs", r.inputs);
    cfg.number("gates0", r.gates[0]).number("gates1", r.gates[1]);
    cfg.number("kept", kept).flag("reverse", op.boolAttr("reverse"));
    cfg.number("threads", s.threads).number("blocks", s.blocks).number("rows", s.rows);
    cfg.number("splits0", s.splits).number("splits1", s.splits1);
    const std::string config = cfg.finish();
    const auto same = [](const Strides &st) { return st; };
    const std::string body = declareOperands(out, form, form.anchorInputs[0], same, inPlaceDims(3));
    const auto views = [&](unsigned first, unsigned count, unsigned rank, llvm::StringRef what) {
      std::string list;
      for (unsigned i = 0; i < count; ++i)
        list += (i ? ", " : "") + operandView(out, form.anchorInputs[first + i], same,
                                              inPlaceDims(rank), what.str() + std::to_string(i));
      return "pack(" + list + ")";
    };
    const auto functor = [&](unsigned region, llvm::StringRef suffix) {
      const llvm::SmallVector<Element, 16> arguments(r.arguments(region), r.element);
      return out.body(programOf(op.region(region)), arguments, suffix);
    };
    const auto weights = [&](unsigned i) {
      const Access &a = form.anchorInputs[r.weights(i)].inputs[0];
      return out.pointer(a.source, stridesOf(a, 2).offset);
    };
    const std::string states = views(r.state(0), r.states, 2, "state"),
                      extras = views(r.extra(0), r.extras, 1, "extra");
    const bool two = r.products > 1;
    const std::string before = two ? functor(0, "before") : "cuda::identity_body{}",
                      cell = functor(r.products - 1, "cell");
    const std::string first = weights(0);
    launch(out, "recurrent",
           {config, "x", first, two ? weights(1) : "decltype(" + first + "){}", states, extras,
            before, cell, "outs", "ins", body});
  }
};

} // namespace

const Tactic &kRecurrent = kTacticOf<Recurrent>;

} // namespace tenon::cuda
