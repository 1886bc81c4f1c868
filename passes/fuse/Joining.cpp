// Implements what fusions share.
#include "passes/fuse/Joining.h"

#include "passes/Maps.h"
#include "passes/fuse/Prepare.h"

namespace tenon {

bool isWidening(const Operation &op) {
  const Operation *cast = isPlainMap(&op, 1) && readsInPlace(op, 0) ? soleScalar(op) : nullptr;
  const Element from = op.operand(0)->type().element(), to = op.result()->type().element();
  return cast && cast->is(Op::Cast) && isFloat(from) && isFloat(to) &&
         bitWidth(from) < bitWidth(to);
}
bool isPointConv(const Operation &conv) {
  llvm::ArrayRef<Dim> w = conv.operand(1)->type().shape();
  return llvm::all_of(w.drop_front(2), [](Dim d) { return d.isConstant(1); });
}

bool Joining::reject(llvm::StringRef id, const Operation &p, const Operation &c,
                     llvm::StringRef reason, int64_t saved) {
  recordFusion(context_, false, id, p, c, reason, saved);
  return false;
}

bool Joining::join(llvm::StringRef id, Operation &producer, Operation &consumer, Value *v,
                   unsigned into, unsigned from) {
  const int64_t saved = clusters_.savedBytes(v, into, from);
  const unsigned p = clusters_.of(&producer), c = clusters_.of(&consumer);
  if (v->type().space() != consumer.result()->type().space())
    return reject(id, producer, consumer, "one side runs on the host", saved);
  if (int64_t(clusters_.inputs(into, from)) > context_.option("max-inputs"))
    return reject(id, producer, consumer, "the group would have too many inputs", saved);
  if (clusters_.pathThroughOthers(p, c))
    return reject(id, producer, consumer,
                  "would make a cycle: another input depends on this producer", saved);
  if (!context_.fire(id, consumer))
    return reject(id, producer, consumer, "switched off", saved);
  recordFusion(context_, true, id, producer, consumer, "", saved);
  clusters_.merge(into, from);
  return true;
}

} // namespace tenon
