// Implements what the tactics of windowed operations share.
#include "codegen/cpu/shared/Window.h"

namespace tenon::cpu {

llvm::SmallVector<int, 6> planePlaces(const ConvProblem &p) {
  if (p.isVolume())
    return {0, 1, 2, 3, 4};
  return p.spatialRank == 1 ? llvm::SmallVector<int, 6>{0, 1, 3}
                            : llvm::SmallVector<int, 6>{0, 1, 2, 3};
}

void writeWindow(StepWriter::Config &cfg, const Operation &op, llvm::ArrayRef<int64_t> kernel) {
  const Type x = op.operand(0)->type(), y = op.result()->type();
  const size_t spatial = x.rank() - 2;
  auto attribute = [&](llvm::StringRef name, int64_t otherwise, size_t from) {
    const Ints &all = op.intsAttr(name);
    return all.empty() ? Ints(spatial, otherwise)
                       : Ints(all.begin() + int64_t(from), all.begin() + int64_t(from + spatial));
  };
  llvm::SmallVector<Dim, 3> taps;
  for (int64_t k : kernel)
    taps.push_back(x.context().dim(k));
  cfg.extent("batch", x.dim(0));
  cfg.extents("in", x.shape().drop_front(2)).extents("out", y.shape().drop_front(2));
  cfg.extents("kernel", taps);
  cfg.array("strides", attribute("strides", 1, 0)).array("dilations", attribute("dilations", 1, 0));
  cfg.array("pads", attribute("pads", 0, 0)).array("pads_end", attribute("pads", 0, spatial));
}

} // namespace tenon::cpu
