// Tests the tactics of reductions, scans, softmax and normalize.
#include "Compiled.h"

#include <gtest/gtest.h>

using namespace tenon::test;

namespace {

TEST(ReduceTactic, SumOverAnyAxes) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<3x5x7x19xf32>) -> ("a", "b", "c", "d") {
    %a = reduce %x {axes = [1], init = floats[0.0]} (%s1: f32, %v1: f32) {
      %t1 = add %s1, %v1 : f32
      yield %t1
    } : tensor<3x7x19xf32>
    %b = reduce %x {axes = [0, 3], init = floats[0.0]} (%s2: f32, %v2: f32) {
      %t2 = add %s2, %v2 : f32
      yield %t2
    } : tensor<5x7xf32>
    %c = reduce %x {axes = [0, 1, 2, 3], init = floats[-inf]} (%s3: f32, %v3: f32) {
      %t3 = max %s3, %v3 : f32
      yield %t3
    } : tensor<f32>
    %d = reduce %x {axes = [2], init = floats[0.0]} (%s4: f32, %v4: f32) {
      %q4 = mul %v4, %v4 : f32
      %t4 = add %s4, %q4 : f32
      yield %t4
    } : tensor<3x5x19xf32>
    return %a, %b, %c, %d
  }
})";
  c.tactics = {"reduce", "reduce", "reduce", "reduce"};
  check(c);
}

TEST(ReduceTactic, ArgMaxKeepsTheFirst) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<4x33xi32>) -> ("v", "i") {
    %v, %i = reduce %x {axes = [1], init = floats[-2147483648.0, 0.0]} (%best1: i32, %at1: i64, %e1: i32) {
      %here1 = index {dim = 1, to = !i64} : i64
      %better1 = greater %e1, %best1 : i1
      %same1 = equal %e1, %best1 : i1
      %before1 = less %here1, %at1 : i1
      %tie1 = logical_and %same1, %before1 : i1
      %take1 = logical_or %better1, %tie1 : i1
      %nv1 = select %take1, %e1, %best1 : i32
      %ni1 = select %take1, %here1, %at1 : i64
      yield %nv1, %ni1
    } : tensor<4xi32>, tensor<4xi64>
    return %v, %i
  }
})";
  c.lowest = 0, c.highest = 4; // many ties
  c.tactics = {"reduce"};
  check(c);
}

TEST(ReduceTactic, ExtremesOfOneTensorTogether) {
  check("reduce", R"(module "m" stage=imported {
  graph @main (%x "x": tensor<6x40xf32>) -> ("lo", "hi") {
    %lo, %hi = reduce %x {axes = [1], init = floats[inf, -inf]} (%l1: f32, %h1: f32, %v1: f32) {
      %a1 = min %l1, %v1 : f32
      %b1 = max %h1, %v1 : f32
      yield %a1, %b1
    } : tensor<6xf32>, tensor<6xf32>
    return %lo, %hi
  }
})");
}

TEST(ReduceTactic, LogicalAndIntegers) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<6x40xi1>, %n "n": tensor<5x30xi64>, %k "k": tensor<5x30xi8>) -> ("any", "sum", "max") {
    %any = reduce %x {axes = [0], init = floats[0.0]} (%l1: i1, %v1: i1) {
      %a1 = logical_or %l1, %v1 : i1
      yield %a1
    } : tensor<40xi1>
    %sum = reduce %n {axes = [1], init = floats[0.0]} (%l2: i64, %v2: i64) {
      %a2 = add %l2, %v2 : i64
      yield %a2
    } : tensor<5xi64>
    %max = reduce %k {axes = [0], init = floats[-128.0]} (%l3: i8, %v3: i8) {
      %a3 = max %l3, %v3 : i8
      yield %a3
    } : tensor<30xi8>
    return %any, %sum, %max
  }
})";
  check(c);
}

TEST(ScanTactic, AnyAxisBothWays) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  symbol N = 1..40
  graph @main (%x "x": tensor<3x5x{N}x19xf32>, %k "k": tensor<6x70xi64>, %b "b": tensor<6x70xi1>) -> ("last", "inner", "first", "wrapped", "seen") {
    %last = scan %x {axis = 3, init = 0.0} (%s1: f32, %v1: f32) {
      %t1 = add %s1, %v1 : f32
      yield %t1
    } : tensor<3x5x{N}x19xf32>
    %inner = scan %x {axis = 2, init = 0.0, exclusive = true, reverse = true} (%s2: f32, %v2: f32) {
      %t2 = add %s2, %v2 : f32
      yield %t2
    } : tensor<3x5x{N}x19xf32>
    %first = scan %x {axis = 0, init = -inf} (%s3: f32, %v3: f32) {
      %t3 = max %s3, %v3 : f32
      yield %t3
    } : tensor<3x5x{N}x19xf32>
    %wrapped = scan %k {axis = 1, init = 1.0, reverse = true} (%s4: i64, %v4: i64) {
      %t4 = mul %s4, %v4 : i64
      yield %t4
    } : tensor<6x70xi64>
    %seen = scan %b {axis = 1, init = 0.0, exclusive = true} (%s5: i1, %v5: i1) {
      %t5 = logical_or %s5, %v5 : i1
      yield %t5
    } : tensor<6x70xi1>
    return %last, %inner, %first, %wrapped, %seen
  }
})";
  c.tactics = {"scan", "scan", "scan", "scan", "scan"};
  c.dims = {{"N", 23}};
  check(c);
}

TEST(ReduceTactic, CumulativeSum) {
  check("reduce", R"(module "m" stage=imported {
  graph @main (%x "x": tensor<3x12xf32>) -> ("y") {
    %y = reduce %x[0, 2] {space = dims[3, 12, 12], axes = [2], init = floats[0.0]} (%s1: f32, %v1: f32) {
      %j1 = index {dim = 2, to = !i64} : i64
      %i1 = index {dim = 1, to = !i64} : i64
      %counts1 = less_equal %j1, %i1 : i1
      %z1 = const {to = !f32, value = 0.0} : f32
      %e1 = select %counts1, %v1, %z1 : f32
      %t1 = add %s1, %e1 : f32
      yield %t1
    } : tensor<3x12xf32>
    return %y
  }
})");
}

// Two elements meet in the combiner in a way that partial results cannot repeat.
TEST(ReduceTactic, FoldInOrder) {
  check("fold", R"(module "m" stage=imported {
  graph @main (%x "x": tensor<4x9xf32>, %w "w": tensor<4x9xf32>) -> ("y") {
    %y = reduce %x, %w {axes = [1], init = floats[0.0]} (%s1: f32, %v1: f32, %u1: f32) {
      %t1 = max %s1, %v1 : f32
      %z1 = add %t1, %u1 : f32
      yield %z1
    } : tensor<4xf32>
    return %y
  }
})");
}

TEST(ReduceTactic, FusedPrologueAndEpilogue) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x9x6x5xf32>) -> ("y") {
    %e = map %x (%p1: f32) {
      %t1 = tanh %p1 : f32
      yield %t1
    } : tensor<2x9x6x5xf32>
    %s = reduce %e {axes = [2, 3], init = floats[0.0]} (%l2: f32, %v2: f32) {
      %a2 = add %l2, %v2 : f32
      yield %a2
    } : tensor<2x9xf32>
    %y = map %s (%p3: f32) {
      %k3 = const {to = !f32, value = 30.0} : f32
      %t3 = div %p3, %k3 : f32
      yield %t3
    } : tensor<2x9xf32>
    return %y
  }
})";
  c.passes = "fuse,isolate";
  c.tactics = {"reduce"};
  check(c);
}

TEST(SoftmaxTactic, AnyAxis) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<3x5x37xf32>, %p "p": tensor<100x2xf32>) -> ("a", "b", "c", "d") {
    %a = softmax %x {axis = 2} : tensor<3x5x37xf32>
    %b = softmax %x {axis = 1} : tensor<3x5x37xf32>
    %c = softmax %x {axis = 0, log = true} : tensor<3x5x37xf32>
    %d = softmax %p {axis = 1} : tensor<100x2xf32>
    return %a, %b, %c, %d
  }
})";
  c.tactics = {"softmax", "softmax", "softmax", "softmax"};
  check(c);
}

TEST(NormalizeTactic, AnyAxes) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<3x5x4x37xf32>, %p "p": tensor<100x2xf32>, %h "h": tensor<6x40xf16>) -> ("a", "b", "c", "d", "e", "f") {
    %a = normalize %x {axes = [3], epsilon = 0.001, centered = true} : tensor<3x5x4x37xf32>
    %b = normalize %x {axes = [1, 3], epsilon = 0.001, centered = true} : tensor<3x5x4x37xf32>
    %c = normalize %x {axes = [0, 1, 2, 3], epsilon = 0.001, centered = false} : tensor<3x5x4x37xf32>
    %d = normalize %p {axes = [1], epsilon = 0.001, centered = true} : tensor<100x2xf32>
    %e = normalize %h {axes = [1], epsilon = 0.001, centered = true} : tensor<6x40xf32>
    %f = normalize %p {axes = [0], epsilon = 0.001, centered = true} : tensor<100x2xf32>
    return %a, %b, %c, %d, %e, %f
  }
})";
  c.tactics = {"normalize", "normalize", "normalize", "normalize", "normalize", "normalize"};
  check(c);
}

TEST(NormalizeTactic, ScaleAndBiasJoin) {
  CompiledCase c;
  c.text = R"(module "m" stage=imported {
  graph @main (%x "x": tensor<2x8x5x6xf32>) -> ("y") {
    %s = constant {value = dense<8xf32: 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0>} : tensor<8xf32>
    %n = normalize %x {axes = [2, 3], epsilon = 0.001, centered = true} : tensor<2x8x5x6xf32>
    %y = map %n, %s[1] (%p: f32, %q: f32) {
      %m = mul %p, %q : f32
      %t = add %m, %q : f32
      yield %t
    } : tensor<2x8x5x6xf32>
    return %y
  }
})";
  c.passes = "fuse,isolate";
  c.tactics = {"normalize"};
  check(c);
}

} // namespace
