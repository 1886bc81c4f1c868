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

/// Products of which each reads what the one before wrote. `products`: as strip.cuh says, on the
/// device. All y hold 0xff in every byte before; `clear` are the results of the next launch, which
/// this one fills so.
struct gemv_chain {
  const void *products;
  void *clear;
  long clear_bytes; // a multiple of 16
  int count, tokens;
};

struct gemv_entry {
  const char *name;
  int layout, least, most;                                       // rows it takes
  int (*launch)(const gemv_problem &, cudaStream_t, bool early); // null: takes chains
  int (*chain)(const gemv_chain &, cudaStream_t);
};
std::vector<gemv_entry> &gemv_entries();

} // namespace study

extern "C" {
int gemv_count();
const char *gemv_name(int i);
int gemv_layout_of(int i);
int gemv_suits(int i, int tokens);
int gemv_is_chain(int i);
/// 0, or an error of CUDA; 1000 where the variant does not take the problem. `early`: by
/// programmatic dependent launch.
int gemv_launch(int i, const study::gemv_problem *p, void *stream, int early);
/// The same; all blocks must be on the device at once.
int gemv_launch_chain(int i, const study::gemv_chain *c, void *stream);
}
