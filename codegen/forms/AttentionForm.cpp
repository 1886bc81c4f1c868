// Implements what tactics of attention share.
#include "codegen/forms/AttentionForm.h"

#include "codegen/core/Work.h"

namespace tenon {

AttentionForm::AttentionForm(const GroupForm &form, bool merge)
    : form_(form), at_(attentionOperands(*form.anchor)) {
  const Type y = form.anchor->result()->type();
  space_.assign(y.shape().begin(), y.shape().end());
  std::vector<Strides> operands{result()};
  for (unsigned i = 0; i < form.anchorInputs.size(); ++i)
    operands.push_back(operand(i));
  if (!form.bodyIsIdentity()) {
    for (const OutputForm &o : llvm::makeArrayRef(form.outputs).drop_front())
      operands.push_back(stridesOf(o, rank()));
    for (const Access &a : form.body.inputs)
      operands.push_back(stridesOf(a, rank()));
  }
  llvm::SmallVector<unsigned, 6> order;
  for (unsigned d = 0; d + 2 < rank(); ++d)
    order.push_back(d);
  if (!merge) { // distances that no two dimensions walk as one
    Strides apart = operands[0];
    for (Dim &d : apart.strides)
      d = context().dim(1);
    operands.push_back(apart);
  }
  leading_ = mergeDims(space_, order, operands);
}

double AttentionForm::heads() const {
  double n = 1;
  for (Dim d : leading())
    n *= double(d.upper());
  return n;
}

Strides AttentionForm::result() const {
  return spread(stridesOf(form_.outputs[0], rank()), space_);
}

Strides AttentionForm::operand(unsigned i) const {
  const ScalarProgram &x = form_.anchorInputs[i];
  if (at_.first && i == at_.first) { // an entry of the leading dimension, whatever the row
    Strides s;
    const Strides own = stridesOf(x.inputs[0], unsigned(x.space.size()));
    s.offset = own.offset;
    s.strides.assign(rank(), context().dim(0));
    if (!x.space.empty() && !x.space[0].isConstant(1))
      s.strides[0] = own.strides[0];
    return s;
  }
  Strides s = spread(stridesOf(x.inputs[0], unsigned(x.space.size())), x.space);
  if (x.space.back().isConstant(1) && i < 3)
    s.strides.back() = context().dim(1); // whatever it is, nothing lies between
  return s;
}

/// Strides over an operand's own dimensions, aligned at the right with those of the result.
Strides AttentionForm::spread(const Strides &own, llvm::ArrayRef<Dim> shape) const {
  Strides s;
  s.offset = own.offset;
  s.strides.assign(rank(), context().dim(0));
  for (size_t d = 0; d < shape.size(); ++d)
    if (!shape[d].isConstant(1))
      s.strides[rank() - shape.size() + d] = own.strides[d];
  return s;
}

Strides AttentionForm::merged(const Strides &s) const {
  Strides r = leading_(s);
  r.strides.append(s.strides.end() - 2, s.strides.end());
  return r;
}

double AttentionForm::visibleShare() const {
  const double scores = double(queries().upper()) * double(keys().upper());
  return scores > 0 ? visibleScores(*form_.anchor) / scores : 1;
}

void AttentionForm::configure(StepWriter::Config &cfg) const {
  cfg.extent("m", queries()).extent("n", keys()).extent("d", depth()).extent("e", extent());
  cfg.number("causal", form_.anchor->intAttr("causal", -1));
  cfg.flag("zero_undefined", form_.anchor->boolAttr("zero_undefined"));
}

void AttentionForm::writeViews(StepWriter &out, StepWriter::Change change) const {
  SourceWriter &w = out.code();
  auto operand = [&](unsigned i) {
    return out.view(form_.anchorInputs[i].inputs[0].source, change(view(i)));
  };
  w.line("const auto q = " + operand(0) + ";");
  w.line("const auto k = " + operand(1) + ";");
  w.line("const auto v = " + operand(2) + ";");
  writeRest(out, change);
}

std::vector<std::string> AttentionForm::arguments(const std::string &config) const {
  std::vector<std::string> all{
      config, cppScalar(Element::F32, form_.anchor->floatAttr("scale")), "q", "k", "v", "bias",
      "y"};
  if (hasOrder())
    all.push_back("order");
  return all;
}

void AttentionForm::writeRest(StepWriter &out, StepWriter::Change change) const {
  SourceWriter &w = out.code();
  auto operand = [&](unsigned i) {
    return out.view(form_.anchorInputs[i].inputs[0].source, change(view(i)));
  };
  std::string added = hasBias() ? operand(at_.bias) : std::string();
  for (unsigned i = 0; i < countOfParts(); ++i)
    added += (added.empty() ? "make_attention_part<" : ", make_attention_part<") +
             std::to_string(factor(i).step) + ", " + std::to_string(factor(i).extent) + ">(" +
             operand(part(i)) + ")";
  w.line("const auto bias = pack(" + added + ");");
  writeResults(out, change);
  if (!hasOrder())
    return;
  const Operation &op = *form_.anchor;
  w.line("const auto order = make_attention_order<" + std::to_string(op.intAttr("window", 0)) +
         ", " + (op.has("softcap") ? "true" : "false") + ">(pack(" +
         (at_.first ? operand(at_.first) : std::string()) + "), " +
         cppScalar(Element::F32, op.floatAttr("softcap", 0)) + ");");
}

void AttentionForm::writeResults(StepWriter &out, StepWriter::Change change) const {
  SourceWriter &w = out.code();
  if (form_.bodyIsIdentity()) {
    w.line("const auto y = " + out.resultView(0, change(resultView())) + ";");
    return;
  }
  const auto seen = [&](const Strides &s) { return change(merged(s)); };
  const std::string body = out.body(form_.body, {form_.anchor->result()->type().element()});
  const std::string outs = out.outputs(form_, seen);
  const std::string ins =
      inputsIn(out, form_.body, seen, inPlaceDims(unsigned(leading().size()) + 2));
  w.line("const auto y = cuda::make_attention_results(" + outs + ", " + ins + ", " + body + ");");
}

bool AttentionForm::hasOrder() const {
  return at_.first || form_.anchor->has("window") || form_.anchor->has("softcap");
}

Result<> matchAttention(const GroupQuery &in, int64_t largestHead, unsigned first,
                        AttentionTakes takes) {
  if (takes.body) {
    if (auto anchor = matchAnchor(in, Op::Attention); !anchor)
      return anchor;
    for (const ScalarProgram &p : in.form.anchorInputs)
      if (!p.isPlainRead())
        return Refusal{"an operand computed in the group", ""};
    if (in.form.body.usesIndex())
      return Refusal{"an epilogue that reads the position of an element", ""};
  } else if (auto alone = matchAlone(in, Op::Attention); !alone) {
    return alone;
  }
  const AttentionForm f(in.form);
  if (f.hasOrder() && !takes.order)
    return Refusal{"positions, a window or a bound of the scores", ""};
  if (f.countOfParts() > 0 && (!takes.parts || f.countOfParts() > 3))
    return Refusal{std::to_string(f.countOfParts()) + " parts by coordinates of keys", ""};
  if (!f.depth().isConstant() || !f.extent().isConstant() ||
      std::max(f.depth().constant(), f.extent().constant()) > largestHead)
    return Refusal{"heads of more than " + std::to_string(largestHead) + " elements", ""};
  for (unsigned i = first; i < 3; ++i)
    if (!f.view(i).strides.back().isConstant(1))
      return Refusal{in.form.anchor->info().operands[i].str() +
                         " is not contiguous along its last dimension",
                     ""};
  return Accepted{};
}

} // namespace tenon
