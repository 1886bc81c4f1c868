// Tests how constants are stored: each element where its type's layout says, padding zero, and the
// hash that generated code computes of them again.
#include "codegen/memory/Packing.h"

#include "ir/Context.h"
#include "runtime/common/joined_weights.h"
#include "runtime/common/weight_fields.h"
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
Tensor counted(Element e, llvm::ArrayRef<int64_t> shape) {
  Tensor t(e, shape);
  uint8_t *bytes = t.mutableBytes();
  for (size_t i = 0; i < t.bytes().size(); ++i)
    bytes[i] = uint8_t(i % 251 + 1);
  return t;
}

/// One element after the other.
std::string packedSlowly(const Tensor &t, Type type) {
  const size_t width = bitWidth(t.element()) / 8;
  std::string packed(packedBytes(t, type), '\0');
  llvm::SmallVector<int64_t, 4> index(t.rank(), 0);
  for (int64_t i = 0; i < t.size(); ++i) {
    int64_t rest = i;
    for (size_t d = t.rank(); d-- > 0; rest /= t.shape()[d])
      index[d] = rest % t.shape()[d];
    memcpy(&packed[size_t(physicalIndex(type, index)) * width],
           t.bytes().data() + size_t(i) * width, width);
  }
  return packed;
}

constexpr Element kElements[] = {Element::I8, Element::F16, Element::F32, Element::F64,
                                 Element::C128};

TEST(Packing, ElementsStandWhereTheLayoutSays) {
  for (Element e : kElements) {
    Context c;
    const Tensor t = counted(e, {2, 6, 3, 4});
    for (Type type : someTypes(c, e)) {
      std::string packed(packedBytes(t, type), '\0');
      packConstant(t, type, packed.data());
      EXPECT_EQ(packed, packedSlowly(t, type)) << toString(type);
    }
  }
}

/// Panels of columns whose runs are whole bytes, the last one filled up with zeros.
TEST(Packing, ElementsOfLessThanAByteMoveByBytes) {
  const auto bitsAt = [](const uint8_t *bytes, int64_t i, int64_t bits) {
    return bytes[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
  };
  for (Element e : {Element::I4, Element::U4, Element::I2, Element::U2})
    for (int64_t rows : {1, 16, 70}) {
      Context c;
      const int64_t bits = bitWidth(e), run = 32 / bits, columns = 5 * run;
      const int64_t shape[] = {rows, columns};
      const LayoutAxis axes[] = {axis(0, 16), axis(1, run), axis(0, 16, true), axis(1, run, true)};
      const Type type = Type::tensor(c, e, llvm::ArrayRef<int64_t>(shape), Layout::get(c, axes));
      const Tensor t = counted(e, shape);
      std::string packed(packedBytes(t, type), '\0');
      ASSERT_EQ(int64_t(packed.size()), (rows + 15) / 16 * 16 * columns * bits / 8);
      packConstant(t, type, packed.data());
      const auto *bytes = reinterpret_cast<const uint8_t *>(packed.data());
      int64_t sum = 0, expected = 0;
      for (int64_t i = 0; i < rows * columns; ++i) {
        const llvm::SmallVector<int64_t, 2> at{i / columns, i % columns};
        const int from = bitsAt(t.bytes().data(), i, bits);
        ASSERT_EQ(bitsAt(bytes, physicalIndex(type, at), bits), from) << i << " of " << rows;
        expected += from;
      }
      for (int64_t i = 0; i < int64_t(packed.size()) * 8 / bits; ++i)
        sum += bitsAt(bytes, i, bits);
      EXPECT_EQ(sum, expected);
    }
}

/// Matrices that tiles of a square do not fill, large enough for several threads: transposed, with
/// rows of their own pitch, in strips of columns and of rows, and behind other dimensions.
TEST(Packing, TilesAreRagged) {
  for (Element e : kElements) {
    Context c;
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 200},
                                 {200, 1},
                                 {63, 65},
                                 {64, 64},
                                 {131, 70},
                                 {70, 1031},
                                 {1031, 331}}) {
      const auto pitch = c.dim((rows + 15) / 8 * 8), wide = c.dim((columns + 15) / 8 * 8);
      const std::vector<std::vector<LayoutAxis>> layouts = {
          {axis(1), axis(0)},
          {axis(1), axis(0, 0, false, pitch)},
          {axis(1), axis(0, 0, false, pitch, 3)},
          {axis(0), axis(1, 0, false, wide)},
          {axis(1, 48), axis(0), axis(1, 48, true)},
          {axis(1, 7), axis(0), axis(1, 7, true)},
          {axis(0, 40), axis(1), axis(0, 40, true)},
          {axis(0, 16), axis(1, 32), axis(1, 32, true), axis(0, 16, true)},
      };
      for (const auto &axes : layouts) {
        const int64_t shape[] = {rows, columns};
        const Type type = Type::tensor(c, e, llvm::ArrayRef<int64_t>(shape), Layout::get(c, axes));
        const Tensor t = counted(e, shape);
        std::string packed(packedBytes(t, type), '\0');
        packConstant(t, type, packed.data());
        EXPECT_TRUE(packed == packedSlowly(t, type)) << toString(type);
      }
    }
    const int64_t shape[] = {3, 70, 5, 66};
    for (const auto &axes : {std::vector<LayoutAxis>{axis(0), axis(2), axis(3), axis(1)},
                             {axis(3), axis(2), axis(1), axis(0)},
                             {axis(2), axis(0), axis(1), axis(3)}}) {
      const Type type = Type::tensor(c, e, llvm::ArrayRef<int64_t>(shape), Layout::get(c, axes));
      const Tensor t = counted(e, shape);
      std::string packed(packedBytes(t, type), '\0');
      packConstant(t, type, packed.data());
      EXPECT_TRUE(packed == packedSlowly(t, type)) << toString(type);
    }
  }
}

/// The bytes of a constant, put together from its parts; some in the middle are read alone.
std::string inParts(const PackedConstant &constant, size_t &parts) {
  std::string all;
  parts = 0;
  constant.forParts([&](llvm::StringRef part) {
    EXPECT_EQ(all.size() % 8, 0u) << "a part that is not the last";
    all += part;
    ++parts;
  });
  for (const size_t at : {size_t(0), all.size() / 3, all.size() - all.size() / 7})
    EXPECT_TRUE(constant.read(at, 1 << 16) == all.substr(at, 1 << 16)) << at;
  return all;
}

/// Layouts of several parts, whose padding is zero whatever was in a part's room before: padded and
/// with an origin along the outermost dimension, in blocks, with a dimension of extent 1 before it.
TEST(Packing, LargeConstantsComeInParts) {
  Context c;
  const int64_t shape[] = {1, 901, 1003};
  for (Element e : {Element::U8, Element::F16, Element::F32})
    for (const auto &axes : {std::vector<LayoutAxis>{axis(0), axis(1), axis(2)},
                             {axis(0), axis(2), axis(1)},
                             {axis(0), axis(2), axis(1, 0, false, c.dim(960))},
                             {axis(1, 16, false), axis(0), axis(2), axis(1, 16, true)},
                             {axis(2, 0, false, c.dim(1024), 5), axis(0), axis(1)},
                             {axis(2, 32, false, c.dim(1088), 40), axis(1),
                              axis(2, 32, true, c.dim(1088)), axis(0)}}) {
      const Type type = Type::tensor(c, e, llvm::ArrayRef<int64_t>(shape), Layout::get(c, axes));
      const Tensor t = counted(e, shape);
      Operation *op = Operation::create(
          Op::Constant, {}, {{"value", Literal(std::make_shared<const Tensor>(t))}}, {type}, 0);
      const PackedConstant constant(*op);
      op->erase(); // it lives without
      size_t parts = 0;
      EXPECT_TRUE(inParts(constant, parts) == packedSlowly(t, type)) << toString(type);
      EXPECT_EQ(parts > 1, e != Element::U8 || constant.size() > 1 << 20) << toString(type);
    }
}

/// Strips of rows and of columns side by side, more than are made together: those that are made one
/// at a time.
TEST(Packing, StripsComeInParts) {
  Context c;
  const LayoutAxis swapped[] = {axis(1), axis(0)};
  for (Element e : {Element::F16, Element::I8, Element::F8E4M3, Element::I4})
    for (bool columns : {false, true}) {
      const Tensor t = counted(e, {1100, 1006});
      Operation *op = Operation::create(
          Op::Constant, {}, {{"value", Literal(std::make_shared<const Tensor>(t))}},
          {Type::tensor(c, e, t.shape(), columns ? Layout::get(c, swapped) : Layout())}, 0);
      op->set("stored", Word{"strips"});
      const Tensor whole = storedElements(*op);
      const PackedConstant constant(*op);
      op->erase();
      size_t parts = 0;
      EXPECT_TRUE(inParts(constant, parts) ==
                  std::string(whole.bytes().begin(), whole.bytes().end()))
          << name(e).str() << ", " << columns;
      EXPECT_EQ(parts > 1, constant.size() > 1 << 20);
    }
}

/// What is made of the same bytes in the same way is known to be equal; other equal bytes are
/// found.
TEST(Packing, EqualConstantsAreFound) {
  Context c;
  const auto constant = [&](const Literal &l, Layout layout) {
    Operation *op = Operation::create(Op::Constant, {}, {{"value", l}},
                                      {Type::tensor(c, l->element(), l->shape(), layout)}, 0);
    PackedConstant packed(*op);
    op->erase();
    return packed;
  };
  const LayoutAxis swapped[] = {axis(1), axis(0)};
  const auto a = std::make_shared<const Tensor>(counted(Element::F16, {3, 5})),
             b = std::make_shared<const Tensor>(counted(Element::F16, {3, 5})),
             line = std::make_shared<const Tensor>(counted(Element::F16, {15, 1}));
  EXPECT_TRUE(constant(a, Layout()).isMadeAlike(constant(a, Layout())));
  EXPECT_FALSE(constant(a, Layout()).isMadeAlike(constant(a, Layout::get(c, swapped))));
  EXPECT_FALSE(constant(a, Layout()).isMadeAlike(constant(b, Layout())));
  EXPECT_TRUE(constant(a, Layout()).hasBytesOf(constant(b, Layout())));
  EXPECT_FALSE(constant(a, Layout()).hasBytesOf(constant(b, Layout::get(c, swapped))));
  EXPECT_TRUE(constant(line, Layout()).hasBytesOf(constant(line, Layout::get(c, swapped))));
}

/// A constant of `filters`, in 4 x 4 places for each where Winograd's products are stored.
Operation *filterConstant(Context &c, const Tensor &filters, bool transformed) {
  const Dim four = transformed ? c.dim(4) : Dim();
  const LayoutAxis axes[] = {axis(1), axis(2, 0, false, four), axis(3, 0, false, four), axis(0)};
  Operation *op = Operation::create(
      Op::Constant, {}, {{"value", Literal(std::make_shared<const Tensor>(filters))}},
      {Type::tensor(c, Element::F32, filters.shape(), Layout::get(c, axes))}, 0);
  if (transformed)
    op->set("stored", Word{"winograd"});
  return op;
}

TEST(Packing, FiltersAreStoredTransformed) {
  Context c;
  Tensor filters(Element::F32, {2, 1, 3, 3});
  auto *g = reinterpret_cast<float *>(filters.mutableBytes());
  std::iota(g, g + 9, 1.f);
  g[9] = 4; // the corner alone
  auto stored = [&](bool transformed) {
    Operation *op = filterConstant(c, filters, transformed);
    const Tensor t = storedElements(*op);
    const Type type = storedType(*op);
    std::vector<float> packed(packedBytes(t, type) / 4);
    packConstant(t, type, reinterpret_cast<char *>(packed.data()));
    op->erase();
    return packed;
  };
  // G g G^T; the two filters are neighbours in memory.
  const std::vector<float> first = {1, 3,     1,     3, 6, 11.25f, 3.75f, 9,
                                    2, 3.75f, 1.25f, 3, 7, 12,     4,     9};
  const std::vector<float> second = {4, 2, 2, 0, 2, 1, 1, 0, 2, 1, 1, 0, 0, 0, 0, 0};
  const std::vector<float> got = stored(true);
  ASSERT_EQ(got.size(), 32u);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(got[2 * i], first[i]) << i;
    EXPECT_EQ(got[2 * i + 1], second[i]) << i;
  }
  const std::vector<float> plain = stored(false);
  ASSERT_EQ(plain.size(), 18u);
  EXPECT_EQ(plain[1], 4.f);
  EXPECT_EQ(plain[16], 9.f);
}

/// Filters outermost, which are transformed part by part, and channels outermost, which are not:
/// the bytes of the whole.
TEST(Packing, TransformedFiltersComeInParts) {
  Context c;
  Tensor filters(Element::F32, {100, 300, 3, 3});
  auto *g = filters.mutableAs<float>();
  for (int64_t i = 0; i < filters.size(); ++i)
    g[i] = float(i * 31 % 197 - 98) / 7;
  for (auto [word, side] : {std::pair<const char *, int64_t>{"winograd", 4}, {"winograd6", 6}})
    for (bool filtersOutermost : {true, false}) {
      const LayoutAxis down = axis(2, 0, false, c.dim(side)),
                       across = axis(3, 0, false, c.dim(side));
      const std::vector<LayoutAxis> axes =
          filtersOutermost
              ? std::vector<LayoutAxis>{axis(0, 16), down, across, axis(1), axis(0, 16, true)}
              : std::vector<LayoutAxis>{axis(1), down, across, axis(0)};
      Operation *op = Operation::create(
          Op::Constant, {}, {{"value", Literal(std::make_shared<const Tensor>(filters))}},
          {Type::tensor(c, Element::F32, filters.shape(), Layout::get(c, axes))}, 0);
      op->set("stored", Word{word});
      const Tensor t = storedElements(*op);
      std::string whole(packedBytes(t, storedType(*op)), '\0');
      packConstant(t, storedType(*op), whole.data());
      const PackedConstant constant(*op);
      op->erase();
      size_t parts = 0;
      EXPECT_TRUE(inParts(constant, parts) == whole) << word << ", " << filtersOutermost;
      EXPECT_GT(parts, 1u);
    }
}

TEST(Packing, FiltersOfVolumesAreStoredTransformed) {
  Context c;
  Tensor filters(Element::F32, {1, 1, 2, 3, 3});
  auto *g = reinterpret_cast<float *>(filters.mutableBytes());
  g[4] = 1;  // the centre of the first plane
  g[17] = 3; // the last corner of the second
  Operation *op = Operation::create(Op::Constant, {},
                                    {{"value", Literal(std::make_shared<const Tensor>(filters))}},
                                    {Type::tensor(c, Element::F32, filters.shape())}, 0);
  op->set("stored", Word{"winograd6"});
  const Tensor t = storedElements(*op);
  op->erase();
  ASSERT_EQ(t.shape().vec(), (std::vector<int64_t>{1, 1, 2, 6, 6}));
  const auto *u = reinterpret_cast<const float *>(t.bytes().data());
  // Of the points 5/8 and 3/2: p / (p * 2p * (p^2 - q^2)), the products of their columns.
  const double a = 1 / (2 * 0.625 * (0.625 * 0.625 - 2.25)),
               b = 1 / (2 * 1.5 * (2.25 - 0.625 * 0.625)), centre[] = {0, a, -a, b, -b, 0};
  for (int y = 0; y < 6; ++y)
    for (int x = 0; x < 6; ++x)
      EXPECT_NEAR(u[6 * y + x], centre[y] * centre[x], 1e-7) << y << ", " << x;
  EXPECT_EQ(u[71], 3.f);
}

/// What is stored of a constant.
template <class T>
std::vector<T> storedAs(Context &c, const Tensor &value, Layout layout, const char *word) {
  Operation *op = Operation::create(Op::Constant, {},
                                    {{"value", Literal(std::make_shared<const Tensor>(value))}},
                                    {Type::tensor(c, value.element(), value.shape(), layout)}, 0);
  op->set("stored", Word{word});
  const Tensor t = storedElements(*op);
  const Type type = storedType(*op);
  std::vector<T> packed(packedBytes(t, type) / sizeof(T));
  EXPECT_EQ(int64_t(packed.size() * sizeof(T)), storedBytes(*op));
  packConstant(t, type, reinterpret_cast<char *>(packed.data()));
  op->erase();
  return packed;
}

/// Rows of two floats that are rounded up to four.
TEST(Packing, FloatsAreRoundedToTf32) {
  Context c;
  Tensor value(Element::F32, {2, 2});
  auto *x = reinterpret_cast<float *>(value.mutableBytes());
  x[0] = 1 + 0x1.8p-11f; // nearer to the one above
  x[1] = -1 - 0x1p-11f;  // a tie: away from zero
  x[2] = 3 + 0x1.fp-13f;
  x[3] = 0x1.234568p-70f;
  const LayoutAxis axes[] = {axis(0), axis(1, 0, false, c.dim(4))};
  const Layout rows = Layout::get(c, axes);
  const std::vector<float> rounded = {1 + 0x1p-10f, -1 - 0x1p-10f, 0, 0, 3, 0x1.234p-70f, 0, 0};
  EXPECT_EQ(storedAs<float>(c, value, rows, "tf32"), rounded);
  const std::vector<float> parts = storedAs<float>(c, value, rows, "tf32x3");
  ASSERT_EQ(parts.size(), 16u);
  EXPECT_EQ(std::vector<float>(parts.begin(), parts.begin() + 8), rounded);
  EXPECT_EQ(parts[8 + 0], -0x1p-12f);
  EXPECT_EQ(parts[8 + 1], 0x1p-11f);
  EXPECT_EQ(parts[8 + 4], 0x1.fp-13f);
  EXPECT_EQ(parts[8 + 5], 0x0.000568p-70f);
  EXPECT_EQ(parts[8 + 7], 0.f);
}

TEST(Packing, RowsAreStoredAsPairs) {
  Context c;
  Tensor value(Element::BF16, {2, 1, 2, 3});
  auto *x = reinterpret_cast<uint16_t *>(value.mutableBytes());
  std::iota(x, x + 12, uint16_t(1));
  const std::vector<uint16_t> expected = {0, 1, 1, 2, 2, 3, 3, 0, 0, 4,  4,  5,  5,  6,  6,  0,
                                          0, 7, 7, 8, 8, 9, 9, 0, 0, 10, 10, 11, 11, 12, 12, 0};
  EXPECT_EQ(storedAs<uint16_t>(c, value, Layout(), "pairs"), expected);
}

/// Rows of 2 x 6 channels by 3 x 4 taps, channels innermost, read back by the runtime.
template <int Bits, int Lanes> void checkFields(Context &c) {
  Tensor t(Element::I8, {2, 6, 3, 4});
  for (int64_t i = 0; i < t.size(); ++i)
    t.setInt(i, (i * 5 + i / 7) % (1 << Bits) - (1 << (Bits - 1)));
  const LayoutAxis axes[] = {axis(0), axis(2), axis(3), axis(1)};
  const Type type = Type::tensor(c, Element::I8, t.shape(), Layout::get(c, axes));
  Operation *op = Operation::create(
      Op::Constant, {}, {{"value", Literal(std::make_shared<const Tensor>(t))}}, {type}, 0);
  op->set("stored", Word{WeightFields{Bits, Lanes}.word()});
  const Tensor stored = storedElements(*op);
  const int64_t row = weight_fields<Bits, Lanes>::row_bytes(72);
  EXPECT_EQ(storedBytes(*op), 2 * row);
  EXPECT_EQ(int64_t(stored.bytes().size()), 2 * row);
  const auto *bytes = reinterpret_cast<const int8_t *>(stored.bytes().data());
  llvm::SmallVector<int64_t, 4> at(4, 0);
  for (int64_t i = 0; i < t.size(); ++i) {
    at = {i / 72, i / 12 % 6, i / 4 % 3, i % 4};
    const int64_t place = physicalIndex(type, at);
    EXPECT_EQ((weight_fields<Bits, Lanes>::at(bytes + place / 72 * row, place % 72)), t.intAt(i))
        << op->wordAttr("stored").str() << ", element " << i;
  }
  op->erase();
}

TEST(Packing, WeightsOfFewBitsAreFields) {
  Context c;
  checkFields<4, 1>(c);
  checkFields<4, 4>(c);
  checkFields<4, 16>(c);
  checkFields<2, 1>(c);
  checkFields<2, 4>(c);
  checkFields<2, 16>(c);
}

/// Seven filters of 2 channels by 3 taps, channels innermost: each number gives both weights back.
template <int Pairs> void checkJoined(Context &c) {
  Tensor t(Element::I8, {7, 2, 1, 3});
  for (int64_t i = 0; i < t.size(); ++i)
    t.setInt(i, i * 41 % 255 - 127);
  const LayoutAxis axes[] = {axis(0), axis(2), axis(3), axis(1)};
  const Type type = Type::tensor(c, Element::I8, t.shape(), Layout::get(c, axes));
  Operation *op = Operation::create(
      Op::Constant, {}, {{"value", Literal(std::make_shared<const Tensor>(t))}}, {type}, 0);
  op->set("stored", Word{JoinedFilters{Pairs}.word()});
  using joined = joined_weights<Pairs>;
  const int64_t row = joined::row_bytes(6), rows = (7 + joined::filters - 1) / joined::filters;
  EXPECT_EQ(storedBytes(*op), rows * row);
  const Tensor stored = storedElements(*op);
  ASSERT_EQ(int64_t(stored.bytes().size()), rows * row);
  const auto weight = [&](int64_t filter, int64_t i) {
    return filter < 7 && i < 6 ? t.intAt(filter * 6 + i % 2 * 3 + i / 2) : 0;
  };
  for (int64_t filter = 0; filter < rows * joined::filters; filter += 2)
    for (int64_t i = 0; i < 8; ++i) { // of a group 0, 2, 1, 3, each pair's in turn
      const int64_t place = i / 4 * joined::group_bytes + filter % joined::filters / 2 * 8 +
                            i % 2 * 4 + i % 4 / 2 * 2;
      const uint8_t *at = stored.bytes().data() + filter / joined::filters * row + place;
      const int both = int16_t(uint16_t(at[0] | at[1] << 8)), second = int8_t(at[0]);
      EXPECT_EQ((both - second) / 256, weight(filter, i)) << "filter " << filter << ", " << i;
      EXPECT_EQ(second, weight(filter + 1, i)) << "filter " << filter + 1 << ", " << i;
    }
  op->erase();
}

/// Output `row` of a tile and element i of 32 along k, as runtime/cuda/strip/weights.cuh has them:
/// lane 4 * g + t, register r and half h of step s.
struct StripPlace {
  int64_t lane, s, r, h;
  StripPlace(int64_t row, int64_t i)
      : lane(4 * (row % 8) + i / 8), s(i % 8 / 4), r(row / 8 + 2 * (i % 4 / 2)), h(i % 2) {}
};

TEST(Packing, MatricesAreStoredAsStrips) {
  Context c;
  Tensor value(Element::F16, {40, 18}); // [k][n]
  auto *x = reinterpret_cast<uint16_t *>(value.mutableBytes());
  std::iota(x, x + 40 * 18, uint16_t(1));
  const LayoutAxis axes[] = {axis(1), axis(0)};
  const std::vector<uint16_t> halves = storedAs<uint16_t>(c, value, Layout::get(c, axes), "strips");
  std::vector<uint16_t> expected(2 * 4 * 256, 0);
  for (int64_t k = 0; k < 40; ++k)
    for (int64_t n = 0; n < 18; ++n) {
      const StripPlace p(n % 16, k % 32);
      expected[size_t((n / 16 * 4 + k / 32 * 2 + p.s) * 256 + p.lane * 8 + 2 * p.r + p.h)] =
          uint16_t(1 + k * 18 + n);
    }
  EXPECT_EQ(halves, expected);

  Tensor bytes(Element::I8, {3, 64}), nibbles(Element::I4, {3, 64});
  for (int64_t i = 0; i < bytes.size(); ++i)
    bytes.setInt(i, i * 7 % 256 - 128), nibbles.setInt(i, i * 5 % 16 - 8);
  const std::vector<uint8_t> eight = storedAs<uint8_t>(c, bytes, Layout(), "strips"),
                             four = storedAs<uint8_t>(c, nibbles, Layout(), "strips");
  ASSERT_EQ(eight.size(), 1024u);
  ASSERT_EQ(four.size(), 1024u); // a pair of tiles of 64 along k
  for (int64_t n = 0; n < 3; ++n)
    for (int64_t k = 0; k < 64; ++k) {
      const StripPlace p(n, k % 32);
      EXPECT_EQ(eight[size_t(k / 32 * 512 + p.lane * 16 + 8 * p.s + 2 * p.r + p.h)] - 128,
                bytes.intAt(n * 64 + k));
      const int64_t bit = 4 * (4 * p.h + p.r);
      const uint8_t byte = four[size_t(p.lane * 16 + 4 * (k / 32 * 2 + p.s) + bit / 8)];
      EXPECT_EQ((byte >> (bit % 8) & 15) - 8, nibbles.intAt(n * 64 + k));
    }
  EXPECT_EQ(eight[5 * 16 * 4], 128); // an output that is not there: 0
  EXPECT_EQ(four[1023], 0x88);

  Tensor scales(Element::F16, {9, 3});
  auto *scale = reinterpret_cast<uint16_t *>(scales.mutableBytes());
  std::iota(scale, scale + 27, uint16_t(1));
  // Blocks of 64 elements: each scale is there for two.
  const std::vector<uint16_t> stored = storedAs<uint16_t>(c, scales, Layout(), "scales4x2");
  ASSERT_EQ(stored.size(), size_t(4 * 8 * 2 * 2));
  for (int64_t n = 0; n < 9; ++n)
    for (int64_t b = 0; b < 8; ++b)
      EXPECT_EQ(stored[size_t(((b / 2 * 8 + n % 8) * 2 + b % 2) * 2 + n / 8)],
                b < 6 ? n * 3 + b / 2 + 1 : 0);
}

TEST(Packing, FiltersAreJoined) {
  Context c;
  checkJoined<1>(c);
  checkJoined<2>(c);
}

TEST(Packing, TheRuntimeHashesAlike) {
  std::string bytes(40, '\0');
  std::iota(bytes.begin(), bytes.end(), '\1');
  for (size_t n = 0; n <= bytes.size(); ++n)
    EXPECT_EQ(hashBytes(llvm::StringRef(bytes).take_front(n)),
              cpu::hash_bytes(reinterpret_cast<const unsigned char *>(bytes.data()), n))
        << n;
}

TEST(Packing, PartsHashAsTheWhole) {
  std::string bytes(83, '\0');
  std::iota(bytes.begin(), bytes.end(), '\1');
  const llvm::StringRef all = bytes;
  BytesHash hash;
  hash.addWords(all.take_front(24));
  hash.addWords("");
  hash.addWords(all.substr(24, 56));
  EXPECT_EQ(hash.end(all.drop_front(80)), hashBytes(all));
  EXPECT_EQ(hash.end(), hashBytes(all.take_front(80)));
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
