// Implements what the tactics of windowed operations share.
#include "codegen/cpu/shared/Window.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

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

WordRuns wordRuns(const ConvProblem &p, const Strides &x, int64_t perWord) {
  const int64_t byRows = p.kernelH * p.channels * int64_t(llvm::divideCeil(p.kernelW, perWord)),
                byTaps = p.kernelH * p.kernelW * int64_t(llvm::divideCeil(p.channels, perWord));
  const bool rows = p.channels == 1 ||
                    (!x.strides[1].isConstant(1) && x.strides[3].isConstant(1) && byRows <= byTaps);
  return {rows, rows ? byRows : byTaps};
}

int64_t mostRowsOfPairs(int64_t words) {
  constexpr int64_t most = int64_t(1) << 20;
  return most / (8 * std::max<int64_t>(1, words));
}

Layout packedWords(Type w, llvm::ArrayRef<int> leading, int filter, llvm::ArrayRef<int> line,
                   int64_t lanes, int64_t perWord) {
  llvm::SmallVector<LayoutAxis, 8> axes;
  for (int d : leading)
    axes.push_back({d, 0, false, Dim(), 0});
  axes.push_back({filter, lanes, false, Dim(), 0});
  for (int d : line.drop_back())
    axes.push_back({d, 0, false, Dim(), 0});
  axes.push_back({line.back(), perWord, false, Dim(), 0});
  axes.push_back({filter, lanes, true, Dim(), 0});
  axes.push_back({line.back(), perWord, true, Dim(), 0});
  return Layout::get(w.context(), axes);
}

} // namespace tenon::cpu
