// Writes docs/ops.md from the tables of operations and scalar functions.
#include "ir/OpDocs.h"

#include "ir/Scalar.h"
#include "ir/ops/Ops.h"

#include "llvm/Support/raw_ostream.h"

namespace tenon {
namespace {

llvm::StringRef kindText(AttrKind k) {
  switch (k) {
  case AttrKind::Bool: return "true or false";
  case AttrKind::Int: return "integer";
  case AttrKind::Float: return "number";
  case AttrKind::String: return "string";
  case AttrKind::Word: return "word";
  case AttrKind::Ints: return "integers";
  case AttrKind::IntLists: return "lists of integers";
  case AttrKind::Floats: return "numbers";
  case AttrKind::Dims: return "extents";
  case AttrKind::Strings: return "strings";
  case AttrKind::Type: return "type";
  case AttrKind::Schedule: return "schedule";
  case AttrKind::Literal: return "literal";
  }
  return "";
}

std::string traitText(unsigned traits) {
  static const std::pair<unsigned, const char *> kNames[] = {
      {OpTrait::Terminator, "ends a region"},
      {OpTrait::Isolated, "regions see only their arguments"},
      {OpTrait::Movement, "places elements without computing"},
      {OpTrait::Effect, "may depend on more than its operands"},
  };
  std::string s;
  for (const auto &row : kNames)
    if (traits & row.first)
      s += (s.empty() ? "" : "; ") + std::string(row.second);
  return s;
}

void printOp(const OpInfo &info, llvm::raw_ostream &os) {
  os << "### `" << info.name << "`\n\n" << info.summary << "\n\n`" << info.name << " (";
  const char *comma = "";
  for (llvm::StringRef o : info.operands) {
    os << comma << o;
    comma = ", ";
  }
  os << ")`";
  if (info.results == kVariadic)
    os << " → any number of results";
  else if (info.results > 0)
    os << " → " << info.results << (info.results == 1 ? " result" : " results");
  if (info.regions > 0)
    os << ", " << info.regions << (info.regions == 1 ? " region" : " regions");
  if (std::string traits = traitText(info.traits); !traits.empty())
    os << "; " << traits;
  os << "\n\n";
  if (info.attributes.empty())
    return;
  os << "| attribute | kind | |\n|---|---|---|\n";
  for (const AttrInfo &a : info.attributes)
    os << "| `" << a.name << (a.required ? "`" : "`?") << " | " << kindText(a.kind) << " | "
       << a.summary << " |\n";
  os << '\n';
}

/// A cell of a table: bars would end it.
std::string cell(llvm::StringRef text) {
  std::string s;
  for (char c : text)
    s += c == '|' ? "\\|" : std::string(1, c);
  return s;
}

} // namespace

void printOpDocs(llvm::raw_ostream &os) {
  os << "# Operations\n\n"
        "Written by `tenon ops --markdown`; a test keeps it current.\n\n"
        "An operand marked `?` may be absent, one marked `…` may be repeated; an attribute marked "
        "`?` has a default. What an operation computes, with its numeric rules, stands at the top "
        "of the file named under each heading.\n\n"
        "## Contents\n\n";
  const std::vector<OpFamily> families = opFamilies();
  for (const OpFamily &f : families) {
    os << "- " << f.title << ":";
    for (const OpRow &row : f.rows)
      os << " [`" << row.second.name << "`](#" << row.second.name << ")";
    os << '\n';
  }
  os << "- [Scalar functions](#scalar-functions)\n\n";
  for (const OpFamily &f : families) {
    os << "## " << f.title << "\n\n[`" << f.file << "`](../" << f.file << ")\n\n";
    for (const OpRow &row : f.rows)
      printOp(row.second, os);
  }
  os << "## Scalar functions\n\n"
        "[`ir/Scalars.def`](../ir/Scalars.def): what bodies of `map` and `reduce` are made of. "
        "T is any number, F a floating-point type, I an integer type, Q a quantized type; `to` is "
        "the type that the attribute of this name gives.\n\n"
        "| function | types | C++ | |\n|---|---|---|---|\n";
  for (Op op : allOps())
    if (const ScalarInfo *s = scalarInfo(op)) {
      os << "| `" << s->name << "` | " << name(s->signature) << " | ";
      if (!s->spelling.empty())
        os << '`' << cell(s->spelling) << '`';
      os << " | " << cell(s->summary) << " |\n";
    }
}

} // namespace tenon
