// Implements the collection and printing of diagnostics.
#include "ir/Diagnostics.h"

#include "llvm/Support/raw_ostream.h"

namespace tenon {

Diagnostic &Diagnostics::report(Severity severity, std::string message) {
  if (severity == Severity::Error)
    ++errors_;
  Diagnostic d;
  d.severity = severity;
  d.message = std::move(message);
  list_.push_back(std::move(d));
  return list_.back();
}

Diagnostic &Diagnostics::error(const Operation &op, std::string message) {
  Diagnostic &d = error(std::move(message));
  d.nodes = op.loc();
  d.op = op.name().str();
  d.about = &op;
  return d;
}

Diagnostic &Diagnostics::error(const Operation &op, const Refusal &refusal) {
  Diagnostic &d = error(op, refusal.reason);
  if (!refusal.remedy.empty())
    d.notes.push_back(refusal.remedy);
  return d;
}

void Diagnostics::print(llvm::raw_ostream &os) const {
  static const char *const kWords[] = {"error", "warning", "remark"};
  for (const Diagnostic &d : list_) {
    os << kWords[int(d.severity)] << ": ";
    if (!d.nodes.empty()) {
      os << "node ";
      for (size_t i = 0; i < d.nodes.size() && i < 4; ++i) {
        os << (i ? ", '" : "'");
        os.write_escaped(d.nodes[i]) << "'";
      }
      if (d.nodes.size() > 4)
        os << " and " << d.nodes.size() - 4 << " more";
      if (!d.op.empty())
        os << " (" << d.op << ")";
      os << ": ";
    } else if (!d.op.empty()) {
      os << d.op << ": ";
    }
    os << d.message << '\n';
    for (const std::string &n : d.notes)
      os << "  note: " << n << '\n';
  }
}

} // namespace tenon
