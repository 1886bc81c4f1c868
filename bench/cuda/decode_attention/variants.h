// Defines the list of variants that the study times, and how one is launched.
#pragma once

#include <cuda_runtime.h>

namespace study {

/// y [heads][d] from q [heads][d], k, v [heads / group][capacity][d]; `length` keys are valid.
struct decode_problem {
  const void *q, *k, *v;
  void *y;
  const int *length; // on the device
  int heads, group, capacity, d;
  float scale;
};

} // namespace study

extern "C" {
/// Warps of a block, and blocks of a cluster, over which the keys of a head are split.
int decode_count();
const char *decode_name(int i);
/// 0, or an error of CUDA. `early`: by programmatic dependent launch.
int decode_launch(int i, const study::decode_problem *p, void *stream, int early);
}
