// Implements the check of names that go into generated text as they are.
#include "ir/UserFunction.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace tenon {

std::string whyNoFunctionName(llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef, 4> parts;
  name.split(parts, "::");
  for (llvm::StringRef part : parts)
    if (part.empty() || llvm::isDigit(part[0]) ||
        !llvm::all_of(part, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
      return "expected a C++ name such as 'scale' or 'mine::scale', found '" + name.str() + "'";
  return "";
}

std::string whyNoHeaderName(llvm::StringRef name) {
  if (name.empty() ||
      llvm::any_of(name, [](char c) { return c == '"' || c == '\\' || !llvm::isPrint(c); }))
    return "expected a file name without quotes, backslashes and control characters";
  return "";
}

} // namespace tenon
