// Implements the table of all operations: families of structured ops, then the scalar functions.
#include "ir/Op.h"

#include "ir/Scalar.h"
#include "ir/Suggestion.h"
#include "ir/ops/Ops.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <cassert>
#include <vector>

namespace tenon {
namespace {

const llvm::StringRef kScalarOperands[] = {"a", "b", "c"};
const llvm::StringRef kQuantizeOperands[] = {"x", "scale", "zero_point"};
const AttrInfo kCast[] = {
    {"to", AttrKind::Type, true, "type of the result"},
    {"rounds", AttrKind::Bool, false,
     "operand and result are numbers of their types, f16 and bf16 included (default false)"}};
// `value` may also be written as an integer or a boolean, which then is exact for 64-bit types.
const AttrInfo kConst[] = {{"value", AttrKind::Float, true, "the number"},
                           {"to", AttrKind::Type, true, "type of the result"}};
const AttrInfo kLookup[] = {{"table", AttrKind::Ints, true, "entries, by the operand's 8 bits"},
                            {"to", AttrKind::Type, true, "type of the entries"}};
const AttrInfo kIndex[] = {{"dim", AttrKind::Int, true, "iteration dimension"},
                           {"to", AttrKind::Type, true, "i64"}};

OpInfo scalarRow(const ScalarInfo &s) {
  OpInfo info;
  info.name = s.name;
  info.summary = s.summary;
  info.operands = llvm::ArrayRef<llvm::StringRef>(kScalarOperands).take_front(size_t(s.arity));
  info.traits = OpTrait::Scalar;
  info.infer = inferScalar;
  switch (s.signature) {
  case ScalarSignature::Cast: info.attributes = kCast; break;
  case ScalarSignature::Lookup: info.attributes = kLookup; break;
  case ScalarSignature::Const: info.attributes = kConst; break;
  case ScalarSignature::Index: info.attributes = kIndex; break;
  case ScalarSignature::Quantize:
  case ScalarSignature::Dequantize: info.operands = kQuantizeOperands; break;
  default: break;
  }
  return info;
}

struct Table {
  std::vector<OpInfo> infos;
  std::vector<Op> ops;
  llvm::StringMap<Op> names;

  void add(Op op, const OpInfo &info) {
    assert(size_t(op) == infos.size() && "rows stand in the order of the enumeration");
    infos.push_back(info);
    ops.push_back(op);
    names[info.name] = op;
  }

  Table() {
    for (const OpFamily &family : opFamilies())
      for (const OpRow &row : family.rows)
        add(row.first, row.second);
    const Op scalars[] = {
#define TENON_SCALAR(NAME, TEXT, ARITY, SIGNATURE, SPELLING, FLOAT, INT, SUMMARY) Op::NAME,
#include "ir/Scalars.def"
    };
    for (Op op : scalars)
      add(op, scalarRow(*scalarInfo(op)));
  }
};

const Table &table() {
  static const Table t;
  return t;
}

} // namespace

std::vector<OpFamily> opFamilies() {
  return {
      {"Constants", "ir/ops/constant.cpp", constantOps()},
      {"Pointwise", "ir/ops/pointwise.cpp", pointwiseOps()},
      {"Reductions", "ir/ops/reduction.cpp", reductionOps()},
      {"Movement", "ir/ops/movement.cpp", movementOps()},
      {"Contractions", "ir/ops/contract.cpp", contractOps()},
      {"Attention", "ir/ops/attention.cpp", attentionOps()},
      {"Recurrent layers", "ir/ops/recurrent.cpp", recurrentOps()},
      {"Windows", "ir/ops/window.cpp", windowOps()},
      {"Shapes and data-dependent extents", "ir/ops/shape.cpp", shapeOps()},
      {"Text", "ir/ops/text.cpp", textOps()},
      {"Control flow and groups", "ir/ops/control.cpp", controlOps()},
  };
}

const OpInfo &opInfo(Op kind) { return table().infos[size_t(kind)]; }
llvm::ArrayRef<Op> allOps() { return table().ops; }

llvm::Optional<Op> parseOp(llvm::StringRef name) {
  auto it = table().names.find(name);
  return it == table().names.end() ? llvm::None : llvm::Optional<Op>(it->second);
}

const AttrInfo *OpInfo::attribute(llvm::StringRef attributeName) const {
  const auto *found =
      llvm::find_if(attributes, [&](const AttrInfo &a) { return a.name == attributeName; });
  return found == attributes.end() ? nullptr : found;
}

std::string unknownAttribute(const OpInfo &info, llvm::StringRef name) {
  std::vector<llvm::StringRef> names;
  for (const AttrInfo &a : info.attributes)
    names.push_back(a.name);
  const std::string message = info.name.str() + " has no attribute '" + name.str() + "'";
  if (std::string slip = didYouMean(name, names); !slip.empty())
    return message + slip;
  return message + "; it has " + (names.empty() ? "none" : llvm::join(names, ", "));
}

} // namespace tenon
