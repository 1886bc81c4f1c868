// Operations on text. Values are UTF-8; letters change case in ASCII only.
//
//   text_map (x...) {function, ...}  elementwise, broadcast as in NumPy:
//       concat x y        y behind x
//       lower x, upper x  with other letters
//       equal x y         i1
//       match x           i1: the regular expression `pattern` (ir/Regex.h) matches all of x
//       index x           i64: the first place of x among `keys`, −1 where it is none of them
//       count x           i64: the number of pieces that text_split cuts x into
//       number x          the number that x says, of type `to` (ir/TextNumbers.h); what says none
//                         ends the run with an error
//       digits x          the number x, f32, f64, i64 or u64, as text
//   text_split (x) {delimiter, limit, symbol}  pieces of each element along a new last dimension,
//       whose extent is a symbol of its own, filled up with empty text; at most `limit` cuts, where
//       there is one. An empty delimiter stands for runs of white space, which bound no empty
//       pieces
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"

#include "ir/Builder.h"
#include "ir/Regex.h"

namespace tenon {
namespace {

/// Numbers that text is made of, or that it says.
bool isWritten(Element e) {
  return e == Element::F32 || e == Element::F64 || e == Element::I64 || e == Element::U64;
}

bool inferTextMap(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkWord(op, "function",
                                          {"concat", "lower", "upper", "equal", "match", "index",
                                           "count", "number", "digits"},
                                          error))
    return false;
  const llvm::StringRef function = op.wordAttr("function");
  const unsigned arity = function == "concat" || function == "equal" ? 2 : 1;
  if (op.numOperands() != arity)
    return fail(error, function + " expects " + llvm::Twine(arity) + " operands, found " +
                           llvm::Twine(op.numOperands()));
  llvm::SmallVector<llvm::ArrayRef<Dim>, 2> shapes;
  for (unsigned i = 0; i < arity; ++i) {
    if (!checkTensor(op, i, -1, error))
      return false;
    const Element e = op.operand(i)->type().element();
    if (function == "digits" ? !isWritten(e) : e != Element::String)
      return fail(error,
                  (function == "digits" ? "expected f32, f64, i64 or u64" : "expected text") +
                      llvm::Twine(", found ") + toString(op.operand(i)->type()));
    shapes.push_back(op.operand(i)->type().shape());
  }
  if ((function == "match") != op.has("pattern") || (function == "index") != op.has("keys"))
    return fail(error, "attribute pattern belongs to match, keys to index");
  const Type *to = op.has("to") ? op.find("to")->get<Type>() : nullptr;
  if ((function == "number") != op.has("to") ||
      (to && (!to->isScalar() || !isWritten(to->element()))))
    return fail(error, "attribute to belongs to number: expected f32, f64, i64 or u64");
  if (function != "count" && (op.has("delimiter") || op.has("limit")))
    return fail(error, "attributes delimiter and limit belong to count");
  llvm::SmallVector<Dim, 6> shape;
  if (!broadcastShapes(shapes, shape))
    return fail(error, "operands of shapes " + text(shapes[0]) + " and " + text(shapes.back()) +
                           " do not broadcast");
  const Element e = function == "equal" || function == "match"   ? Element::Bool
                    : function == "index" || function == "count" ? Element::I64
                    : to                                         ? to->element()
                                                                 : Element::String;
  results.push_back(Type::tensor(op.operand(0)->type().context(), e, shape));
  return true;
}

bool inferTextSplit(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  const Type t = op.operand(0)->type();
  if (t.element() != Element::String)
    return fail(error, "expected text, found " + toString(t));
  const llvm::StringRef symbol = op.stringAttr("symbol");
  if (symbol.empty())
    return fail(error, "attribute symbol: expected a name");
  llvm::SmallVector<Dim, 6> shape(t.shape().begin(), t.shape().end());
  shape.push_back(t.context().symbol(symbol));
  results.push_back(Type::tensor(t.context(), Element::String, shape));
  return true;
}

bool verifyTextMap(const Operation &op, std::string &error) {
  std::string why;
  if (op.wordAttr("function") == "match" && !compileRegex(op.stringAttr("pattern"), why))
    return fail(error, "attribute pattern: " + why);
  return true;
}

const llvm::StringRef kMany[] = {"x…"};
const llvm::StringRef kX[] = {"x"};
const AttrInfo kTextMap[] = {
    {"function", AttrKind::Word, true,
     "concat, lower, upper, equal, match, index, count, number or digits"},
    {"pattern", AttrKind::String, false, "regular expression of match"},
    {"keys", AttrKind::Strings, false, "what index looks for"},
    {"delimiter", AttrKind::String, false, "of count, as text_split has it"},
    {"limit", AttrKind::Int, false, "of count, as text_split has it"},
    {"to", AttrKind::Type, false, "type of number"},
};
const AttrInfo kTextSplit[] = {
    {"delimiter", AttrKind::String, false, "what stands between pieces (default: white space)"},
    {"limit", AttrKind::Int, false, "most cuts (default: any number)"},
    {"symbol", AttrKind::String, true, "name of the largest number of pieces"},
};

} // namespace

llvm::ArrayRef<OpRow> textOps() {
  static const OpRow kRows[] = {
      {Op::TextMap,
       {"text_map", "One function of text, elementwise.", kMany, kTextMap, 1, 0, OpTrait::None,
        inferTextMap, verifyTextMap, evaluateTextMap}},
      {Op::TextSplit,
       {"text_split", "Pieces of text between delimiters.", kX, kTextSplit, 1, 0, OpTrait::None,
        inferTextSplit, nullptr, evaluateTextSplit}},
  };
  return kRows;
}

} // namespace tenon
