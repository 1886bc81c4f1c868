// bundle-groups: grouped convolutions of volumes get fewer groups, whose filters have zeros.
//
//   conv %x, %w {groups = 4} : tensor<1x32x8x56x56xf32>   →   conv %x, %w'
//     %w: tensor<32x8x3x3x3xf32>                              %w': tensor<32x32x3x3x3xf32>
//
// with %w'[f, c] the filter's own weights where c is one of its group's channels, else 0. For
// targets whose kernels of volumes want as many channels as a tile has: they are faster by more
// than the zeros cost. What is infinite or NaN in a channel reaches the filters of its bundle.
#include "passes/BundleGroups.h"

#include "passes/Rewrite.h"

namespace tenon {
namespace {

/// Channels of a group up to which it is bundled.
constexpr int64_t kMostChannels = 8;

bool volumePattern(Operation &op, Rewriter &rw) {
  const int64_t bundle = rw.context().target.bundledVolumeChannels;
  if (!op.is(Op::Conv) || bundle == 0 || op.numOperands() != 2 || op.operand(0)->type().rank() != 5)
    return false;
  const int64_t groups = op.intAttr("groups", 1);
  const Literal w = constantValue(op.operand(1));
  if (groups == 1 || !w || !isFloat(w->element()))
    return false;
  const int64_t filters = w->shape()[0], channels = w->shape()[1], own = filters / groups;
  if (channels == 1 || channels > kMostChannels)
    return false; // depthwise ones have kernels of their own
  int64_t together = 1;
  for (int64_t n = 2; n <= groups && n * channels <= bundle; ++n)
    if (groups % n == 0)
      together = n;
  if (together == 1 || !rw.fire(op))
    return false;
  llvm::SmallVector<int64_t, 6> shape(w->shape().begin(), w->shape().end());
  shape[1] = together * channels;
  Tensor wide(w->element(), shape);
  const int64_t run = channels * (w->size() / (filters * channels)); // of a filter
  for (int64_t f = 0; f < filters; ++f) {
    const int64_t place = f / own % together; // of its group in the bundle
    for (int64_t i = 0; i < run; ++i)
      wide.set((f * together + place) * run + i, w->at(f * run + i));
  }
  Builder b = rw.before(op);
  Value *weights = b.constant(wide, op.operand(1)->hint());
  NamedAttributes attributes = op.attributes();
  attributes.insert_or_assign("groups", groups / together);
  Operation *conv = b.create(Op::Conv, {op.operand(0), weights}, attributes);
  return conv && rw.replace(op, {conv->result()});
}

const Pattern kPatterns[] = {{"bundle-groups.volume", volumePattern}};

} // namespace

bool runBundleGroups(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
