// Imports com.microsoft's group normalisations, which diffusion models hold: statistics of the
// groups of channels, one scale and shift per channel, and an activation.
#include "frontend/onnx/Activation.h"
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {
namespace {

enum { X, Gamma, Beta, Skip, Bias };

/// x, channels behind the batch, normalised in groups. Null after an error.
Value *groupNormalized(Node &n, Value *x) {
  const Type t = x->type();
  const Dim channels = t.dim(1);
  const int64_t groups = n.intAttr("groups", 0), activation = n.intAttr("activation", 0);
  if (groups < 1 || !channels.isConstant() || channels.constant() % groups)
    return n.error("attribute groups: expected a divisor of the " + text({channels}, "") +
                   " channels, found " + std::to_string(groups));
  if (activation != 0 && activation != 1)
    return n.error("attribute activation: expected 0, none, or 1, SiLU, found " +
                   std::to_string(activation));
  for (unsigned i : {unsigned(Gamma), unsigned(Beta)})
    if (n.rank(i) != 1 || n.type(i).dim(0) != channels)
      return n.error("operand " + n.inputName(i) + ": expected one number per channel [" +
                     text({channels}, "") + "], found " + toString(n.type(i)));
  const Dim rest = product(n.context(), t.shape().drop_front(2));
  Value *y = n.b.reshape(x, {t.dim(0), n.dim(groups), floorDiv(channels, groups), rest});
  y = n.b.value(
      Op::Normalize, {y},
      {{"axes", Ints{2, 3}}, {"epsilon", n.floatAttr("epsilon", 1e-5f)}, {"centered", true}});
  y = y ? n.b.reshape(y, t.shape()) : nullptr;
  if (!y)
    return nullptr;
  return pointwise(n.b, {y, n.input(Gamma), n.input(Beta)},
                   {identityMap(t.rank()), along(1), along(1)}, t.shape(),
                   [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                     Value *scaled = s(Op::Mul, a[0], s.cast(a[1], s.type));
                     Value *v = s(Op::Add, scaled, s.cast(a[2], s.type));
                     return s.cast(activation ? swish(s, v, 1) : v, t.element());
                   });
}

void groupNorm(Node &n) { n.set(0, groupNormalized(n, n.input(X))); }

/// The node's operands, channels behind the batch: their sum is normalised.
void skipGroupNorm(Node &n) {
  const Type t = n.type(X), skip = n.type(Skip);
  // What is added has the shape of x, or one number per channel.
  IndexMap map = identityMap(t.rank());
  if (skip.rank() == 2)
    map.resize(2);
  else if (skip.rank() == t.rank())
    for (unsigned d = 2; d < t.rank(); ++d)
      map[d] = skip.dim(d).isConstant(1) ? -1 : map[d];
  bool fits = skip.rank() == map.size();
  for (unsigned d = 0; fits && d < map.size(); ++d)
    fits = map[d] < 0 || skip.dim(d) == t.dim(d);
  if (!fits) {
    n.error("operand " + n.inputName(Skip) + ": expected the shape of " + toString(t) +
            " or one number per channel, found " + toString(skip));
    return;
  }
  if (!checkBias(n, Bias, t.dim(1)))
    return;
  llvm::SmallVector<Value *, 3> operands{n.input(X), n.input(Skip)};
  std::vector<IndexMap> maps{identityMap(t.rank()), map};
  if (n.has(Bias)) {
    operands.push_back(n.input(Bias));
    maps.push_back(along(1));
  }
  Value *total =
      pointwise(n.b, operands, maps, t.shape(), [](Scalars &s, llvm::ArrayRef<Value *> a) {
        Value *v = s(Op::Add, a[0], a[1]);
        return a.size() > 2 ? s(Op::Add, v, a[2]) : v;
      });
  if (!total)
    return;
  n.set(0, groupNormalized(n, total));
  if (n.wants(1))
    n.set(1, total);
}

} // namespace

void importGroupNorm(Node &n) {
  if (!n.checkRank(X, 3) || !n.checkFloat(X))
    return;
  n.boolAttr("channels_last", true) ? importChannelsLast(n, groupNorm, {X}) : groupNorm(n);
}

void importSkipGroupNorm(Node &n) {
  if (!n.checkRank(X, 3) || !n.checkFloat(X))
    return;
  if (!n.boolAttr("channels_last", true))
    skipGroupNorm(n);
  else if (n.rank(Skip) == 2)
    importChannelsLast(n, skipGroupNorm, {X});
  else
    importChannelsLast(n, skipGroupNorm, {X, Skip});
}

} // namespace tenon::frontend
