// Implements the reading of groups for decode_attention.
#include "codegen/cuda/decode_attention/Problem.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kLargestHead = 256, kMostQueries = 16;

} // namespace

double DecodeAttentionProblem::tiles() const {
  return f.heads() / double(group) *
         double(ceilDiv(group * f.queries().upper(), decode_attention_geometry::rows));
}

void DecodeAttentionProblem::writeViews(StepWriter &out) const {
  const unsigned at = unsigned(batch().size());
  f.writeViews(out, [&](Strides s) {
    if (group == 1) // one of it
      s.strides.insert(s.strides.begin() + at, f.context().dim(0));
    return s;
  });
}

Result<DecodeAttentionProblem> readDecodeAttention(const GroupQuery &in) {
  return matchAttention(in, kLargestHead, 0, true).andThen([&]() -> Result<DecodeAttentionProblem> {
    if (!isMachineOf(kMmaSm80, in.level))
      return Refusal{"Tensor Cores before sm_80", ""};
    const Element e = in.form.anchor->operand(0)->type().element();
    if (e != Element::F16 && e != Element::BF16)
      return Refusal{"elements of " + name(e).str(), ""};
    DecodeAttentionProblem p{in, AttentionForm(in.form)};
    if (p.f.queries().upper() > kMostQueries)
      return Refusal{"more than " + std::to_string(kMostQueries) + " queries", ""};
    const llvm::ArrayRef<Dim> leading = p.f.leading();
    const auto isShared = [&](unsigned i) {
      return p.f.view(i).strides[leading.size() - 1].isConstant(0);
    };
    if (!leading.empty() && leading.back().isConstant() && isShared(1) && isShared(2))
      p.group = leading.back().constant();
    return p;
  });
}

} // namespace tenon::cuda
