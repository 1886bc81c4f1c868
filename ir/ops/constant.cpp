// Constants.
//
//   constant {value = literal}
// gives the literal's elements as a tensor. Weights, biases and folded values are constants; equal
// literals may share their data. `stored = winograd` says that memory holds what Winograd's
// convolutions multiply in place of filters of 3 x 3 taps; the elements stay what they are.
#include "ir/Interpreter.h"
#include "ir/ops/Ops.h"

namespace tenon {
namespace {

bool inferConstant(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error))
    return false;
  Context *c = contextOf(op);
  if (!c)
    return fail(error, "a constant must stand in a graph");
  const Tensor &t = **op.find("value")->get<Literal>();
  if (op.has("stored")) {
    const bool filters = t.element() == Element::F32 && t.shape().size() == 4 &&
                         t.shape()[2] == 3 && t.shape()[3] == 3;
    if (!checkWord(op, "stored", {"winograd"}, error))
      return false;
    if (!filters)
      return fail(error, "attribute stored: winograd is for f32 filters of 3x3 taps");
  }
  results.push_back(Type::tensor(*c, t.element(), t.shape()));
  return true;
}

bool evaluateConstantOp(const Operation &op, EvaluationFrame &frame, std::string &) {
  frame.results.push_back(**op.find("value")->get<Literal>());
  return true;
}

const AttrInfo kAttributes[] = {
    {"value", AttrKind::Literal, true, "the elements"},
    {"stored", AttrKind::Word, false,
     "winograd: memory holds the transformed filters, 4x4 for 3x3 (default: the elements)"},
};

} // namespace

llvm::ArrayRef<OpRow> constantOps() {
  static const OpRow kRows[] = {
      {Op::Constant,
       {"constant", "Known elements.", kNoOperands, kAttributes, 1, 0, OpTrait::None, inferConstant,
        nullptr, evaluateConstantOp}},
  };
  return kRows;
}

} // namespace tenon
