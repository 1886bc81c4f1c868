// Defines WeightImage: the constants of all variants of a file, packed, each content once.
#pragma once

#include "codegen/core/CompileOptions.h"
#include "codegen/memory/Packing.h"
#include "codegen/memory/Plan.h"

#include <string>
#include <unordered_map>

namespace tenon {

/// The constants in one image, behind the header of a weights file. It is as large as the model, so
/// it never stands in memory as a whole: constants are packed one at a time and part by part, when
/// they are merged, for their place and the hash, and when the image is written.
class WeightImage {
public:
  /// What a weights file begins with; the runtime's weights_header.
  static constexpr size_t kHeaderBytes = 32;

  /// Adds a plan's constants and moves their placements into the image.
  void merge(Plan &plan);
  /// Without the header.
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// The constants in their order; of equal ones the first.
  std::vector<WeightPiece> pieces() const;
  /// Of all bytes; once everything is merged.
  uint64_t hash() const { return hash_.end(); }
  /// The image without the header.
  void write(llvm::raw_ostream &os) const;
  std::string bytes() const;
  /// The weights file.
  void writeFile(llvm::raw_ostream &os) const;

private:
  /// Where a constant stands: its place, or that of an equal one.
  size_t place(PackedConstant constant, llvm::StringRef name);

  struct Piece {
    size_t at;
    PackedConstant constant;
    std::string name;
  };
  std::vector<Piece> pieces_; // in their order
  size_t size_ = 0;
  BytesHash hash_;
  /// Places of the image by a hash of what they hold and by where that was made from, the latter
  /// with all constants that were added; both looked up only.
  std::unordered_multimap<uint64_t, size_t> byContent_;
  std::unordered_multimap<const void *, std::pair<PackedConstant, size_t>> bySource_;
};

} // namespace tenon
