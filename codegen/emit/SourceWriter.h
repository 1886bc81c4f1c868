// Defines SourceWriter: text with indentation. It alone touches whitespace.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace tenon {

class SourceWriter {
public:
  /// One line at the current indentation; an empty text writes an empty line (never two running).
  SourceWriter &line(llvm::StringRef text = "");
  /// What a line begins with; raw() appends the rest and its end.
  SourceWriter &begin(llvm::StringRef text);
  /// `text {` … closed by close("}").
  SourceWriter &open(llvm::StringRef text);
  SourceWriter &close(llvm::StringRef text = "}");
  /// A function whose body is one statement, and an empty line.
  SourceWriter &function(llvm::StringRef signature, llvm::StringRef statement);
  /// Several lines, each indented; for text that comes from real files.
  SourceWriter &lines(llvm::StringRef text);
  /// `// text`, broken into lines of at most 100 columns.
  SourceWriter &comment(llvm::StringRef text);
  /// Appends text as it is.
  SourceWriter &raw(llvm::StringRef text);

  const std::string &text() const { return text_; }
  std::string take() { return std::move(text_); }

private:
  std::string text_;
  unsigned indent_ = 0;
};

} // namespace tenon
