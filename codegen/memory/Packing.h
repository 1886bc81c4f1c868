// Defines how constants are stored: packed into their types' layouts, with a hash over all of them
// that generated code knows.
#pragma once

#include "ir/IR.h"
#include "ir/Tensor.h"

#include <string>

namespace tenon {

/// Bytes of a constant as stored.
size_t packedBytes(const Tensor &tensor, Type type);
/// Stores a constant: packedBytes of zeros at `out` that become its elements, padding staying zero.
void packConstant(const Tensor &tensor, Type type, char *out);

/// Weights of less than 8 bits as runtime/common/weight_fields.h has them: rows along the outermost
/// dimension of the layout.
struct WeightFields {
  int64_t bits, lanes;
  std::string word() const; // `stored = i4x16`
  int64_t rowBytes(int64_t count) const;
};
/// Of an attribute `stored` that says so.
llvm::Optional<WeightFields> weightFields(const Operation &constant);

/// Weights of pairs of filters as runtime/common/joined_weights.h has them: filters along the
/// outermost dimension of the layout.
struct JoinedFilters {
  int64_t pairs;
  std::string word() const; // `stored = joined2`
  int64_t rows(int64_t filters) const;
  int64_t rowBytes(int64_t count) const;
};
llvm::Optional<JoinedFilters> joinedFilters(const Operation &constant);

/// The type of a constant as stored: the value's, of 4 x 4 taps where filters are transformed, of
/// rows by bytes where weights are fields or filters joined, of parts by elements, packed, where
/// floats are tf32.
Type storedType(const Operation &constant);
/// Bytes of it.
int64_t storedBytes(const Operation &constant);
/// The elements that are stored: the value, its fields, its joined filters, its parts in tf32
/// (runtime/cuda/tile/tf32.cuh), or G g G^T of each filter g for `stored = winograd`
/// (runtime/cuda/winograd/kernel.cuh) and `winograd6` (runtime/cpu/conv_winograd_f4.h).
Tensor storedElements(const Operation &constant);

/// A constant whose stored bytes are made whenever they are asked for, since those of a model may
/// be more than memory has. It outlives the operation, not the context of its type.
class PackedConstant {
public:
  explicit PackedConstant(const Operation &constant);
  size_t size() const;

  /// Where the bytes come from that it is made of. What is made alike of one place is equal without
  /// being looked at.
  const void *source() const { return literal().bytes().data(); }
  bool isMadeAlike(const PackedConstant &other) const;
  bool hasBytesOf(const PackedConstant &other) const;

  /// Makes the bytes part by part, on all cores, each but the last a multiple of eight, and calls
  /// `use` with them in their order, one at a time. The literal's pages leave memory then.
  void forParts(llvm::function_ref<void(llvm::StringRef)> use) const;
  /// So many bytes from `at` on, made with few others.
  std::string read(size_t at, size_t count) const;

private:
  const Tensor &literal() const;
  bool isInFormOf(const PackedConstant &other) const;
  /// The literal's pages are not needed for a while.
  void leaveMemory() const;

  std::shared_ptr<const Operation> constant_;
};

/// FNV-1a over words of eight bytes, little-endian, the last filled up with zeros, each step folded
/// once; the runtime's hash_bytes.
uint64_t hashBytes(llvm::StringRef bytes);

/// The same over bytes that come one part after the other.
class BytesHash {
public:
  /// A multiple of eight bytes.
  void addWords(llvm::StringRef bytes);
  /// The same with so many zeros behind them.
  void addWords(llvm::StringRef bytes, size_t zeros);
  /// Of all parts and the last one, less than eight bytes.
  uint64_t end(llvm::StringRef rest = "") const;

private:
  uint64_t hash_ = 14695981039346656037ull;
};

} // namespace tenon
