// Defines how the kernels of a step are launched, and the lists that step.cu's parts give.
#pragma once

#include "step.h"
#include <cuda_runtime.h>

namespace study {

struct strip_arguments;

constexpr int multiprocessors = 132;
enum class step_product { qkv, project, gate_up, down, head };

struct step_launch_options {
  cudaStream_t stream;
  bool early, late;
};

/// All kernels ask for the same division of a multiprocessor's memory: to change it, one must be
/// empty.
inline int prepare(const void *kernel, int shared_bytes) {
  const int e =
      int(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
  return e ? e
           : int(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      shared_bytes));
}

/// In clusters of `cluster` blocks.
template <class... Parameters, class... Arguments>
int launch(void (*kernel)(Parameters...), dim3 grid, int threads, int shared_bytes, int cluster,
           const step_launch_options &how, Arguments... arguments) {
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (how.early) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {unsigned(cluster), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = size_t(shared_bytes);
  config.stream = how.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return int(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

struct step_entry {
  const char *name;
  int (*launch)(step_product, const strip_arguments &, const step_launch_options &);
  bool polls; // it knows by values what is there
};
struct step_kernels {
  const step_entry *entries;
  int count;
  int (*embed)(const step_model &, float *stream, const step_launch_options &);
};
/// Those of a kind of weights.
template <int Kind> step_kernels kernels_of();
template <> step_kernels kernels_of<0>();
template <> step_kernels kernels_of<2>();

} // namespace study
