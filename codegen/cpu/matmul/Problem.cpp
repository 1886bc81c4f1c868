// Implements the dimensions of packed matrix products.
#include "codegen/cpu/matmul/Problem.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {

Strides packedStrides(const MatMulProblem &p, Type b, int64_t nr, int64_t kr) {
  Context &c = b.context();
  Strides own;
  own.offset = c.dim(0);
  own.strides.assign(b.rank(), c.dim(0));
  int64_t size = int64_t(llvm::alignTo(p.space[p.n].constant(), nr)) *
                 int64_t(llvm::alignTo(p.space[p.k].constant(), kr));
  for (unsigned i = b.rank() - 2; i-- > 0;) {
    own.strides[i] = c.dim(size);
    size *= b.dim(i).constant();
  }
  return p.spread(1, own, b.shape());
}

Result<PackedNest> packedNest(const GroupQuery &in, const MatMulProblem &p) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  PackedNest nest;
  // How dimensions merge does not depend on the columns that are packed together.
  const Strides b = packedStrides(p, op.operand(1)->type(), 1);
  const ScalarProgram &a = form.anchorInputs[0];
  std::vector<Strides> operands;
  for (const Access &x : a.inputs)
    operands.push_back(p.spread(0, stridesOf(x, unsigned(a.space.size())), a.space));
  for (const Strides &s : bodyStrides(form))
    operands.push_back(p.widen(s));
  operands.push_back(b);
  llvm::SmallVector<bool, 6> kept = indexedDims(form.body);
  kept.push_back(false);
  bool batched = false;
  for (unsigned d = 0; d < p.m; ++d)
    batched |= !b.strides[d].isConstant(0);
  llvm::SmallVector<unsigned, 6> leading, rows;
  for (unsigned d = 0; d < p.m; ++d)
    leading.push_back(d);
  if (batched) { // b changes from batch to batch: only m are rows
    rows.push_back(p.m);
    kept[p.m] = true;
    if (llvm::is_contained(llvm::makeArrayRef(kept).take_front(p.m), true))
      return Refusal{"the epilogue reads the index of a batch that has its own right operand", ""};
  } else {
    rows = leading;
    rows.push_back(p.m);
    leading.clear();
  }
  nest.leading = mergeDims(p.space, leading, operands, kept);
  nest.rows = mergeDims(p.space, rows, operands, kept);
  if (nest.leading.extents.size() + nest.rows.extents.size() > 3 || nest.leading.extents.size() > 2)
    return Refusal{"more than two leading dimensions that do not merge", ""};
  return nest;
}

} // namespace tenon::cpu
