// Implements packing and unpacking of values.
#include "tools/MemoryImage.h"

#include "codegen/memory/Packing.h"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

llvm::Optional<Dim> fixed(Context &context, Dim d, const SymbolValues &symbols) {
  auto v = valueOf(d, symbols);
  return v ? llvm::Optional<Dim>(context.dim(*v)) : llvm::None;
}

/// Physical index of every logical element, in row-major order.
std::vector<int64_t> physicalIndices(Type type) {
  const auto shape = type.staticShape();
  int64_t count = 1;
  for (int64_t d : shape)
    count *= d;
  std::vector<int64_t> out(static_cast<size_t>(count));
  llvm::SmallVector<int64_t, 6> index(shape.size(), 0), strides;
  int64_t at = 0;
  const bool strided = !type.layout().hasBlocks();
  if (strided) {
    const Addressing a = addressing(type);
    for (Dim s : a.strides)
      strides.push_back(s.constant());
    at = a.offset.constant();
  }
  for (int64_t &p : out) {
    p = strided ? at : physicalIndex(type, index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (strided)
        at += strides[d];
      if (++index[d] < shape[d])
        break;
      if (strided)
        at -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
  return out;
}

} // namespace

llvm::Optional<int64_t> valueOf(Dim d, const SymbolValues &symbols) {
  auto lookup = [](llvm::StringRef symbol, void *user) -> llvm::Optional<int64_t> {
    auto &values = *static_cast<const SymbolValues *>(user);
    auto it = values.find(symbol.str());
    return it == values.end() ? llvm::Optional<int64_t>() : it->second;
  };
  return evaluate(d, lookup, const_cast<SymbolValues *>(&symbols));
}

Type staticType(Type type, const SymbolValues &symbols) {
  Context &context = type.context();
  llvm::SmallVector<Dim, 6> shape;
  for (Dim d : type.shape()) {
    auto v = fixed(context, d, symbols);
    if (!v)
      return Type();
    shape.push_back(*v);
  }
  llvm::SmallVector<LayoutAxis, 6> axes;
  for (LayoutAxis a : type.layout().axes()) {
    if (a.alloc) {
      auto v = fixed(context, a.alloc, symbols);
      if (!v)
        return Type();
      a.alloc = *v;
    }
    axes.push_back(a);
  }
  const Layout layout = type.layout().isRowMajor() ? Layout() : Layout::get(context, axes);
  return Type::tensor(context, type.element(), shape, layout, type.space());
}

bool MemoryImage::exists(Type type, const SymbolValues &symbols) {
  // Elements of text are addresses, which mean nothing outside the process.
  return type.isTensor() && bitWidth(type.element()) >= 8 && type.element() != Element::String &&
         staticType(type, symbols);
}

llvm::Optional<MemoryImage> MemoryImage::of(Type type, const SymbolValues &symbols) {
  if (!exists(type, symbols))
    return llvm::None;
  type = staticType(type, symbols);
  MemoryImage form;
  form.element_ = type.element();
  form.shape_ = type.staticShape();
  form.width_ = bitWidth(type.element()) / 8;
  const std::vector<int64_t> physical = physicalIndices(type);
  form.count_ = physical.size();
  if (physical.empty())
    return form;
  const auto [low, high] = std::minmax_element(physical.begin(), physical.end());
  const int64_t base = *low;
  // Which places of the span are taken, then how many are before each.
  std::vector<uint32_t> rank(size_t(*high - base + 2), 0);
  for (int64_t p : physical)
    rank[size_t(p - base)] = 1;
  const auto width = int64_t(form.width_);
  uint32_t taken = 0;
  bool inside = false;
  for (size_t i = 0; i < rank.size(); ++i) {
    const bool here = rank[i];
    if (here && !inside)
      form.segments_.push_back({(base + int64_t(i)) * width, 0});
    if (here)
      form.segments_.back().bytes += width;
    inside = here;
    rank[i] = taken;
    taken += here;
  }
  form.slot_.reserve(physical.size());
  for (int64_t p : physical)
    form.slot_.push_back(rank[size_t(p - base)]);
  if (std::is_sorted(form.slot_.begin(), form.slot_.end()) && taken == form.count_)
    form.slot_ = {};
  return form;
}

std::string physicalBytes(const Tensor &tensor, Type type, const SymbolValues &symbols) {
  const Type known = type.layout().isRowMajor() ? Type() : staticType(type, symbols);
  if (!known)
    return tensor.bytes().empty()
               ? std::string()
               : std::string(reinterpret_cast<const char *>(tensor.bytes().data()),
                             tensor.bytes().size());
  std::string bytes(packedBytes(tensor, known), '\0');
  packConstant(tensor, known, bytes.data());
  return bytes;
}

std::vector<uint8_t> MemoryImage::pack(const Tensor &tensor) const {
  if (slot_.empty())
    return tensor.bytes().vec();
  std::vector<uint8_t> out(slot_.size() * width_);
  const uint8_t *from = tensor.bytes().data();
  for (size_t i = 0; i < slot_.size(); ++i)
    memcpy(&out[slot_[i] * width_], from + i * width_, width_);
  return out;
}

Tensor MemoryImage::unpack(llvm::ArrayRef<uint8_t> bytes) const {
  if (slot_.empty())
    return Tensor(element_, shape_, bytes.vec());
  std::vector<uint8_t> out(slot_.size() * width_);
  for (size_t i = 0; i < slot_.size(); ++i)
    memcpy(&out[i * width_], &bytes[slot_[i] * width_], width_);
  return Tensor(element_, shape_, std::move(out));
}

} // namespace tenon
