// Tests the tactics of convolutions and pools.
#include "Compiled.h"

#include <gtest/gtest.h>

using namespace tenon::test;

namespace {

TEST(ConvTactic, RowMajorAndChannelsLast) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x5x9x11xf32>) -> ("y", "z") {
    %w = constant {value = random<7x5x3x3xf32>} : tensor<7x5x3x3xf32>
    %y = conv %x, %w {strides = [2, 1], pads = [1, 0, 1, 2]} : tensor<2x7x5x11xf32>
    %xl = map %x (%p1: f32) { yield %p1 } : tensor<2x5x9x11xf32, nhwc>
    %zl = conv %xl, %w {dilations = [1, 2], pads = [1, 1, 1, 1]} : tensor<2x7x9x9xf32, nhwc>
    %z = map %zl (%p2: f32) { yield %p2 } : tensor<2x7x9x9xf32>
    return %y, %z
  }
})";
  check(c);
}

TEST(ConvTactic, PointwiseGroupsAndDepthwise) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x8x6x7xf32>) -> ("a", "b", "c", "d") {
    %w = constant {value = random<33x8x1x1xf32>} : tensor<33x8x1x1xf32>
    %a = conv %x, %w : tensor<1x33x6x7xf32>
    %v = constant {value = random<6x4x3x3xf32>} : tensor<6x4x3x3xf32>
    %b = conv %x, %v {groups = 2} : tensor<1x6x4x5xf32>
    %u = constant {value = random<8x1x3x3xf32>} : tensor<8x1x3x3xf32>
    %c = conv %x, %u {groups = 8, pads = [1, 1, 1, 1]} : tensor<1x8x6x7xf32>
    %t = constant {value = random<16x1x3x3xf32>} : tensor<16x1x3x3xf32>
    %d = conv %x, %t {groups = 8, strides = [2, 2]} : tensor<1x16x2x3xf32>
    return %a, %b, %c, %d
  }
})";
  check(c);
}

TEST(ConvTactic, OneDimension) {
  check("conv", R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x5x30xf32>) -> ("y") {
    %w = constant {value = random<7x5x4xf32>} : tensor<7x5x4xf32>
    %y = conv %x, %w {strides = [2], pads = [1, 1]} : tensor<2x7x15xf32>
    return %y
  }
})");
}

TEST(ConvTactic, DequantizedInput) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x20x6x7xi8>) -> ("y") {
    %s = constant {value = dense<f32: 0.05>} : tensor<f32>
    %z = constant {value = dense<i8: 3>} : tensor<i8>
    %f = map %x, %s[], %z[] (%p1: i8, %q1: f32, %r1: i8) {
      %t1 = dequantize %p1, %q1, %r1 : f32
      yield %t1
    } : tensor<1x20x6x7xf32>
    %w = constant {value = random<9x20x3x3xf32>} : tensor<9x20x3x3xf32>
    %y = conv %f, %w {pads = [1, 1, 1, 1]} : tensor<1x9x6x7xf32>
    return %y
  }
})";
  c.passes = "fuse,isolate";
  c.tactics = {"conv"};
  check(c);
}

TEST(ConvTactic, ThreeDimensions) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x4x5x6x4xf32>) -> ("a", "b") {
    %v = constant {value = random<3x4x2x3x2xf32>} : tensor<3x4x2x3x2xf32>
    %a = conv %x, %v {strides = [1, 2, 1], pads = [1, 1, 0, 0, 1, 0]} : tensor<1x3x5x3x3xf32>
    %w = constant {value = random<4x1x3x3x3xf32>} : tensor<4x1x3x3x3xf32>
    %b = conv %x, %w {groups = 4, pads = [1, 1, 1, 1, 1, 1]} : tensor<1x4x5x6x4xf32>
    return %a, %b
  }
})";
  c.tactics = {"conv", "depthwise"};
  c.targets = {"cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:native"};
  check(c);
}

TEST(ConvGroupsTactic, PlanesAndVolumes) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x20x9x11xf32>, %d "d": tensor<1x24x4x6x5xf32>, %l "l": tensor<1x12x30xf32>) -> ("a", "b", "c") {
    %w = constant {value = random<20x4x3x3xf32>} : tensor<20x4x3x3xf32>
    %a = conv %x, %w {groups = 5, pads = [1, 1, 1, 1]} : tensor<2x20x9x11xf32>
    %v = constant {value = random<24x4x3x2x3xf32>} : tensor<24x4x3x2x3xf32>
    %b = conv %d, %v {groups = 6, strides = [1, 1, 1], pads = [1, 0, 1, 1, 0, 1]} : tensor<1x24x4x5x5xf32>
    %u = constant {value = random<18x4x5xf32>} : tensor<18x4x5xf32>
    %c = conv %l, %u {groups = 3, strides = [2], pads = [2, 2]} : tensor<1x18x15xf32>
    return %a, %b, %c
  }
})";
  c.tactics = {"conv_groups", "conv_groups", "conv_groups"};
  c.targets = {"cpu:x86-64-v3", "cpu:native"};
  check(c);
}

TEST(ConvTactic, GroupsOfPartsOfVectors) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x40x21x23xf32>, %l "l": tensor<1x48x39xf32>) -> ("a", "b") {
    %w = constant {value = random<40x8x3x3xf32>} : tensor<40x8x3x3xf32>
    %a = conv %x, %w {groups = 5, strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<2x40x11x12xf32>
    %v = constant {value = random<48x24x5xf32>} : tensor<48x24x5xf32>
    %b = conv %l, %v {groups = 2, strides = [2], pads = [2, 2]} : tensor<1x48x20xf32>
    return %a, %b
  }
})";
  c.tactics = {"conv", "conv"};
  c.targets = {"cpu:x86-64-v4"};
  check(c);
}

TEST(ConvWinogradTactic, PlanesAndVolumes) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x20x21x23xf32>, %d "d": tensor<1x24x4x18x15xf32>) -> ("a", "b") {
    %w = constant {value = random<40x20x3x3xf32>} : tensor<40x20x3x3xf32>
    %a = conv %x, %w {pads = [1, 1, 1, 1]} : tensor<2x40x21x23xf32>
    %v = constant {value = random<32x24x2x3x3xf32>} : tensor<32x24x2x3x3xf32>
    %b = conv %d, %v {strides = [2, 1, 1], pads = [0, 1, 0, 0, 1, 1]} : tensor<1x32x2x18x14xf32>
    return %a, %b
  }
})";
  c.tactics = {"conv_winograd_f4", "conv_winograd_f4"};
  c.targets = {"cpu:x86-64-v3", "cpu:native"};
  check(c);
}

TEST(ConvDirectTactic, RunTimeWeights) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%p "p": tensor<2x4x6x6xf32>, %w "w": tensor<6x2x3x3xf32>) -> ("b") {
    %b = conv %p, %w {groups = 2, pads = [1, 1, 1, 1]} : tensor<2x6x6x6xf32>
    return %b
  }
})";
  c.tactics = {"conv_direct"};
  check(c);
}

TEST(ConvTactic, BytesWithZeroPointsOfWeights) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x3x7x9xu8>, %v "v": tensor<2x18x6x7xi8>, %zx "zx": tensor<u8>, %zv "zv": tensor<i8>) -> ("y", "z", "u") {
    %w = constant {value = random<19x3x3x3xi8>} : tensor<19x3x3x3xi8>
    %a = constant {value = dense<19xi8: -128, -91, -54, -17, 20, 57, 94, -125, -88, -51, -14, 23, 60, 97, -122, -85, -48, -11, 26>} : tensor<19xi8>
    %y = conv %x, %w, %zx, %a {pads = [1, 1, 1, 1], strides = [2, 2]} : tensor<1x19x4x5xi32>
    %d = constant {value = random<18x1x3x3xi8>} : tensor<18x1x3x3xi8>
    %b = constant {value = dense<18xi8: -128, -91, -54, -17, 20, 57, 94, -125, -88, -51, -14, 23, 60, 97, -122, -85, -48, -11>} : tensor<18xi8>
    %z = conv %v, %d, %zv, %b {pads = [1, 1, 1, 1], groups = 18} : tensor<2x18x6x7xi32>
    %k = constant {value = random<5x18x1x1xi8>} : tensor<5x18x1x1xi8>
    %e = constant {value = dense<i8: 99>} : tensor<i8>
    %u = conv %v, %k, %zv, %e : tensor<2x5x6x7xi32>
    return %y, %z, %u
  }
})";
  c.tactics = {"conv_bytes", "depthwise_bytes", "conv_bytes"};
  c.targets = {"cpu:x86-64-v3", "cpu:native"};
  check(c);
}

TEST(ConvInt8Tactic, ZeroPointOfTheInputAndPadding) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x3x7x9xu8>, %v "v": tensor<1x16x6x6xi8>) -> ("y", "z") {
    %w = constant {value = random<19x3x3x3xi8>} : tensor<19x3x3x3xi8>
    %a = constant {value = dense<u8: 100>} : tensor<u8>
    %y = conv %x, %w, %a {pads = [1, 1, 1, 1], strides = [2, 2]} : tensor<1x19x4x5xi32>
    %u = constant {value = random<8x16x1x1xi8>} : tensor<8x16x1x1xi8>
    %z = conv %v, %u : tensor<1x8x6x6xi32>
    return %y, %z
  }
})";
  c.tactics = {"conv_i8", "conv_i8"};
  c.targets = {"cpu:generic"};
  check(c);
  c.tactics = {"conv_bytes", "conv_bytes"};
  c.targets = {"cpu:x86-64-v3", "cpu:native"};
  check(c);
}

TEST(ConvBf16Tactic, WindowsLinesAndPlanes) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x3x9x11xbf16>, %v "v": tensor<2x16x6x6xbf16>, %l "l": tensor<1x5x30xbf16>) -> ("y", "z", "u") {
    %w = constant {value = random<19x3x3x3xbf16>} : tensor<19x3x3x3xbf16>
    %y = conv %x, %w {pads = [1, 1, 1, 1], strides = [2, 2]} : tensor<1x19x5x6xbf16>
    %k = constant {value = random<8x16x1x1xbf16>} : tensor<8x16x1x1xbf16>
    %z = conv %v, %k : tensor<2x8x6x6xbf16>
    %o = constant {value = random<33x5x3xbf16>} : tensor<33x5x3xbf16>
    %u = conv %l, %o {pads = [1, 1], dilations = [2]} : tensor<1x33x28xbf16>
    return %y, %z, %u
  }
})";
  c.tolerance = 8e-3; // a unit in the last place of bf16
  c.tactics = {"conv_bf16", "conv_bf16", "conv_bf16"};
  c.targets = {"cpu:x86-64-v3", "cpu:native"};
  check(c);
  c.tactics = {"conv", "conv", "conv"};
  c.targets = {"cpu:generic"};
  check(c);
}

TEST(ConvDirectTactic, Integers) {
  check("conv_direct", R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x6x5x5xu8>) -> ("y") {
    %w = constant {value = random<4x3x3x3xi8>} : tensor<4x3x3x3xi8>
    %a = constant {value = dense<u8: 100>} : tensor<u8>
    %b = constant {value = dense<4xi8: 1, 0, -3, 9>} : tensor<4xi8>
    %y = conv %x, %w, %a, %b {pads = [1, 1, 1, 1], strides = [2, 2], groups = 2} : tensor<1x4x3x3xi32>
    return %y
  }
})");
}

TEST(ConvDirectTactic, Transposed) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x4x5x6xf32>, %t "t": tensor<2x3x7xf32>) -> ("a", "b", "c") {
    %w = constant {value = random<4x3x3x3xf32>} : tensor<4x3x3x3xf32>
    %a = conv_transpose %x, %w {strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]} : tensor<1x3x10x12xf32>
    %b = conv_transpose %x, %w {groups = 2, dilations = [2, 1]} : tensor<1x6x9x8xf32>
    %v = constant {value = random<3x2x4xf32>} : tensor<3x2x4xf32>
    %c = conv_transpose %t, %v {strides = [3]} : tensor<2x2x22xf32>
    return %a, %b, %c
  }
})";
  c.tactics = {"conv_direct", "conv_direct", "conv_direct"};
  check(c);
}

TEST(PoolTactic, MaxAndAverage) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x5x9x11xf32>, %i "i": tensor<1x5x9x11xi8>, %l "l": tensor<2x6x20xf32>) -> ("a", "b", "c", "d", "e", "f") {
    %a = pool %x {kind = max, kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<2x5x5x6xf32>
    %b = pool %x {kind = average, kernel = [3, 2], pads = [1, 0, 1, 1]} : tensor<2x5x9x11xf32>
    %c = pool %x {kind = average, kernel = [3, 3], strides = [2, 2], pads = [0, 1, 1, 1], ceil = true, count_include_pad = true} : tensor<2x5x5x6xf32>
    %d = pool %i {kind = max, kernel = [2, 2], dilations = [2, 3]} : tensor<1x5x7x8xi8>
    %e = pool %l {kind = average, kernel = [4], strides = [3], pads = [1, 2], count_include_pad = true} : tensor<2x6x7xf32>
    %xl = map %x (%p1: f32) { yield %p1 } : tensor<2x5x9x11xf32, nhwc>
    %fl = pool %xl {kind = max, kernel = [3, 3]} : tensor<2x5x7x9xf32, nhwc>
    %f = map %fl (%p2: f32) { yield %p2 } : tensor<2x5x7x9xf32>
    return %a, %b, %c, %d, %e, %f
  }
})";
  check(c);
}

TEST(PoolTactic, ThreeDimensions) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x2x5x6x7xf32>) -> ("a", "b") {
    %a = pool %x {kind = max, kernel = [2, 3, 2], strides = [1, 2, 2], pads = [1, 1, 0, 0, 1, 1]} : tensor<1x2x5x3x4xf32>
    %b = pool %x {kind = average, kernel = [2, 2, 2], pads = [1, 0, 1, 0, 1, 0], count_include_pad = true} : tensor<1x2x5x6x7xf32>
    return %a, %b
  }
})";
  c.tactics = {"pooling_rows", "pooling_rows"};
  check(c);
}

TEST(PoolTactic, LongStrides) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x1x32000xf32>, %y "y": tensor<1x2x3x4x3x4xf32>) -> ("a", "b", "c") {
    %a = pool %x {kind = average, kernel = [320], strides = [320], pads = [0, 0]} : tensor<1x1x100xf32>
    %b = pool %x {kind = max, kernel = [8], strides = [8], pads = [0, 0]} : tensor<1x1x4000xf32>
    %c = pool %y {kind = max, kernel = [2, 2, 2, 2], pads = [0, 0, 0, 0, 0, 0, 0, 0]} : tensor<1x2x2x3x2x3xf32>
    return %a, %b, %c
  }
})";
  c.tactics = {"pooling", "pooling_rows", "pooling_direct"};
  check(c);
}

TEST(PoolTactic, DequantizedInput) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x20x6x6xi8>) -> ("y") {
    %s = constant {value = dense<f32: 0.05>} : tensor<f32>
    %z = constant {value = dense<i8: 3>} : tensor<i8>
    %f = map %x, %s[], %z[] (%p1: i8, %q1: f32, %r1: i8) {
      %t1 = dequantize %p1, %q1, %r1 : f32
      yield %t1
    } : tensor<1x20x6x6xf32>
    %y = pool %f {kind = average, kernel = [3, 3], strides = [3, 3]} : tensor<1x20x2x2xf32>
    return %y
  }
})";
  c.passes = "fuse,isolate";
  check(c);
}

} // namespace
