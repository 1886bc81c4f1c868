// Implements SourceWriter.
#include "codegen/emit/SourceWriter.h"

#include <algorithm>

namespace tenon {

SourceWriter &SourceWriter::line(llvm::StringRef text) {
  if (text.empty()) {
    if (!llvm::StringRef(text_).endswith("\n\n") && !text_.empty())
      text_ += '\n';
    return *this;
  }
  return begin(text).raw("\n");
}

SourceWriter &SourceWriter::begin(llvm::StringRef text) {
  text_.append(indent_ * 2, ' ');
  return raw(text);
}

SourceWriter &SourceWriter::open(llvm::StringRef text) {
  line(text.str() + " {");
  ++indent_;
  return *this;
}

SourceWriter &SourceWriter::close(llvm::StringRef text) {
  --indent_;
  return line(text);
}

SourceWriter &SourceWriter::function(llvm::StringRef signature, llvm::StringRef statement) {
  return open(signature).line(statement).close().line();
}

SourceWriter &SourceWriter::lines(llvm::StringRef text) {
  while (!text.empty()) {
    auto [first, rest] = text.split('\n');
    line(first);
    text = rest;
  }
  return *this;
}

SourceWriter &SourceWriter::comment(llvm::StringRef text) {
  const size_t width = 96 - indent_ * 2;
  bool first = true;
  while (!text.empty() || first) {
    size_t cut = text.size();
    if (cut > width) {
      cut = text.rfind(' ', width);
      if (cut == llvm::StringRef::npos || cut == 0)
        cut = std::min(text.find(' '), text.size());
    }
    line("// " + text.take_front(cut).str());
    text = text.drop_front(cut).ltrim();
    first = false;
  }
  return *this;
}

SourceWriter &SourceWriter::raw(llvm::StringRef text) {
  text_ += text.str();
  return *this;
}

} // namespace tenon
