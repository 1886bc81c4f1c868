// Defines what functions of the interface return: 0, one of the codes below, or a CUDA error as its
// negative.
#ifndef TENON_RUNTIME_CUDA_STATUS_H
#define TENON_RUNTIME_CUDA_STATUS_H

#include <cuda_runtime.h>

namespace tenon {
namespace cuda {

using status = int;

enum : status {
  ok = 0,
  invalid_argument = 1,
  out_of_host_memory = 2,
  /// No program in this file was written for the device's compute capability.
  wrong_architecture = 3,
  /// The file was compiled for another architecture than its first comment says.
  wrong_build = 4,
  weights_unreadable = 5,
  /// The weights do not belong to this file.
  weights_mismatch = 6,
  dims_out_of_range = 7,
  not_prepared = 8,
  /// A kernel needs more shared memory than the device has.
  too_little_shared_memory = 9,
  /// The driver is too old for a function that a kernel's launch needs.
  no_driver_function = 10,
  /// A tensor's address or strides are not what its kernel was chosen for.
  unsuitable_tensor = 11,
  /// As many inferences as a context has slots for were submitted, or run() finds any.
  inferences_pending = 12,
  nothing_submitted = 13,
  /// A value carried from run to run has no room for another run.
  state_full = 14,
  /// Where values grow from run to run, a captured inference would append at one place for ever.
  growth_in_capture = 15,
  /// The captured graph lacks a kernel that these dimensions need, or has one too many.
  graph_outgrown = 16,
  /// The host has to read sizes or conditions while the inference runs.
  data_in_capture = 17,
};

inline status from_cuda(cudaError_t e) { return -status(e); }

inline const char *message(status s) {
  switch (s) {
  case ok: return "no error";
  case invalid_argument: return "an argument is null or out of range";
  case out_of_host_memory: return "out of host memory";
  case wrong_architecture:
    return "the device's compute capability is not among those the file was compiled for";
  case wrong_build: return "the file was built for other architectures than its first comment says";
  case weights_unreadable: return "the weights file cannot be read";
  case weights_mismatch: return "the weights file does not belong to this model";
  case dims_out_of_range: return "a dimension is outside the range the file was compiled for";
  case not_prepared: return "the context was not prepared";
  case too_little_shared_memory: return "a kernel needs more shared memory than the device has";
  case no_driver_function: return "the driver lacks a function that this file needs";
  case unsuitable_tensor: return "a tensor lies where its kernel cannot read it";
  case inferences_pending: return "inferences are under way whose outputs must be collected first";
  case nothing_submitted: return "there is no inference to collect";
  case state_full: return "a value carried from run to run has reached its largest extent";
  case growth_in_capture:
    return "an inference whose carried values grow cannot be part of a captured graph";
  case data_in_capture:
    return "an inference whose steps depend on data cannot be part of a captured graph";
  case graph_outgrown: return "the graph does not fit the dimensions";
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
