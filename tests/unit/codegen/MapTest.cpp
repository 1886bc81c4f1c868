// Tests the tactic `map`.
#include "Compiled.h"

#include <gtest/gtest.h>

using namespace tenon::test;

namespace {

TEST(MapTactic, PointwiseWithBroadcast) {
  check("map", R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x5x7xf32>, %b "b": tensor<5x1xf32>) -> ("y") {
    %y = map %x, %b[1, _] (%p1: f32, %q1: f32) {
      %s1 = mul %p1, %q1 : f32
      %t1 = tanh %s1 : f32
      yield %t1
    } : tensor<2x5x7xf32>
    return %y
  }
})");
}

} // namespace
