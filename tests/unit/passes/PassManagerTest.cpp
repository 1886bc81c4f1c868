// Tests pipelines, controls, counters and what the pass manager watches over.
#include "passes/PassManager.h"

#include "ir/Text.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

namespace tenon {
namespace {

constexpr const char *kTwoMaps = R"(module "m" stage=imported {
  graph @g (%x "x": tensor<3xf32>) -> ("y") {
    %a = map %x (%p: f32) { yield %p } : tensor<3xf32> loc("/layer1/a")
    %b = map %a (%q: f32) { yield %q } : tensor<3xf32> loc("/layer2/b")
    return %b
  }
})";

struct Fixture : testing::Test {
  Context context;
  Diagnostics diagnostics;
  PassContext passes{diagnostics};
  std::unique_ptr<Module> module;

  void SetUp() override {
    auto buffer = llvm::MemoryBuffer::getMemBuffer(kTwoMaps);
    module = parseModule(context, *buffer, "", diagnostics);
    ASSERT_TRUE(module);
  }
  bool run(llvm::StringRef text, PassManagerOptions options = {}) {
    Pipeline pipeline;
    return parsePipeline(text, pipeline, diagnostics) &&
           PassManager(passes, std::move(options)).run(*module, pipeline);
  }
  size_t maps() {
    size_t n = 0;
    module->graph().body().walk([&](Operation *op) { n += op->is(Op::Map); });
    return n;
  }
  std::string messages() {
    std::string s;
    llvm::raw_string_ostream os(s);
    diagnostics.print(os);
    return os.str();
  }
};

using PipelineText = Fixture;
using Controls = Fixture;
using Manager = Fixture;

TEST_F(PipelineText, RoundTrips) {
  for (const char *text :
       {"", "fold", "canonicalize,fold{max-bytes=16,max-growth=2},fuse{max-inputs=3},isolate"}) {
    Pipeline pipeline;
    ASSERT_TRUE(parsePipeline(text, pipeline, diagnostics)) << messages();
    EXPECT_EQ(toString(pipeline), text);
  }
  Pipeline spaced;
  ASSERT_TRUE(parsePipeline(" fold { max-bytes = 16 } , dce ", spaced, diagnostics)) << messages();
  EXPECT_EQ(toString(spaced), "fold{max-bytes=16},dce");
}

TEST_F(PipelineText, LevelsParse) {
  for (unsigned level : {0u, 1u, 2u, 3u})
    for (llvm::StringRef text : {optimizationPipeline(level), groupingPipeline(level)}) {
      Pipeline pipeline;
      ASSERT_TRUE(parsePipeline(text, pipeline, diagnostics)) << messages();
      EXPECT_EQ(toString(pipeline), text);
    }
  EXPECT_EQ(optimizationPipeline(0), "");
}

TEST_F(PipelineText, RejectsNonsense) {
  const std::pair<const char *, const char *> cases[] = {
      {"fold,", "after the last comma"},
      {"fold{max-bytes=16", "expected a pass"},
      {"fold}", "unbalanced"},
      {"fold{max-bytes=x}", "expects an integer"},
      {"fold{depth=1}", "has no option 'depth'; it has max-bytes, max-growth"},
      {"canonicalise", "did you mean 'canonicalize'"},
      {"fuse.pointwise", "use --only=fuse.pointwise"},
  };
  for (auto &[text, message] : cases) {
    diagnostics.clear();
    Pipeline pipeline;
    EXPECT_FALSE(parsePipeline(text, pipeline, diagnostics)) << text;
    EXPECT_NE(messages().find(message), std::string::npos) << text << ": " << messages();
  }
}

TEST(Table, IdsAreUniqueAndComplete) {
  std::set<std::string> seen;
  for (const PassInfo &row : passTable()) {
    EXPECT_TRUE(seen.insert(row.id.str()).second) << row.id.str();
    EXPECT_FALSE(row.summary.empty()) << row.id.str();
    EXPECT_EQ(row.kind == RowKind::Pass, row.run != nullptr) << row.id.str();
    EXPECT_EQ(row.kind == RowKind::Pass, !row.id.contains('.')) << row.id.str();
    if (row.kind != RowKind::Pass) {
      ASSERT_TRUE(findRow(passOf(row.id))) << row.id.str();
    }
  }
}

TEST(Table, EveryPatternIsNamedInATest) {
  const char *dir = std::getenv("TENON_SOURCE_DIR");
  if (!dir)
    GTEST_SKIP() << "TENON_SOURCE_DIR is not set";
  std::string all;
  for (const char *kind : {"passes", "emit"}) // what asks for a target's traits is in the second
    for (const auto &file :
         std::filesystem::directory_iterator(std::string(dir) + "/tests/lit/" + kind))
      if (auto buffer = llvm::MemoryBuffer::getFile(file.path().string()))
        all += (*buffer)->getBuffer().str();
  for (const PassInfo &row : passTable())
    if (row.kind != RowKind::Pass) {
      EXPECT_NE(all.find(row.id.str()), std::string::npos) << row.id.str() << " has no test";
    }
}

TEST(Globs, Match) {
  EXPECT_TRUE(globMatches("fuse.*", "fuse.pointwise"));
  EXPECT_TRUE(globMatches("*-epilogue", "fuse.conv-epilogue"));
  EXPECT_TRUE(globMatches("f?ld", "fold"));
  EXPECT_TRUE(globMatches("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(globMatches("fuse.*", "fuse"));
  EXPECT_FALSE(globMatches("fol", "fold"));
}

TEST_F(Controls, Everything) {
  ASSERT_TRUE(run("canonicalize"));
  EXPECT_EQ(maps(), 0u);
  EXPECT_EQ(passes.counts["canonicalize.identity-map"], 2);
}

TEST_F(Controls, DisablePattern) {
  ASSERT_TRUE(
      passes.setControls({{"canonicalize.identity-map", "canonicalize.copy-into-map"}, {}, {}}));
  ASSERT_TRUE(run("canonicalize"));
  EXPECT_EQ(maps(), 2u);
}

TEST_F(Controls, DisablePassReachesPatterns) {
  ASSERT_TRUE(passes.setControls({{"canonicalize"}, {}, {}}));
  ASSERT_TRUE(run("canonicalize"));
  EXPECT_EQ(maps(), 2u);
}

TEST_F(Controls, OnlyPattern) {
  ASSERT_TRUE(passes.setControls({{}, {"canonicalize.identity-*"}, {}}));
  ASSERT_TRUE(run("canonicalize,dce"));
  EXPECT_EQ(maps(), 0u);
  EXPECT_EQ(passes.counts.size(), 1u);
}

TEST_F(Controls, OnlyOtherPass) {
  ASSERT_TRUE(passes.setControls({{}, {"fold"}, {}}));
  ASSERT_TRUE(run("canonicalize"));
  EXPECT_EQ(maps(), 2u);
}

TEST_F(Controls, ByNode) {
  ASSERT_TRUE(passes.setControls(
      {{"canonicalize.copy-into-map", "canonicalize.identity-map@/layer2/*"}, {}, {}}));
  ASSERT_TRUE(run("canonicalize"));
  EXPECT_EQ(maps(), 1u);
}

TEST_F(Controls, DebugCounter) {
  ASSERT_TRUE(
      passes.setControls({{"canonicalize.copy-into-map"}, {}, {"canonicalize.identity-map=0+1"}}));
  ASSERT_TRUE(run("canonicalize"));
  EXPECT_EQ(maps(), 1u);
  EXPECT_EQ(passes.counts["canonicalize.identity-map"], 1);
}

TEST_F(Controls, UnknownIdSuggests) {
  EXPECT_FALSE(passes.setControls({{"fuse.pointwize"}, {}, {}}));
  EXPECT_NE(messages().find("did you mean 'fuse.pointwise'"), std::string::npos) << messages();
  diagnostics.clear();
  EXPECT_TRUE(passes.setControls({{"tactic.x"}, {}, {}}, {"tactic.x"})) << messages();
  EXPECT_FALSE(passes.setControls({{"isolate"}, {}, {}}));
  EXPECT_FALSE(passes.setControls({{}, {}, {"fold.evaluate=a"}}));
}

TEST_F(Manager, PrintsAfterChange) {
  std::string text;
  llvm::raw_string_ostream os(text);
  PassManagerOptions options;
  options.printAfterChange = true;
  options.out = &os;
  ASSERT_TRUE(run("fold,canonicalize", options));
  EXPECT_EQ(os.str().find("after fold"), std::string::npos);
  EXPECT_NE(os.str().find("after canonicalize"), std::string::npos);
}

bool liar(Graph &graph, PassContext &) {
  graph.body().front().loc().push_back("changed");
  return false;
}
bool breaker(Graph &graph, PassContext &) {
  graph.body().front().set("maps", IntLists{{0, 1}});
  return true;
}

TEST_F(Manager, CatchesFalseUnchanged) {
  const PassInfo row{RowKind::Pass, "liar", "says unchanged", liar};
  PassManagerOptions options;
  options.verifyEach = true;
  PassManager manager(passes, options);
  EXPECT_FALSE(manager.run(*module, {{&row, {}}}));
  EXPECT_NE(messages().find("reported no change"), std::string::npos) << messages();
}

TEST_F(Manager, KeepsReproducer) {
  const PassInfo row{RowKind::Pass, "breaker", "breaks the module", breaker};
  PassManagerOptions options;
  options.verifyEach = true;
  PassManager manager(passes, options);
  EXPECT_FALSE(
      manager.run(*module, {{findRow("fold"), {}}, {&row, {{"k", "3"}}}, {findRow("dce"), {}}}));
  EXPECT_EQ(manager.reproducer().pipeline, "breaker{k=3},dce");
  ASSERT_TRUE(manager.reproducer().module);
  EXPECT_EQ(manager.reproducer().module->graph().body().front().intListsAttr("maps")[0].size(), 1u);
}

/// The graphs of a module with entries have their weights in common, and what is made of those.
TEST_F(Manager, GraphsShareWhatIsMadeOfTheSameBytes) {
  auto buffer = llvm::MemoryBuffer::getMemBuffer(R"(module "m" stage=imported {
  graph @g () -> ("y", "z") {
    %w = constant {value = splat<16x16x32xf32: 1>} : tensor<16x16x32xf32>
    %y = transpose %w {perm = [1, 0, 2]} : tensor<16x16x32xf32>
    %z = transpose %w {perm = [1, 2, 0]} : tensor<16x32x16xf32>
    return %y, %z
  }
})");
  module = parseModule(context, *buffer, "", diagnostics);
  ASSERT_TRUE(module) << messages();
  std::unique_ptr<Module> copy = module->clone();
  module->graphs.push_back(std::move(copy->graphs.front()));
  ASSERT_TRUE(run("fold,dce")) << messages();
  std::vector<const uint8_t *> places;
  for (auto &graph : module->graphs)
    for (Value *v : graph->body().terminator()->operands()) {
      const Literal l = constantValue(v);
      ASSERT_TRUE(l);
      places.push_back(l->bytes().data());
    }
  ASSERT_EQ(places.size(), 4u);
  EXPECT_EQ(places[0], places[2]);
  EXPECT_EQ(places[1], places[3]);
  EXPECT_NE(places[0], places[1]);
}

} // namespace
} // namespace tenon
