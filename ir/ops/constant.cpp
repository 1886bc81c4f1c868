// Constants.
//
//   constant {value = literal}
// gives the literal's elements as a tensor. Weights, biases and folded values are constants; equal
// literals may share their data. `stored = winograd` says that memory holds what Winograd's
// convolutions multiply in place of filters of 3 x 3 taps, `stored = i4x16` that it holds weights
// of 4 bits in groups of 16 bytes (runtime/common/weight_fields.h), `stored = joined2` that its
// rows are two pairs of filters (runtime/common/joined_weights.h), `stored = tf32` that it holds
// what Tensor Cores multiply in place of floats, `stored = tf32x3` the two parts of each
// (runtime/cuda/tile/tf32.cuh), `stored = pairs` each element of a filter's row with the one before
// it (runtime/cuda/depthwise/mma.cuh); the elements stay what they are.
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
  const llvm::StringRef word = op.has("stored") ? op.wordAttr("stored") : "";
  if (word.startswith("winograd")) {
    if (!checkWord(op, "stored", {"winograd", "winograd6"}, error))
      return false;
    const size_t rank = t.shape().size();
    // Filters of volumes are planes of such taps.
    const bool filters = t.element() == Element::F32 &&
                         (rank == 4 || (rank == 5 && word == "winograd6")) &&
                         t.shape()[rank - 2] == 3 && t.shape()[rank - 1] == 3;
    if (!filters)
      return fail(error, "attribute stored: " + word.str() + " is for f32 filters of 3x3 taps");
  } else if (word.startswith("tf32")) {
    if (!checkWord(op, "stored", {"tf32", "tf32x3"}, error))
      return false;
    if (t.element() != Element::F32)
      return fail(error, "attribute stored: " + word.str() + " is for f32 tensors");
  } else if (word == "pairs") {
    if (bitWidth(t.element()) != 16 || t.rank() < 2)
      return fail(error, "attribute stored: pairs is for filters of 16-bit elements");
  } else if (word == "strips") {
    const Element e = t.element();
    const bool fits =
        bitWidth(e) == 16 || e == Element::I8 || e == Element::I4 || e == Element::F8E4M3;
    if (!fits || t.rank() < 2)
      return fail(error, "attribute stored: strips is for matrices of 16 bits, f8e4m3, i8 or i4");
  } else if (word.startswith("scales")) {
    if (!checkWord(op, "stored",
                   {"scales4x1", "scales4x2", "scales4x4", "scales4x8", "scales8x1", "scales8x2",
                    "scales8x4", "scales8x8"},
                   error))
      return false;
    if (bitWidth(t.element()) != 16 || t.rank() != 2)
      return fail(error, "attribute stored: " + word.str() + " is for matrices of 16 bits");
  } else if (op.has("stored")) {
    if (!checkWord(op, "stored",
                   {"winograd", "winograd6", "tf32", "tf32x3", "pairs", "i2x1", "i2x4", "i2x16",
                    "i4x1", "i4x4", "i4x16", "joined1", "joined2"},
                   error))
      return false;
    const int64_t low = word.startswith("joined") ? -127
                        : word.startswith("i2")   ? -2
                                                  : -8,
                  high = word.startswith("joined") ? 127 : -low - 1;
    bool fits = t.element() == Element::I8 && t.rank() > 0;
    for (int64_t i = 0; i < t.size() && fits; ++i)
      fits = t.intAt(i) >= low && t.intAt(i) <= high;
    if (!fits)
      return fail(error, "attribute stored: " + word.str() + " is for i8 tensors of numbers from " +
                             std::to_string(low) + " to " + std::to_string(high));
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
     "winograd: memory holds the transformed filters, 4x4 for 3x3; winograd6: 6x6 for 3x3; tf32: "
     "floats rounded to 11 bits "
     "of significand; tf32x3: floats in two such parts; pairs: each element of a filter's row with "
     "the one before it; i4x16 and others: numbers of 4 or 2 bits, "
     "in "
     "groups of 1, 4 or 16 bytes; joined1, joined2: rows of one or two pairs of filters, 256 a + "
     "b; "
     "strips: matrices in tiles of 16 outputs as Tensor Cores take them; scales4x1 and others: "
     "those "
     "of strips of so many bits, each for so many times 32 elements (default: the elements)"},
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
