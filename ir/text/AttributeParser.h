// Defines the parser of attributes and literals in the textual form.
#pragma once

#include "ir/Attribute.h"
#include "ir/Tensor.h"
#include "ir/text/TypeParser.h"

namespace tenon {

/// `data` holds the bytes of the side file, where literals of kind `data` lie.
class AttributeParser : protected TypeParser {
protected:
  AttributeParser(Context &context, llvm::StringRef text, llvm::StringRef data,
                  Diagnostics &diagnostics)
      : TypeParser(context, text, diagnostics), data_(data) {}

  /// None after an error.
  llvm::Optional<Attribute> attribute();

private:
  struct LiteralType {
    Element element = Element::F32;
    llvm::SmallVector<int64_t, 6> shape;
    int64_t count = 1;
  };

  bool ints(Ints &out);
  llvm::Optional<Attribute> namedList(llvm::StringRef kind);
  llvm::Optional<Attribute> schedule(llvm::StringRef tactic);
  llvm::Optional<Attribute> literal(llvm::StringRef kind);
  bool literalType(LiteralType &out);
  bool sideFileLiteral(const LiteralType &type, Tensor &out);
  bool textLiteral(const LiteralType &type, bool splat, Tensor &out);
  bool numericLiteral(const LiteralType &type, bool splat, Tensor &out);
  bool elementValue(Tensor &out, int64_t index);

  llvm::StringRef data_;
  int64_t splatBytes_ = 0; // of all splat literals so far
};

} // namespace tenon
