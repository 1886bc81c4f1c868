// Constants.
//
//   constant {value = literal}
// gives the literal's elements as a tensor. Weights, biases and folded values are constants; equal
// literals may share their data.
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
  results.push_back(Type::tensor(*c, t.element(), t.shape()));
  return true;
}

bool evaluateConstantOp(const Operation &op, EvaluationFrame &frame, std::string &) {
  frame.results.push_back(**op.find("value")->get<Literal>());
  return true;
}

const AttrInfo kAttributes[] = {{"value", AttrKind::Literal, true, "the elements"}};

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
