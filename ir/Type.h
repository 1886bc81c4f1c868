// Defines types and layouts.
//
// A tensor type is element type, logical shape in ONNX order, and physical layout:
//   tensor<1x64x56x56xf16, nhwc>
// A layout lists the dimensions from the outermost to the innermost in memory. A dimension may be
// split by a block (`1/16` … `1%16`), and may have an allocated extent larger than its logical one
// and an origin inside it (`1:64@16`): halo, channel padding, cache capacity, or a view into
// another value's buffer (concat and split in place). The default layout is dense row-major and
// is not printed.
#pragma once

#include "ir/Context.h"

#include "llvm/ADT/SmallVector.h"

namespace tenon {

struct LayoutAxis {
  int dim = 0;
  /// 0: the whole dimension; > 0 with inner = false: dim / block; with inner = true: dim % block.
  int64_t block = 0;
  bool inner = false;
  /// Allocated extent of the dimension (null: the logical extent) and index of its first element.
  Dim alloc;
  int64_t origin = 0;

  friend bool operator==(const LayoutAxis &a, const LayoutAxis &b) {
    return a.dim == b.dim && a.block == b.block && a.inner == b.inner && a.alloc == b.alloc &&
           a.origin == b.origin;
  }
};

struct LayoutStorage {
  llvm::SmallVector<LayoutAxis, 6> axes;
};

class Layout {
public:
  Layout() = default;
  explicit Layout(const LayoutStorage *s) : storage_(s) {}
  static Layout get(Context &c, llvm::ArrayRef<LayoutAxis> axes);
  /// Dense layout with the dimensions in `order`, outermost first; null when it is row-major.
  static Layout permuted(Context &c, llvm::ArrayRef<int> order);
  /// Channels innermost (N, spatial…, C) for a rank of at least 3, row-major otherwise.
  static Layout channelsLast(Context &c, unsigned rank);

  /// True for the default: dense row-major.
  bool isRowMajor() const { return storage_ == nullptr; }
  llvm::ArrayRef<LayoutAxis> axes() const {
    return storage_ ? llvm::ArrayRef<LayoutAxis>(storage_->axes) : llvm::ArrayRef<LayoutAxis>();
  }
  bool hasBlocks() const;
  /// True when no axis has an allocated extent or origin of its own.
  bool isDense() const;
  friend bool operator==(Layout a, Layout b) { return a.storage_ == b.storage_; }
  friend bool operator!=(Layout a, Layout b) { return a.storage_ != b.storage_; }
  const LayoutStorage *storage() const { return storage_; }

private:
  const LayoutStorage *storage_ = nullptr;
};

enum class TypeKind : uint8_t { Tensor, Scalar, Sequence, Optional };
/// Where a value lives; `Host` values (shapes, loop counters) never leave the CPU on a GPU target.
enum class Space : uint8_t { Device, Host };

struct TypeStorage {
  TypeKind kind = TypeKind::Tensor;
  Element element = Element::F32; // Tensor, Scalar
  llvm::SmallVector<Dim, 6> shape;
  Layout layout;
  Space space = Space::Device;
  const TypeStorage *inner = nullptr; // Sequence, Optional
  Context *context = nullptr;
};

class Type {
public:
  Type() = default;
  explicit Type(const TypeStorage *s) : storage_(s) {}
  static Type tensor(Context &c, Element e, llvm::ArrayRef<Dim> shape, Layout layout = {},
                     Space space = Space::Device);
  static Type tensor(Context &c, Element e, llvm::ArrayRef<int64_t> shape, Layout layout = {});
  static Type scalar(Context &c, Element e);
  static Type sequence(Type inner);
  static Type optional(Type inner);

  explicit operator bool() const { return storage_ != nullptr; }
  TypeKind kind() const { return storage_->kind; }
  bool isTensor() const { return storage_ && kind() == TypeKind::Tensor; }
  bool isScalar() const { return storage_ && kind() == TypeKind::Scalar; }
  Element element() const { return storage_->element; }
  llvm::ArrayRef<Dim> shape() const { return storage_->shape; }
  unsigned rank() const { return unsigned(storage_->shape.size()); }
  Dim dim(unsigned i) const { return storage_->shape[i]; }
  Layout layout() const { return storage_->layout; }
  Space space() const { return storage_->space; }
  Type inner() const { return Type(storage_->inner); }
  Context &context() const { return *storage_->context; }

  bool hasStaticShape() const;
  /// Static shape as integers; asserts when an extent is symbolic.
  llvm::SmallVector<int64_t, 6> staticShape() const;
  /// Shape at the upper bound of every extent.
  llvm::SmallVector<int64_t, 6> upperShape() const;
  /// Number of elements at the upper bounds.
  int64_t upperElements() const;
  Dim elements() const;

  Type withLayout(Layout layout) const;
  Type withShape(llvm::ArrayRef<Dim> shape) const; // row-major
  Type withElement(Element e) const;

  friend bool operator==(Type a, Type b) { return a.storage_ == b.storage_; }
  friend bool operator!=(Type a, Type b) { return a.storage_ != b.storage_; }
  const TypeStorage *storage() const { return storage_; }

private:
  const TypeStorage *storage_ = nullptr;
};

/// Physical addressing of a tensor type without blocks: element strides for each logical
/// dimension and the offset of the element at index 0, from the allocated extents.
struct Addressing {
  llvm::SmallVector<Dim, 6> strides;
  Dim offset;
  /// Elements spanned by the whole allocation (the buffer), not just the view.
  Dim allocated;
};
Addressing addressing(Type tensor);
/// Elements of the allocation at the upper bounds, blocks and padding included; INT64_MAX when
/// there are more.
int64_t allocatedElements(Type tensor);
/// Why no memory holds a tensor of this type, whatever its symbols stand for: it takes more bytes
/// than any machine has, or its layout allocates less than it needs. Empty when there is nothing to
/// say. `atMost` asks for the upper bounds of the symbols instead of the lower ones.
std::string whyNotInMemory(Type tensor, bool atMost = false);
/// Physical element index of a logical index in a static type; handles blocks.
int64_t physicalIndex(Type tensor, llvm::ArrayRef<int64_t> index);

llvm::raw_ostream &operator<<(llvm::raw_ostream &os, Layout l);
llvm::raw_ostream &operator<<(llvm::raw_ostream &os, Type t);
std::string toString(Type t);

} // namespace tenon
