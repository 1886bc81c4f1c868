// Defines diagnostics: what is reported about a model or a text, and who collects it.
// Messages are lowercase without a full stop and name node, expected, found and remedy.
#pragma once

#include "ir/IR.h"
#include "ir/Result.h"

#include "llvm/Support/SMLoc.h"

#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
}

namespace tenon {

enum class Severity : uint8_t { Error, Warning, Remark };

struct Diagnostic {
  Severity severity = Severity::Error;
  std::string message;
  /// ONNX node ids concerned; may be empty.
  Location nodes;
  /// Operator of the node as its author wrote it ("Conv"); may be empty.
  std::string op;
  /// The operation concerned; only valid as long as the module is.
  const Operation *about = nullptr;
  /// Place in a .tn buffer; invalid when there is none.
  llvm::SMLoc where;
  std::vector<std::string> notes;
};

/// Collects what goes wrong. Never throws; callers look at hasErrors().
class Diagnostics {
public:
  Diagnostic &report(Severity severity, std::string message);
  Diagnostic &error(std::string message) { return report(Severity::Error, std::move(message)); }
  Diagnostic &error(const Operation &op, std::string message);
  /// The remedy, where there is one, as a note.
  Diagnostic &error(const Operation &op, const Refusal &refusal);
  Diagnostic &warning(std::string message) { return report(Severity::Warning, std::move(message)); }
  bool hasErrors() const { return errors_ != 0; }
  const std::vector<Diagnostic> &list() const { return list_; }
  std::vector<Diagnostic> &list() { return list_; }
  void clear() { list_.clear(), errors_ = 0; }
  /// One line per diagnostic, notes indented below.
  void print(llvm::raw_ostream &os) const;

private:
  std::vector<Diagnostic> list_;
  unsigned errors_ = 0;
};

} // namespace tenon
