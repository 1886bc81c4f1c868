// Defines what inference on host memory works with: two slots, each with pinned and device memory
// for all inputs and outputs of one inference, and streams for the copies. A slot is made at its
// first use.
#ifndef TENON_RUNTIME_CUDA_HOST_HOST_QUEUE_H
#define TENON_RUNTIME_CUDA_HOST_HOST_QUEUE_H

#include "cuda/host/program.h"
#include <stdlib.h>

namespace tenon {
namespace cuda {

struct host_slot {
  unsigned char *host, *device; // inputs, then outputs; one memory on integrated devices
  bool mapped;                  // `device` is the same memory
  cudaEvent_t arrived, computed, left;
};

struct host_queue {
  static constexpr unsigned depth = 2;
  host_slot slots[depth];
  cudaStream_t in, out;
  unsigned submitted, collected; // inferences so far
};

namespace detail {

inline size_t aligned(size_t bytes) {
  return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
}

/// Where inputs and outputs lie when they lie one after another.
struct port_layout {
  const void **inputs;
  void **outputs;
  size_t input_bytes = 0, output_bytes = 0;

  explicit port_layout(const program &p)
      : inputs(static_cast<const void **>(calloc(size_t(p.input_count) + 1, sizeof(void *)))),
        outputs(static_cast<void **>(calloc(size_t(p.output_count) + 1, sizeof(void *)))) {
    for (int i = 0; i < p.input_count; ++i)
      input_bytes += aligned(p.inputs[i].bytes);
    for (int i = 0; i < p.output_count; ++i)
      output_bytes += aligned(p.outputs[i].bytes);
  }
  port_layout(const port_layout &) = delete;
  port_layout &operator=(const port_layout &) = delete;
  ~port_layout() {
    free(inputs);
    free(outputs);
  }
  size_t bytes() const { return input_bytes + output_bytes; }
  bool valid() const { return inputs && outputs; }
  void place(const program &p, unsigned char *at) {
    for (int i = 0; i < p.input_count; at += aligned(p.inputs[i].bytes), ++i)
      inputs[i] = at;
    for (int i = 0; i < p.output_count; at += aligned(p.outputs[i].bytes), ++i)
      outputs[i] = at;
  }
};

inline void close_queue(host_queue &q) {
  for (host_slot &s : q.slots) {
    if (s.device && !s.mapped)
      (void)cudaFree(s.device);
    if (s.host)
      (void)cudaFreeHost(s.host);
    for (cudaEvent_t e : {s.arrived, s.computed, s.left})
      if (e)
        (void)cudaEventDestroy(e);
  }
  if (q.in)
    (void)cudaStreamDestroy(q.in);
  if (q.out)
    (void)cudaStreamDestroy(q.out);
}

/// Memory and events of a slot. Outputs are copied up to their bounds, so what no inference writes
/// is 0 from the start, on `stream`. What fails halfway is left to close_queue.
inline status open_slot(host_slot &s, const port_layout &ports, bool integrated,
                        cudaStream_t stream) {
  if (s.left)
    return ok;
  if (!s.host) {
    void *host = nullptr;
    TENON_CHECK_CUDA(cudaHostAlloc(&host, ports.bytes() + memory_alignment, cudaHostAllocMapped));
    s.host = static_cast<unsigned char *>(host);
  }
  if (!s.device) {
    void *device = nullptr;
    TENON_CHECK_CUDA(integrated ? cudaHostGetDevicePointer(&device, s.host, 0)
                                : cudaMalloc(&device, ports.bytes() + memory_alignment));
    s.device = static_cast<unsigned char *>(device);
    s.mapped = integrated;
    TENON_CHECK_CUDA(cudaMemsetAsync(s.device + ports.input_bytes, 0, ports.output_bytes, stream));
  }
  for (cudaEvent_t *e : {&s.arrived, &s.computed, &s.left})
    if (!*e)
      TENON_CHECK_CUDA(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
  return ok;
}

inline status open_copy_streams(host_queue &q) {
  for (cudaStream_t *s : {&q.in, &q.out})
    if (!*s)
      TENON_CHECK_CUDA(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking));
  return ok;
}

} // namespace detail
} // namespace cuda
} // namespace tenon

#endif
