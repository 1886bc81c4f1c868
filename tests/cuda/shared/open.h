// Defines the opening of a model of tables, with the options that generated headers declare.
#ifndef TENON_TESTS_CUDA_SHARED_OPEN_H
#define TENON_TESTS_CUDA_SHARED_OPEN_H

#include "cuda/host/model.h"

namespace tenon {
namespace cuda {

struct weights_piece {
  size_t offset;
  size_t bytes;
  const void *data;
};

struct open_options {
  size_t size;
  const char *weights_path;
  const void *weights;
  size_t weights_bytes;
  int device;
  int threads;
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  void (*release)(void *user, void *block);
  void *user;
  const weights_piece *shared;
  size_t shared_count;
};

inline status create(model **out, const program &code, const char *weights_path, int device) {
  open_options options = {};
  options.size = sizeof(options);
  options.weights_path = weights_path;
  options.device = device;
  return open(out, code, &options);
}

} // namespace cuda
} // namespace tenon

#endif
