// Defines WeightImage: the constants of all variants of a CUDA file, packed, each content once.
#pragma once

#include "codegen/memory/Plan.h"

#include <string>
#include <unordered_map>

namespace tenon {

/// The constants in one image, behind the header of a weights file: they are as large as the model,
/// so there is one copy of them.
class WeightImage {
public:
  /// What a weights file begins with; the runtime's weights_header.
  static constexpr size_t kHeaderBytes = 32;

  explicit WeightImage(size_t variants) : variants_(variants), file_(kHeaderBytes, '\0') {}

  /// Adds a plan's constants and moves their placements into the image.
  void merge(Plan &plan);
  llvm::StringRef bytes() const { return llvm::StringRef(file_).drop_front(kHeaderBytes); }
  /// Of all bytes; once everything is merged.
  uint64_t hash() const;
  /// The weights file; nothing is left.
  std::string take();

private:
  /// Where a constant stands: its place, or that of an equal one.
  int64_t place(const Tensor &tensor, Type type);

  struct Range {
    size_t at, size; // in the file
  };
  size_t variants_;
  std::string file_;
  std::unordered_multimap<uint64_t, Range> places_; // by hash; looked up only
  mutable llvm::Optional<uint64_t> hash_;
};

} // namespace tenon
