// Tests tuning files and the keys that they are looked up by: what a key must not depend on, what
// it must, and that a measured schedule goes before an estimate only where it is legal.
#include "codegen/Codegen.h"
#include "codegen/memory/Alignment.h"
#include "ir/Context.h"
#include "ir/Text.h"
#include "passes/PassManager.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace tenon;

namespace {

std::string messages(const Diagnostics &diagnostics) {
  std::string s;
  llvm::raw_string_ostream os(s);
  diagnostics.print(os);
  return os.str();
}

struct Grouped {
  Context context;
  Diagnostics diagnostics;
  std::unique_ptr<Module> module;

  explicit Grouped(const std::string &text) {
    auto buffer = llvm::MemoryBuffer::getMemBuffer(text, "test.tn");
    module = parseModule(context, *buffer, "", diagnostics);
    EXPECT_TRUE(module) << messages(diagnostics);
    PassContext passes(diagnostics);
    Pipeline pipeline;
    EXPECT_TRUE(parsePipeline("isolate", pipeline, diagnostics));
    EXPECT_TRUE(PassManager(passes).run(*module, pipeline)) << messages(diagnostics);
    module->stage = Stage::Optimized;
  }
  std::vector<Operation *> groups() {
    std::vector<Operation *> out;
    for (Operation &op : module->graph().body())
      if (op.is(Op::Group))
        out.push_back(&op);
    return out;
  }
  std::vector<std::string> keys() {
    const Alignment alignment(module->graph());
    std::vector<std::string> out;
    for (Operation *g : groups())
      out.push_back(groupKey(*g, alignment));
    return out;
  }
  bool schedule(const ScheduleOptions &options) {
    auto target = parseTarget("cpu:generic", diagnostics);
    return scheduleModule(*module, *target, options, diagnostics);
  }
  Schedule scheduleOf(size_t group) { return *groups()[group]->find("schedule")->get<Schedule>(); }
};

/// y = (x w) w, with names and weights of choice.
std::string product(const std::string &x, const std::string &w, const std::string &value,
                    const std::string &node, int rows = 8) {
  const std::string m = std::to_string(rows);
  const std::string type = "tensor<" + m + "x16xf32>";
  return "module \"m\" stage=imported {\n  graph @main (%" + x + " \"" + x + "\": " + type +
         ") -> (\"out\") {\n    %" + w + " = constant {value = splat<16x16xf32: " + value +
         ">} : tensor<16x16xf32>\n    %p = matmul %" + x + ", %" + w + " : " + type + " loc(\"" +
         node + "\")\n    %q = exp_like\n  }\n}\n";
}

/// Two products of the same form in a row.
std::string chain(const std::string &name, const std::string &value, int rows = 8) {
  std::string text = product(name, name + "w", value, name + "/first", rows);
  const std::string type = "tensor<" + std::to_string(rows) + "x16xf32>";
  const std::string second = "    %" + name + "q = matmul %p, %" + name + "w : " + type +
                             " loc(\"" + name + "/second\")\n" + "    %" + name + "r = matmul %" +
                             name + "q, %" + name + "w : " + type + "\n    return %" + name + "r\n";
  const size_t at = text.find("    %q = exp_like\n");
  return text.replace(at, strlen("    %q = exp_like\n"), second);
}

TEST(Tuning, TextReadsBack) {
  Tuning out;
  out.version = "1.2.3";
  out.target = "cuda:sm_90a";
  out.device = "a GPU";
  out.add("sm_90a", "00000000000000ff", {{"conv", {{"mr", 14}, {"nr", -2}}}, 7.125, 8.5, "a, b"});
  out.add("sm_80", "00000000000000ff", {{"softmax", {}}, 1, 1, "c"});
  const std::string text = out.text();
  EXPECT_LT(text.find(" sm_80 "), text.find(" sm_90a ")) << text;
  Tuning in;
  Diagnostics diagnostics;
  ASSERT_TRUE(in.parse(text, "file", diagnostics)) << messages(diagnostics);
  EXPECT_EQ(in.text(), text);
  EXPECT_TRUE(in.knowsLevel("sm_80"));
  EXPECT_FALSE(in.knowsLevel("sm_75"));
  const TuningEntry *e = in.find("sm_90a", "00000000000000ff");
  ASSERT_NE(e, nullptr);
  EXPECT_EQ(toString(e->schedule), "conv<mr=14, nr=-2>");
  EXPECT_DOUBLE_EQ(e->microseconds, 7.125);
  EXPECT_DOUBLE_EQ(e->heuristicMicroseconds, 8.5);
  EXPECT_EQ(in.find("sm_75", "00000000000000ff"), nullptr);
}

TEST(Tuning, WhatIsNoTuningFileIsRefusedWithItsLine) {
  for (const auto &[text, place] : std::vector<std::pair<std::string, std::string>>{
           {"", "file:0"},
           {"model\n", "file:1"},
           {"tenon-tuning 1\nversion 1\n\nabc sm_80 fast conv<>\n", "file:4"},
           {"tenon-tuning 1\nabc sm_80 1.0 2.0 conv<mr=>\n", "file:2"},
           {"tenon-tuning 1\nxyz sm_80 1.0 2.0 conv<>\n", "file:2"},
           {"tenon-tuning 1\nabc sm_80 1.0 2.0\n", "file:2"}}) {
    Tuning in;
    Diagnostics diagnostics;
    EXPECT_FALSE(in.parse(text, "file", diagnostics)) << text;
    EXPECT_NE(messages(diagnostics).find(place), std::string::npos) << messages(diagnostics);
  }
}

TEST(Tuning, KeysNameForms) {
  const std::vector<std::string> keys = Grouped(chain("x", "0.5")).keys();
  ASSERT_EQ(keys.size(), 3u);
  // Names, places in the model and values of constants do not matter.
  EXPECT_EQ(Grouped(chain("other", "0.25")).keys(), keys);
  // The second product reads the arena, whose addresses are known; so does the third, but it
  // writes where the caller says.
  EXPECT_NE(keys[0], keys[1]);
  EXPECT_NE(keys[1], keys[2]);
  const std::vector<std::string> taller = Grouped(chain("x", "0.5", 9)).keys();
  for (size_t i = 0; i < keys.size(); ++i)
    EXPECT_NE(taller[i], keys[i]);
}

TEST(Tuning, LayersOfOneFormShareAKey) {
  std::string text = chain("x", "0.5");
  const std::string last = "    return %xr\n";
  text.replace(text.find(last), last.size(),
               "    %s = matmul %xr, %xw : tensor<8x16xf32>\n"
               "    %t = matmul %s, %xw : tensor<8x16xf32>\n    return %t\n");
  const std::vector<std::string> keys = Grouped(text).keys();
  ASSERT_EQ(keys.size(), 5u);
  EXPECT_EQ(keys[1], keys[2]);
  EXPECT_EQ(keys[1], keys[3]);
}

TEST(Tuning, KeysDoNotChangeWithTheSchedule) {
  Grouped m(chain("x", "0.5"));
  const std::vector<std::string> before = m.keys();
  std::vector<std::string> asked;
  ScheduleOptions options;
  options.pick = [&](const Operation &, const std::string &key, llvm::ArrayRef<Candidate> all) {
    asked.push_back(key);
    return all.size() - 1; // the worst estimate
  };
  ASSERT_TRUE(m.schedule(options)) << messages(m.diagnostics);
  EXPECT_EQ(asked, before);
}

TEST(Tuning, MeasuredSchedulesGoFirstWhereTheyAreLegal) {
  const std::string text = chain("x", "0.5");
  const std::vector<std::string> keys = Grouped(text).keys();
  Schedule wanted;
  {
    Grouped m(text);
    ScheduleOptions options;
    options.pick = [&](const Operation &, const std::string &key, llvm::ArrayRef<Candidate> all) {
      if (key == keys[1])
        wanted = all.back().schedule();
      EXPECT_GT(all.size(), 1u);
      return size_t(0);
    };
    ASSERT_TRUE(m.schedule(options)) << messages(m.diagnostics);
    ASSERT_FALSE(m.scheduleOf(1) == wanted);
  }
  auto tuning = std::make_shared<Tuning>();
  tuning->add("generic", keys[1], {wanted, 1, 2, ""});
  tuning->add("generic", keys[0], {{"matmul", {{"mr", 999}, {"nr", 1}}}, 1, 2, ""});
  Grouped m(text);
  ScheduleOptions options;
  options.tuning = tuning;
  options.log = std::make_shared<ScheduleLog>();
  ASSERT_TRUE(m.schedule(options)) << messages(m.diagnostics);
  EXPECT_EQ(m.scheduleOf(1), wanted);
  EXPECT_EQ(options.log->measured.size(), 1u);
  EXPECT_EQ(options.log->unmeasured, 2u); // the third is in no file
  const std::string said = messages(m.diagnostics);
  EXPECT_NE(said.find("x/first"), std::string::npos) << said;
  EXPECT_NE(said.find("matmul<mr=999, nr=1>"), std::string::npos) << said;
}

} // namespace
