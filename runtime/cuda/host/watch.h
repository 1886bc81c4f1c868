// Defines how a context's steps are watched: stamps of every launch (TENON_PROFILE), calls around
// every step (TENON_TRACE).
#ifndef TENON_RUNTIME_CUDA_HOST_WATCH_H
#define TENON_RUNTIME_CUDA_HOST_WATCH_H

#include "cuda/host/context.h"

namespace tenon {
namespace cuda {

#if defined(TENON_PROFILE)
/// Forgets the stamps; the next enqueue sets them. The context's work must be finished.
inline status start_profile(context *c) {
  const device_scope scope(c->owner->device);
  for (int i = 0; i < 2 * c->now->launch_count; ++i) {
    const unsigned long long start = i % 2 ? 0 : ~0ull;
    TENON_CHECK_CUDA(cudaMemcpy(c->stamps + i, &start, sizeof(start), cudaMemcpyHostToDevice));
  }
  return ok;
}
/// Start and end of each step's launches in nanoseconds: times[2 * step], times[2 * step + 1].
inline status read_profile(context *c, unsigned long long *times) {
  const device_scope scope(c->owner->device);
  const run_graph &g = *c->now;
  const int steps = g.variant->step_count;
  for (int s = 0; s < steps; ++s) {
    const int end = s + 1 < steps ? g.first_launch[s + 1] : g.launch_count;
    times[2 * s] = ~0ull;
    times[2 * s + 1] = 0;
    for (int i = g.first_launch[s]; i < end; ++i) {
      unsigned long long stamp[2];
      TENON_CHECK_CUDA(cudaMemcpy(stamp, c->stamps + 2 * i, sizeof(stamp), cudaMemcpyDeviceToHost));
      times[2 * s] = stamp[0] < times[2 * s] ? stamp[0] : times[2 * s];
      times[2 * s + 1] = stamp[1] > times[2 * s + 1] ? stamp[1] : times[2 * s + 1];
    }
  }
  return ok;
}
#endif

#if defined(TENON_TRACE)
/// Runs step by step from now on, calling `f` around each; null ends it.
inline status set_trace(context *c, trace_function f, void *user) {
  if (!c)
    return invalid_argument;
  c->trace = {f, user};
  return ok;
}
#endif

} // namespace cuda
} // namespace tenon

#endif
