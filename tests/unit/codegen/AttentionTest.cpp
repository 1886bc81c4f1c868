// Tests the tactic of attention over shapes that are no multiples of blocks.
#include "Compiled.h"

#include <gtest/gtest.h>

using namespace tenon::test;

namespace {

TEST(AttentionTactic, BlocksWithBias) {
  check("attention", R"(module "m" stage=imported {
  graph @main (%q "q": tensor<2x3x37x10xf32>, %k "k": tensor<2x3x70x10xf32>,
               %v "v": tensor<2x3x70x7xf32>, %b "b": tensor<2x1x1x70xf32>) -> ("y") {
    %y = attention %q, %k, %v, %b {scale = 0.3} : tensor<2x3x37x7xf32>
    return %y
  }
})");
}

TEST(AttentionTactic, OneQueryAndBroadcastKeys) {
  check("attention", R"(module "m" stage=imported {
  graph @main (%q "q": tensor<2x3x1x64xf32>, %k "k": tensor<3x70x64xf32>,
               %v "v": tensor<1x3x70x20xf32>) -> ("y") {
    %y = attention %q, %k, %v {scale = 0.125} : tensor<2x3x1x20xf32>
    return %y
  }
})");
}

TEST(AttentionTactic, UnitExtents) {
  check("attention", R"(module "m" stage=imported {
  graph @main (%q "q": tensor<9x1xf32>, %k "k": tensor<1x1xf32>, %v "v": tensor<1x1xf32>,
               %b "b": tensor<9x1xf32>) -> ("y") {
    %y = attention %q, %k, %v, %b {scale = 2.0} : tensor<9x1xf32>
    return %y
  }
})");
}

TEST(AttentionTactic, HalfPrecisionWithFullBias) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%q "q": tensor<4x19x16xf16>, %k "k": tensor<4x33x16xf16>,
               %v "v": tensor<4x33x16xf16>, %b "b": tensor<19x33xf32>) -> ("y") {
    %y = attention %q, %k, %v, %b {scale = 0.25} : tensor<4x19x16xf16>
    return %y
  }
})";
  c.tactics = {"attention"};
  c.tolerance = 1e-3;
  check(c);
}

TEST(AttentionTactic, RunTimeQueriesAndKeys) {
  for (int64_t m : {1, 5, 23}) {
    CompiledCase c;
    c.text = R"(module "m" stage=imported {
  symbol M = 1..30
  symbol N = 1..80
  graph @main (%q "q": tensor<2x3x{M}x8xf32>, %k "k": tensor<2x3x{N}x8xf32>,
               %v "v": tensor<2x3x{N}x8xf32>, %b "b": tensor<{M}x{N}xf32>) -> ("y") {
    %y = attention %q, %k, %v, %b {scale = 0.5} : tensor<2x3x{M}x8xf32>
    return %y
  }
})";
    c.tactics = {"attention"};
    c.dims = {{"M", m}, {"N", 67}};
    check(c);
  }
}

TEST(AttentionTactic, LaterKeysAreHidden) {
  check("attention", R"(module "m" stage=imported {
  graph @main (%q "q": tensor<2x3x37x8xf32>, %k "k": tensor<2x3x150x8xf32>,
               %v "v": tensor<2x3x150x8xf32>, %b "b": tensor<150xf32>) -> ("y") {
    %y = attention %q, %k, %v, %b {causal = 70, scale = 0.3} : tensor<2x3x37x8xf32>
    return %y
  }
})");
}

// Heads split from projections, and merged again, are views.
TEST(AttentionTactic, HeadsSideBySide) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x20x36xf32>) -> ("y") {
    %q = slice %x {sizes = dims[2, 20, 12], starts = dims[0, 0, 0], steps = [1, 1, 1]} : tensor<2x20x12xf32>
    %k = slice %x {sizes = dims[2, 20, 12], starts = dims[0, 0, 12], steps = [1, 1, 1]} : tensor<2x20x12xf32>
    %v = slice %x {sizes = dims[2, 20, 12], starts = dims[0, 0, 24], steps = [1, 1, 1]} : tensor<2x20x12xf32>
    %qs = reshape %q {shape = dims[2, 20, 3, 4]} : tensor<2x20x3x4xf32>
    %ks = reshape %k {shape = dims[2, 20, 3, 4]} : tensor<2x20x3x4xf32>
    %vs = reshape %v {shape = dims[2, 20, 3, 4]} : tensor<2x20x3x4xf32>
    %qh = transpose %qs {perm = [0, 2, 1, 3]} : tensor<2x3x20x4xf32>
    %kh = transpose %ks {perm = [0, 2, 1, 3]} : tensor<2x3x20x4xf32>
    %vh = transpose %vs {perm = [0, 2, 1, 3]} : tensor<2x3x20x4xf32>
    %h = attention %qh, %kh, %vh {scale = 0.5} : tensor<2x3x20x4xf32>
    %t = transpose %h {perm = [0, 2, 1, 3]} : tensor<2x20x3x4xf32>
    %y = reshape %t {shape = dims[2, 20, 12]} : tensor<2x20x12xf32>
    return %y
  }
})";
  c.passes = "assign-layout,fuse,isolate";
  c.tactics = {"attention"};
  check(c);
}

} // namespace
