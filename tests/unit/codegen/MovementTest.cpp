// Tests the tactics of resize, gather, pads, data-dependent operations and user operators.
#include "Compiled.h"

#include <gtest/gtest.h>

using namespace tenon::test;

namespace {

TEST(ResizeTactic, NearestAndLinear) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x5x6x7xf32>, %i "i": tensor<1x3x4x4xu8>) -> ("a", "b", "c", "d") {
    %a = resize %x {mode = nearest, coordinates = asymmetric, nearest = floor, scales = floats[1.0, 1.0, 2.0, 2.0], shape = dims[2, 5, 12, 14]} : tensor<2x5x12x14xf32>
    %b = resize %x {mode = linear, coordinates = half_pixel, shape = dims[2, 5, 11, 20]} : tensor<2x5x11x20xf32>
    %c = resize %x {mode = linear, coordinates = align_corners, shape = dims[2, 5, 6, 3]} : tensor<2x5x6x3xf32>
    %d = resize %i {mode = nearest, coordinates = half_pixel, nearest = round_prefer_ceil, shape = dims[1, 3, 7, 5]} : tensor<1x3x7x5xu8>
    return %a, %b, %c, %d
  }
})";
  c.tactics = {"resize", "resize", "resize", "resize"};
  check(c);
}

TEST(ResizeTactic, CubicAndAntialias) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x2x9x8xf32>) -> ("a", "b") {
    %a = resize %x {mode = cubic, coordinates = half_pixel, exclude_outside = true, shape = dims[1, 2, 14, 5]} : tensor<1x2x14x5xf32>
    %b = resize %x {mode = linear, antialias = true, coordinates = half_pixel, shape = dims[1, 2, 4, 3]} : tensor<1x2x4x3xf32>
    return %a, %b
  }
})";
  c.tactics = {"resize", "resize"};
  check(c);
}

TEST(ResizeTactic, DirectForVolumesIntegersAndRegions) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x2x3x4x5xf32>, %i "i": tensor<1x2x5x5xi8>, %r "r": tensor<1x1x6x6xf32>) -> ("a", "b", "c") {
    %a = resize %x {mode = linear, shape = dims[1, 2, 5, 7, 6]} : tensor<1x2x5x7x6xf32>
    %b = resize %i {mode = linear, coordinates = asymmetric, scales = floats[1.0, 1.0, 2.0, 2.0], shape = dims[1, 2, 10, 10]} : tensor<1x2x10x10xi8>
    %c = resize %r {mode = linear, coordinates = tf_crop_and_resize, extrapolation = 7.5, roi = floats[0.0, 0.0, 0.4, -0.3, 1.0, 1.0, 1.2, 0.8], shape = dims[1, 1, 5, 5]} : tensor<1x1x5x5xf32>
    return %a, %b, %c
  }
})";
  c.tactics = {"resize_direct", "resize_direct", "resize_direct"};
  check(c);
}

TEST(GatherTactic, AnyAxis) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<4x5x6xf32>, %i "i": tensor<2x3xi64>, %j "j": tensor<7xi32>, %k "k": tensor<i64>) -> ("a", "b", "c", "d") {
    %a = gather %x, %i {axis = 0} : tensor<2x3x5x6xf32>
    %b = gather %x, %j {axis = 1} : tensor<4x7x6xf32>
    %c = gather %x, %i {axis = 2} : tensor<4x5x2x3xf32>
    %d = gather %x, %k {axis = 1} : tensor<4x6xf32>
    return %a, %b, %c, %d
  }
})";
  c.lowest = -4, c.highest = 3;
  c.tactics = {"gather", "gather", "gather", "gather"};
  check(c);
}

TEST(GatherTactic, Epilogue) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%i "i": tensor<2x9xi64>, %p "p": tensor<9x16xf32>) -> ("y") {
    %t = constant {value = random<20x16xf32>} : tensor<20x16xf32>
    %e = gather %t, %i {axis = 0} : tensor<2x9x16xf32>
    %y = map %e, %p[1, 2] (%a1: f32, %b1: f32) {
      %c1 = add %a1, %b1 : f32
      yield %c1
    } : tensor<2x9x16xf32>
    return %y
  }
})";
  c.lowest = 0, c.highest = 19;
  c.passes = "fuse,isolate";
  c.tactics = {"gather"};
  check(c);
}

TEST(ScatterTactic, ReplacesAndCombines) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<6x3x2xf32>, %i "i": tensor<2x4xi64>, %u "u": tensor<2x4x3x2xf32>, %n "n": tensor<6xi8>, %m "m": tensor<2x4xi8>, %b "b": tensor<6xi1>, %v "v": tensor<2x4xi1>) -> ("a", "b", "c", "d", "e", "f") {
    %a = scatter %x, %i, %u : tensor<6x3x2xf32>
    %b1 = scatter %x, %i, %u {combiner = add} : tensor<6x3x2xf32>
    %c = scatter %x, %i, %u {combiner = max} : tensor<6x3x2xf32>
    %d = scatter %n, %i, %m {combiner = mul} : tensor<6xi8>
    %e = scatter %n, %i, %m {combiner = min} : tensor<6xi8>
    %f = scatter %b, %i, %v : tensor<6xi1>
    return %a, %b1, %c, %d, %e, %f
  }
})";
  c.lowest = 0, c.highest = 5; // rows meet
  c.tactics = {"scatter", "scatter", "scatter", "scatter", "scatter", "scatter"};
  check(c);
}

TEST(PadTactic, EveryMode) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x5x7xf32>, %i "i": tensor<3x4xi32>) -> ("a", "b", "c", "d") {
    %v = constant {value = dense<f32: 2.5>} : tensor<f32>
    %a = pad %x, %v {low = dims[0, 1, 2], high = dims[1, 0, 3]} : tensor<3x6x12xf32>
    %b = pad %x {mode = edge, low = dims[1, 3, 2], high = dims[0, 0, 20]} : tensor<3x8x29xf32>
    %c = pad %x {mode = reflect, low = dims[0, 3, 2], high = dims[1, 4, 6]} : tensor<3x12x15xf32>
    %d = pad %i {mode = wrap, low = dims[1, 2], high = dims[2, 3]} : tensor<6x9xi32>
    return %a, %b, %c, %d
  }
})";
  c.tactics = {"map", "pad_border", "pad_border", "pad_border"};
  check(c);
}

TEST(NonZeroTactic, ExtentIsKnownAfterTheRun) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  symbol S = 0..35
  graph @main (%x "x": tensor<5x7xi32>) -> ("y", "z") {
    %y = nonzero %x {symbol = "S"} : tensor<2x{S}xi64>
    %z = map %y (%a1: i64) {
      %b1 = add %a1, %a1 : i64
      yield %b1
    } : tensor<2x{S}xi64>
    return %y, %z
  }
})";
  c.lowest = 0, c.highest = 2;
  c.tactics = {"nonzero", "map"};
  check(c);
}

TEST(TopKTactic, LargestAndSmallest) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<3x40x4xi32>, %f "f": tensor<50xf32>) -> ("a", "b", "c", "d") {
    %a, %b = topk %x {k = dims[5], axis = 1, largest = true} : tensor<3x5x4xi32>, tensor<3x5x4xi64>
    %c, %d = topk %f {k = dims[50], axis = 0, largest = false} : tensor<50xf32>, tensor<50xi64>
    return %a, %b, %c, %d
  }
})";
  c.lowest = 0, c.highest = 9; // many ties
  c.tactics = {"topk", "topk"};
  check(c);
}

TEST(NonMaxSuppressionTactic, CornersAndCenters) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x40x4xf32>, %s "s": tensor<2x3x40xf32>) -> ("a", "b", "c") {
    %a = non_max_suppression %x, %s {k = dims[7], iou_threshold = 0.2} : tensor<2x3x7xi64>
    %b = non_max_suppression %x, %s {k = dims[40], iou_threshold = 0.1, score_threshold = 0.3} : tensor<2x3x40xi64>
    %c = non_max_suppression %x, %s {k = dims[9], iou_threshold = 0.3, center = true} : tensor<2x3x9xi64>
    return %a, %b, %c
  }
})";
  c.tactics = {"non_max_suppression", "non_max_suppression", "non_max_suppression"};
  check(c);
}

TEST(UniqueTactic, RowsOfAnyType) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<40x2xi8>, %y "y": tensor<50x1xi64>, %z "z": tensor<9x3xf16>) -> ("a", "b", "c", "d") {
    %a = unique %x : tensor<3x40xi64>
    %b = unique %x {sorted = false} : tensor<3x40xi64>
    %c = unique %y : tensor<3x50xi64>
    %d = unique %z {sorted = false} : tensor<3x9xi64>
    return %a, %b, %c, %d
  }
})";
  c.lowest = 0, c.highest = 4;
  c.tactics = {"unique", "unique", "unique", "unique"};
  check(c);
}

TEST(BitcastTactic, WidthsOfEveryKind) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<5x3xi32>, %y "y": tensor<7xi16>, %z "z": tensor<9xi4>, %w "w": tensor<3xi64>) -> ("a", "b", "c", "d") {
    %t = transpose %x {perm = [1, 0]} : tensor<3x5xi32>
    %a = bitcast %t {to = !f32} : tensor<3x5xf32>
    %b = bitcast %y {to = !u16} : tensor<7xu16>
    %c = bitcast %z {to = !u4} : tensor<9xu4>
    %d = bitcast %w {to = !f64} : tensor<3xf64>
    return %a, %b, %c, %d
  }
})";
  c.lowest = 1, c.highest = 7;
  check(c);
}

TEST(ShapeOfTactic, RunTimeExtents) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  symbol N = 1..9
  graph @main (%x "x": tensor<{N}x4xf32>) -> ("y") {
    %y = shape_of %x : tensor<2xi64>
    return %y
  }
})";
  c.dims = {{"N", 3}};
  c.tactics = {"shape_of"};
  check(c);
}

/// Every function of extents in generated code, at values that round.
TEST(SliceTactic, ExtentsThatFollowFromOthers) {
  for (auto [m, n] : {std::pair<int64_t, int64_t>{9, 9}, {7, 4}, {2, 8}, {1, 1}}) {
    CompiledCase c;
    c.text = R"(module "m" stage=imported {
  symbol M = 1..9
  symbol N = 1..9
  graph @main (%x "x": tensor<{M}xf32>, %y "y": tensor<{N}xf32>) -> ("a", "b", "c", "d", "e", "f", "g") {
    %a = slice %x {starts = dims[0], sizes = dims[{min(M, N)}], steps = [1]} : tensor<{min(M, N)}xf32>
    %b = slice %x {starts = dims[0], sizes = dims[{floordiv(M, 2)}], steps = [2]} : tensor<{floordiv(M, 2)}xf32>
    %c = slice %x {starts = dims[0], sizes = dims[{ceildiv(M, 3)}], steps = [1]} : tensor<{ceildiv(M, 3)}xf32>
    %d = slice %y {starts = dims[0], sizes = dims[{mod(N, 4)}], steps = [1]} : tensor<{mod(N, 4)}xf32>
    %e = concat %x, %y {axis = 0} : tensor<{(M + N)}xf32>
    %f = slice %e {starts = dims[{min(M, N)}], sizes = dims[{max(M, N)}], steps = [1]} : tensor<{max(M, N)}xf32>
    %g = slice %e {starts = dims[0], sizes = dims[{floordiv((M * N), (M + N))}], steps = [1]} : tensor<{floordiv((M * N), (M + N))}xf32>
    return %a, %b, %c, %d, %e, %f, %g
  }
})";
    c.dims = {{"M", m}, {"N", n}};
    check(c);
  }
}

} // namespace
