// Tests operators that write or keep elements by index where ONNX's own tests look away: meeting
// updates, negative indices, limits, errors.
#include "Support.h"

using namespace tenon;
using namespace tenon::test;

namespace {

using Numbers = std::vector<double>;

TEST(Scatter, ElementsMeetAndCountFromTheEnd) {
  TestModel m;
  m.input("x", {"2", "3"});
  m.input("i", {"2", "2"}, onnx::TensorProto::INT64);
  m.input("u", {"2", "2"});
  auto *n = m.node("ScatterElements", {"x", "i", "u"}, {"y"});
  set(n, "axis", 1);
  set(n, "reduction", std::string("add"));
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  Tensor at = Tensor::fromInts({-1, 2, 0, 1}).reshaped({2, 2});
  auto y = i.run({floats({2, 3}, {1, 2, 3, 4, 5, 6}), at, floats({2, 2}, {10, 20, 30, 40})});
  EXPECT_EQ(values(y[0]), Numbers({1, 2, 33, 34, 45, 6}));
}

TEST(Scatter, NDWritesSlices) {
  TestModel m;
  m.input("x", {"3", "2"});
  ints(m.graph, "i", {2, 0});
  ints(m.graph, "shape", {2, 1});
  m.node("Reshape", {"i", "shape"}, {"at"});
  m.input("u", {"2", "2"});
  m.node("ScatterND", {"x", "at", "u"}, {"y"});
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  auto y = i.run({floats({3, 2}, {1, 2, 3, 4, 5, 6}), floats({2, 2}, {10, 20, 30, 40})});
  EXPECT_EQ(values(y[0]), Numbers({30, 40, 3, 4, 10, 20}));
}

TEST(Scatter, NamesWhatDoesNotFit) {
  TestModel wrong;
  wrong.input("x", {"4"});
  wrong.input("i", {"2"}, onnx::TensorProto::INT64);
  wrong.input("u", {"2"});
  set(wrong.node("ScatterElements", {"x", "i", "u"}, {"y"}), "reduction", std::string("mean"));
  wrong.output("y");
  Imported a(wrong);
  EXPECT_TRUE(mentions(a.messages, "expected none, add, mul, min or max, found 'mean'"));
  TestModel deep;
  deep.input("x", {"4"});
  deep.input("i", {"2", "2"}, onnx::TensorProto::INT64);
  deep.input("u", {"2"});
  deep.node("ScatterND", {"x", "i", "u"}, {"y"});
  deep.output("y");
  Imported b(deep);
  EXPECT_TRUE(mentions(b.messages, "expected indices whose last extent is 1 to 1"));
}

std::vector<Tensor> suppressed(int64_t most, float threshold) {
  TestModel m;
  m.input("boxes", {"1", "3", "4"});
  m.input("scores", {"1", "2", "3"});
  ints(m.graph, "most", {most});
  weight(m.graph, "overlap", {1}, 0.5f);
  weight(m.graph, "score", {1}, threshold);
  m.node("NonMaxSuppression", {"boxes", "scores", "most", "overlap", "score"}, {"y"});
  m.output("y");
  Imported i(m);
  EXPECT_TRUE(i) << i.messages;
  // The first two boxes are nearly one.
  return i ? i.run({floats({1, 3, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1.1, 3, 3, 4, 4}),
                    floats({1, 2, 3}, {0.5, 0.9, 0.7, 0.8, 0.2, 0.1})})
           : std::vector<Tensor>(1);
}

TEST(NonMaxSuppression, RowsAreBatchClassBox) {
  auto y = suppressed(3, 0.3f);
  EXPECT_EQ(values(y[0]), Numbers({0, 0, 1, 0, 0, 2, 0, 1, 0}));
  EXPECT_EQ(values(suppressed(1, 0)[0]), Numbers({0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(suppressed(3, 2)[0].shape()[0], 0);
}

} // namespace
