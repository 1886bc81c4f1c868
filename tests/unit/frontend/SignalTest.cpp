// Tests transforms of signals where ONNX's own tests look away: symbolic lengths, wrong axes,
// blocks that cannot be.
#include "Support.h"

using namespace tenon;
using namespace tenon::test;

namespace {

TEST(Signals, ShortTimeTransformKeepsASymbolicLength) {
  TestModel m;
  m.input("x", {"1", "T", "1"});
  ints(m.graph, "step", {2}, true);
  ints(m.graph, "frame", {4}, true);
  m.node("STFT", {"x", "step", "", "frame"}, {"y"});
  m.output("y");
  ImportOptions options;
  options.ranges = {{"T", {4, 100}}};
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  const Tensor y = i.run({floats({1, 6, 1}, {1, 1, 1, 1, 2, 2})})[0];
  ASSERT_EQ(y.shape().vec(), (std::vector<int64_t>{1, 2, 3, 2}));
  // Sums of the frames; then (1, 1, 2, 2) at a quarter turn: 1 − i − 2 + 2i.
  const double expected[] = {4, 0, 0, 0, 0, 0, 6, 0, -1, 1, 0, 0};
  for (int64_t k = 0; k < 12; ++k)
    EXPECT_NEAR(y.at(k), expected[k], 1e-5) << k;
  options.ranges = {{"T", {3, 100}}}; // shorter than a frame
  EXPECT_TRUE(mentions(Imported(m, options).messages, "expected frames of a known length"));
}

TEST(Signals, TransformsOfOpenLengths) {
  for (int64_t inverse : {0, 1})
    for (int64_t oneSided : {0, 1})
      for (int64_t parts : {1, 2})
        for (bool given : {false, true}) {
          TestModel m(20);
          m.input("x", {"2", "N", std::to_string(parts)});
          ints(m.graph, "axis", {1}, true);
          ints(m.graph, "length", {6}, true);
          auto *n = m.node("DFT", {"x", given ? "length" : "", "axis"}, {"y"});
          set(n, "inverse", inverse);
          set(n, "onesided", oneSided);
          m.output("y");
          ImportOptions open;
          open.ranges = {{"N", {2, 9}}};
          Imported dynamic(m, open);
          ASSERT_TRUE(dynamic) << dynamic.messages;
          for (int64_t points : {2, 5, 8}) {
            ImportOptions known;
            known.bindDims = {{"N", points}};
            std::vector<double> v;
            for (int64_t k = 0; k < 2 * points * parts; ++k)
              v.push_back(double(k * k % 7) - 3);
            const Tensor x = floats({2, points, parts}, v);
            const Tensor found = dynamic.run({x})[0], expected = Imported(m, known).run({x})[0];
            ASSERT_EQ(found.shape(), expected.shape());
            for (int64_t k = 0; k < found.size(); ++k)
              ASSERT_NEAR(found.at(k), expected.at(k), 1e-4)
                  << inverse << oneSided << parts << given << " of " << points << " at " << k;
          }
        }
}

TEST(Signals, OpenLengthsAreBounded) {
  TestModel m(20);
  m.input("x", {"1", "N", "1"});
  ints(m.graph, "axis", {1}, true);
  m.node("DFT", {"x", "", "axis"}, {"y"});
  m.output("y");
  ImportOptions open;
  open.ranges = {{"N", {1, 5000}}};
  EXPECT_TRUE(mentions(Imported(m, open).messages, "a transform of up to 5000 points"));
}

TEST(Signals, PartsAreNoAxis) {
  TestModel m(20);
  m.input("x", {"1", "4", "1"});
  ints(m.graph, "axis", {-1}, true);
  m.node("DFT", {"x", "", "axis"}, {"y"});
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "holds real and imaginary parts"));
}

TEST(Signals, BlocksMustDivideTheColumns) {
  for (int64_t extent : {int64_t(3), int64_t(1) << 40}) {
    TestModel m(18);
    m.input("x", {"1", "8", "4"});
    ints(m.graph, "image", {3, 3});
    ints(m.graph, "block", {extent, extent});
    m.node("Col2Im", {"x", "image", "block"}, {"y"});
    m.output("y");
    EXPECT_TRUE(mentions(Imported(m).messages, "a multiple of the block's elements"));
  }
}

} // namespace
