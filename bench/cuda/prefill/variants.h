// Defines the list of variants that the study times, and how one is launched.
#pragma once

#include <cuda_runtime.h>

namespace study {

/// y [tokens][n] = x [tokens][k] * w^T; w and scale packed as ../gemv/strip.cuh says for int4, x as
/// narrow_wgmma.cuh says.
struct narrow_problem {
  const void *w, *scale, *x;
  void *y;
  int n, k, tokens;
};

} // namespace study

extern "C" {
int narrow_count();
const char *narrow_name(int i);
/// 0, or an error of CUDA; 1000 where the variant does not take the problem.
int narrow_launch(int i, const study::narrow_problem *p, void *stream);
}
