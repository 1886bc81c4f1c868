// Tests operators that read images between their pixels, where ONNX's own tests look away:
// identities, positions that are no numbers.
#include "Support.h"

#include <cmath>

using namespace tenon;
using namespace tenon::test;

namespace {

using Numbers = std::vector<double>;

TEST(Samples, GridOfTheIdentityReadsTheImage) {
  for (double direction : {1.0, -1.0}) {
    TestModel m(20);
    m.input("theta", {"1", "2", "3"});
    m.input("x", {"1", "1", "2", "3"});
    ints(m.graph, "size", {1, 1, 2, 3});
    m.node("AffineGrid", {"theta", "size"}, {"grid"});
    m.node("GridSample", {"x", "grid"}, {"y"});
    m.output("y");
    Imported i(m);
    ASSERT_TRUE(i) << i.messages;
    const Tensor theta = floats({1, 2, 3}, {direction, 0, 0, 0, 1, 0});
    const Tensor y = i.run({theta, floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})})[0];
    const Numbers expected =
        direction > 0 ? Numbers({1, 2, 3, 4, 5, 6}) : Numbers({3, 2, 1, 6, 5, 4});
    for (int64_t k = 0; k < 6; ++k)
      EXPECT_NEAR(y.at(k), expected[size_t(k)], 1e-5) << k;
  }
}

TEST(Samples, PositionsThatAreNoNumbersReadNothingOutside) {
  for (const char *mode : {"linear", "nearest", "cubic"})
    for (const char *padding : {"zeros", "border", "reflection"}) {
      TestModel m(20);
      m.input("x", {"1", "1", "1", "2"});
      m.input("grid", {"1", "1", "3", "2"});
      auto *n = m.node("GridSample", {"x", "grid"}, {"y"});
      set(n, "mode", std::string(mode));
      set(n, "padding_mode", std::string(padding));
      m.output("y");
      Imported i(m);
      ASSERT_TRUE(i) << i.messages;
      // The interpreter refuses indices out of range.
      const Tensor y = i.run(
          {floats({1, 1, 1, 2}, {1, 2}), floats({1, 1, 3, 2}, {NAN, 0, -INFINITY, 0, 1e30, 0})})[0];
      if (std::string(padding) == "zeros" && std::string(mode) == "nearest") {
        EXPECT_EQ(y.at(1), 0);
        EXPECT_EQ(y.at(2), 0);
      }
      if (std::string(padding) == "border") {
        if (std::string(mode) != "cubic") { // whose weights are no numbers there
          EXPECT_EQ(y.at(1), 1) << mode;
        }
        EXPECT_EQ(y.at(2), 2) << mode;
      }
    }
}

Tensor ramp(std::vector<int64_t> shape, double step) {
  Numbers v;
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  for (int64_t k = 0; k < count; ++k)
    v.push_back(std::sin(double(k) * step) * 1.2);
  return floats(shape, v);
}

/// One import for all extents H and W of an image gives what imports for each of them do.
void expectOpenAsKnown(TestModel &m, const std::vector<Tensor> &others, const std::string &what) {
  ImportOptions open;
  open.ranges = {{"H", {1, 6}}, {"W", {1, 6}}};
  Imported dynamic(m, open);
  ASSERT_TRUE(dynamic) << dynamic.messages << what;
  for (auto [h, w] : {std::pair(1, 1), std::pair(1, 5), std::pair(4, 3), std::pair(6, 6)}) {
    ImportOptions known;
    known.bindDims = {{"H", h}, {"W", w}};
    std::vector<Tensor> operands{ramp({2, 3, h, w}, 1.7)};
    operands.insert(operands.end(), others.begin(), others.end());
    const Tensor found = dynamic.run(operands)[0], expected = Imported(m, known).run(operands)[0];
    ASSERT_EQ(found.shape(), expected.shape()) << what;
    for (int64_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found.at(i), expected.at(i), 1e-5) << what << " of " << h << "x" << w;
  }
}

TEST(Samples, GridsReadImagesOfOpenExtents) {
  for (const char *mode : {"linear", "nearest", "cubic"})
    for (const char *padding : {"zeros", "border", "reflection"})
      for (int64_t align : {0, 1}) {
        TestModel m(20);
        m.input("x", {"2", "3", "H", "W"});
        m.input("grid", {"2", "4", "2", "2"});
        auto *n = m.node("GridSample", {"x", "grid"}, {"y"});
        set(n, "mode", std::string(mode));
        set(n, "padding_mode", std::string(padding));
        set(n, "align_corners", align);
        m.output("y");
        expectOpenAsKnown(m, {ramp({2, 4, 2, 2}, 0.9)}, std::string(mode) + " " + padding);
      }
}

TEST(Samples, RegionsOfImagesOfOpenExtents) {
  const Tensor boxes = floats({3, 4}, {0, 0, 2, 3, 1, 0.5, 7, 2, 0.2, 0.1, 0.4, 0.3});
  const Tensor images = Tensor::fromInts({0, 1, 1});
  for (int64_t samples : {0, 2})
    for (const char *mode : {"avg", "max"}) {
      TestModel m(16);
      m.input("x", {"2", "3", "H", "W"});
      m.input("rois", {"3", "4"});
      m.input("batch", {"3"}, onnx::TensorProto::INT64);
      auto *n = m.node("RoiAlign", {"x", "rois", "batch"}, {"y"});
      set(n, "mode", std::string(mode));
      set(n, "output_height", 2);
      set(n, "output_width", 3);
      set(n, "sampling_ratio", samples);
      m.output("y");
      expectOpenAsKnown(m, {boxes, images}, mode);
    }
  TestModel m;
  m.input("x", {"2", "3", "H", "W"});
  m.input("rois", {"2", "5"});
  set(m.node("MaxRoiPool", {"x", "rois"}, {"y"}), "pooled_shape", std::vector<int64_t>{2, 2});
  m.output("y");
  expectOpenAsKnown(m, {floats({2, 5}, {0, 0, 0, 2, 3, 1, 1, 0, 4, 5})}, "MaxRoiPool");
}

TEST(Samples, AnImageNeedsAPixel) {
  TestModel m(20);
  m.input("x", {"1", "1", "H", "2"});
  m.input("grid", {"1", "1", "3", "2"});
  m.node("GridSample", {"x", "grid"}, {"y"});
  m.output("y");
  ImportOptions open;
  open.ranges = {{"H", {0, 6}}};
  EXPECT_TRUE(mentions(Imported(m, open).messages,
                       "expected an image of at least one pixel, found tensor<1x1x{H}x2xf32>; give "
                       "open extents a larger lower bound with --range"));
}

TEST(Samples, DeformedConvolutionIsOneOfTheMovedImage) {
  TestModel m(19);
  m.input("x", {"1", "2", "3", "3"});
  m.input("moved", {"1", "2", "3", "3"});
  m.input("w", {"2", "2", "2", "2"});
  m.input("offset", {"1", "16", "2", "2"}); // 2 groups, 4 positions, 2 coordinates
  set(m.node("DeformConv", {"x", "w", "offset"}, {"y"}), "offset_group", 2);
  m.node("Conv", {"moved", "w"}, {"z"});
  m.output("y");
  m.output("z");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  Numbers x, w, moved, offset;
  for (int k = 0; k < 18; ++k) // channel 1 is read a pixel to the right, where there is one
    x.push_back(k);
  for (int k = 0; k < 18; ++k)
    moved.push_back(k < 9 ? k : k % 3 == 2 ? 0 : k + 1);
  for (int k = 0; k < 16; ++k)
    w.push_back(k - 5);
  for (int k = 0; k < 64; ++k)
    offset.push_back(k >= 32 && k / 4 % 2 == 1 ? 1 : 0);
  auto out = i.run({floats({1, 2, 3, 3}, x), floats({1, 2, 3, 3}, moved), floats({2, 2, 2, 2}, w),
                    floats({1, 16, 2, 2}, offset)});
  EXPECT_EQ(values(out[0]), values(out[1]));
}

} // namespace
