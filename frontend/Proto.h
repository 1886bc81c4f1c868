// Defines how protobuf messages enter: the generated classes, bounded parsing, names. Internal to
// the frontend.
#pragma once

#include "onnx-ml.pb.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace tenon::frontend {

/// Nesting of messages that a file may have; each subgraph takes three levels.
constexpr int kMessageDepth = 400;
/// Nesting of subgraphs and of function calls that is followed.
constexpr int kGraphDepth = 96;
/// Nodes after functions have been expanded.
constexpr int64_t kNodeLimit = 500'000;
/// Elements of one tensor, at the upper bounds of its extents.
constexpr int64_t kElementLimit = int64_t(1) << 40;

/// Parses a whole message; false when the bytes are damaged or nested too deeply.
bool parseMessage(llvm::StringRef bytes, google::protobuf::MessageLite &message);

/// "" for the default domain in either of its spellings.
inline llvm::StringRef canonicalDomain(llvm::StringRef domain) {
  return domain == "ai.onnx" ? llvm::StringRef() : domain;
}
/// "Conv", or "com.microsoft.Gelu" for other domains.
std::string qualifiedName(llvm::StringRef domain, llvm::StringRef op);

/// Text for messages: quoted, control characters escaped, invalid UTF-8 replaced, cut when long.
std::string quoted(llvm::StringRef name);

} // namespace tenon::frontend
