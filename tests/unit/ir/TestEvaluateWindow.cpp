// Tests pool and resize against values worked out from their definitions.
#include "Support.h"

namespace tenon::test {
namespace {

Tensor pool(const Tensor &x, NamedAttributes attributes) {
  return evaluateOp(Op::Pool, {x}, [&](TestGraph &) { return attributes; })[0];
}

TEST(Pool, MaxIgnoresPaddingAndKeepsNaN) {
  Tensor x = tensor(Element::F32, {1, 1, 2, 2}, {-1, -2, -3, -4});
  Tensor r = pool(x, {{"kind", Word{"max"}}, {"kernel", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  EXPECT_EQ(values(r), (std::vector<double>{-1, -1, -2, -1, -1, -2, -3, -3, -4}));
  x.set(0, std::nan(""));
  EXPECT_TRUE(std::isnan(pool(x, {{"kind", Word{"max"}}, {"kernel", Ints{2, 2}}}).at(0)));
}

TEST(Pool, AverageCountsWhatItIsToldTo) {
  Tensor x = tensor(Element::F32, {1, 1, 3}, {3, 6, 9});
  NamedAttributes a{{"kind", Word{"average"}}, {"kernel", Ints{2}}, {"pads", Ints{1, 1}}};
  EXPECT_EQ(values(pool(x, a)), (std::vector<double>{3, 4.5, 7.5, 9}));
  a.insert({"count_include_pad", true});
  EXPECT_EQ(values(pool(x, a)), (std::vector<double>{1.5, 4.5, 7.5, 4.5}));
}

TEST(Pool, CeilWindowsEndAtThePadding) {
  Tensor x = tensor(Element::F32, {1, 1, 3}, {3, 6, 9});
  // Windows [0, 2) and [2, 4): the second has one element and no padding to count.
  NamedAttributes a{{"kind", Word{"average"}},
                    {"kernel", Ints{2}},
                    {"strides", Ints{2}},
                    {"ceil", true},
                    {"count_include_pad", true}};
  EXPECT_EQ(values(pool(x, a)), (std::vector<double>{4.5, 9}));
}

TEST(Pool, DilationStrideAndIntegers) {
  Tensor x = tensor(Element::I8, {1, 1, 7}, {1, 9, 2, 8, 3, 7, 4});
  EXPECT_EQ(values(pool(x, {{"kind", Word{"max"}},
                            {"kernel", Ints{3}},
                            {"dilations", Ints{2}},
                            {"strides", Ints{2}}})),
            (std::vector<double>{3, 4}));
}

Tensor resize(const Tensor &x, Shape to, NamedAttributes attributes) {
  return evaluateOp(Op::Resize, {x}, [&](TestGraph &g) {
    attributes.insert({"shape", g.dims(to)});
    return attributes;
  })[0];
}

TEST(Resize, NearestRounding) {
  Tensor x = tensor(Element::F32, {4}, {0, 1, 2, 3});
  auto nearest = [&](const char *rounding, const char *coordinates, int64_t to) {
    return values(resize(x, {to},
                         {{"mode", Word{"nearest"}},
                          {"nearest", Word{rounding}},
                          {"coordinates", Word{coordinates}}}));
  };
  // Half-pixel positions for 8: −0.25 0.25 0.75 1.25 …; for 2: 0.5 and 2.5, which are ties.
  EXPECT_EQ(nearest("round_prefer_floor", "half_pixel", 8),
            (std::vector<double>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(nearest("round_prefer_floor", "half_pixel", 2), (std::vector<double>{0, 2}));
  EXPECT_EQ(nearest("round_prefer_ceil", "half_pixel", 2), (std::vector<double>{1, 3}));
  EXPECT_EQ(nearest("floor", "asymmetric", 8), (std::vector<double>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(nearest("ceil", "asymmetric", 8), (std::vector<double>{0, 1, 1, 2, 2, 3, 3, 3}));
}

TEST(Resize, LinearCoordinates) {
  Tensor x = tensor(Element::F32, {1, 1, 2, 2}, {1, 2, 3, 4});
  auto linear = [&](const char *coordinates) {
    return resize(x, {1, 1, 4, 4}, {{"mode", Word{"linear"}}, {"coordinates", Word{coordinates}}});
  };
  // Examples of the ONNX operator reference.
  expectNear(linear("half_pixel"),
             {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4},
             1e-6);
  const double t = 1.0 / 3;
  expectNear(linear("align_corners"),
             {1, 1 + t, 1 + 2 * t, 2, 1 + 2 * t, 2, 2 + t, 2 + 2 * t, 2 + t, 2 + 2 * t, 3, 3 + t, 3,
              3 + t, 3 + 2 * t, 4},
             1e-6);
}

TEST(Resize, CubicAndAntialias) {
  Tensor x = tensor(Element::F32, {4}, {1, 2, 3, 4});
  // A cubic filter reproduces a line away from the border.
  Tensor r = resize(x, {8}, {{"mode", Word{"cubic"}}});
  EXPECT_NEAR(r.at(3), 2.25 + (-0.75) * 0.0, 0.05);
  EXPECT_NEAR(r.at(3) + r.at(4), 5, 1e-6);
  // Shrinking 4 → 2 with a stretched triangle: weights 1/8 3/8 3/8 1/8, cut and renormalised at the
  // border.
  Tensor shrunk = resize(x, {2}, {{"mode", Word{"linear"}}, {"antialias", true}});
  expectNear(shrunk,
             {(0.125 * 1 + 0.375 * 1 + 0.375 * 2 + 0.125 * 3),
              (0.125 * 2 + 0.375 * 3 + 0.375 * 4 + 0.125 * 4)},
             1e-6);
  Tensor excluded =
      resize(x, {2}, {{"mode", Word{"linear"}}, {"antialias", true}, {"exclude_outside", true}});
  expectNear(
      excluded,
      {(0.375 * 1 + 0.375 * 2 + 0.125 * 3) / 0.875, (0.125 * 2 + 0.375 * 3 + 0.375 * 4) / 0.875},
      1e-6);
}

TEST(Resize, CropFillsWhatIsOutside) {
  Tensor x = tensor(Element::F32, {3}, {10, 20, 30});
  Tensor r = resize(x, {3},
                    {{"mode", Word{"linear"}},
                     {"coordinates", Word{"tf_crop_and_resize"}},
                     {"roi", Floats{0.5, 1.5}},
                     {"extrapolation", -7.0}});
  EXPECT_EQ(values(r), (std::vector<double>{20, 30, -7}));
}

TEST(Resize, IntegersRoundHalfToEven) {
  Tensor x = tensor(Element::U8, {2}, {0, 5});
  EXPECT_EQ(
      values(resize(x, {3}, {{"mode", Word{"linear"}}, {"coordinates", Word{"align_corners"}}})),
      (std::vector<double>{0, 2, 5}));
}

} // namespace
} // namespace tenon::test
