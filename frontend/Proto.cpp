// Implements bounded parsing and the naming of messages' parts.
#include "frontend/Proto.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/raw_ostream.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

namespace tenon::frontend {

bool parseMessage(llvm::StringRef bytes, google::protobuf::MessageLite &message) {
  if (bytes.size() > size_t(INT32_MAX))
    return false;
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t *>(bytes.data()),
                                               int(bytes.size()));
  input.SetRecursionLimit(kMessageDepth);
  return message.ParseFromCodedStream(&input) && input.ConsumedEntireMessage();
}

std::string qualifiedName(llvm::StringRef domain, llvm::StringRef op) {
  domain = canonicalDomain(domain);
  return domain.empty() ? op.str() : domain.str() + "." + op.str();
}

std::string quoted(llvm::StringRef name) {
  constexpr size_t kLongest = 120;
  std::string text;
  llvm::raw_string_ostream os(text);
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(name.data());
  const bool valid = llvm::isLegalUTF8String(&begin, begin + name.size());
  llvm::StringRef shown = name.take_front(kLongest);
  while (valid && shown.size() < name.size() && (name[shown.size()] & 0xc0) == 0x80)
    shown = shown.drop_back(); // not in the middle of a character
  os << '\'';
  for (char c : shown) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '\n')
      os << "\\n";
    else if (u < 0x20 || u == 0x7f || (u >= 0x80 && !valid))
      os << "\\x" << llvm::hexdigit(u >> 4) << llvm::hexdigit(u & 15);
    else
      os << c;
  }
  os << (shown.size() < name.size() ? "…'" : "'");
  return os.str();
}

} // namespace tenon::frontend
