// Defines how IR things are spelled in C++: numbers, extents, identifiers, comments.
#pragma once

#include "codegen/core/TypeText.h"

#include <map>
#include <string>

namespace tenon {

/// Alias of lanes.h for the computing type: "f32<L>".
std::string cppLanes(Element e);
/// A literal of the computing type: "1.5f", "int8_t(-3)".
std::string cppScalar(Element e, double value);
std::string cppScalar(Element e, int64_t value);

/// A C identifier from any text; keywords get an underscore.
std::string cIdentifier(llvm::StringRef text);
/// Text of a C string literal whose value is `text`.
std::string stringSafe(llvm::StringRef text);

/// Spells extents: constants as themselves, symbols by their index in the file's `dims` array.
class DimSpelling {
public:
  explicit DimSpelling(const Module &module);
  /// Expression of type index_t, such as "64" or "f.dims[0] * 2".
  std::string value(Dim d, llvm::StringRef dims = "f.dims") const;
  /// "fixed<64>" or "dyn".
  std::string type(Dim d) const;
  /// "extents<1, 64>{}" or "dims<fixed<1>, dyn>{{}, {f.dims[0]}}".
  std::string list(llvm::ArrayRef<Dim> dims) const;
  /// The same with numbers other than 0 and 1 as values: "dims<fixed<1>, dyn>{{}, {64}}".
  std::string valueList(llvm::ArrayRef<Dim> dims) const;
  const std::vector<Dim> &symbols() const { return symbols_; }
  int indexOf(llvm::StringRef symbol) const;

private:
  std::vector<Dim> symbols_;
};

} // namespace tenon
