// Defines a decoder of Llama's form on the device, and the launches of one step of it.
#pragma once

#include <cuda_runtime.h>

namespace study {

/// Weights and scales packed as strip.cuh says. gate_up: outputs are (gate, up) in turn.
struct step_layer {
  const void *qkv, *qkv_scale, *project, *project_scale, *gate_up, *gate_up_scale, *down,
      *down_scale;
  const void *attend_gamma, *mlp_gamma; // f16 [hidden]
  void *k, *v;                          // f16 [kv_heads][capacity][d]
};

struct step_model {
  const step_layer *layers;              // host memory
  const void *head, *head_scale, *gamma; // [vocabulary][hidden], the embedding as well
  const float *cos, *sin;                // [capacity][d / 2]
  // What the kernels of a step leave one for the other, step_results(m) bytes. They begin as ones
  // (0xff in every byte) where launches know by them what is there, and are so again after a step.
  void *results;
  void *logits;              // f16 [vocabulary], or null
  unsigned long long *best;  // 0 before a step
  int *token, *length;       // the token that a step takes; cached keys before it. A step sets both
  int *tokens;               // [capacity]: row i is the token that followed position i
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
/// It knows by values, not by the end of the kernel before, what is there.
int step_variant_polls(int kind, int i);
int step_attends();
const char *step_attend_name(int i);
/// Where in the results those of kernel i begin (of the last kernel: their end), a multiple of 16:
/// the residual stream f32 [hidden] of embed, project and down, f16 [heads + 2 * kv_heads][d] of
/// qkv, [heads][d] of attend, [inner] of gate_up.
long step_results(const study::step_model *m, int i);
/// Launches kernels first ... first + count - 1 of a step. 0, an error of CUDA, or 1000 where the
/// variant does not take the model.
int step_launch(const study::step_model *m, const study::step_options *o, int first, int count,
                void *stream);
}
