// Defines the parser of extents, layouts and types in the textual form.
#pragma once

#include "ir/Context.h"
#include "ir/Type.h"
#include "ir/text/Lexer.h"

#include <map>

namespace tenon {

class TypeParser : protected Lexer {
protected:
  TypeParser(Context &context, llvm::StringRef text, Diagnostics &diagnostics)
      : Lexer(text, diagnostics), context_(context) {}

  /// Extent inside braces: integer, symbol, (a + b), (a * b), floordiv(a, b) …
  bool dimExpression(Dim &out, unsigned depth = 0);
  /// Extent in a shape: an integer, or an expression in braces.
  bool dim(Dim &out);
  bool element(Element &out);
  /// `1x{N}x3xf32`
  bool shapeAndElement(llvm::SmallVectorImpl<Dim> &shape, Element &e);
  bool layout(unsigned rank, Layout &out);
  bool type(Type &out, unsigned depth = 0);

  Context &context_;
  /// Where each symbol stands first.
  std::map<std::string, size_t> symbolPlaces_;

private:
  bool tensor(Type &out);
  bool layoutAxis(unsigned rank, LayoutAxis &out);
};

} // namespace tenon
