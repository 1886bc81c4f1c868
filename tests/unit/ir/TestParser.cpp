// Tests what is left behind by text that does not parse.
#include "ir/Text.h"

#include <gtest/gtest.h>

using namespace tenon;

namespace {

TEST(Parser, GivesUpHalfReadModules) {
  // The second region uses a value of the first; then comes an error.
  const auto buffer = llvm::MemoryBuffer::getMemBuffer(R"(module "m" stage=imported {
  graph @main (%c "c": tensor<i1>, %x "x": tensor<2xf32>) -> ("y") {
    %y = if %c, %x (%0: tensor<2xf32>) {
      yield %0
    } (%1: tensor<2xf32>) {
      %2 = map %0 (%3: f32) {
        %4 = neg %3 : f32
        yield %4
      } : tensor<2xf32>
      oops
)");
  Context context;
  Diagnostics diagnostics;
  EXPECT_EQ(parseModule(context, *buffer, "", diagnostics), nullptr); // and nothing dies in use
  EXPECT_TRUE(diagnostics.hasErrors());
}

} // namespace
