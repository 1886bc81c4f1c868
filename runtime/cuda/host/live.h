// Defines what the host knows of live launches (cuda/host/live.cuh): how a launch is described, and
// how the arguments of a run's live kernels follow from the length.
//
// The host issues the steps at every length and notes what kernels are given. A word of arguments
// is base + slope * length + a difference; words of the same differences share a column of them. So
// whatever the host computes from a length (quotients, multipliers, which kernel is the fastest,
// how many blocks it has) is exact at each, and the device looks up what it does not compute.
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
} // namespace detail

/// One kernel of a live launch. In the arguments its blocks stand at `at`, itself behind them.
struct live_slot {
  size_t at, bytes;
  grid most; // over all lengths; 0 where it is never launched
  int shared;

  size_t kernel_at() const { return at + detail::live_alignment; }
  bool is_used() const { return most.x > 0; }
};

/// Notes what live launches are given at the lengths 0, 1, ...
class live_record {
public:
  explicit live_record(long long lengths) : lengths_(lengths) {}
  live_record(const live_record &) = delete;
  live_record &operator=(const live_record &) = delete;
  ~live_record() {
    for (int i = 0; i < column_count_; ++i)
      free(columns_[i].differences);
    free(columns_);
    free(words_);
    free(slots_);
  }

  void begin(long long length) {
    length_ = length;
    next_ = 0;
  }
  /// A launch of kernel `which` of `count`. Each has a slot, in the order of the launches.
  status add(const detail::kernel_call *calls, int count, int which) {
    for (int i = 0; i < count; ++i) {
      // What an address says that the host writes into arguments is not meant to change on the
      // device.
      if (calls[i].complete)
        return growth_in_capture;
      if (next_ == slot_count_)
        TENON_CHECK(add_slot(calls[i].bytes));
      const grid &blocks = calls[i].blocks;
      const bool launched = i == which && blocks.x > 0 && blocks.y > 0 && blocks.z > 0;
      TENON_CHECK(note(slots_[next_++], calls[i], launched));
    }
    return ok;
  }

  long long lengths() const { return lengths_; }
  const live_slot *slots() const { return slots_; }
  int slot_count() const { return slot_count_; }
  /// Of all slots.
  size_t bytes() const { return word_count_ * sizeof(unsigned long long); }
  int column_count() const { return column_count_; }
  /// Of so many lengths.
  const unsigned long long *column(int i) const { return columns_[i].differences; }
  unsigned long long word_at_zero(size_t i) const { return words_[i].base; }
  /// The words that depend on the length go to `to`, if that is not null; how many.
  int changes(live_word *to) const {
    int found = 0;
    for (size_t i = 0; i < word_count_; ++i) {
      const word &w = words_[i];
      if (w.slope == 0 && w.column < 0)
        continue;
      if (to)
        to[found] = {w.base, w.slope, unsigned(i * sizeof(w.base)), w.column};
      ++found;
    }
    return found;
  }

private:
  struct word {
    unsigned long long base, slope;
    long long first; // length at which it was seen first
    int seen;        // 2: more than once
    int column;      // -1: no differences
  };
  struct column_of {
    unsigned long long *differences;
    long long born, noted; // first length at which it differs from its origin, last one that is set
    int origin;            // another column, or -1
  };

  template <class T> static status grow(T *&array, size_t count, size_t more) {
    T *const grown = static_cast<T *>(realloc(array, (count + more) * sizeof(T)));
    if (!grown)
      return out_of_memory;
    memset(static_cast<void *>(grown + count), 0, more * sizeof(T));
    array = grown;
    return ok;
  }
  status add_slot(size_t bytes) {
    TENON_CHECK(grow(slots_, size_t(slot_count_), 1));
    const size_t at = this->bytes(), room = detail::live_alignment + detail::align_live(bytes);
    slots_[slot_count_++] = {at, bytes, {0, 0, 0}, 0};
    TENON_CHECK(grow(words_, word_count_, room / sizeof(unsigned long long)));
    for (size_t i = 0; i < room / sizeof(unsigned long long); ++i)
      words_[word_count_ + i].column = -1;
    word_count_ += room / sizeof(unsigned long long);
    return ok;
  }
  status note(live_slot &slot, const detail::kernel_call &call, bool launched) {
    const live_blocks blocks = {launched ? int(call.blocks.x) : 0,
                                launched ? int(call.blocks.y) : 0,
                                launched ? int(call.blocks.z) : 0, 0};
    TENON_CHECK(note_words(slot.at, &blocks, sizeof(blocks)));
    if (!launched)
      return ok; // what its arguments are does not matter
    slot.most = {larger(slot.most.x, call.blocks.x), larger(slot.most.y, call.blocks.y),
                 larger(slot.most.z, call.blocks.z)};
    slot.shared = call.shared > slot.shared ? call.shared : slot.shared;
    call.clear_padding(call.kernel);
    return note_words(slot.kernel_at(), call.kernel, call.bytes);
  }
  static index_t larger(index_t a, index_t b) { return a > b ? a : b; }
  status note_words(size_t at, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += sizeof(unsigned long long)) {
      unsigned long long value = 0;
      memcpy(&value, static_cast<const unsigned char *>(from) + i,
             bytes - i < sizeof(value) ? bytes - i : sizeof(value));
      TENON_CHECK(see(words_[(at + i) / sizeof(value)], value));
    }
    return ok;
  }
  status see(word &w, unsigned long long value) {
    const auto length = static_cast<unsigned long long>(length_);
    if (w.seen < 2) {
      if (w.seen++ == 0) {
        w.base = value;
        w.first = length_;
        return ok;
      }
      if (length_ == w.first + 1) {
        w.slope = value - w.base;
        w.base -= w.slope * static_cast<unsigned long long>(w.first);
        return ok;
      }
    }
    const unsigned long long difference = value - (w.base + w.slope * length);
    if (w.column < 0)
      return difference == 0 ? ok : part(w, difference);
    column_of &column = columns_[w.column];
    if (column.noted != length_) {
      column.noted = length_;
      column.differences[length_] = difference;
    }
    return column.differences[length_] == difference ? ok : part(w, difference);
  }
  /// Gives the word a column with another difference from this length on.
  status part(word &w, unsigned long long difference) {
    for (int i = 0; i < column_count_; ++i)
      if (columns_[i].born == length_ && columns_[i].origin == w.column &&
          columns_[i].differences[length_] == difference) {
        w.column = i;
        return ok;
      }
    TENON_CHECK(grow(columns_, size_t(column_count_), 1));
    const size_t size = sizeof(difference);
    auto *const all = static_cast<unsigned long long *>(calloc(size_t(lengths_), size));
    if (!all)
      return out_of_memory;
    if (w.column >= 0)
      memcpy(all, columns_[w.column].differences, size_t(length_) * size);
    all[length_] = difference;
    columns_[column_count_] = {all, length_, length_, w.column};
    w.column = column_count_++;
    return ok;
  }

  long long lengths_, length_ = 0;
  int next_ = 0;
  live_slot *slots_ = nullptr;
  int slot_count_ = 0;
  word *words_ = nullptr;
  size_t word_count_ = 0;
  column_of *columns_ = nullptr;
  int column_count_ = 0;
};

/// Where the arguments of the live launches of a run stand on the device, and whether it goes on.
struct live_place {
  unsigned char *arguments = nullptr;
  const int *going = nullptr;
  const live_slot *next = nullptr;

  /// Where the kernel of the slot `at` stands.
  detail::live_pointers pointers(const live_slot &at) const {
    return {arguments + at.kernel_at(), going};
  }
};

} // namespace cuda
} // namespace tenon

#endif
