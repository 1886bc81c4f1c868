// Implements the spelling of IR things in C++.
#include "codegen/emit/CppText.h"

#include "ir/Entries.h"
#include "ir/Names.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <iterator>
#include <set>

namespace tenon {

std::string cppLanes(Element e) {
  e = computeElement(e);
  if (isBool(e))
    return "b1<L>";
  if (bitWidth(e) < 8)
    return isSignedInt(e) ? "i8<L>" : "u8<L>";
  return name(e).str() + "<L>";
}

std::string cppScalar(Element e, double value) {
  e = computeElement(e);
  if (!isFloat(e))
    return cppScalar(e, int64_t(value));
  const bool narrow = e == Element::F32;
  if (std::isnan(value))
    return narrow ? "float(NAN)" : "double(NAN)";
  if (std::isinf(value))
    return std::string(value < 0 ? "-" : "") + (narrow ? "float(INFINITY)" : "double(INFINITY)");
  char text[40];
  for (int digits = 6; digits <= 17; ++digits) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    const double back = strtod(text, nullptr);
    if (narrow ? float(back) == float(value) : back == value)
      break;
  }
  std::string s = text;
  if (s.find_first_of(".e") == std::string::npos)
    s += ".0";
  return s + (narrow ? "f" : "");
}

std::string cppScalar(Element e, int64_t value) {
  e = computeElement(e);
  if (isFloat(e))
    return cppScalar(e, double(value));
  if (isBool(e))
    return value ? "true" : "false";
  if (value == INT64_MIN)
    return "(-9223372036854775807 - 1)";
  const llvm::StringRef type = bitWidth(e) >= 8 ? cppElement(e)
                               : isSignedInt(e) ? "int8_t"
                                                : "uint8_t";
  return (type + "(" + llvm::Twine(value) + ")").str();
}

std::string cIdentifier(llvm::StringRef text) {
  static const std::set<std::string> kKeywords = {
      "auto",     "bool",     "break",   "case",     "catch",    "char",   "class",   "const",
      "default",  "delete",   "do",      "double",   "else",     "enum",   "export",  "extern",
      "false",    "float",    "for",     "friend",   "goto",     "if",     "inline",  "int",
      "long",     "main",     "new",     "operator", "or",       "and",    "not",     "private",
      "public",   "register", "return",  "short",    "signed",   "sizeof", "static",  "struct",
      "switch",   "template", "this",    "throw",    "true",     "try",    "typedef", "union",
      "unsigned", "using",    "virtual", "void",     "volatile", "while",  "xor"};
  std::string s = sanitizeName(text);
  if (s.empty())
    return "model";
  return kKeywords.count(s) ? s + "_" : s;
}

std::string stringSafe(llvm::StringRef text) {
  std::string s;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || c == '?' || u < 32 || u == 127) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\%03o", unsigned(u)); // three digits: no digit can follow
      s += escape;
    } else {
      s += c;
    }
  }
  return s;
}

DimSpelling::DimSpelling(const Module &module) {
  llvm::copy_if(module.symbols, std::back_inserter(symbols_),
                [&](Dim d) { return !isOfEntry(module, d); });
}

int DimSpelling::indexOf(llvm::StringRef symbol) const {
  for (size_t i = 0; i < symbols_.size(); ++i)
    if (symbols_[i].symbol() == symbol)
      return int(i);
  // What stands in an entry for a symbol of the first graph has that symbol's place.
  const llvm::StringRef first = firstSymbol(symbol);
  return first == symbol ? -1 : indexOf(first);
}

std::string DimSpelling::value(Dim d, llvm::StringRef dims) const {
  const DimNode *n = d.node();
  auto sub = [&](const DimNode *x) { return value(Dim(x), dims); };
  switch (n->kind) {
  case DimKind::Constant: return std::to_string(n->value);
  case DimKind::Symbol: return (dims + "[" + llvm::Twine(indexOf(n->symbol)) + "]").str();
  case DimKind::Add:
    if (n->rhs->kind == DimKind::Constant && n->rhs->value < 0)
      return "(" + sub(n->lhs) + " - " + std::to_string(-n->rhs->value) + ")";
    return "(" + sub(n->lhs) + " + " + sub(n->rhs) + ")";
  case DimKind::Mul: return sub(n->lhs) + " * " + sub(n->rhs);
  case DimKind::FloorDiv: return "dim_floor_div(" + sub(n->lhs) + ", " + sub(n->rhs) + ")";
  case DimKind::Min: return "dim_min(" + sub(n->lhs) + ", " + sub(n->rhs) + ")";
  case DimKind::Max: return "dim_max(" + sub(n->lhs) + ", " + sub(n->rhs) + ")";
  }
  return "";
}

std::string DimSpelling::type(Dim d) const {
  return d.isConstant() ? "fixed<" + std::to_string(d.constant()) + ">" : "dyn";
}

std::string DimSpelling::list(llvm::ArrayRef<Dim> ds) const {
  const bool constant = llvm::all_of(ds, [](Dim d) { return d.isConstant(); });
  std::string types, values;
  for (Dim d : ds) {
    types += types.empty() ? "" : ", ";
    values += values.empty() ? "" : ", ";
    types += constant ? std::to_string(d.constant()) : type(d);
    values += d.isConstant() ? "{}" : "{" + value(d) + "}";
  }
  return constant ? "extents<" + types + ">{}" : "dims<" + types + ">{" + values + "}";
}

std::string DimSpelling::valueList(llvm::ArrayRef<Dim> ds) const {
  std::string types, values;
  for (Dim d : ds) {
    const bool plain = d.isConstant(0) || d.isConstant(1);
    types += (types.empty() ? "" : ", ") + (plain ? type(d) : "dyn");
    values += (values.empty() ? "" : ", ") + (plain ? "{}" : "{" + value(d) + "}");
  }
  return "dims<" + types + ">{" + values + "}";
}

} // namespace tenon
