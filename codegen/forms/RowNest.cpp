// Implements the order of rows.
#include "codegen/forms/RowNest.h"

namespace tenon {

Strides RowNest::operator()(const Strides &s) const {
  Strides r;
  r.offset = s.offset;
  for (int d : inner_)
    r.strides.push_back(d < 0 ? s.offset.node()->context->dim(0) : s.strides[size_t(d)]);
  return r;
}

int64_t RowNest::rowLength() const {
  int64_t n = 1;
  for (Dim d : reducedExtents())
    n *= std::max<int64_t>(1, d.upper());
  return n;
}

RowNest rowNest(const GroupForm &form, llvm::ArrayRef<int64_t> axes, bool atLeastOne) {
  const ScalarProgram &x = form.anchorInputs[0];
  const auto rank = unsigned(form.body.space.size());
  std::vector<Strides> operands = bodyStrides(form);
  const Strides written = operands[0];
  for (const Access &a : x.inputs)
    operands.push_back(stridesOf(a, rank));
  const Strides read = x.inputs.empty() ? written : operands.back();
  llvm::SmallVector<unsigned, 6> keptDims, rowDims;
  for (unsigned d = 0; d < rank; ++d)
    (llvm::is_contained(axes, int64_t(d)) ? rowDims : keptDims).push_back(d);
  llvm::SmallVector<bool, 6> indexed = indexedDims(form.body);
  const auto indexedBefore = indexedDims(x);
  for (unsigned d = 0; d < rank; ++d)
    indexed[d] = indexed[d] || indexedBefore[d];

  RowNest n;
  n.placeOf.assign(rank, -1);
  auto append = [&](llvm::ArrayRef<unsigned> order, bool standIn) {
    const MergedDims m = mergeDims(form.body.space, order, operands, indexed);
    for (unsigned d : order)
      if (m.placeOf[d] >= 0)
        n.placeOf[d] = int(n.extents.size()) + m.placeOf[d];
    n.extents.append(m.extents.begin(), m.extents.end());
    n.inner_.append(m.inner.begin(), m.inner.end());
    if (m.extents.empty() && standIn) {
      n.extents.push_back(form.anchor->result()->type().context().dim(1));
      n.inner_.push_back(-1);
    }
  };
  append(byStride(keptDims, written), atLeastOne);
  n.kept = unsigned(n.extents.size());
  append(byStride(rowDims, read), true);
  return n;
}

RowProblem rowProblem(const GroupQuery &in, bool atLeastOne) {
  const Operation &op = *in.form.anchor;
  const Ints axes = op.has("axes") ? op.intsAttr("axes") : Ints{op.intAttr("axis")};
  return {in, rowNest(in.form, axes, atLeastOne)};
}

Result<RowProblem> matchRows(const GroupQuery &in, Op kind, bool atLeastOne) {
  return matchAnchor(in, kind)
      .andThen([&] { return isUnbounded(in.form.anchorInputs[0]); })
      .andThen([&] { return Result<RowProblem>(rowProblem(in, atLeastOne)); });
}

} // namespace tenon
