// Pointwise computation.
//
//   map (x…) {maps, space} { (a…) … yield r… }
// For every point of the iteration space the body is applied to one element of each operand and
// gives one element of each result; results have the shape of the space. `maps` lists, for each
// dimension of an operand, the iteration dimension that it follows, or −1 where its extent is 1
// and it is broadcast. So NumPy broadcasting, transposed reading and scalars are all index maps.
// `space` gives the extents that no operand carries.
//
// Numeric rules. Each scalar function is exact or correctly rounded where IEEE says so and within
// its stated bound elsewhere; the interpreter computes it in double and rounds the result to the
// scalar's type: f64 to itself, every narrower float to f32 until it is stored, which rounds half
// to even (saturating for formats without infinity). Integers wrap to their width. Bodies have no
// side effects and read only their arguments.
//
// Floats of 16 bits may know more than their type until a tensor is stored, as C's FLT_EVAL_METHOD
// has it: how often that happens is the choice of fusion, and a model of such tensors may give
// other last bits where operations share a kernel. `cast` ends it where it has `rounds = true`:
// what goes in is a number of the operand's type, and what comes out one of the result's, on every
// target and level, so f32(f16(70000)) is inf and x − f32(f16(x)) the rounding error. Every Cast of
// the model that meets f16 or bf16 is one. Casts without it are the compiler's own: from f32 to f16
// and back is what it was. Floats of 8 bits and fewer always round.
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"

namespace tenon {
namespace {

bool inferMap(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error))
    return false;
  llvm::SmallVector<Dim, 6> space;
  if (!iterationSpace(op, space, error) || !checkBody(op, space.size(), error))
    return false;
  Region &body = op.region();
  if (body.numArguments() != op.numOperands())
    return fail(error, "expected one body argument per operand (" + llvm::Twine(op.numOperands()) +
                           "), found " + llvm::Twine(body.numArguments()));
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Type a = body.argument(i)->type();
    Type scalar = Type::scalar(a.context(), op.operand(i)->type().element());
    if (a != scalar)
      return fail(error, "body argument " + llvm::Twine(i) + ": expected " + toString(scalar) +
                             ", found " + toString(a));
  }
  Operation *end = regionEnd(op, 0, error);
  if (!end)
    return false;
  if (end->numOperands() == 0)
    return fail(error, "body yields nothing");
  for (Value *v : end->operands()) {
    if (!v->type().isScalar())
      return fail(error, "body yields " + toString(v->type()) + ": expected a scalar");
    results.push_back(Type::tensor(v->type().context(), v->type().element(), space));
  }
  return true;
}

const llvm::StringRef kOperands[] = {"x…"};
const AttrInfo kAttributes[] = {
    {"maps", AttrKind::IntLists, true,
     "per operand, the iteration dimension of each of its dimensions, -1 where it is broadcast"},
    {"space", AttrKind::Dims, false, "extents of the iteration space, where operands do not say"},
};

} // namespace

llvm::ArrayRef<OpRow> pointwiseOps() {
  static const OpRow kRows[] = {
      {Op::Map,
       {"map", "Applies a body of scalar functions at every point of an iteration space.",
        kOperands, kAttributes, kVariadic, 1, OpTrait::Isolated, inferMap, nullptr, evaluateMap}},
  };
  return kRows;
}

} // namespace tenon
