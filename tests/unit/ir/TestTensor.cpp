// Tests host tensors: storage of every element type, rounding of narrow floats.
#include "Support.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstring>
#include <numeric>

namespace tenon::test {
namespace {

TEST(Element, BytesOfWhatNoMemoryHoldsAreANumber) {
  EXPECT_EQ(byteSize(Element::F32, 3), 12);
  EXPECT_EQ(byteSize(Element::U4, 3), 2);
  EXPECT_EQ(byteSize(Element::I8, (int64_t(1) << 58) - 1), (int64_t(1) << 58) - 1);
  const int64_t open = std::numeric_limits<int64_t>::max();
  for (Element e : {Element::U4, Element::I8, Element::F32, Element::F64})
    EXPECT_EQ(byteSize(e, open), int64_t(1) << 58);
}

TEST(NarrowFloats, EveryCodeSurvivesDecodingAndEncoding) {
  for (Element e : {Element::F16, Element::BF16, Element::F8E4M3, Element::F8E4M3Z, Element::F8E5M2,
                    Element::F8E5M2Z, Element::F8E8M0, Element::F4E2M1}) {
    const uint32_t codes = 1u << bitWidth(e);
    for (uint32_t code = 0; code < codes; ++code) {
      const double v = decodeFloat(e, code);
      if (std::isnan(v)) {
        EXPECT_TRUE(std::isnan(decodeFloat(e, encodeFloat(e, v)))) << name(e).str() << " " << code;
      } else {
        EXPECT_EQ(encodeFloat(e, v), code) << name(e).str() << " " << v;
      }
    }
  }
}

TEST(NarrowFloats, HalfwayGoesToTheEvenCode) {
  for (Element e : {Element::F16, Element::BF16, Element::F8E4M3, Element::F8E4M3Z, Element::F8E5M2,
                    Element::F8E5M2Z, Element::F4E2M1}) {
    const uint32_t positive = 1u << (bitWidth(e) - 1);
    for (uint32_t code = 0; code + 1 < positive; ++code) {
      const double low = decodeFloat(e, code), high = decodeFloat(e, code + 1);
      if (!std::isfinite(low) || !std::isfinite(high))
        continue;
      const double middle = (low + high) / 2; // exact
      EXPECT_EQ(encodeFloat(e, middle), code + (code & 1)) << name(e).str() << " " << code;
      EXPECT_EQ(encodeFloat(e, std::nextafter(middle, 0)), code);
      EXPECT_EQ(encodeFloat(e, std::nextafter(middle, 1e300)), code + 1);
      EXPECT_EQ(encodeFloat(e, -std::nextafter(middle, 1e300)), positive + code + 1);
    }
  }
}

TEST(NarrowFloats, KnownCodes) {
  EXPECT_EQ(encodeFloat(Element::F16, 1.0), 0x3c00u);
  EXPECT_EQ(encodeFloat(Element::F16, 65504), 0x7bffu);
  EXPECT_EQ(encodeFloat(Element::F16, 65519.99), 0x7bffu);
  EXPECT_EQ(encodeFloat(Element::F16, 65520), 0x7c00u); // infinity
  EXPECT_EQ(encodeFloat(Element::F16, 5.9604644775390625e-8), 1u);
  EXPECT_EQ(encodeFloat(Element::F16, -0.0), 0x8000u);
  EXPECT_EQ(encodeFloat(Element::BF16, 1.0), 0x3f80u);
  EXPECT_EQ(encodeFloat(Element::F8E4M3, 448), 0x7eu);
  EXPECT_EQ(encodeFloat(Element::F8E4M3, 1e9), 0x7eu); // saturates: no infinity
  EXPECT_EQ(encodeFloat(Element::F8E4M3Z, -0.0), 0u);  // no negative zero
  EXPECT_EQ(encodeFloat(Element::F8E5M2, 1e9), 0x7cu); // infinity
  EXPECT_EQ(decodeFloat(Element::F8E5M2Z, 0x7f), 57344);
  EXPECT_EQ(encodeFloat(Element::F4E2M1, 100), 7u);
  EXPECT_EQ(decodeFloat(Element::F4E2M1, 7), 6);
  EXPECT_EQ(encodeFloat(Element::F4E2M1, std::nan("")), 8u);
  EXPECT_EQ(decodeFloat(Element::F8E8M0, 130), 8);
  EXPECT_EQ(encodeFloat(Element::F8E8M0, 4.01), 130u); // up
  EXPECT_EQ(encodeFloat(Element::F8E8M0, 0.0), 0u);
  EXPECT_EQ(encodeFloat(Element::F8E8M0, -1.0), 0xffu);
}

TEST(Tensor, IntegersWrapAndFloatsTruncate) {
  Tensor t(Element::I8, {4});
  t.setInt(0, 130);
  t.set(1, -2.9);
  t.set(2, 300.7);
  t.setInt(3, -129);
  EXPECT_EQ(values(t), (std::vector<double>{-126, -2, 44, 127}));
  Tensor u = Tensor::scalar(Element::U64, 18446744073709549568.0);
  EXPECT_EQ(u.at(0), 18446744073709549568.0);
  Tensor b(Element::Bool, {2});
  b.set(0, 0.5);
  b.setInt(1, 256);
  EXPECT_EQ(values(b), (std::vector<double>{1, 1}));
}

TEST(Tensor, PackedElementsShareBytes) {
  for (Element e : {Element::I2, Element::I4, Element::U2, Element::U4}) {
    Tensor t(e, {9});
    EXPECT_EQ(int64_t(t.bytes().size()), (9 * bitWidth(e) + 7) / 8);
    std::vector<double> expected;
    for (int64_t i = 0; i < 9; ++i) {
      const int64_t v = minInt(e) + i % (maxInt(e) - minInt(e) + 1);
      t.setInt(i, v);
      expected.push_back(double(v));
    }
    EXPECT_EQ(values(t), expected) << name(e).str();
  }
  Tensor t(Element::U4, {2});
  t.setInt(0, 1);
  t.setInt(1, 2);
  EXPECT_EQ(t.bytes()[0], 0x21); // low bits first
}

TEST(Tensor, CopiesAreIndependent) {
  Tensor a = tensor(Element::F32, {2}, {1, 2}), b = a;
  b.set(0, 7);
  EXPECT_EQ(values(a), (std::vector<double>{1, 2}));
  EXPECT_EQ(values(b), (std::vector<double>{7, 2}));
}

TEST(Tensor, HalvesWidenAsTheyDecode) {
  for (Element e : {Element::F16, Element::BF16}) {
    Tensor t(e, {1 << 16});
    for (int64_t i = 0; i < t.size(); ++i)
      t.mutableAs<uint16_t>()[i] = uint16_t(i);
    std::vector<double> wide(size_t(t.size()));
    t.toDoubles(0, t.size(), wide.data());
    for (uint32_t i = 0; i < wide.size(); ++i) { // bit by bit: signs of zeros and of NaN, too
      const double expected = decodeFloat(e, i);
      EXPECT_EQ(std::memcmp(&wide[i], &expected, sizeof expected), 0) << name(e).str() << " " << i;
    }
  }
}

/// Many at once are converted as one by one: every code of narrow types, and to halves every code,
/// what lies between two of them, and their neighbours.
TEST(Tensor, BulkConversionsAreThoseOfElements) {
  for (Element e : {Element::F8E4M3, Element::F8E4M3Z, Element::F8E5M2, Element::F8E5M2Z,
                    Element::F8E8M0, Element::F4E2M1, Element::I4, Element::U4, Element::I2}) {
    Tensor t(e, {1024});
    uint8_t *bytes = t.mutableBytes();
    for (size_t i = 0; i < t.bytes().size(); ++i)
      bytes[i] = uint8_t(i);
    std::vector<double> wide(1000);
    t.toDoubles(8, 1000, wide.data());
    for (int64_t i = 0; i < 1000; ++i) {
      const double one = t.at(8 + i);
      EXPECT_TRUE(wide[size_t(i)] == one || (std::isnan(one) && std::isnan(wide[size_t(i)])))
          << name(e).str() << ' ' << i;
    }
  }
  std::vector<double> values;
  for (uint32_t code = 0; code < 1u << 16; ++code) {
    const double v = decodeFloat(Element::F16, code), next = decodeFloat(Element::F16, code ^ 1),
                 middle = (v + next) / 2;
    for (double x : {v, middle, std::nextafter(middle, v), std::nextafter(middle, next)})
      values.push_back(x);
  }
  for (double x : {65519.0, 65520.0, 65521.0, 65536.0, 1e300, 1e-300})
    values.insert(values.end(), {x, -x});
  Tensor halves(Element::F16, {int64_t(values.size())});
  halves.fromDoubles(0, halves.size(), values.data());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(halves.as<uint16_t>()[i], encodeFloat(Element::F16, values[i])) << values[i];
}

TEST(Tensor, PagesOfAFileAreReadAndNotWritten) {
  llvm::SmallString<64> path;
  int descriptor = -1;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("tensor", "data", descriptor, path));
  std::vector<float> numbers(1 << 14);
  std::iota(numbers.begin(), numbers.end(), 1.f);
  {
    llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/false);
    os.write(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(float));
  }
  std::error_code code;
  auto region = std::make_shared<llvm::sys::fs::mapped_file_region>(
      descriptor, llvm::sys::fs::mapped_file_region::readonly, numbers.size() * sizeof(float), 0,
      code);
  ASSERT_FALSE(code);
  const llvm::ArrayRef<uint8_t> pages(reinterpret_cast<const uint8_t *>(region->const_data()),
                                      region->size());
  // Some floats into the file, so that the first page is shared with what comes before.
  Tensor t = Tensor::mapped(Element::F32, {1 << 13}, pages.slice(64, sizeof(float) << 13), region);
  region.reset();
  EXPECT_EQ(t.at(0), 17);
  t.leaveMemory();
  EXPECT_EQ(t.at(0), 17);
  EXPECT_EQ(t.at(8191), 8208);
  EXPECT_EQ(t.bytes().data(), pages.data() + 64);
  const Tensor bytes = t.reinterpreted(Element::U8, {2, 1 << 14});
  t.set(0, -1); // into a copy
  EXPECT_EQ(t.at(0), -1);
  EXPECT_EQ(t.at(8191), 8208);
  EXPECT_EQ(bytes.reinterpreted(Element::F32, {1 << 13}).at(0), 17);
  llvm::sys::fs::closeFile(descriptor);
  llvm::sys::fs::remove(path);
}

TEST(Tensor, Splat) {
  EXPECT_TRUE(tensor(Element::F32, {3}, {2, 2, 2}).isSplat());
  EXPECT_FALSE(tensor(Element::F32, {3}, {2, 2, 3}).isSplat());
  EXPECT_FALSE(tensor(Element::I4, {3}, {2, 2, 3}).isSplat());
  EXPECT_TRUE(tensor(Element::I4, {3}, {2, 2, 2}).isSplat());
  EXPECT_FALSE(Tensor(Element::F32, {0}).isSplat());
}

} // namespace
} // namespace tenon::test
