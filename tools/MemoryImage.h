// Defines the way between tensors in logical order and the bytes of a value in generated code's
// memory, whose type says how they are laid out.
#pragma once

#include "ir/Interpreter.h"
#include "ir/Tensor.h"
#include "ir/Type.h"

#include <string>
#include <vector>

namespace tenon {

/// A run of bytes at an offset from the base of a value.
struct Segment {
  int64_t offset = 0, bytes = 0;
};

/// Where the elements of one value are: its memory may be interleaved with that of other values
/// (views, concat in place), so only these runs belong to it.
class MemoryImage {
public:
  /// `type` with symbols replaced by `symbols`. Types of less than 8 bits have no such form.
  static llvm::Optional<MemoryImage> of(Type type, const SymbolValues &symbols);
  /// Whether there is one, without making it.
  static bool exists(Type type, const SymbolValues &symbols);

  llvm::ArrayRef<Segment> segments() const { return segments_; }
  int64_t bytes() const { return int64_t(count_ * width_); }
  /// The bytes of all segments, one after the other.
  std::vector<uint8_t> pack(const Tensor &tensor) const;
  Tensor unpack(llvm::ArrayRef<uint8_t> bytes) const;

private:
  Element element_ = Element::F32;
  llvm::SmallVector<int64_t, 6> shape_;
  size_t width_ = 1, count_ = 0;
  /// For each logical element, its place among the packed ones; empty where they are the same.
  std::vector<uint32_t> slot_;
  std::vector<Segment> segments_;
};

/// An extent with symbols replaced; None when one has no value.
llvm::Optional<int64_t> valueOf(Dim d, const SymbolValues &symbols);

/// The type with every symbolic extent replaced; null when a symbol has no value.
Type staticType(Type type, const SymbolValues &symbols);

/// What memory of a value of `type` holds, from its base on; what its layout leaves free is zero.
/// Tensors of numbers.
std::string physicalBytes(const Tensor &tensor, Type type, const SymbolValues &symbols);

} // namespace tenon
