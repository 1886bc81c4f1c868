// Tests random numbers against the generator as docs/random.md writes it down.
#include "Support.h"

#include <cmath>

using namespace tenon;
using namespace tenon::test;

namespace {

uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
uint64_t keyOfSeed(float seed) {
  uint32_t bits;
  memcpy(&bits, &seed, sizeof bits);
  return mixed(bits);
}
uint64_t bitsOf(uint64_t key, uint64_t run, uint64_t place) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  return mixed(mixed(run * kStep + key) + (place + 1) * kStep);
}

Tensor runNumber(uint64_t run) {
  Tensor t(Element::U64, {});
  t.setInt(0, int64_t(run));
  return t;
}

void seeded(onnx::NodeProto *n, float seed, std::vector<int64_t> shape) {
  setFloat(n, "seed", seed);
  set(n, "shape", shape);
}

TEST(Random, UniformNumbersAreThoseOfTheDocument) {
  TestModel m;
  auto *n = m.node("RandomUniform", {}, {"y"});
  seeded(n, 1.5f, {2, 3});
  setFloat(n, "low", -1);
  setFloat(n, "high", 3);
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  for (uint64_t run : {0, 1, 9}) {
    const std::vector<Tensor> results = i.run({runNumber(run)});
    ASSERT_EQ(results.size(), 2u); // and the next run's number
    EXPECT_EQ(uint64_t(results[1].intAt(0)), run + 1);
    for (uint64_t k = 0; k < 6; ++k) {
      const double unit = double(bitsOf(keyOfSeed(1.5f), run, k) >> 40) * 0x1p-24;
      EXPECT_EQ(results[0].at(int64_t(k)), double(float(std::fma(unit, 4.0, -1.0))));
    }
  }
}

TEST(Random, NormalNumbersAreThoseOfTheDocument) {
  TestModel m;
  auto *n = m.node("RandomNormal", {}, {"y"});
  seeded(n, 2, {20000});
  setFloat(n, "mean", 3);
  setFloat(n, "scale", 0.5f);
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  const Tensor y = i.run({runNumber(4)})[0];
  const uint64_t bits = bitsOf(keyOfSeed(2), 4, 7);
  const double radius = double((bits >> 32) + 1) * 0x1p-32;
  const double angle = double((bits & 0xffffffff) + 1) * 0x1p-32;
  EXPECT_FLOAT_EQ(float(y.at(7)),
                  float(3 + 0.5 * std::sqrt(-2 * std::log(radius)) * std::cos(2 * M_PI * angle)));
  double sum = 0, squares = 0;
  for (double v : values(y)) {
    sum += v;
    squares += (v - 3) * (v - 3);
  }
  EXPECT_NEAR(sum / 20000, 3, 0.02); // five standard deviations
  EXPECT_NEAR(std::sqrt(squares / 20000), 0.5, 0.02);
}

TEST(Random, NodesWithoutSeedsDiffer) {
  TestModel m;
  m.input("x", {"16"});
  m.node("RandomNormalLike", {"x"}, {"a"});
  m.node("RandomNormalLike", {"x"}, {"b"});
  setFloat(m.node("RandomUniformLike", {"x"}, {"c"}), "seed", 1);
  setFloat(m.node("RandomUniformLike", {"x"}, {"d"}), "seed", 1);
  for (const char *name : {"a", "b", "c", "d"})
    m.output(name);
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  const auto y = i.run({floats({16}, std::vector<double>(16)), runNumber(0)});
  EXPECT_NE(values(y[0]), values(y[1]));
  EXPECT_EQ(values(y[2]), values(y[3])); // one seed, one sequence
}

TEST(Random, IterationsDiffer) {
  TestModel m;
  ints(m.graph, "three", {3}, true);
  m.input("x", {"4"});
  auto *loop = m.node("Loop", {"three", "", "x"}, {"last", "steps"});
  auto &body = setGraph(loop, "body");
  declare(body.add_input(), "i", {}, onnx::TensorProto::INT64);
  declare(body.add_input(), "go", {}, onnx::TensorProto::BOOL);
  declare(body.add_input(), "v", {"4"});
  setFloat(node(body, "RandomUniformLike", {"v"}, {"noise"}), "seed", 1);
  for (const char *name : {"go", "v", "noise"})
    body.add_output()->set_name(name);
  m.output("steps");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  const Tensor steps = i.run({floats({4}, {0, 0, 0, 0}), runNumber(0)})[0];
  ASSERT_EQ(steps.size(), 12);
  for (int64_t k = 0; k < 4; ++k) {
    EXPECT_NE(steps.at(k), steps.at(4 + k));
    EXPECT_NE(steps.at(4 + k), steps.at(8 + k));
  }
}

TEST(Random, DropoutInTraining) {
  TestModel m;
  m.input("x", {"10000"});
  m.input("training", {}, onnx::TensorProto::BOOL);
  weight(m.graph, "ratio", {}, 0.25f);
  set(m.node("Dropout", {"x", "ratio", "training"}, {"y", "mask"}), "seed", 7);
  m.output("y");
  m.output("mask");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  const Tensor x = floats({10000}, std::vector<double>(10000, 3));
  Tensor training(Element::Bool, {});
  auto y = i.run({x, training, runNumber(0)});
  EXPECT_EQ(values(y[0]), values(x));
  training.setInt(0, 1);
  y = i.run({x, training, runNumber(0)});
  int kept = 0;
  for (int64_t k = 0; k < 10000; ++k) {
    EXPECT_EQ(y[0].at(k), y[1].intAt(k) ? 4 : 0);
    kept += int(y[1].intAt(k));
  }
  EXPECT_NEAR(kept, 7500, 220); // five standard deviations
}

TEST(Random, InferenceHasNoState) {
  TestModel m;
  m.input("x", {"4"});
  weight(m.graph, "ratio", {}, 0.5f);
  auto *off = m.graph.add_initializer();
  off->set_name("off");
  off->set_data_type(onnx::TensorProto::BOOL);
  off->add_int32_data(0);
  m.node("Dropout", {"x", "ratio", "off"}, {"y"});
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_TRUE(i.graph().states.empty());
  EXPECT_EQ(i.graph().inputNames.size(), 1u);
}

TEST(Random, ChancesAreKept) {
  TestModel m;
  m.input("logits", {"2", "3"});
  m.input("p", {"10000"});
  set(m.node("Multinomial", {"logits"}, {"classes"}), "sample_size", 10000);
  set(m.node("Bernoulli", {"p"}, {"coins"}), "dtype", onnx::TensorProto::INT32);
  m.output("classes");
  m.output("coins");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  const auto y =
      i.run({floats({2, 3}, {std::log(0.2), std::log(0.5), std::log(0.3), 0, -INFINITY, 0}),
             floats({10000}, std::vector<double>(10000, 0.3)), runNumber(3)});
  int counts[2][3] = {}, heads = 0;
  for (int64_t k = 0; k < 20000; ++k)
    ++counts[k / 10000][y[0].intAt(k)];
  for (int64_t k = 0; k < 10000; ++k)
    heads += int(y[1].intAt(k));
  EXPECT_NEAR(counts[0][0], 2000, 250);
  EXPECT_NEAR(counts[0][1], 5000, 250);
  EXPECT_NEAR(counts[1][0], 5000, 250);
  EXPECT_EQ(counts[1][1], 0);
  EXPECT_NEAR(heads, 3000, 230);
}

TEST(Random, BadAttributesAreNamed) {
  for (auto &[name, value, message] : {std::tuple("dtype", int64_t(7), "floating-point"),
                                       std::tuple("shape", int64_t(-1), "at least 0")}) {
    TestModel m;
    auto *n = m.node("RandomNormal", {}, {"y"}, "noise");
    if (std::string(name) == "shape")
      set(n, name, std::vector<int64_t>{value});
    else {
      set(n, "shape", std::vector<int64_t>{2});
      set(n, name, value);
    }
    m.output("y");
    Imported i(m);
    EXPECT_TRUE(mentions(i.messages, message));
    EXPECT_TRUE(mentions(i.messages, "noise"));
  }
}

} // namespace
