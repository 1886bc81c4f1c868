// Defines host_part: how the host issues the steps whose sizes, or whose turn, depend on data.
//
// A program's graph holds the steps up to the first such place. What follows is a function of the
// generated file that issues steps one by one and reads numbers from the device in between; each
// reading waits for the stream.
#ifndef TENON_RUNTIME_CUDA_HOST_HOST_PART_H
#define TENON_RUNTIME_CUDA_HOST_HOST_PART_H

#include "cuda/host/program.h"
#include "cuda/host/ranges.h"

namespace tenon {
namespace cuda {

/// Called before (phase 0) and after (phase 1) every step when a trace is set (TENON_TRACE); the
/// stream is then not captured, and its work is finished. May read and write what it is given.
using trace_function = void (*)(void *user, int step, int phase, unsigned char *arena,
                                unsigned char *states, cudaStream_t stream);
struct trace_hook {
  trace_function function;
  void *user;
};

/// A run as a whole, for programs with states.
constexpr int whole_run = -1;

class host_part {
public:
  /// `dims` are those that `where` refers to, `landing` is eight bytes of pinned memory.
  /// `first_launch`: by step.
  host_part(const program &code, const variant_table &variant, const frame &where, index_t *dims,
            void *landing, const int *first_launch, issue to, cudaStream_t stream, trace_hook trace)
      : code_(code), variant_(variant), where_(where), dims_(dims), landing_(landing),
        first_launch_(first_launch), to_(to), stream_(stream), trace_(trace) {}

  const frame &where() const { return where_; }

  status step(int number) {
    const range named(variant_.steps[number].name);
    TENON_CHECK(trace(number, 0));
    to_.set_ordinal(first_launch_[number]);
    TENON_CHECK(variant_.steps[number].run(where_, to_));
    return trace(number, 1);
  }

  /// The number that stands at `from` on the device, once everything issued is finished.
  template <class T> status read(const T *from, T &value) {
    static_assert(sizeof(T) <= 8, "the pinned memory holds eight bytes");
    TENON_CHECK_CUDA(cudaMemcpyAsync(landing_, from, sizeof(T), cudaMemcpyDeviceToHost, stream_));
    TENON_CHECK_CUDA(cudaStreamSynchronize(stream_));
    memcpy(&value, landing_, sizeof(T));
    to_.go_on(stream_, false);
    return ok;
  }
  template <class T> status write(T *to, T value) {
    TENON_CHECK_CUDA(cudaMemcpyAsync(to, &value, sizeof(T), cudaMemcpyHostToDevice, stream_));
    to_.go_on(stream_, false);
    return ok;
  }
  status copy(void *to, const void *from, size_t bytes) {
    if (bytes == 0)
      return ok;
    TENON_CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
    to_.go_on(stream_, false);
    return ok;
  }

  /// Sets a dimension that a step found, from here on.
  status set_dim(int dim, int64_t value) {
    if (value < 0 || value > code_.dims[dim].high)
      return dimension_out_of_range;
    dims_[dim] = index_t(value);
    return ok;
  }
  status read_dim(int dim, const int64_t *from) {
    int64_t value = 0;
    TENON_CHECK(read(from, value));
    return set_dim(dim, value);
  }

  /// Calls body(trip, going), trip = 0, 1 and so on, while trip is below the number at `count` and
  /// `going` holds: the value at `condition`, then what each trip leaves there. `done` becomes the
  /// number of trips. More than `most` are an error: what they stack has room for no more.
  template <class Body>
  status loop(const int64_t *count, const bool *condition, int64_t most, int64_t &done,
              const Body &body) {
    int64_t trips = 0;
    bool going = false;
    TENON_CHECK(read(count, trips));
    TENON_CHECK(read(condition, going));
    for (done = 0; done < trips && going; ++done) {
      if (done == most)
        return dimension_out_of_range;
      TENON_CHECK(body(done, going));
    }
    return ok;
  }

  /// Calls the trace, where one is set.
  status trace(int number, int phase) {
    if (!trace_.function)
      return ok;
    TENON_CHECK_CUDA(cudaStreamSynchronize(stream_));
    trace_.function(trace_.user, number, phase, where_.memory, where_.states, stream_);
    return ok;
  }

private:
  const program &code_;
  const variant_table &variant_;
  const frame &where_;
  index_t *dims_;
  void *landing_;
  const int *first_launch_;
  issue to_;
  cudaStream_t stream_;
  trace_hook trace_;
};

} // namespace cuda
} // namespace tenon

#endif
