// Defines the list of variants that the study times, and how one is launched.
#pragma once

#include <cuda_runtime.h>
#include <vector>

namespace study {

/// One problem: q, y [batch, heads, m, d], k, v [batch, heads / group, n, d] with strides in
/// elements; columns are contiguous.
struct attention_problem {
  const void *q, *k, *v;
  void *y;
  int batch, heads, group, m, n, d;
  long q_stride[3], k_stride[3], v_stride[3], y_stride[3]; // batch, head, token
  float scale;
  int causal; // query m sees the keys up to m
  int bf16;
  int masked;       // 0: by nothing, 1: float32 [batch, 1, 1, n], 2: of the operands' type
  const void *bias; //   [1, heads, m, n]; both contiguous
};

struct attention_entry {
  const char *name;
  int d, causal, bf16, masked;
  int (*launch)(const attention_problem &, cudaStream_t, bool early);
};
std::vector<attention_entry> &attention_entries();

} // namespace study

extern "C" {
int attention_count();
const char *attention_name(int i);
/// Whether variant i takes heads of d columns, this type and these masks.
int attention_suits(int i, int d, int causal, int bf16, int masked);
/// 0, or an error of CUDA or of the driver. `early`: by programmatic dependent launch.
int attention_launch(int i, const study::attention_problem *p, void *stream, int early);
}
