// Implements the spelling of scalar programs.
#include "codegen/emit/ScalarSpelling.h"

#include "codegen/core/TargetFamily.h"
#include "ir/Scalar.h"

namespace tenon {

ScalarSpeller::ScalarSpeller(const ScalarProgram &program, const TargetLevel &level,
                             bool sharedConstants)
    : program_(program), level_(level), sharedConstants_(sharedConstants),
      uses_(program.nodes.size(), 0) {
  for (const ScalarNode &n : program.nodes)
    for (unsigned k : n.operands)
      ++uses_[k];
  for (unsigned o : program.outputs)
    ++uses_[o];
  findNarrow();
}

/// From the outputs back: what is computed in f32 counts as stored in 16 bits where each way to an
/// output goes through a cast to as many, and on the way functions keep its relative error. The sum
/// of 1 and an erf keeps the absolute one, which is below what 16 bits tell of 1.
void ScalarSpeller::findNarrow() {
  const auto isNarrow = [](const ScalarNode &n) {
    return isFloat(n.element) && bitWidth(n.element) <= 16;
  };
  const std::vector<ScalarNode> &nodes = program_.nodes;
  narrow_.assign(nodes.size(), true);
  for (unsigned o : program_.outputs)
    narrow_[o] = isNarrow(nodes[o]);
  for (size_t i = nodes.size(); i-- > 0;) {
    const ScalarNode &user = nodes[i];
    if (isNarrow(user))
      narrow_[i] = true;
    if (user.kind != ScalarNode::Function)
      continue;
    for (unsigned k : user.operands) {
      const ScalarNode &operand = nodes[k];
      const bool isErrorFunction =
          operand.kind == ScalarNode::Function && operand.op->is(Op::Erf) && user.op->is(Op::Add);
      const bool keepsError =
          isErrorFunction ? llvm::any_of(user.operands,
                                         [&](unsigned other) {
                                           return nodes[other].kind == ScalarNode::Function &&
                                                  nodes[other].op->is(Op::Const);
                                         })
                          : user.op->isAny(Op::Cast, Op::Mul, Op::Div, Op::Neg, Op::Clamp);
      if (!keepsError || !narrow_[i] || !isFloat(user.element))
        narrow_[k] = false;
    }
  }
}

ScalarSpelling ScalarSpeller::operator()(unsigned number) const {
  const ScalarNode &n = node(number);
  if (level_.family->facts.device) {
    if (auto s = positiveClamp(n))
      return *s;
    if (auto s = roundedByte(n))
      return *s;
  }
  if (level_.dsp) {
    if (auto s = highProductAndSum(n))
      return *s;
    if (auto s = shiftAndSaturate(n))
      return *s;
  }
  const ScalarInfo *info = scalarInfo(n.op->kind());
  ScalarSpelling s{info ? info->spelling.str() : "", n.operands}; // none: constants, indices
  // On CUDA some functions of values that are stored in 16 bits have short forms (`narrowed` in
  // runtime/common/values.h).
  if (level_.family->facts.device && narrow_[number] && isFloat(n.element) &&
      n.op->isAny(Op::Div, Op::Reciprocal, Op::Exp, Op::Sigmoid, Op::Erf))
    s.pattern.replace(s.pattern.find("<L>"), 3, "<narrowed<L>>");
  return s;
}

const ScalarNode *ScalarSpeller::onlyUse(unsigned number, Op kind) const {
  const ScalarNode &n = node(number);
  return n.kind == ScalarNode::Function && n.op->is(kind) && uses_[number] == 1 ? &n : nullptr;
}

llvm::Optional<int64_t> ScalarSpeller::constant(unsigned number) const {
  const ScalarNode &n = node(number);
  if (n.kind != ScalarNode::Function || !n.op->is(Op::Const))
    return llvm::None;
  const int64_t *v = n.op->find("value")->get<int64_t>();
  return v ? llvm::Optional<int64_t>(*v) : llvm::None;
}

bool ScalarSpeller::clampsTo(const ScalarNode &n, int64_t low, int64_t high) const {
  return n.op->is(Op::Clamp) && n.element == Element::I32 && constant(n.operands[1]) == low &&
         constant(n.operands[2]) == high;
}

/// clamp(x, 0, high)
llvm::Optional<ScalarSpelling> ScalarSpeller::positiveClamp(const ScalarNode &n) const {
  if (!n.op->is(Op::Clamp) || n.element != Element::I32)
    return llvm::None;
  const auto low = constant(n.operands[1]), high = constant(n.operands[2]);
  if (!low || !high || *low != 0 || *high <= 0)
    return llvm::None;
  return ScalarSpelling{"clamp_positive<L>($0, $1)", {n.operands[0], n.operands[2]}};
}

/// cast(round(x)) to a byte, and such a byte as a float
llvm::Optional<ScalarSpelling> ScalarSpeller::roundedByte(const ScalarNode &n) const {
  const auto roundedBy = [&](const ScalarNode &byte) -> llvm::Optional<unsigned> {
    if (byte.kind != ScalarNode::Function || !byte.op->is(Op::Cast) ||
        (byte.element != Element::I8 && byte.element != Element::U8))
      return llvm::None;
    const ScalarNode &rounded = node(byte.operands[0]);
    if (rounded.kind != ScalarNode::Function || !rounded.op->is(Op::Round) ||
        rounded.element != Element::F32)
      return llvm::None;
    return rounded.operands[0];
  };
  if (!n.op->is(Op::Cast))
    return llvm::None;
  if (const auto x = roundedBy(n))
    return ScalarSpelling{"round_to<L, $T>($0)", {*x}};
  const ScalarNode &byte = node(n.operands[0]);
  const auto x = n.element == Element::F32 ? roundedBy(byte) : llvm::None;
  if (!x)
    return llvm::None;
  return ScalarSpelling{byte.element == Element::I8 ? "round_within<L, int8_t>($0)"
                                                    : "round_within<L, uint8_t>($0)",
                        {*x}};
}

/// mul_high(a, b) + c
llvm::Optional<ScalarSpelling> ScalarSpeller::highProductAndSum(const ScalarNode &n) const {
  if (!n.op->is(Op::Add) || n.element != Element::I32)
    return llvm::None;
  for (unsigned k : {0u, 1u})
    if (const ScalarNode *product = onlyUse(n.operands[k], Op::MulHigh))
      return ScalarSpelling{"mul_high_add<L>($0, $1, $2)",
                            {product->operands[0], product->operands[1], n.operands[1 - k]}};
  return llvm::None;
}

/// clamp(x >> count, low, high) to the values of a byte
llvm::Optional<ScalarSpelling> ScalarSpeller::shiftAndSaturate(const ScalarNode &n) const {
  const bool isSigned = clampsTo(n, -128, 127);
  if (sharedConstants_ || (!isSigned && !clampsTo(n, 0, 255)))
    return llvm::None;
  const ScalarNode *shifted = onlyUse(n.operands[0], Op::ShiftRight);
  const auto count = shifted ? constant(shifted->operands[1]) : llvm::None;
  if (!count || *count < 1 || *count > 31)
    return llvm::None;
  return ScalarSpelling{std::string("shift_right_to<L, ") + (isSigned ? "int8_t, " : "uint8_t, ") +
                            std::to_string(*count) + ">($0)",
                        {shifted->operands[0]}};
}

} // namespace tenon
