// Tests host tensors: storage of every element type, rounding of narrow floats.
#include "Support.h"

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

TEST(Tensor, Splat) {
  EXPECT_TRUE(tensor(Element::F32, {3}, {2, 2, 2}).isSplat());
  EXPECT_FALSE(tensor(Element::F32, {3}, {2, 2, 3}).isSplat());
  EXPECT_FALSE(tensor(Element::I4, {3}, {2, 2, 3}).isSplat());
  EXPECT_TRUE(tensor(Element::I4, {3}, {2, 2, 2}).isSplat());
  EXPECT_FALSE(Tensor(Element::F32, {0}).isSplat());
}

} // namespace
} // namespace tenon::test
