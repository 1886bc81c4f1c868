// Tests the order of steps on several branches, the memory plan that relies on it, and the check of
// plans: what it accepts, and each kind of mistake that it must see.
#include "codegen/memory/Plan.h"
#include "codegen/memory/PlanVerifier.h"
#include "ir/Context.h"
#include "ir/Text.h"
#include "passes/PassManager.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace tenon;

namespace {

/// A module whose groups the pass assign-branches has seen.
struct Planned {
  Context context;
  Diagnostics diagnostics;
  std::unique_ptr<Module> module;
  Plan plan;

  explicit Planned(const std::string &text, int branches = 4) {
    auto buffer = llvm::MemoryBuffer::getMemBuffer(text, "test.tn");
    module = parseModule(context, *buffer, "", diagnostics);
    EXPECT_TRUE(module) << messages();
    PassContext passes(diagnostics);
    Pipeline pipeline;
    EXPECT_TRUE(parsePipeline("isolate,assign-branches{branches=" + std::to_string(branches) + "}",
                              pipeline, diagnostics));
    EXPECT_TRUE(PassManager(passes).run(*module, pipeline)) << messages();
    plan = planMemory(module->graph());
  }
  std::string messages() const {
    std::string s;
    llvm::raw_string_ostream os(s);
    diagnostics.print(os);
    return os.str();
  }
  bool verifies() {
    Diagnostics found;
    return verifyPlan(plan, found);
  }
  BufferInfo &bufferOf(int step) {
    return plan.buffers[plan[plan.steps[size_t(step)].op->result()].buffer];
  }
};

std::string mapOf(const std::string &result, const std::string &operand) {
  return "    %" + result + " = map %" + operand + " (%" + result + "p: f32) {\n      %" + result +
         "q = exp %" + result + "p : f32\n      yield %" + result +
         "q\n    } : tensor<64xf32> loc(\"" + result + "\")\n";
}
/// One group, `lanes` chains of `length` groups that read it, and their sum.
std::string fan(int lanes, int length) {
  std::string text = "module \"m\" stage=imported {\n  graph @main (%x \"x\": tensor<64xf32>) -> "
                     "(\"y\") {\n" +
                     mapOf("s", "x");
  std::string sum = "s";
  for (int l = 0; l < lanes; ++l) {
    std::string last = "s";
    for (int i = 0; i < length; ++i) {
      const std::string name = "v" + std::to_string(l) + "_" + std::to_string(i);
      text += mapOf(name, last);
      last = name;
    }
    const std::string next = "t" + std::to_string(l);
    text += "    %" + next + " = map %" + sum + ", %" + last + " (%" + next + "p: f32, %" + next +
            "q: f32) {\n      %" + next + "r = add %" + next + "p, %" + next +
            "q : f32\n      yield %" + next + "r\n    } : tensor<64xf32>\n";
    sum = next;
  }
  return text + "    return %" + sum + "\n  }\n}\n";
}

TEST(Plan, EqualConstantsAreStoredOnce) {
  // The second equals the first; the third has another layout, the fourth another element.
  std::string text = "module \"m\" stage=imported {\n  graph @main (%x \"x\": tensor<2x2xf32>) -> "
                     "(\"y\") {\n";
  const char *const values[] = {"1.0, 2.0, 3.0, 4.0", "1.0, 2.0, 3.0, 4.0", "1.0, 2.0, 3.0, 4.0",
                                "1.0, 2.0, 3.0, 5.0"};
  std::string last = "x";
  for (int i = 0; i < 4; ++i) {
    const std::string k = std::to_string(i);
    text += "    %c" + k + " = constant {value = dense<2x2xf32: " + values[i] +
            ">} : " + (i == 2 ? "tensor<2x2xf32, [1, 0]>" : "tensor<2x2xf32>") + "\n    %y" + k +
            " = map %" + last + ", %c" + k + " (%a" + k + ": f32, %b" + k + ": f32) {\n      %s" +
            k + " = add %a" + k + ", %b" + k + " : f32\n      yield %s" + k +
            "\n    } : tensor<2x2xf32>\n";
    last = "y" + k;
  }
  Planned p(text + "    return %" + last + "\n  }\n}\n");
  ASSERT_EQ(p.plan.constants.size(), 3u);
  EXPECT_EQ(p.plan.weightBytes, 3 * 64);
  std::vector<int64_t> at;
  for (Operation &op : p.module->graph().body())
    if (op.is(Op::Constant))
      at.push_back(p.plan[op.result()].at);
  EXPECT_EQ(at, (std::vector<int64_t>{0, 0, 64, 128}));
}

TEST(StepOrder, ChainsStayWhole) {
  Planned p(fan(1, 6));
  const StepOrder order = orderOf(p.plan);
  EXPECT_TRUE(order.isChain());
  EXPECT_TRUE(order.edges().empty());
  EXPECT_TRUE(order.joins().empty());
  EXPECT_TRUE(order.before(0, 5));
  EXPECT_FALSE(order.before(5, 0));
  EXPECT_TRUE(p.verifies());
}

TEST(StepOrder, BranchesWaitForWhatTheyReadOnly) {
  Planned p(fan(3, 4));
  const StepOrder order = orderOf(p.plan);
  ASSERT_GT(order.branches(), 1);
  // Steps 1 to 4 are the first chain, 6 to 9 the second: side by side, both after step 0.
  EXPECT_NE(order.branch(1), order.branch(6));
  EXPECT_FALSE(order.before(4, 6));
  EXPECT_FALSE(order.before(1, 9));
  EXPECT_TRUE(order.before(0, 9));
  EXPECT_TRUE(order.before(9, order.size() - 1));
  for (const StepOrder::Edge &e : order.edges()) {
    EXPECT_NE(order.branch(e.from), order.branch(e.to));
    EXPECT_LT(e.from, e.to);
  }
}

TEST(Plan, BranchesShareNoMemoryThatTheyUseTogether) {
  Planned side(fan(4, 5)), chain(fan(4, 5), 1);
  EXPECT_TRUE(side.verifies());
  EXPECT_TRUE(chain.verifies());
  EXPECT_GT(side.plan.arenaBytes, chain.plan.arenaBytes);
  EXPECT_EQ(chain.plan.arenaBytes, chain.plan.boundBytes);
}

TEST(Plan, OutputsTakeOverNoPartOfABuffer) {
  // Of a concat's buffer, %b reads the part %a last of all.
  Planned p(R"(module "m" stage=imported {
  graph @main (%x "x": tensor<8x8xf32>) -> ("y", "z") {
    %a = softmax %x {axis = 1} : tensor<8x8xf32>
    %k = concat %a, %a {axis = 0} : tensor<16x8xf32>
    %y = softmax %k {axis = 0} : tensor<16x8xf32>
    %b = map %a (%p: f32) {
      %q = exp %p : f32
      yield %q
    } : tensor<8x8xf32>
    return %y, %b
  }
})");
  EXPECT_TRUE(p.verifies());
  Value *b = p.plan.steps.back().op->result();
  const BufferInfo &buffer = p.plan.buffers[p.plan[b].buffer];
  EXPECT_EQ(buffer.home, Home::Output);
  EXPECT_EQ(buffer.bytes, 8 * 8 * 4);
}

TEST(PlanVerifier, SeesOutputsInBuffersThatAreLarger) {
  Planned p(fan(1, 2));
  ASSERT_TRUE(p.verifies());
  p.bufferOf(p.plan.steps.back().number).bytes *= 2;
  EXPECT_FALSE(p.verifies());
}

TEST(PlanVerifier, SeesOverlapsOfBranches) {
  Planned p(fan(3, 4));
  ASSERT_TRUE(p.verifies());
  p.bufferOf(6).at = p.bufferOf(1).at;
  EXPECT_FALSE(p.verifies());
}

TEST(PlanVerifier, SeesOverlapsInAChain) {
  // Not a map: a map's result takes over its operand's memory.
  Planned p(R"(module "m" stage=imported {
  graph @main (%x "x": tensor<8x8xf32>) -> ("y") {
    %a = softmax %x {axis = 1} : tensor<8x8xf32>
    %b = softmax %a {axis = 0} : tensor<8x8xf32>
    %c = softmax %b {axis = 1} : tensor<8x8xf32>
    return %c
  }
})");
  ASSERT_TRUE(p.verifies());
  p.bufferOf(1).at = p.bufferOf(0).at;
  EXPECT_FALSE(p.verifies());
}

TEST(PlanVerifier, SeesScratchUnderALiveBuffer) {
  Planned p(fan(2, 4));
  Step &step = p.plan.steps[1];
  step.scratchBytes = 64;
  step.scratchAt = p.bufferOf(0).at;
  EXPECT_FALSE(p.verifies());
}

TEST(PlanVerifier, SeesWhatIsWrittenOverTooEarly) {
  Planned p(fan(2, 4));
  ASSERT_TRUE(p.verifies());
  // The second chain's first group takes over the memory that the first chain still reads.
  Value *s = p.plan.steps[0].op->result(), *v = p.plan.steps[1].op->result();
  Placement &taken = p.plan.placements[v];
  p.plan.buffers[taken.buffer].values.clear();
  taken = p.plan.placements[s];
  p.plan.buffers[taken.buffer].values.push_back(v);
  EXPECT_FALSE(p.verifies());
}

TEST(PlanVerifier, SeesAMissingWait) {
  Planned p(fan(2, 4));
  // Both ends of an edge swap their places in the order.
  const StepOrder order = orderOf(p.plan);
  ASSERT_FALSE(order.edges().empty());
  const StepOrder::Edge e = order.edges().front();
  std::swap(p.plan.steps[size_t(e.from)].op, p.plan.steps[size_t(e.to)].op);
  EXPECT_FALSE(p.verifies());
}

} // namespace
