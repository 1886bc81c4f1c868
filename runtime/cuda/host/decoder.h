// Defines what runs a decoder (common/decoder.h) on a GPU, tokens and logits in host memory.
#ifndef TENON_RUNTIME_CUDA_HOST_DECODER_H
#define TENON_RUNTIME_CUDA_HOST_DECODER_H

#include "common/decoder.h"
#include "cuda/host/host_run.h"

namespace tenon {
namespace cuda {

struct decoder_machine {
  context *c;

  bool valid() const { return c; }
  index_t get(int dim) const {
    detail::advance_dims(*c);
    return c->dims[dim];
  }
  int set(int dim, index_t value) const { return set_dim(c, dim, value); }
  int reset() const { return cuda::reset(c); }
  int run(const void *const *inputs, void *const *outputs) const {
    return cuda::run(c, inputs, outputs);
  }
  unsigned char *memory() const { return c->decoder; }
};

} // namespace cuda
} // namespace tenon

#endif
