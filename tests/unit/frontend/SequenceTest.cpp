// Tests operators over sequences where ONNX's own tests look away: lengths, directions, symbolic
// extents, errors.
#include "Support.h"

using namespace tenon;
using namespace tenon::test;

namespace {

using Numbers = std::vector<double>;

ImportOptions bounded(const char *symbol, int64_t least = 1) {
  ImportOptions options;
  options.ranges = {{symbol, {least, 8}}};
  return options;
}

/// h = relu(x + h before) over three steps of two sequences, the second of length 1.
std::vector<Tensor> summed(const char *direction) {
  TestModel m;
  m.input("x", {"3", "2", "1"});
  m.input("lengths", {"2"}, onnx::TensorProto::INT32);
  weight(m.graph, "one", {1, 1, 1}, 1);
  auto *n = m.node("RNN", {"x", "one", "one", "", "lengths"}, {"y", "last"});
  set(n, "hidden_size", 1);
  set(n, "direction", std::string(direction));
  auto *activations = attribute(n, "activations");
  activations->set_type(onnx::AttributeProto::STRINGS);
  activations->add_strings("relu"); // names ignore case
  m.output("y");
  m.output("last");
  Imported i(m);
  EXPECT_TRUE(i) << i.messages;
  Tensor lengths(Element::I32, {2});
  lengths.setInt(0, 3);
  lengths.setInt(1, 1);
  return i ? i.run({floats({3, 2, 1}, {1, 4, 2, 5, 3, 6}), lengths}) : std::vector<Tensor>(2);
}

TEST(Sequences, EndByLength) {
  auto forward = summed("forward");
  EXPECT_EQ(values(forward[0]), Numbers({1, 4, 3, 0, 6, 0}));
  EXPECT_EQ(values(forward[1]), Numbers({6, 4}));
  auto backward = summed("reverse");
  EXPECT_EQ(values(backward[0]), Numbers({6, 4, 5, 0, 3, 0}));
  EXPECT_EQ(values(backward[1]), Numbers({6, 4}));
}

TEST(Sequences, UnknownActivationIsNamed) {
  TestModel m;
  m.input("x", {"3", "2", "1"});
  weight(m.graph, "w", {1, 4, 1}, 1);
  auto *n = m.node("LSTM", {"x", "w", "w"}, {"y"});
  auto *activations = attribute(n, "activations");
  activations->set_type(onnx::AttributeProto::STRINGS);
  for (const char *name : {"Sigmoid", "Swishy", "Tanh"})
    activations->add_strings(name);
  m.output("y");
  Imported i(m);
  EXPECT_TRUE(mentions(i.messages, "'Swishy' is no known activation"));
}

TEST(Sequences, RecurrenceKeepsASymbolicLength) {
  TestModel m;
  m.input("x", {"T", "2", "3"});
  weight(m.graph, "w", {1, 12, 3}, 0.5);
  weight(m.graph, "r", {1, 12, 4}, 0.5);
  m.node("GRU", {"x", "w", "r"}, {"y"});
  m.output("y");
  Imported i(m, bounded("T"));
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<{T}x1x2x4xf32>");
  EXPECT_EQ(i.run({Tensor(Element::F32, {5, 2, 3})})[0].shape().vec(),
            (std::vector<int64_t>{5, 1, 2, 4}));
}

TEST(Sequences, AttentionSharesHeadsOverASymbolicLength) {
  TestModel m(23);
  m.input("q", {"1", "2", "S", "1"});
  m.input("k", {"1", "1", "S", "1"});
  m.input("v", {"1", "1", "S", "1"});
  set(m.node("Attention", {"q", "k", "v"}, {"y"}), "is_causal", 1);
  m.output("y");
  Imported i(m, bounded("S"));
  ASSERT_TRUE(i) << i.messages;
  const Tensor zeros(Element::F32, {1, 2, 3, 1}), key(Element::F32, {1, 1, 3, 1});
  EXPECT_EQ(values(i.run({zeros, key, floats({1, 1, 3, 1}, {1, 2, 6})})[0]),
            Numbers({1, 1.5, 3, 1, 1.5, 3}));
}

TEST(Sequences, LinearAttentionKeepsASymbolicLength) {
  TestModel m(27);
  for (const char *name : {"q", "k", "v"})
    m.input(name, {"1", "T", "1"});
  auto *n = m.node("LinearAttention", {"q", "k", "v"}, {"y", "state"});
  set(n, "q_num_heads", 1);
  set(n, "kv_num_heads", 1);
  set(n, "update_rule", std::string("linear"));
  m.output("y");
  m.output("state");
  Imported i(m, bounded("T"));
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<1x{T}x1xf32>");
  const Tensor ones = floats({1, 3, 1}, {1, 1, 1}), v = floats({1, 3, 1}, {1, 2, 6});
  auto out = i.run({ones, ones, v});
  EXPECT_EQ(values(out[0]), Numbers({1, 3, 9}));
  EXPECT_EQ(values(out[1]), Numbers({9}));
}

TEST(Sequences, CachesTakeAnUpdate) {
  for (const char *mode : {"linear", "circular"})
    for (const char *entries : {"2", "T"}) {
      TestModel m(24);
      m.input("cache", {"2", "4", "1"});
      m.input("update", {"2", entries, "1"});
      m.input("at", {"2"}, onnx::TensorProto::INT64);
      set(m.node("TensorScatter", {"cache", "update", "at"}, {"y"}), "mode", std::string(mode));
      m.output("y");
      Imported i(m, *entries == 'T' ? bounded("T") : ImportOptions{});
      ASSERT_TRUE(i) << i.messages;
      const Tensor cache = floats({2, 4, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
      const Tensor update = floats({2, 2, 1}, {10, 11, 12, 13});
      // What goes beyond the end is lost, or starts again at the begin.
      const double first = std::string(mode) == "linear" ? 0 : 11;
      EXPECT_EQ(values(i.run({cache, update, Tensor::fromInts({3, 1})})[0]),
                Numbers({first, 1, 2, 10, 4, 12, 13, 7}));
    }
}

TEST(Sequences, UpdatesOfCachesHaveEntries) {
  for (const auto &[room, entries, message] :
       {std::tuple("4", "T",
                   "an update tensor<2x{T}x1xf32> may have no entries; give bounds from 1 on"),
        {"R", "2", "and the cache's extent is known; found tensor<2x{R}x1xf32> and"},
        {"4", "5", "where it is no longer and the cache's extent is known"}}) {
    TestModel m(24);
    m.input("cache", {"2", room, "1"});
    m.input("update", {"2", entries, "1"});
    m.node("TensorScatter", {"cache", "update"}, {"y"});
    m.output("y");
    const char *symbol = *room == 'R' ? room : entries;
    Imported i(m, *symbol > '9' ? bounded(symbol, 0) : ImportOptions{});
    EXPECT_FALSE(i);
    EXPECT_NE(i.messages.find(message), std::string::npos) << i.messages;
  }
  TestModel m(24);
  m.input("cache", {"2", "3", "4", "5"});
  m.input("update", {"2", "3"});
  m.node("TensorScatter", {"cache", "update"}, {"y"});
  m.output("y");
  Imported i(m);
  EXPECT_FALSE(i);
  EXPECT_NE(i.messages.find("expected an update that differs from the cache in dimension 2 only"),
            std::string::npos)
      << i.messages;
}

} // namespace
