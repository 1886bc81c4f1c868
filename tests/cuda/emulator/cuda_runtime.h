// Stands in for the toolkit's header where kernels run on the CPU: the vector types that kernels
// name, and the part of the CUDA runtime that runtime/cuda and runtime/harness use.
//
// Work on streams is done at once. Captures, graphs and changes of node parameters are real: a
// graph holds copies of its launches' arguments. Device memory is host memory that starts as NaN.
// There are two devices: what was made for one and is used on the other is refused, as by two GPUs.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#include "runtime_api.h"
