// Declares the caches of keys and values that com.microsoft's GroupQueryAttention keeps: how rows
// are stored, where the new ones go, and which position each row stands for.
#pragma once

#include "frontend/onnx/Common.h"

namespace tenon::frontend {

/// How numbers lie in a cache [batch, heads, rows, stored]: as they are, or divided by a scale
/// (one, or one per head and channel) and rounded to bytes, to pairs of 4 bits in a byte (the even
/// channel low, 8 added to each), or to floats of 8 bits. Stored and real rows have `size`
/// channels.
class CacheFormat {
public:
  /// `scale`: operand of the scale, read where `quantType` says that there is one. Reports what
  /// does not fit together; then `valid` is false.
  CacheFormat(Node &n, unsigned cache, unsigned scale, const char *quantType, int64_t size);

  bool valid() const { return valid_; }
  bool quantised() const { return scale_ != nullptr; }
  /// Rows [batch, heads, rows, size] as they are stored, and back. Null after an error.
  Value *store(Value *rows) const;
  Value *load(Value *stored, Element type) const;

private:
  bool fail(const std::string &what);
  /// x · scale or x / scale in floats of 32 bits.
  Value *scaled(Op op, Value *x) const;

  Node &n_;
  const int64_t size_;
  int64_t bits_ = 0; // of an integer; 0: the cache's own type of float
  Element element_;
  Value *scale_ = nullptr; // [heads or 1, size or 1]
  bool valid_ = false;
};

/// What the rows of a batch entry's cache are: `first` [batch] positions came before the new rows.
struct CacheRows {
  Value *first = nullptr;
  Dim queries; // new rows
  int64_t window = -1;
  /// Rows of the cache before, where they hold the last positions alone: for a window's width or a
  /// little more, the oldest row first.
  llvm::Optional<int64_t> capacity;

  /// How many positions are kept once `count` have passed: all of them as long as they fit; then
  /// the oldest go, so many at once as there is room beside the window.
  Value *kept(Scalars &s, Value *count) const;
};

} // namespace tenon::frontend
