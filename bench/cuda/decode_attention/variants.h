// Defines the list of variants that the study times, and how one is launched.
#pragma once

#include <cuda_runtime.h>

namespace study {

/// y [heads][d] from q [heads][d], k, v [heads / group][capacity][d]; `length` keys are valid.
struct decode_problem {
  const void *q, *k, *v;
  void *y;
  const int *length; // on the device
  float *parts;      // decode_parts floats
  unsigned *arrived; // heads / group zeros
  int heads, group, capacity, d;
  float scale;
};

} // namespace study

extern "C" {
/// Warps of a block and into how many blocks the keys of a head are split.
int decode_count();
const char *decode_name(int i);
long decode_parts(int heads);
/// 0, or an error of CUDA. `early`: by programmatic dependent launch.
int decode_launch(int i, const study::decode_problem *p, void *stream, int early);
}
