// Tests the element types of eight bits and fewer: every code of the floats, every rounding case of
// a store against the interpreter's formats, and the addressing of packed elements.
#include "Support.h"
#include "cpu/map.h"
#include "ir/Tensor.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace tenon;

namespace {

template <class T> struct narrow;
template <> struct narrow<f8e4m3> { static constexpr Element element = Element::F8E4M3; };
template <> struct narrow<f8e4m3fnuz> { static constexpr Element element = Element::F8E4M3Z; };
template <> struct narrow<f8e5m2> { static constexpr Element element = Element::F8E5M2; };
template <> struct narrow<f8e5m2fnuz> { static constexpr Element element = Element::F8E5M2Z; };
template <> struct narrow<f8e8m0> { static constexpr Element element = Element::F8E8M0; };
template <> struct narrow<f4e2m1> { static constexpr Element element = Element::F4E2M1; };

uint32_t bitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
float floatOf(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

/// What L makes of x, the same in every lane.
template <class L, class T> uint32_t stored(float x) {
  uint8_t lanes[L::width];
  store<L, uint8_t>(lanes, detail::encode<L, T>(broadcast<L>(x)));
  for (int i = 1; i < L::width; ++i)
    EXPECT_EQ(lanes[i], lanes[0]);
  return lanes[0];
}
template <class L, class T> float loaded(uint8_t bits) {
  float lanes[L::width];
  store<L, float>(lanes, detail::decode<L, T>(broadcast<L>(bits)));
  return lanes[L::width - 1];
}

template <class T> class NarrowFloat : public testing::Test {
protected:
  static constexpr Element element = narrow<T>::element;
  static constexpr int codes = 1 << (packed_bits<T> > 0 ? packed_bits<T> : 8);
  static void expectStore(float x) {
    const uint32_t want = encodeFloat(element, double(x));
    ASSERT_EQ((stored<scalar_lanes, T>(x)), want) << x << " of bits " << std::hex << bitsOf(x);
    ASSERT_EQ((stored<native_lanes, T>(x)), want) << x << " of bits " << std::hex << bitsOf(x);
  }
};
using NarrowFloats = testing::Types<f8e4m3, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1>;
TYPED_TEST_SUITE(NarrowFloat, NarrowFloats);

TYPED_TEST(NarrowFloat, EveryCode) {
  for (int code = 0; code < this->codes; ++code) {
    const double want = decodeFloat(this->element, uint32_t(code));
    for (float got : {loaded<scalar_lanes, TypeParam>(uint8_t(code)),
                      loaded<native_lanes, TypeParam>(uint8_t(code))}) {
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << code;
      } else {
        EXPECT_EQ(double(got), want) << code;
        EXPECT_EQ(std::signbit(got), std::signbit(want)) << code;
      }
    }
  }
}

TYPED_TEST(NarrowFloat, EveryRoundingCase) {
  // Each value, the middle between neighbours, and what lies beside these.
  std::vector<double> values;
  for (int code = 0; code < this->codes; ++code)
    if (const double v = decodeFloat(this->element, uint32_t(code)); std::isfinite(v))
      values.push_back(v);
  std::sort(values.begin(), values.end());
  for (size_t i = 0; i < values.size(); ++i)
    for (double v : {values[i], i ? (values[i] + values[i - 1]) / 2 : 2 * values[i]}) {
      const float x = float(v);
      for (float y : {x, std::nextafterf(x, INFINITY), std::nextafterf(x, -INFINITY)})
        this->expectStore(y);
    }
}

TYPED_TEST(NarrowFloat, SweepOfF32) {
  for (uint64_t bits = 0; bits < 0x100000000u; bits += 9973)
    this->expectStore(floatOf(uint32_t(bits)));
  for (float x : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 1e-45f, -1e-45f,
                  std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()})
    this->expectStore(x);
}

TYPED_TEST(NarrowFloat, EveryHalf) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    this->expectStore(float(decodeFloat(Element::F16, bits)));
}

template <class T> class PackedInteger : public testing::Test {};
using PackedIntegers = testing::Types<int4_t, uint4_t, int2_t, uint2_t>;
TYPED_TEST_SUITE(PackedInteger, PackedIntegers);

TYPED_TEST(PackedInteger, StoresLeaveNeighboursAlone) {
  using T = TypeParam;
  constexpr int bits = packed_bits<T>, codes = 1 << bits;
  constexpr bool isSigned = detail::is_signed<compute_t<T>>;
  for (int fill = 0; fill < codes; ++fill)
    for (int code = 0; code < codes; ++code)
      for (index_t at = 0; at < 8; ++at) {
        const int value = isSigned && code >= codes / 2 ? code - codes : code;
        const int other = isSigned && fill >= codes / 2 ? fill - codes : fill;
        unsigned char bytes[4] = {};
        const auto p = element_at<T>(bytes);
        for (index_t i = 0; i < 8; ++i)
          store_element(p + i, compute_t<T>(other));
        store_element(p + at, compute_t<T>(value));
        for (index_t i = 0; i < 8; ++i)
          ASSERT_EQ(load_element(p + i), i == at ? value : other);
        // The first element is in the lowest bits.
        ASSERT_EQ((bytes[at * bits / 8] >> (at * bits % 8)) & (codes - 1), code);
        // Counting from a later byte backwards leads to the same element.
        const packed_pointer<const T> later{bytes + 2, 0};
        ASSERT_EQ(load_element(later - (16 / bits) + at), value);
      }
}

TYPED_TEST(PackedInteger, CastsWrapAndSaturate) {
  using T = TypeParam;
  using L = native_lanes;
  using range = detail::integer_range<T>;
  for (int x = -300; x < 300; ++x) {
    const int wrapped = int(cast<scalar_lanes, T, int32_t>(x));
    EXPECT_EQ((wrapped - x) % (1 << packed_bits<T>), 0);
    EXPECT_TRUE(wrapped >= range::lowest && wrapped <= range::highest);
    const int saturated = int(cast<scalar_lanes, T, float>(float(x)));
    EXPECT_EQ(saturated, std::min(std::max(x, int(range::lowest)), int(range::highest)));
    compute_t<T> lanes[L::width];
    store<L, compute_t<T>>(lanes, cast<L, T, int32_t>(broadcast<L>(int32_t(x))));
    EXPECT_EQ(int(lanes[L::width - 1]), wrapped);
    store<L, compute_t<T>>(lanes, cast<L, T, float>(broadcast<L>(float(x))));
    EXPECT_EQ(int(lanes[0]), saturated);
  }
}

struct copy {
  template <class L, class V> TENON_FN V operator()(L, V v) const { return v; }
};

TYPED_TEST(PackedInteger, MapTransposesPieces) {
  // 5x7 elements that start inside a byte, transposed to an odd place: neighbours stay.
  using T = TypeParam;
  unsigned char from[32], to[32];
  std::mt19937 engine(7);
  for (unsigned char &b : from)
    b = static_cast<unsigned char>(engine());
  std::memset(to, 0xa5, sizeof to);
  const auto x = element_at<const T>(static_cast<const unsigned char *>(from)) + 3;
  const auto y = element_at<T>(to) + 5;
  cpu::pool workers(2);
  cpu::map(extents<7, 5>{}, pack(make_view(y, extents<5, 1>{})),
           pack(make_view(x, extents<1, 7>{})), copy{}, workers);
  for (index_t i = 0; i < 7; ++i)
    for (index_t j = 0; j < 5; ++j)
      EXPECT_EQ(load_element(y + (i * 5 + j)), load_element(x + (j * 7 + i)));
  unsigned char untouched[32];
  std::memset(untouched, 0xa5, sizeof untouched);
  const auto u = element_at<T>(untouched) + 5;
  for (index_t i : {index_t(-5), index_t(-1), index_t(35), index_t(40)})
    EXPECT_EQ(load_element(y + i), load_element(u + i));
}

} // namespace
