// Defines what the host knows of live launches (cuda/host/live.cuh): how a launch is described,
// what the arguments of a run's live kernels are at a length, and how they follow from it.
#ifndef TENON_RUNTIME_CUDA_HOST_LIVE_H
#define TENON_RUNTIME_CUDA_HOST_LIVE_H

#include "cuda/host/function.cuh"
#include "cuda/status.h"
#include <stdlib.h>
#include <string.h>

namespace tenon {
namespace cuda {
namespace detail {

/// What a launch needs of its kernel, whatever that is.
struct kernel_call {
  const void *function;
  grid blocks;
  int threads, cluster, shared;
  void *kernel;
  status (*complete)(void *kernel); // or null
  /// Of a live launch; null for others.
  const void *live;
  size_t bytes;                  // of the kernel
  void (*clear_padding)(void *); // of its bytes
};

/// Padding has no value: arguments are compared byte by byte. Compilers without the function leave
/// what there was, which is mostly the same each time.
template <class K> void clear_padding(void *kernel) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(static_cast<K *>(kernel));
#endif
#endif
  (void)kernel;
}

/// As live_kernel, whatever kernel that is.
struct live_pointers {
  const void *kernel;
  const int *going;
};

constexpr size_t live_alignment = 64;
constexpr size_t align_live(size_t bytes) {
  return (bytes + live_alignment - 1) / live_alignment * live_alignment;
}
} // namespace detail

/// The arguments of live launches, one after another as they were issued.
class live_arguments {
public:
  live_arguments() = default;
  live_arguments(const live_arguments &) = delete;
  live_arguments &operator=(const live_arguments &) = delete;
  ~live_arguments() { free(bytes_); }

  size_t size() const { return size_; }
  const unsigned char *bytes() const { return bytes_; }
  unsigned long long word(size_t at) const {
    unsigned long long w;
    memcpy(&w, bytes_ + at, sizeof(w));
    return w;
  }
  /// Whether the launches are the same but for words of their arguments.
  bool is_like(const live_arguments &other) const {
    return size_ == other.size_ && shape_ == other.shape_;
  }
  /// What an address says that the host writes into arguments follows from no length.
  status add(const detail::kernel_call &call) {
    if (call.complete)
      return growth_in_capture;
    mix(reinterpret_cast<uintptr_t>(call.function));
    for (const index_t n : {call.blocks.x, call.blocks.y, call.blocks.z, index_t(call.shared)})
      mix(uint64_t(n));
    if (call.blocks.x == 0 || call.blocks.y == 0 || call.blocks.z == 0)
      return ok; // it is not launched
    const size_t room = detail::align_live(call.bytes);
    void *const more = realloc(bytes_, size_ + room);
    if (!more)
      return out_of_memory;
    bytes_ = static_cast<unsigned char *>(more);
    call.clear_padding(call.kernel);
    memset(bytes_ + size_, 0, room);
    memcpy(bytes_ + size_, call.kernel, call.bytes);
    size_ += room;
    return ok;
  }

private:
  void mix(uint64_t value) { shape_ = (shape_ ^ value) * 1099511628211ull; }

  unsigned char *bytes_ = nullptr;
  size_t size_ = 0;
  uint64_t shape_ = 14695981039346656037ull;
};

/// Where the arguments of the live launches of a run stand on the device, and whether it goes on.
struct live_place {
  unsigned char *arguments = nullptr;
  const int *going = nullptr;

  /// The place of the next launch.
  detail::live_pointers next(size_t bytes) {
    const detail::live_pointers at = {arguments, going};
    arguments += detail::align_live(bytes);
    return at;
  }
};

/// `samples` are the arguments at `lengths`, the first two of which are 0 and 1. Writes the words
/// that change to `words`, which has room for all; how many, or -1 where they are no multiples of
/// the length.
inline int words_of_length(const live_arguments *samples, const long long *lengths, int count,
                           live_word *words) {
  int found = 0;
  for (int i = 1; i < count; ++i)
    if (!samples[i].is_like(samples[0]))
      return -1;
  for (size_t at = 0; at < samples[0].size(); at += 8) {
    const unsigned long long base = samples[0].word(at), slope = samples[1].word(at) - base;
    for (int i = 2; i < count; ++i)
      if (samples[i].word(at) != base + slope * static_cast<unsigned long long>(lengths[i]))
        return -1;
    if (slope != 0)
      words[found++] = {base, slope, static_cast<long long>(at)};
  }
  return found;
}

} // namespace cuda
} // namespace tenon

#endif
