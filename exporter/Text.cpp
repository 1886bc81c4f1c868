// Implements the export of functions of text.
#include "exporter/Writer.h"

namespace tenon::exporter {

bool exportText(Operation &op, Writer &w) {
  const llvm::StringRef function = op.is(Op::TextMap) ? op.wordAttr("function") : "";
  if (function == "number" || function == "digits")
    return w.bind(op.result(), w.cast(w.name(op.operand(0)), op.result()->type().element())), true;
  if (function == "equal" || function == "concat") {
    w.bind(op.result(), w.node(function == "equal" ? "Equal" : "StringConcat",
                               {w.name(op.operand(0)), w.name(op.operand(1))}));
    return true;
  }
  if (function == "match") {
    w.bind(op.result(), w.node("RegexFullMatch", {w.name(op.operand(0))},
                               {{"pattern", op.stringAttr("pattern").str()}}));
    return true;
  }
  return w.refuse("the function " + (function.empty() ? "split" : function) + " of text");
}

} // namespace tenon::exporter
