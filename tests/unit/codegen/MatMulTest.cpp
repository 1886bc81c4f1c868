// Tests the tactics of matrix products: each over shapes that are no multiples of tiles.
#include "Compiled.h"

#include <gtest/gtest.h>

using namespace tenon::test;

namespace {

TEST(MatMulTactic, PackedWithBias) {
  check("matmul", R"(module "m" stage=imported {
  graph @main (%x "x": tensor<13x21xf32>) -> ("y") {
    %w = constant {value = random<21x37xf32>} : tensor<21x37xf32>
    %y = matmul %x, %w : tensor<13x37xf32>
    return %y
  }
})");
}

TEST(MatMulTactic, PackedTransposedBatchedInput) {
  check("matmul", R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x3x5x8xf32>) -> ("y") {
    %w = constant {value = random<19x8xf32>} : tensor<19x8xf32>
    %y = matmul %x, %w {trans_b = true} : tensor<2x3x5x19xf32>
    return %y
  }
})");
}

TEST(MatMulTactic, PackedBatchedConstant) {
  check("matmul", R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x3x1x8xf32>) -> ("y") {
    %w = constant {value = random<3x8x19xf32>} : tensor<3x8x19xf32>
    %y = matmul %x, %w : tensor<2x3x1x19xf32>
    return %y
  }
})");
}

TEST(MatMulTactic, PackedTransposedLeft) {
  check("matmul", R"(module "m" stage=imported {
  graph @main (%x "x": tensor<7x11xf32>) -> ("y") {
    %w = constant {value = random<7x5xf32>} : tensor<7x5xf32>
    %y = matmul %x, %w {trans_a = true} : tensor<11x5xf32>
    return %y
  }
})");
}

TEST(MatMulTactic, OneRow) {
  check("matmul", R"(module "m" stage=imported {
  graph @main (%x "x": tensor<1x100xf32>) -> ("y") {
    %w = constant {value = random<100x75xf32>} : tensor<100x75xf32>
    %y = matmul %x, %w : tensor<1x75xf32>
    return %y
  }
})");
}

TEST(MatMulTactic, HalfPrecisionAndDouble) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<6x20xf16>, %d "d": tensor<6x20xf64>) -> ("y", "z") {
    %w = constant {value = random<20x9xf16>} : tensor<20x9xf16>
    %y = matmul %x, %w : tensor<6x9xf16>
    %v = constant {value = random<20x9xf64>} : tensor<20x9xf64>
    %z = matmul %d, %v : tensor<6x9xf64>
    return %y, %z
  }
})";
  c.tactics = {"matmul", "matmul"};
  c.tolerance = 1e-3;
  check(c);
}

TEST(MatMulTactic, RunTimeRows) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  symbol N = 1..9
  graph @main (%x "x": tensor<{N}x20xf32>) -> ("y") {
    %w = constant {value = random<20x33xf32>} : tensor<20x33xf32>
    %y = matmul %x, %w : tensor<{N}x33xf32>
    return %y
  }
})";
  c.tactics = {"matmul"};
  c.dims = {{"N", 5}};
  check(c);
}

TEST(MatMulTactic, Dynamic) {
  check("matmul_dynamic", R"(module "m" stage=imported {
  graph @main (%a "a": tensor<2x3x17x9xf32>, %b "b": tensor<2x3x9x21xf32>) -> ("y") {
    %y = matmul %a, %b : tensor<2x3x17x21xf32>
    return %y
  }
})");
}

TEST(MatMulTactic, DynamicTransposedBroadcast) {
  check("matmul_dynamic", R"(module "m" stage=imported {
  graph @main (%a "a": tensor<4x1x9x17xf32>, %b "b": tensor<3x21x9xf32>) -> ("y") {
    %y = matmul %a, %b {trans_a = true, trans_b = true} : tensor<4x3x17x21xf32>
    return %y
  }
})");
}

TEST(MatMulTactic, PackedInt8) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<7x30xu8>, %v "v": tensor<1x30xi8>) -> ("y", "z") {
    %w = constant {value = random<30x21xi8>} : tensor<30x21xi8>
    %a = constant {value = dense<u8: 100>} : tensor<u8>
    %b = constant {value = dense<i8: 0>} : tensor<i8>
    %y = matmul %x, %w, %a, %b : tensor<7x21xi32>
    %z = matmul %v, %w : tensor<1x21xi32>
    return %y, %z
  }
})";
  c.tactics = {"matmul_i8", "matmul_i8"};
  c.targets = {"cpu:generic"};
  check(c);
  c.tactics = {"conv_bytes", "conv_bytes"};
  c.targets = {"cpu:x86-64-v3", "cpu:native"};
  check(c);
}

TEST(MatMulTactic, PackedBf16) {
  CompiledCase c;
  // Rows of three batches, one row, operands that are rounded on the way in, and batches that have
  // their own right operands, of odd depth.
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<3x5x31xbf16>, %v "v": tensor<1x64xbf16>, %f "f": tensor<7x30xf32>, %b "b": tensor<2x4x9xbf16>) -> ("y", "z", "r", "u") {
    %w = constant {value = random<31x21xbf16>} : tensor<31x21xbf16>
    %y = matmul %x, %w : tensor<3x5x21xbf16>
    %k = constant {value = random<150x64xbf16>} : tensor<150x64xbf16>
    %z = matmul %v, %k {trans_b = true} : tensor<1x150xbf16>
    %h = map %f (%e: f32) {
      %0 = mul %e, %e : f32
      %1 = cast %0 {to = !bf16} : bf16
      yield %1
    } : tensor<7x30xbf16>
    %q = constant {value = random<30x18xbf16>} : tensor<30x18xbf16>
    %r = matmul %h, %q : tensor<7x18xbf16>
    %o = constant {value = random<2x9x20xbf16>} : tensor<2x9x20xbf16>
    %u = matmul %b, %o : tensor<2x4x20xbf16>
    return %y, %z, %r, %u
  }
})";
  c.passes = "fuse,isolate";
  c.tolerance = 8e-3; // a unit in the last place of bf16
  c.tactics = {"matmul_bf16", "matmul_bf16", "matmul_bf16", "matmul_bf16"};
  c.targets = {"cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:native"};
  check(c);
  c.tactics = {"matmul", "matmul", "matmul", "matmul"};
  c.targets = {"cpu:generic"};
  check(c);
}

TEST(MatMulTactic, BytesOfSeveralMatricesWithZeroPoints) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x3x5x30xu8>, %v "v": tensor<3x30x7xi8>, %zx "zx": tensor<u8>, %zv "zv": tensor<i8>) -> ("y", "z") {
    %w = constant {value = random<30x21xi8>} : tensor<30x21xi8>
    %t = constant {value = random<21x30xi8>} : tensor<21x30xi8>
    %a = constant {value = dense<21xi8: -128, -91, -54, -17, 20, 57, 94, -125, -88, -51, -14, 23, 60, 97, -122, -85, -48, -11, 26, 63, 100>} : tensor<21xi8>
    %b = constant {value = dense<i8: -100>} : tensor<i8>
    %y = matmul %x, %w, %zx, %a : tensor<2x3x5x21xi32>
    %z = matmul %v, %t, %zv, %b {trans_a = true, trans_b = true} : tensor<3x7x21xi32>
    return %y, %z
  }
})";
  c.tactics = {"conv_bytes", "conv_bytes"};
  c.targets = {"cpu:x86-64-v3", "cpu:native"};
  check(c);
  c.tactics = {"matmul_direct", "matmul_direct"};
  c.targets = {"cpu:generic"};
  check(c);
}

TEST(MatMulTactic, DirectIntegers) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%a "a": tensor<2x4x9xi32>, %b "b": tensor<9x5xi32>, %p "p": tensor<3x7xu8>, %q "q": tensor<7x6xi8>) -> ("y", "z") {
    %y = matmul %a, %b : tensor<2x4x5xi32>
    %zp = constant {value = dense<u8: 7>} : tensor<u8>
    %zq = constant {value = dense<6xi8: 1, -2, 3, -4, 5, 6>} : tensor<6xi8>
    %z = matmul %p, %q, %zp, %zq : tensor<3x6xi32>
    return %y, %z
  }
})";
  c.tactics = {"matmul_direct", "matmul_direct"};
  check(c);
}

TEST(MatMulTactic, FusedEpilogueAndPrologue) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x7x24xf32>, %r "r": tensor<2x7x33xf32>) -> ("y") {
    %s = constant {value = random<24xf32>} : tensor<24xf32>
    %xs = map %x, %s[2] (%p1: f32, %q1: f32) {
      %m1 = mul %p1, %q1 : f32
      %t1 = relu %m1 : f32
      yield %t1
    } : tensor<2x7x24xf32>
    %w = constant {value = random<24x33xf32>} : tensor<24x33xf32>
    %b = constant {value = random<33xf32>} : tensor<33xf32>
    %c = matmul %xs, %w : tensor<2x7x33xf32>
    %y = map %c, %b[2], %r (%p2: f32, %q2: f32, %u2: f32) {
      %i2 = index {dim = 1, to = !i64} : i64
      %if2 = cast %i2 {to = !f32} : f32
      %m2 = add %p2, %q2 : f32
      %t2 = add %m2, %u2 : f32
      %v2 = add %t2, %if2 : f32
      yield %v2
    } : tensor<2x7x33xf32>
    return %y
  }
})";
  c.passes = "fuse,isolate";
  c.tactics = {"matmul"};
  check(c);
}

} // namespace
