// Defines Tensor: a value on the host, dense and row-major in logical order. Used for literals,
// by the interpreter, and for inputs and outputs of `tenon run`.
#pragma once

#include "ir/Element.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon {

class Tensor {
public:
  Tensor() = default;
  /// Zero-filled.
  Tensor(Element e, llvm::ArrayRef<int64_t> shape);
  /// Takes bytes in storage format (little-endian, sub-byte types packed low bits first).
  Tensor(Element e, llvm::ArrayRef<int64_t> shape, std::vector<uint8_t> bytes);
  static Tensor scalar(Element e, double value);
  static Tensor fromInts(llvm::ArrayRef<int64_t> values); // i64, rank 1
  /// Refers to the pages of a file, in storage format and aligned as the elements are. They stay
  /// mapped as long as `mapping` lives.
  static Tensor mapped(Element e, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<uint8_t> pages,
                       std::shared_ptr<const void> mapping);
  static Tensor strings(llvm::ArrayRef<int64_t> shape, std::vector<std::string> values);

  bool isNull() const { return !bytes_ && !strings_; }
  Element element() const { return element_; }
  llvm::ArrayRef<int64_t> shape() const { return shape_; }
  unsigned rank() const { return unsigned(shape_.size()); }
  int64_t size() const { return size_; }
  llvm::ArrayRef<uint8_t> bytes() const { return bytes_->all; }
  /// Writable bytes; copies first when shared or mapped.
  uint8_t *mutableBytes();
  /// Says that the bytes are not needed for a while: a mapping's pages leave memory and are read
  /// again from the file when something looks at them. Nothing happens to bytes in memory.
  void leaveMemory() const;
  template <class T> llvm::ArrayRef<T> as() const {
    return {reinterpret_cast<const T *>(bytes_->all.data()), size_t(size_)};
  }
  template <class T> T *mutableAs() { return reinterpret_cast<T *>(mutableBytes()); }

  /// Element i of any numeric type, converted (i64 and u64 beyond 2^53 lose bits in `at`).
  double at(int64_t i) const;
  int64_t intAt(int64_t i) const;
  /// Stores with the rounding of the type: half to even for floats, truncation and wrapping for
  /// integers, nonzero for booleans.
  void set(int64_t i, double value);
  void setInt(int64_t i, int64_t value);
  const std::vector<std::string> &stringValues() const { return *strings_; }
  void setString(int64_t i, std::string value);

  /// Bulk conversion of [begin, begin + count) to and from double.
  void toDoubles(int64_t begin, int64_t count, double *out) const;
  void fromDoubles(int64_t begin, int64_t count, const double *in);
  void toInts(int64_t begin, int64_t count, int64_t *out) const;
  void fromInts(int64_t begin, int64_t count, const int64_t *in);

  /// Same data under another shape with as many elements.
  Tensor reshaped(llvm::ArrayRef<int64_t> shape) const;
  /// The same bytes as elements of another type.
  Tensor reinterpreted(Element e, llvm::ArrayRef<int64_t> shape) const;
  /// All elements have the same bytes (a rank-0 or one-element tensor does).
  bool isSplat() const;
  bool sameBytes(const Tensor &other) const;

private:
  /// Bytes in memory, or pages of a file.
  struct Bytes {
    explicit Bytes(std::vector<uint8_t> bytes) : own(std::move(bytes)), all(own) {}
    Bytes(llvm::ArrayRef<uint8_t> pages, std::shared_ptr<const void> mapping)
        : mapping(std::move(mapping)), all(pages) {}
    std::vector<uint8_t> own;
    std::shared_ptr<const void> mapping; // null: own
    llvm::ArrayRef<uint8_t> all;
  };

  Element element_ = Element::F32;
  llvm::SmallVector<int64_t, 6> shape_;
  int64_t size_ = 0;
  std::shared_ptr<Bytes> bytes_;
  std::shared_ptr<std::vector<std::string>> strings_;
};

/// use(w), where w[i] is element i of a tensor of integers: of bytes, which most large ones hold,
/// as they are stored, so that loops over them run at the speed of memory.
template <class Use> auto withInts(const Tensor &t, const Use &use) {
  struct Any {
    const Tensor &t;
    int64_t operator[](int64_t i) const { return t.intAt(i); }
  };
  switch (t.element()) {
  case Element::I8: return use(t.as<int8_t>().data());
  case Element::U8: return use(t.as<uint8_t>().data());
  default: return use(Any{t});
  }
}

/// Conversions of the narrow float formats; `encode` rounds half to even (f8e8m0, a scale, up),
/// saturating where the format has no infinity.
double decodeFloat(Element e, uint32_t bits);
uint32_t encodeFloat(Element e, double value);

} // namespace tenon
