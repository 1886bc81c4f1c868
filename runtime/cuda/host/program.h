// Defines the tables that a generated CUDA file consists of beside its kernels: a program is one
// variant per architecture, a variant a sequence of steps. An entry is another sequence that
// computes the same where a run-time dimension is within its bounds.
#ifndef TENON_RUNTIME_CUDA_HOST_PROGRAM_H
#define TENON_RUNTIME_CUDA_HOST_PROGRAM_H

#include "cuda/host/launch.h"

namespace tenon {
namespace cuda {
namespace detail {
/// Of what lies in device memory.
constexpr size_t memory_alignment = 256;
/// Of the caller's tensors of fixed size, which are copied where they lie otherwise.
constexpr size_t port_alignment = 16;
} // namespace detail

/// Weights from one offset to that of the next range.
struct weight_range {
  size_t begin;
  const unsigned char *data; // of the offset `begin`
  size_t place, own_bytes;   // in the model's own memory; 0 bytes: the caller shares it
};

/// What a step's operands are found in. Offsets are known when the file is written.
struct frame {
  unsigned char *memory;  // the context's: arena, then zeroed scratch, then states
  unsigned char *cleared; // the zeroed scratch
  unsigned char *states;
  const weight_range *weights; // the model's, in order of their offsets; the first one's is 0
  int weight_ranges;
  const void *const *inputs;
  void *const *outputs;
  const index_t *dims; // values of the run-time dimensions

  template <class T> element_pointer<T> at(size_t offset) const {
    return element_at<T>(memory + offset);
  }
  template <class T> T *zeroed(size_t offset) const {
    return reinterpret_cast<T *>(cleared + offset);
  }
  template <class T> element_pointer<T> state(size_t offset) const {
    return element_at<T>(states + offset);
  }
  template <class T> element_pointer<const T> weight(size_t offset) const {
    int low = 0; // the last range that begins at `offset` or before
    for (int high = weight_ranges; high - low > 1;) {
      const int middle = low + (high - low) / 2;
      (weights[middle].begin <= offset ? low : high) = middle;
    }
    return element_at<const T>(weights[low].data + (offset - weights[low].begin));
  }
  template <class T> element_pointer<const T> input(int i) const {
    return element_at<const T>(static_cast<const unsigned char *>(inputs[i]));
  }
  template <class T> element_pointer<T> output(int i) const {
    return element_at<T>(static_cast<unsigned char *>(outputs[i]));
  }
};

/// One group: issues its launches (usually one).
struct step {
  const char *name;
  status (*run)(const frame &, issue &);
  /// It reads an input or writes an output, whose addresses change between runs.
  bool touches_io;
  /// Steps of one branch run one after another.
  int branch = 0;
};

/// The place of control flow among the steps.
inline status no_launch(const frame &, issue &) { return ok; }

/// Branches at most: each has a stream.
constexpr int max_branches = 4;

/// Step `to` starts when step `from`, of another branch, has finished. -1 as `from` is the start of
/// the run; the number of steps as `to` its end, on branch 0.
struct step_edge {
  int from, to;
};

class host_part;   // cuda/host/host_part.h
struct draw_call;  // cuda/sampling/kernel.cuh
struct begin_call; // cuda/host/live.cuh
struct entry_table;

/// The steps written for one architecture.
struct variant_table {
  int arch;      // 10 x compute capability
  bool specific; // sm_90a and the like: that capability only
  bool ptx;      // the file holds PTX that newer devices can compile
  status (*check_build)();
  const step *steps;
  int step_count;
  size_t arena_bytes;
  size_t zeroed_bytes; // cleared at creation; kernels leave it zero
  size_t state_bytes;  // cleared at creation and by reset
  int branches = 1;
  const step_edge *edges = nullptr; // by `to`
  int edge_count = 0;
  /// Issues the steps from `captured` on, whose sizes or turn depend on data; null where the graph
  /// holds all.
  status (*finish)(host_part &) = nullptr;
  int captured = 0;
  /// Of a decoder: draws a token.
  status (*draw)(const draw_call &, issue &) = nullptr;
  /// What runs in its place, of the same memory: the first that takes the dimensions.
  const entry_table *entries = nullptr;
  int entry_count = 0;
  /// Of a decoder's few tokens, whose kernels read the length from memory where a caller captures
  /// them (cuda/host/live.cuh): begins such a run. Null where it cannot be captured.
  status (*begin)(const begin_call &, issue &) = nullptr;

  int graph_steps() const { return finish ? captured : step_count; }
};

struct entry_table {
  int dim; // whose values it takes from `low` to `high`
  index_t low, high;
  variant_table steps; // its sizes are those that it needs of the memory

  constexpr bool takes(const index_t *dims) const { return low <= dims[dim] && dims[dim] <= high; }
};

/// Largest size of an input or output, for host staging.
struct tensor_size {
  size_t bytes;
  /// It always has that size, and steps take it to lie at a multiple of port_alignment.
  bool fixed = false;
};

/// Who sets a run-time dimension: the caller, a step (it depends on data), or each run for the next
/// one (it is the length of a carried value, which the caller may shorten).
enum dim_kind { settable, born, grows };
struct dim_range {
  index_t low, high;
  dim_kind kind = settable;
};
/// What two of them are together, at most.
struct dim_sum {
  int first, second;
  index_t high;
};

struct program {
  const variant_table *variants;
  int variant_count;
  const unsigned char *weights; // null when they come from a file
  size_t weight_bytes;
  uint64_t weight_hash; // as in the weights file's header
  const tensor_size *inputs;
  int input_count;
  const tensor_size *outputs;
  int output_count;
  const dim_range *dims;
  int dim_count;
  /// Sets the dimensions that grow for the next run; null where none do.
  void (*advance)(index_t *dims) = nullptr;
  /// Of what the functions of a decoder remember in a context (common/decoder.h).
  size_t decoder_bytes = 0;
  /// Of a decoder: the dimensions that are the length of its caches and the tokens of a run (-1:
  /// there is one), and the most tokens that caches hold.
  int length = -1, count = -1;
  index_t capacity = 0;
  const dim_sum *sums = nullptr;
  int sum_count = 0;
};

/// The variant for a device: of those it can run the newest, specific ones first.
inline const variant_table *select_variant(const program &p, int major, int minor) {
  const int capability = major * 100 + minor * 10;
  const variant_table *best = nullptr;
  for (int i = 0; i < p.variant_count; ++i) {
    const variant_table &v = p.variants[i];
    const bool same_major = v.arch / 100 == major;
    const bool runs =
        v.specific ? v.arch == capability : v.arch <= capability && (same_major || v.ptx);
    if (runs && (!best || v.arch > best->arch || (v.arch == best->arch && v.specific)))
      best = &v;
  }
  return best;
}

} // namespace cuda
} // namespace tenon

#endif
