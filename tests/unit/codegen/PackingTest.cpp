// Tests how constants are stored: each element where its type's layout says, padding zero, and the
// hash that generated code computes of them again.
#include "codegen/Packing.h"

#include "ir/Context.h"
#include "runtime/cpu/program.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace tenon;

namespace {

LayoutAxis axis(int dim, int64_t block = 0, bool inner = false, Dim alloc = Dim(),
                int64_t origin = 0) {
  return {dim, block, inner, alloc, origin};
}

/// Constants of 2 x 6 x 3 x 4 in layouts of every kind.
std::vector<Type> someTypes(Context &c, Element e) {
  const int64_t shape[] = {2, 6, 3, 4};
  auto with = [&](std::vector<LayoutAxis> axes) {
    return Type::tensor(c, e, llvm::ArrayRef<int64_t>(shape), Layout::get(c, axes));
  };
  return {
      Type::tensor(c, e, llvm::ArrayRef<int64_t>(shape)),
      with({axis(0), axis(2), axis(3), axis(1)}),
      with({axis(3), axis(2), axis(1), axis(0)}),
      with({axis(0), axis(2, 0, false, c.dim(5), 1), axis(3, 0, false, c.dim(6), 1), axis(1)}),
      with({axis(0), axis(1, 4), axis(2), axis(3), axis(1, 4, true)}),
      with({axis(0), axis(2), axis(3), axis(1, 0, false, c.dim(8))}),
  };
}

/// Bytes 1, 2, 3 … so that none is padding.
Tensor counted(Element e) {
  Tensor t(e, {2, 6, 3, 4});
  uint8_t *bytes = t.mutableBytes();
  for (size_t i = 0; i < t.bytes().size(); ++i)
    bytes[i] = uint8_t(i % 251 + 1);
  return t;
}

TEST(Packing, ElementsStandWhereTheLayoutSays) {
  for (Element e : {Element::I8, Element::F16, Element::F32, Element::F64, Element::C128}) {
    Context c;
    const Tensor t = counted(e);
    const size_t width = bitWidth(e) / 8;
    for (Type type : someTypes(c, e)) {
      std::string packed(packedBytes(t, type), '\0'), expected = packed;
      packConstant(t, type, packed.data());
      llvm::SmallVector<int64_t, 4> index(4, 0);
      for (int64_t i = 0; i < t.size(); ++i) {
        int64_t rest = i;
        for (int d = 3; d >= 0; --d) {
          index[size_t(d)] = rest % t.shape()[size_t(d)];
          rest /= t.shape()[size_t(d)];
        }
        memcpy(&expected[size_t(physicalIndex(type, index)) * width],
               t.bytes().data() + size_t(i) * width, width);
      }
      EXPECT_EQ(packed, expected) << toString(type);
    }
  }
}

TEST(Packing, TheRuntimeHashesAlike) {
  std::string bytes(40, '\0');
  std::iota(bytes.begin(), bytes.end(), '\1');
  for (size_t n = 0; n <= bytes.size(); ++n)
    EXPECT_EQ(hashBytes(llvm::StringRef(bytes).take_front(n)),
              cpu::hash_bytes(reinterpret_cast<const unsigned char *>(bytes.data()), n))
        << n;
}

TEST(Packing, HashSeesSignsAndOrder) {
  std::string a(32, '\0');
  const uint64_t zeros = hashBytes(a);
  a[7] = a[15] = '\x80'; // the top bits of two words
  EXPECT_NE(hashBytes(a), zeros);
  std::string b(32, '\0');
  b[7] = b[23] = '\x80';
  EXPECT_NE(hashBytes(b), hashBytes(a));
}

} // namespace
