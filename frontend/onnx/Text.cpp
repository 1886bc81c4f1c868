// Imports operators on text.
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Operators.h"

#include "ir/Names.h"
#include "ir/Regex.h"

namespace tenon::frontend {
namespace {

bool checkText(Node &n, unsigned i) {
  if (n.element(i) == Element::String)
    return true;
  n.error("operand " + n.inputName(i) + ": expected text, found " + toString(n.type(i)));
  return false;
}

Value *textMap(Node &n, llvm::StringRef function, llvm::ArrayRef<Value *> operands,
               NamedAttributes attributes = {}) {
  attributes.insert({"function", Word{function.str()}});
  return n.b.value(Op::TextMap, operands, std::move(attributes));
}

Dim ownSymbol(Node &n, int64_t bound) {
  return n.graph.state.bornSymbol(n.context(), sanitizeName(n.id + "_count"), 0, bound);
}

/// Without a limit of the node's own.
constexpr int64_t kMostPieces = 256;

} // namespace

void importStringConcat(Node &n) {
  if (checkText(n, 0) && checkText(n, 1))
    n.set(0, textMap(n, "concat", {n.input(0), n.input(1)}));
}

void importRegexFullMatch(Node &n) {
  if (!checkText(n, 0))
    return;
  const std::string pattern = n.stringAttr("pattern", "");
  std::string why;
  if (!compileRegex(pattern, why)) {
    n.error("attribute pattern: " + why);
    return;
  }
  n.set(0, textMap(n, "match", {n.input(0)}, {{"pattern", pattern}}));
}

void importStringSplit(Node &n) {
  if (!checkText(n, 0))
    return;
  const int64_t limit = n.intAttr("maxsplit", -1);
  const Dim pieces = ownSymbol(n, limit >= 0 && limit < kMostPieces ? limit + 1 : kMostPieces);
  NamedAttributes cuts{{"delimiter", n.stringAttr("delimiter", "")}};
  if (limit >= 0)
    cuts.insert({"limit", limit});
  if (n.wants(1))
    n.set(1, textMap(n, "count", {n.input(0)}, cuts));
  cuts.insert({"symbol", pieces.symbol().str()});
  n.set(0, n.b.value(Op::TextSplit, {n.input(0)}, std::move(cuts)));
}

void importStringNormalizer(Node &n) {
  // Stop words go, what is left changes case; where nothing is left, one empty text is.
  const Type t = n.type(0);
  if (!checkText(n, 0) || !n.checkRank(0, 1, 2))
    return;
  if (t.rank() == 2 && !t.dim(0).isConstant(1)) {
    n.error("operand " + n.inputName(0) + ": expected one row of text, found " + toString(t));
    return;
  }
  const std::string action = n.stringAttr("case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER") {
    n.error("attribute case_change_action: expected NONE, LOWER or UPPER, found '" + action + "'");
    return;
  }
  Strings stopWords = n.stringsAttr("stopwords");
  Value *x = n.b.reshape(n.input(0), {t.elements()});
  if (!x)
    return;
  if (!stopWords.empty()) {
    Value *compared = x;
    if (!n.boolAttr("is_case_sensitive", false)) {
      for (std::string &w : stopWords)
        w = llvm::StringRef(w).lower();
      compared = textMap(n, "lower", {x});
    }
    Value *place = compared ? textMap(n, "index", {compared}, {{"keys", stopWords}}) : nullptr;
    Value *kept = place ? pointwise(n.b, {place},
                                    [](Scalars &s, llvm::ArrayRef<Value *> a) {
                                      return s(Op::Less, a[0], s.c(0));
                                    })
                        : nullptr;
    if (!kept)
      return;
    // The empty text at the end stays when nothing else does.
    Value *any = n.b.reduce(Op::LogicalOr, kept, {0}, 0);
    Value *none = any ? n.b.pointwise(Op::LogicalNot, {any}) : nullptr;
    none = none ? n.b.reshape(none, {n.dim(1)}) : nullptr;
    Value *empty = n.b.constant(Tensor::strings({1}, {""}));
    const NamedAttributes first{{"axis", int64_t(0)}};
    kept = none ? n.b.value(Op::Concat, {kept, none}, first) : nullptr;
    x = n.b.value(Op::Concat, {x, empty}, first);
    if (!kept || !x)
      return;
    Value *places =
        n.b.value(Op::NonZero, {kept},
                  {{"symbol", ownSymbol(n, kept->type().upperElements()).symbol().str()}});
    places = places ? n.b.reshape(places, {places->type().dim(1)}) : nullptr;
    x = places ? n.b.value(Op::Gather, {x, places}, first) : nullptr;
  }
  if (x && action != "NONE")
    x = textMap(n, action == "LOWER" ? "lower" : "upper", {x});
  n.set(0, x && t.rank() == 2 ? n.b.reshape(x, {n.dim(1), x->type().dim(0)}) : x);
}

} // namespace tenon::frontend
