// Tests where the weights of an exported model stand: in it, or beside it where they are too many.
#include "exporter/Export.h"
#include "ir/Builder.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace tenon;

namespace {

/// y = x · w with a weight of 64 KiB.
struct Model {
  Context context;
  Diagnostics diagnostics;
  Module module{context};

  Model() {
    Graph &g = module.addGraph("main");
    Value *x = g.body().addArgument(Type::tensor(context, Element::F32, {1, 128}), "x");
    Builder b(g.body(), diagnostics);
    Tensor w(Element::F32, {128, 128});
    for (int64_t i = 0; i < w.size(); ++i)
      w.set(i, double(i));
    b.yield({b.value(Op::MatMul, {x, b.constant(w)})}, Op::Return);
    g.inputNames = {"x"};
    g.outputNames = {"y"};
  }
};

constexpr int64_t kBytes = 128 * 128 * 4;

TEST(Weights, StandInTheModelUpToTheLimit) {
  Model m;
  ExportOptions options;
  options.inlineLimit = kBytes;
  ExportedModel exported;
  ASSERT_TRUE(exportModule(m.module, options, exported, m.diagnostics));
  EXPECT_TRUE(exported.weights.empty());
  EXPECT_GT(int64_t(exported.bytes.size()), kBytes);
}

TEST(Weights, StandBesideItAboveTheLimit) {
  Model m;
  ExportOptions options;
  options.inlineLimit = kBytes - 1;
  options.weightsFile = "far.data";
  ExportedModel exported;
  ASSERT_TRUE(exportModule(m.module, options, exported, m.diagnostics));
  ASSERT_EQ(exported.weights.size(), 1u);
  EXPECT_LT(exported.bytes.size(), 1000u);
  EXPECT_NE(exported.bytes.find("far.data"), std::string::npos);
  std::string file;
  llvm::raw_string_ostream os(file);
  exported.writeWeights(os);
  ASSERT_EQ(int64_t(os.str().size()), kBytes);
  const auto *floats = reinterpret_cast<const float *>(file.data());
  EXPECT_EQ(floats[129], 129.f);
}

TEST(Weights, AskedIntoTheModelAboveTheLimitAreRefused) {
  Model m;
  ExportOptions options;
  options.inlineLimit = kBytes - 1;
  options.weights = ExportOptions::Weights::Inline;
  ExportedModel exported;
  EXPECT_FALSE(exportModule(m.module, options, exported, m.diagnostics));
  ASSERT_EQ(m.diagnostics.list().size(), 1u);
  EXPECT_NE(m.diagnostics.list()[0].message.find("--weights=file"), std::string::npos);
}

} // namespace
