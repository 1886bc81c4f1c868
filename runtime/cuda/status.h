// Defines what functions of the interface return: 0, a code of common/status_codes.h, or a CUDA
// error as its negative.
#ifndef TENON_RUNTIME_CUDA_STATUS_H
#define TENON_RUNTIME_CUDA_STATUS_H

#include "common/status_codes.h"

#include <cuda_runtime.h>

namespace tenon {
namespace cuda {

using status = int;

enum : status {
  TENON_STATUS_CODES(TENON_STATUS_ENUMERATOR) TENON_DECODER_STATUS_CODES(TENON_STATUS_ENUMERATOR)
      TENON_DEVICE_STATUS_CODES(TENON_STATUS_ENUMERATOR)
};

inline status from_cuda(cudaError_t e) { return -status(e); }

inline const char *message(status s) {
  switch (s) {
    TENON_STATUS_CODES(TENON_STATUS_CASE)
    TENON_DECODER_STATUS_CODES(TENON_STATUS_CASE)
    TENON_DEVICE_STATUS_CODES(TENON_STATUS_CASE)
  default: return s < 0 ? cudaGetErrorString(cudaError_t(-s)) : "unknown error code";
  }
}

/// Leaves the function with the first status that is not ok.
#define TENON_CHECK(...)                                                                           \
  do {                                                                                             \
    const ::tenon::cuda::status tenon_status = (__VA_ARGS__);                                      \
    if (tenon_status != ::tenon::cuda::ok)                                                         \
      return tenon_status;                                                                         \
  } while (0)
#define TENON_CHECK_CUDA(...) TENON_CHECK(::tenon::cuda::from_cuda(__VA_ARGS__))

} // namespace cuda
} // namespace tenon

#endif
