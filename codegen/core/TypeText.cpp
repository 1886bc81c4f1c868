// Implements the spelling of types and places.
#include "codegen/core/TypeText.h"

#include "llvm/Support/raw_ostream.h"

namespace tenon {

llvm::StringRef cppElement(Element e) {
  switch (e) {
  case Element::Bool: return "bool";
  case Element::I8: return "int8_t";
  case Element::I16: return "int16_t";
  case Element::I32: return "int32_t";
  case Element::I64: return "int64_t";
  case Element::U8: return "uint8_t";
  case Element::U16: return "uint16_t";
  case Element::U32: return "uint32_t";
  case Element::U64: return "uint64_t";
  case Element::F16: return "f16";
  case Element::BF16: return "bf16";
  case Element::F32: return "float";
  case Element::F64: return "double";
  case Element::I2: return "int2_t";
  case Element::I4: return "int4_t";
  case Element::U2: return "uint2_t";
  case Element::U4: return "uint4_t";
  case Element::F4E2M1:
  case Element::F8E4M3:
  case Element::F8E4M3Z:
  case Element::F8E5M2:
  case Element::F8E5M2Z:
  case Element::F8E8M0: return name(e);
  case Element::C64: return "complex64";
  case Element::C128: return "complex128";
  case Element::String: return "text";
  default: return "";
  }
}

std::string commentSafe(llvm::StringRef text) {
  std::string s;
  llvm::raw_string_ostream os(s);
  os.write_escaped(text.take_front(200), true);
  os.flush();
  // Neither end a comment of C nor continue one of C++ in the next line.
  for (size_t at = 0; (at = s.find("*/", at)) != std::string::npos;)
    s.insert(at + 1, " ");
  if (!s.empty() && s.back() == '\\')
    s += ' ';
  return s;
}

std::string describe(Type t) {
  std::string s;
  llvm::raw_string_ostream os(s);
  os << name(t.element()) << '[';
  for (unsigned i = 0; i < t.rank(); ++i)
    os << (i ? ", " : "") << t.dim(i);
  os << ']';
  if (!t.layout().isRowMajor())
    os << ' ' << t.layout();
  return os.str();
}

std::string describe(const Location &loc, size_t most) {
  std::string s;
  for (size_t i = 0; i < loc.size() && i < most; ++i)
    s += (i ? ", " : "") + commentSafe(loc[i]);
  if (loc.size() > most)
    s += " and " + std::to_string(loc.size() - most) + " more";
  return s.empty() ? "(no source node)" : s;
}

} // namespace tenon
