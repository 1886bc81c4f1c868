// Defines WeightImage: the constants of all variants of a file, packed, each content once.
#pragma once

#include "codegen/core/CompileOptions.h"
#include "codegen/memory/Packing.h"
#include "codegen/memory/Plan.h"

#include <string>
#include <unordered_map>

namespace tenon {

/// The constants in one image, behind the header of a weights file. It is as large as the model, so
/// it never stands in memory as a whole, and packing it is most of the work of a compilation: each
/// constant is packed once, part by part, when the image is written. What depends on all bytes, the
/// hash, is known from then on.
class WeightImage {
public:
  /// What a weights file begins with; the runtime's weights_header.
  static constexpr size_t kHeaderBytes = 32;

  WeightImage() = default;
  /// The constants where a plan has them.
  explicit WeightImage(const Plan &plan);

  /// Adds a plan's constants and moves their placements into the image.
  void merge(Plan &plan);
  /// Without the header.
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// The constants in their order; of equal ones the first.
  std::vector<WeightPiece> pieces() const;
  /// Of all bytes; once everything is merged. What has not been written yet is packed for it.
  uint64_t hash() const;
  /// The image without the header.
  void write(llvm::raw_ostream &os) const;
  std::string bytes() const;
  /// The weights file. Its head is written over once the hash is known, unless that is known
  /// before.
  void writeFile(llvm::raw_pwrite_stream &os) const;

private:
  /// Where a constant stands: its place, or that of an equal one.
  size_t place(PackedConstant constant, llvm::StringRef name);
  /// Packs all constants: calls `use` with part after part and the number of zeros behind it.
  void forParts(llvm::function_ref<void(llvm::StringRef, size_t)> use) const;

  struct Piece {
    size_t at;
    PackedConstant constant;
    std::string name;
  };
  std::vector<Piece> pieces_; // by their places
  size_t size_ = 0;
  mutable llvm::Optional<uint64_t> hash_;
  /// Places of the image by a hash of some of what they hold and by where that was made from, the
  /// latter with all constants that were added; both looked up only.
  std::unordered_multimap<uint64_t, size_t> byContent_;
  std::unordered_multimap<const void *, std::pair<PackedConstant, size_t>> bySource_;
};

/// A file of text with the hash of the weights in it, which costs nothing once they are written.
CompiledFile textAroundHash(std::string suffix, std::string before, std::string behind,
                            std::shared_ptr<const WeightImage> weights);

} // namespace tenon
