// Defines a decoder of Llama's form on the device, and the launches of one step of it.
#pragma once

#include <cuda_runtime.h>

namespace study {

/// Weights and scales packed as strip.cuh says. gate_up: outputs are (gate, up) in turn.
struct step_layer {
  const void *qkv, *qkv_scale, *project, *project_scale, *gate_up, *gate_up_scale, *down, *down_scale;
  const void *attend_gamma, *mlp_gamma; // f16 [hidden]
  void *k, *v;                          // f16 [kv_heads][capacity][d]
};

struct step_model {
  const step_layer *layers; // host memory
  const void *head, *head_scale, *gamma; // [vocabulary][hidden], the embedding as well
  const float *cos, *sin;                // [capacity][d / 2]
  // What a step leaves: the residual stream f32 [hidden], and f16 [heads + 2 * kv_heads][d],
  // [heads][d], [inner].
  float *stream;
  void *qkv, *attended, *inner;
  void *logits;             // f16 [vocabulary], or null
  unsigned long long *best; // 0 before a step
  int *token, *length;      // the token that a step takes; cached keys before it. A step sets both
  int *tokens;              // [capacity]: row i is the token that followed position i
  unsigned long long *times; // [kernels][blocks][3] nanoseconds: began, waited, ended; or null
  int count, hidden, heads, kv_heads, d, inner_size, vocabulary, capacity;
  float epsilon;
};

/// Kernels of a step: embed; of each layer qkv, attend, project, gate_up, down; head; step.
struct step_options {
  int kind;    // of weights: 0 fp16, 2 int4
  int variant; // below step_variants(kind)
  int attend;  // below step_attends()
  int early;   // by programmatic dependent launch
  int late;    // the next kernel may begin behind a kernel's wait, not at its start
};

} // namespace study

extern "C" {
int step_variants(int kind);
const char *step_variant_name(int kind, int i);
int step_attends();
const char *step_attend_name(int i);
/// Launches kernels first ... first + count - 1 of a step. 0, an error of CUDA, or 1000 where the
/// variant does not take the model.
int step_launch(const study::step_model *m, const study::step_options *o, int first, int count, void *stream);
}
