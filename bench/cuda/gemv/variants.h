// Defines the list of variants that the study times, and how one is launched.
#pragma once

#include <cuda_runtime.h>
#include <vector>

namespace study {

enum gemv_layout { layout_fp16, layout_int8, layout_int4, layout_rows, layout_read };

/// y [tokens][n] = x [tokens][k] * w^T; w and scale packed as strip.cuh says (layout_rows: [n][k]).
struct gemv_problem {
  const void *w, *scale, *x;
  void *y;
  int n, k, tokens;
};

struct gemv_entry {
  const char *name;
  int layout, least, most; // rows it takes
  int (*launch)(const gemv_problem &, cudaStream_t, bool early);
};
std::vector<gemv_entry> &gemv_entries();

} // namespace study

extern "C" {
int gemv_count();
const char *gemv_name(int i);
int gemv_layout_of(int i);
int gemv_suits(int i, int tokens);
/// 0, or an error of CUDA; 1000 where the rows find no room in shared memory. `early`: by
/// programmatic dependent launch.
int gemv_launch(int i, const study::gemv_problem *p, void *stream, int early);
}
