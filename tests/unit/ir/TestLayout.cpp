// Tests layouts: the addressing law, bijectivity of physical indices, names in text.
#include "Support.h"

#include "ir/Views.h"

#include <ctime>
#include <set>

namespace tenon::test {
namespace {

/// Calls visit for every index of `shape` in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit) {
  llvm::SmallVector<int64_t, 6> index(shape.size(), 0);
  int64_t n = 1;
  for (int64_t d : shape)
    n *= d;
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      index[d] = rest % shape[d];
    visit(index);
  }
}

std::vector<Type> someTypes(Context &c) {
  const Shape shape{2, 5, 3, 4};
  auto with = [&](llvm::ArrayRef<LayoutAxis> axes) {
    return Type::tensor(c, Element::F32, shape, Layout::get(c, axes));
  };
  auto axis = [&](int dim, int64_t block = 0, bool inner = false, int64_t alloc = 0,
                  int64_t origin = 0) {
    return LayoutAxis{dim, block, inner, alloc ? c.dim(alloc) : Dim(), origin};
  };
  return {
      Type::tensor(c, Element::F32, shape),
      Type::tensor(c, Element::F32, shape, Layout::channelsLast(c, 4)),
      Type::tensor(c, Element::F32, shape, Layout::permuted(c, {3, 1, 0, 2})),
      with({axis(0), axis(2, 0, false, 5, 1), axis(3, 0, false, 6, 1), axis(1)}), // halo
      with({axis(0), axis(1, 0, false, 12, 5), axis(2), axis(3)}),                // concat window
      with({axis(0), axis(1, 4), axis(2), axis(3), axis(1, 4, true)}),            // blocked
      with({axis(0), axis(1, 2), axis(3, 2), axis(2), axis(3, 2, true), axis(1, 2, true)}),
      with({axis(0), axis(2), axis(3), axis(1, 0, false, 8)}), // padded channels
  };
}

TEST(Layout, PhysicalIndicesAreDistinctAndInsideTheAllocation) {
  Context c;
  for (Type t : someTypes(c)) {
    std::set<int64_t> seen;
    forEachIndex(t.staticShape(), [&](llvm::ArrayRef<int64_t> index) {
      const int64_t at = physicalIndex(t, index);
      EXPECT_TRUE(seen.insert(at).second) << toString(t);
      EXPECT_GE(at, 0) << toString(t);
      EXPECT_LT(at, allocatedElements(t)) << toString(t);
    });
    if (t.layout().isDense() && !t.layout().hasBlocks()) {
      EXPECT_EQ(int64_t(seen.size()), allocatedElements(t)) << toString(t);
    }
  }
}

TEST(Layout, FitsInMemoryOrSaysWhyNot) {
  Context c;
  for (Type t : someTypes(c))
    EXPECT_EQ(whyNotInMemory(t, /*atMost=*/true), "") << toString(t);
  const int64_t most = INT64_MAX;
  const Type wide = Type::tensor(c, Element::F32, llvm::ArrayRef<int64_t>{most, most});
  EXPECT_EQ(allocatedElements(wide), most);
  EXPECT_NE(whyNotInMemory(wide), "");
  EXPECT_EQ(whyNotInMemory(Type::tensor(c, Element::F32, llvm::ArrayRef<int64_t>{most, 0})), "");
  EXPECT_EQ(whyNotInMemory(Type::tensor(c, Element::I8, llvm::ArrayRef<int64_t>{1 << 20, 1 << 20})),
            "");
  // What a symbol may become counts only where programs are made for it.
  const Type ranged = Type::tensor(c, Element::F32, {c.symbol("N", 1, most), c.dim(1024)});
  EXPECT_EQ(whyNotInMemory(ranged), "");
  EXPECT_NE(whyNotInMemory(ranged, /*atMost=*/true), "");
  const LayoutAxis blocks[] = {{0, most, false, Dim(), 0}, {0, most, true, Dim(), 0}};
  const Type blocked =
      Type::tensor(c, Element::F32, llvm::ArrayRef<int64_t>{4}, Layout::get(c, blocks));
  EXPECT_EQ(allocatedElements(blocked), most);
  EXPECT_NE(whyNotInMemory(blocked), "");
  const LayoutAxis none[] = {{0, 0, false, c.dim(INT64_MIN), 0}};
  EXPECT_NE(whyNotInMemory(
                Type::tensor(c, Element::F32, llvm::ArrayRef<int64_t>{4}, Layout::get(c, none))),
            "");
}

TEST(Layout, AddressingIsLinearInTheIndex) {
  Context c;
  for (Type t : someTypes(c)) {
    if (t.layout().hasBlocks())
      continue;
    Addressing a = addressing(t);
    EXPECT_EQ(a.allocated.constant(), allocatedElements(t)) << toString(t);
    forEachIndex(t.staticShape(), [&](llvm::ArrayRef<int64_t> index) {
      int64_t at = a.offset.constant();
      for (size_t d = 0; d < index.size(); ++d)
        at += index[d] * a.strides[d].constant();
      EXPECT_EQ(at, physicalIndex(t, index)) << toString(t);
    });
  }
}

TEST(Layout, ChannelsLastStrides) {
  Context c;
  Type t = Type::tensor(c, Element::F32, llvm::ArrayRef<int64_t>{2, 5, 3, 4},
                        Layout::channelsLast(c, 4));
  Addressing a = addressing(t);
  EXPECT_EQ(a.strides[1].constant(), 1);
  EXPECT_EQ(a.strides[3].constant(), 5);
  EXPECT_EQ(a.strides[2].constant(), 20);
  EXPECT_EQ(a.strides[0].constant(), 60);
}

TEST(Layout, EqualLayoutsAreOne) {
  Context c;
  EXPECT_EQ(Layout::permuted(c, {0, 1, 2}), Layout());
  EXPECT_EQ(Layout::permuted(c, {0, 2, 3, 1}), Layout::channelsLast(c, 4));
  EXPECT_EQ(toString(Type::tensor(c, Element::F16, llvm::ArrayRef<int64_t>{1, 64, 56, 56},
                                  Layout::channelsLast(c, 4))),
            "tensor<1x64x56x56xf16, nhwc>");
}

// What a detector keeps of each class is joined: each piece begins behind a sum of all extents
// before it. Sums of sums are what takes minutes.
TEST(Layout, ViewsOfManyOpenPieces) {
  constexpr unsigned kPieces = 240;
  TestGraph g;
  Context &c = g.context;
  llvm::SmallVector<Value *, 0> pieces;
  Dim total = c.dim(0);
  for (unsigned i = 0; i < kPieces; ++i) {
    const Dim kept = min(c.symbol("kept_" + std::to_string(i), 0, 100), c.dim(20));
    total = total + kept;
    pieces.push_back(g.input(Element::F32, llvm::ArrayRef<Dim>{kept, c.dim(4)}));
  }
  const std::clock_t start = std::clock(); // of the processor: others may run beside
  Value *all = g.b.value(Op::Concat, pieces, {{"axis", int64_t(0)}});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->type().dim(0), total);
  EXPECT_TRUE(isView(*all->def()));
  EXPECT_EQ(*windowOffset(*all->def(), 1, pieces[0]->type().dim(0)), *viewOffset(*all->def(), 1));
  EXPECT_LT(std::clock() - start, 20 * CLOCKS_PER_SEC);
}

} // namespace
} // namespace tenon::test
