// Defines what a generated C++ file consists of beside its kernels: the program table, the model
// and context behind the C interface, and the frame that steps are run on.
//
// Memory of a context is one block: the context itself, the arena, the states, then room for the
// text that a run spells. The caller may own it (place_context); create_context takes it from where
// the model says, the heap if nothing else. Nothing allocates during a run.
#ifndef TENON_RUNTIME_CPU_PROGRAM_H
#define TENON_RUNTIME_CPU_PROGRAM_H

#include "common/base.h"
#include "common/decoder_state.h"
#include "common/open_options.h"
#include "common/status_codes.h"
#include "common/text_store.h"
#include "cpu/heap.h"
#include "cpu/pool.h"

#if !defined(TENON_NO_HEAP)
#include <stdio.h>
#endif
#include <string.h>

/// Of steps in firmware: each has a frame on the stack of its own while it runs, not all together.
#if defined(__GNUC__)
#define TENON_APART __attribute__((noinline))
#else
#define TENON_APART
#endif

/// Puts what follows into a section of its own, which --gc-sections drops where nothing refers to
/// it.
#if defined(__ELF__)
#define TENON_SECTION(name) __attribute__((section(name)))
#else
#define TENON_SECTION(name)
#endif

namespace tenon {
namespace cpu {

/// Codes of the C interface; 0 is success.
enum status {
  TENON_STATUS_CODES(TENON_STATUS_ENUMERATOR)
#if !defined(TENON_NO_HEAP)
      TENON_TEXT_STATUS_CODES(TENON_STATUS_ENUMERATOR)
          TENON_DECODER_STATUS_CODES(TENON_STATUS_ENUMERATOR)
#endif
};

inline const char *status_message(int code) {
  switch (code) {
    TENON_STATUS_CODES(TENON_STATUS_CASE)
#if !defined(TENON_NO_HEAP)
    TENON_TEXT_STATUS_CODES(TENON_STATUS_CASE)
    TENON_DECODER_STATUS_CODES(TENON_STATUS_CASE)
#endif
  default: return "unknown error code";
  }
}

#if defined(TENON_TRACE)
/// Called before (phase 0) and after (phase 1) each step, and each run of a program with states as
/// step `whole_run`; may read and write what it is given.
using trace_hook = void (*)(void *user, int step, int phase, unsigned char *arena,
                            unsigned char *states);
constexpr int whole_run = -1;
#endif

#if defined(TENON_POOL_BOUNDS) && !defined(TENON_HARNESS_MCU)
#define TENON_POOLS 1
/// The arena lies in several memories: pool i holds the bytes from bound i - 1 to bound i.
constexpr size_t pool_bounds[] = TENON_POOL_BOUNDS;
constexpr int pool_count = int(sizeof(pool_bounds) / sizeof(size_t));
#else
#define TENON_POOLS 0
#endif

#if !defined(TENON_NO_HEAP) && !defined(TENON_DIM_SUMS)
#define TENON_DIM_SUMS // firmware has bounds of sums where its file defines it
#endif

/// What a step finds its operands in. Offsets are known when the file is written.
struct frame {
  unsigned char *arena;
  const unsigned char *weights;
  const void *const *inputs;
  void *const *outputs;
  unsigned char *states;
  index_t *dims; // values of the run-time dimensions; data-dependent ones are set by their steps
  pool *workers;
#if !defined(TENON_NO_HEAP)
  text_store *texts;
  int *failure; // the status of the run where a step finds that it cannot go on; it need not stop
#endif
#if defined(TENON_TRACE)
  trace_hook trace;
  void *trace_user;
#endif

#if TENON_POOLS
  unsigned char *const *pools;
  template <int I = 0> TENON_FN unsigned char *in_pool(size_t offset) const {
    if constexpr (I + 1 < pool_count)
      if (offset >= pool_bounds[I])
        return in_pool<I + 1>(offset);
    return pools[I] + (I == 0 ? offset : offset - pool_bounds[I == 0 ? 0 : I - 1]);
  }
  template <class T> TENON_FN element_pointer<T> at(size_t offset) const {
    return element_at<T>(in_pool(offset));
  }
#else
  template <class T> element_pointer<T> at(size_t offset) const {
    return element_at<T>(arena + offset);
  }
#endif
  template <class T> element_pointer<const T> weight(size_t offset) const {
    return element_at<const T>(weights + offset);
  }
  template <class T> element_pointer<const T> input(int i) const {
    return element_at<const T>(static_cast<const unsigned char *>(inputs[i]));
  }
  template <class T> element_pointer<T> output(int i) const {
    return element_at<T>(static_cast<unsigned char *>(outputs[i]));
  }
  template <class T> element_pointer<T> state(size_t offset) const {
    return element_at<T>(states + offset);
  }

  /// Calls the trace before and after a run.
  void run_traced(int phase) const {
#if defined(TENON_TRACE)
    if (trace)
      trace(trace_user, whole_run, phase, arena, states);
#else
    (void)phase;
#endif
  }
  /// Runs one step.
  void step(int number, void (*run)(const frame &)) const {
#if defined(TENON_TRACE)
    if (trace)
      trace(trace_user, number, 0, arena, states);
    run(*this);
    if (trace)
      trace(trace_user, number, 1, arena, states);
#else
    (void)number;
    run(*this);
#endif
  }
};

/// Who sets a run-time dimension: the caller, a step (it is a result of the model), or each run for
/// the next one (it is the length of a carried value, which the caller may shorten).
enum dim_kind { settable, born, grows };
struct dim_range {
  index_t low, high;
  dim_kind kind;
};
/// What two of them are together, at most.
struct dim_sum {
  int first, second;
  index_t high;
};

#if !defined(TENON_NO_HEAP)
/// Which of the inputs or outputs have elements whatever the run-time dimensions are, so that they
/// cannot be null.
struct needed_ports {
  const bool *needed;
  int count;
  /// Without ports the array may be null, too.
  bool are_given(const void *const *pointers) const {
    if (count > 0 && !pointers)
      return false;
    for (int i = 0; i < count; ++i)
      if (needed[i] && !pointers[i])
        return false;
    return true;
  }
};
#endif

struct program {
  int (*run)(const frame &); // a status
  size_t arena_bytes, state_bytes, weight_bytes;
  uint64_t weight_hash;         // hash_bytes of the weights file
  const unsigned char *weights; // null: read from a file
  const dim_range *dims;
  int dim_count;
  void (*advance)(index_t *dims); // sets the dimensions that grow for the next run; null: none do
#if !defined(TENON_NO_HEAP)
  needed_ports inputs, outputs;
  size_t text_bytes;        // of the text that one run spells, at most
  int threads;              // of a context, where the caller does not say
  size_t decoder_bytes = 0; // of what the functions of a decoder remember
#endif
#if defined(TENON_DIM_SUMS)
  const dim_sum *sums = nullptr;
  int sum_count = 0;
#endif
};

struct model {
  const unsigned char *weights;
#if !defined(TENON_NO_HEAP)
  void *owned;          // block behind `weights`, if any
  memory_source memory; // of this and of its contexts
  int threads;          // of its contexts
#endif
};

struct context {
  const model *of;
  void *owned; // heap block this stands in, if any
  unsigned char *arena, *states;
#if TENON_POOLS
  unsigned char *pools[pool_count];
#endif
#if defined(TENON_NO_HEAP)
  index_t dims[16]; // of the next run, or of the last one while `ran`
#else
  index_t *dims; // the same: `few`, or room behind the context
  index_t few[16];
#endif
  bool ran;      // dimensions that grow have still to advance
  pool *workers; // null: the calling thread alone
#if defined(TENON_TRACE)
  trace_hook trace;
  void *trace_user;
#endif
};

/// The pool of contexts without workers; it holds no state, so all may share it.
inline pool &serial_pool() {
  static pool serial(1);
  return serial;
}

constexpr size_t memory_alignment = 64;
constexpr size_t align_memory(size_t n) {
  return (n + memory_alignment - 1) / memory_alignment * memory_alignment;
}

/// Room for the context itself: the same on every machine, so that the header can state the sum.
constexpr size_t context_room = 256;
static_assert(sizeof(context) <= context_room, "the context outgrew its room");

#if !defined(TENON_NO_HEAP)
/// Room for values of dimensions behind the context, where it holds too few.
constexpr size_t dims_room(int count) { return count > 16 ? align_memory(size_t(count) * 8) : 0; }
#endif

/// Bytes that place_context needs, alignment included; *_CONTEXT_BYTES in the generated header.
inline size_t context_bytes(const program &p) {
  const size_t arena = TENON_POOLS ? 0 : align_memory(p.arena_bytes);
  const size_t bytes = memory_alignment + context_room + arena + align_memory(p.state_bytes);
#if defined(TENON_NO_HEAP)
  return bytes;
#else
  return bytes + dims_room(p.dim_count) + align_memory(p.text_bytes) +
         align_memory(p.decoder_bytes);
#endif
}

#if !defined(TENON_NO_HEAP)
/// What the functions of a decoder remember lies behind the text.
inline unsigned char *decoder_memory(const program &p, const context *c) {
  return c->states + align_memory(p.state_bytes) + align_memory(p.text_bytes);
}
#endif

inline int reset_context(const program &p, context *c) {
  if (!c)
    return invalid_argument;
  if (p.state_bytes)
    memset(c->states, 0, p.state_bytes);
#if !defined(TENON_NO_HEAP)
  if (p.decoder_bytes) // there are no logits
    decoder_state::forget(decoder_memory(p, c));
#endif
  for (int i = 0; i < p.dim_count; ++i)
    if (p.dims[i].kind == grows)
      c->dims[i] = p.dims[i].low;
  c->ran = false;
  return ok;
}

/// Builds a context in memory of the caller.
inline int place_context(const program &p, const model *m, void *memory, size_t bytes,
                         context **out) {
  if (!m || !memory || !out)
    return invalid_argument;
  if (bytes < context_bytes(p))
    return out_of_memory;
  unsigned char *base = static_cast<unsigned char *>(memory);
  base +=
      (memory_alignment - reinterpret_cast<uintptr_t>(base) % memory_alignment) % memory_alignment;
  context *c = reinterpret_cast<context *>(base);
  c->of = m;
  c->owned = nullptr;
#if defined(TENON_NO_HEAP)
  c->arena = base + context_room;
#else
  c->dims = dims_room(p.dim_count) ? reinterpret_cast<index_t *>(base + context_room) : c->few;
  c->arena = base + context_room + dims_room(p.dim_count);
#endif
  c->states = c->arena + (TENON_POOLS ? 0 : align_memory(p.arena_bytes));
#if TENON_POOLS
  for (int i = 0; i < pool_count; ++i)
    c->pools[i] = nullptr;
#endif
  for (int i = 0; i < p.dim_count; ++i)
    c->dims[i] = p.dims[i].high;
  c->workers = nullptr;
#if defined(TENON_TRACE)
  c->trace = nullptr;
  c->trace_user = nullptr;
#endif
  *out = c;
  return reset_context(p, c);
}

#if TENON_POOLS
/// Gives a context one of its memories; `needed` bytes, aligned to 16.
inline int set_pool(context *c, int pool, void *memory, size_t bytes, size_t needed) {
  if (!c || pool < 0 || pool >= pool_count || !memory ||
      reinterpret_cast<uintptr_t>(memory) % 16 != 0)
    return invalid_argument;
  if (bytes < needed)
    return out_of_memory;
  c->pools[pool] = static_cast<unsigned char *>(memory);
  return ok;
}
#endif

/// Brings the dimensions up to the next run.
inline void advance_dims(const program &p, context *c) {
  if (c->ran && p.advance)
    p.advance(c->dims);
  c->ran = false;
}

inline int set_dim(const program &p, context *c, int dim, long value) {
  if (!c || dim < 0 || dim >= p.dim_count || p.dims[dim].kind == born)
    return invalid_argument;
  advance_dims(p, c);
  if (value < p.dims[dim].low || value > p.dims[dim].high)
    return dimension_out_of_range;
  c->dims[dim] = index_t(value);
  return ok;
}

/// Whether the dimensions of a run are within their bounds: state_full where a length of what is
/// carried leaves no room for it.
inline int check_dims(const program &p, const index_t *dims) {
  for (int i = 0; i < p.dim_count; ++i)
    if (p.dims[i].kind == grows && dims[i] > p.dims[i].high)
      return state_full;
#if defined(TENON_DIM_SUMS)
  for (int i = 0; i < p.sum_count; ++i) {
    const dim_sum s = p.sums[i];
    if (dims[s.first] + dims[s.second] > s.high)
      return p.dims[s.first].kind == grows || p.dims[s.second].kind == grows
                 ? state_full
                 : dimension_out_of_range;
  }
#endif
  return ok;
}

inline int run_context(const program &p, context *c, const void *const *inputs,
                       void *const *outputs) {
#if defined(TENON_NO_HEAP)
  if (!c || !inputs || !outputs)
    return invalid_argument;
#else
  if (!c || !p.inputs.are_given(inputs) || !p.outputs.are_given(outputs))
    return invalid_argument;
#endif
  advance_dims(p, c);
  if (const int code = check_dims(p, c->dims); code != ok)
    return code;
  c->ran = true;
  frame f;
  f.arena = c->arena;
#if TENON_POOLS
  for (int i = 0; i < pool_count; ++i)
    if (!c->pools[i])
      return invalid_argument;
  f.pools = c->pools;
#endif
  f.weights = c->of->weights;
  f.inputs = inputs;
  f.outputs = outputs;
  f.states = c->states;
  f.dims = c->dims;
  f.workers = c->workers ? c->workers : &serial_pool();
#if defined(TENON_TRACE)
  f.trace = c->trace;
  f.trace_user = c->trace_user;
#endif
  if (p.state_bytes)
    f.run_traced(0);
#if defined(TENON_NO_HEAP)
  const int done = p.run(f);
#else
  char *const spelled = reinterpret_cast<char *>(c->states + align_memory(p.state_bytes));
  text_store texts = {spelled, spelled + p.text_bytes, false};
  int failure = ok;
  f.texts = &texts;
  f.failure = &failure;
  const int code = p.run(f);
  const int done = code != ok      ? code
                   : failure != ok ? failure
                   : texts.full    ? int(text_full)
                                   : int(ok);
#endif
  if (p.state_bytes)
    f.run_traced(1);
  return done;
}

#if !defined(TENON_NO_HEAP)

/// FNV-1a over words of eight bytes, the last filled up with zeros, each step folded once.
inline uint64_t hash_bytes(const unsigned char *bytes, size_t count) {
  uint64_t h = 14695981039346656037ull;
  for (size_t i = 0;; i += 8) {
    const size_t left = count - i;
    uint64_t word = 0;
    memcpy(&word, bytes + i, left < 8 ? left : 8);
    h = (h ^ word) * 1099511628211ull;
    h ^= h >> 32;
    if (left < 8)
      return h;
  }
}

/// A block of the model's for the weights of `p`; null where there is none.
inline unsigned char *weight_block(const program &p, model *m) {
  m->owned =
      m->memory.allocate(m->memory.user, p.weight_bytes + memory_alignment, memory_alignment);
  unsigned char *block = static_cast<unsigned char *>(m->owned);
  if (block)
    block += (memory_alignment - reinterpret_cast<uintptr_t>(block) % memory_alignment) %
             memory_alignment;
  return block;
}

/// Reads the weights of `p` from the file `path`.
inline int read_weights(const program &p, const char *path, model *m) {
  FILE *file = path ? fopen(path, "rb") : nullptr;
  if (!file)
    return weights_unreadable;
  unsigned char *base = weight_block(p, m);
  int code = base ? ok : out_of_memory;
  if (base) {
    if (fread(base, 1, p.weight_bytes, file) != p.weight_bytes)
      code = weights_unreadable;
    else if (fgetc(file) != EOF || hash_bytes(base, p.weight_bytes) != p.weight_hash)
      code = weights_mismatch;
    m->weights = base;
  }
  fclose(file);
  return code;
}

/// Takes the weights of `p` from memory that outlives the model: where it is aligned, as it lies.
inline int take_weights(const program &p, const void *weights, size_t bytes, model *m) {
  const unsigned char *given = static_cast<const unsigned char *>(weights);
  if (bytes != p.weight_bytes || hash_bytes(given, bytes) != p.weight_hash)
    return weights_mismatch;
  m->weights = given;
  if (reinterpret_cast<uintptr_t>(given) % memory_alignment == 0)
    return ok;
  unsigned char *base = weight_block(p, m);
  if (!base)
    return out_of_memory;
  memcpy(base, given, bytes);
  m->weights = base;
  return ok;
}

inline void close_model(model *m) {
  if (!m)
    return;
  const memory_source memory = m->memory;
  if (m->owned)
    memory.release(memory.user, m->owned);
  memory.release(memory.user, m);
}

/// `Options` are those of the generated header.
template <class Options> int open_model(const program &p, const Options *given, model **out) {
  Options o = {};
  if (!out)
    return invalid_argument;
  *out = nullptr;
  if (!read_options(given, o) || !o.allocate != !o.release || o.device != 0 || o.threads < 0 ||
      o.shared_count != 0)
    return invalid_argument;
  const memory_source memory = o.allocate ? memory_source{o.allocate, o.release, o.user}
                                          : memory_source{heap_allocate, heap_release, nullptr};
  model *m = static_cast<model *>(memory.allocate(memory.user, sizeof(model), alignof(model)));
  if (!m)
    return out_of_memory;
  m->weights = p.weights;
  m->owned = nullptr;
  m->memory = memory;
  m->threads = o.threads ? o.threads : p.threads;
  int code = ok;
  if (!p.weights && p.weight_bytes)
    code = o.weights ? take_weights(p, o.weights, o.weights_bytes, m)
                     : read_weights(p, o.weights_path, m);
  if (code != ok) {
    close_model(m);
    return code;
  }
  *out = m;
  return ok;
}

/// So many threads in later runs, the calling one included.
inline int set_threads(context *c, int threads) {
  if (!c || threads < 1)
    return invalid_argument;
#if defined(TENON_THREADS)
  if (threads > pool::max_threads)
    return unsupported;
  delete c->workers;
  c->workers = threads > 1 ? new pool(threads) : nullptr;
  return ok;
#else
  return threads == 1 ? ok : unsupported;
#endif
}

/// What runs a decoder (common/decoder.h).
struct decoder_machine {
  const program &p;
  context *c;

  bool valid() const { return c; }
  index_t get(int dim) const {
    advance_dims(p, c);
    return c->dims[dim];
  }
  int set(int dim, index_t value) const { return set_dim(p, c, dim, long(value)); }
  int reset() const { return reset_context(p, c); }
  /// All logits are there, whichever are wanted.
  template <class Range> int run(const void *const *inputs, void *logits, const Range &) const {
    return run_context(p, c, inputs, &logits);
  }
  unsigned char *memory() const { return decoder_memory(p, c); }
  static constexpr bool draws = false;
};

inline int thread_count(const context *c) { return c && c->workers ? c->workers->size() : 1; }

/// A context in memory of the model's, with as many threads as that says and the build allows.
inline int create_context(const program &p, const model *m, context **out) {
  if (!m || !out)
    return invalid_argument;
  *out = nullptr;
  void *block = m->memory.allocate(m->memory.user, context_bytes(p), memory_alignment);
  if (!block)
    return out_of_memory;
  const int code = place_context(p, m, block, context_bytes(p), out);
  if (code != ok) {
    m->memory.release(m->memory.user, block);
    return code;
  }
  (*out)->owned = block;
#if defined(TENON_THREADS)
  set_threads(*out, m->threads < pool::max_threads ? m->threads : int(pool::max_threads));
#endif
  return ok;
}

inline void destroy_context(context *c) {
  if (!c)
    return;
#if defined(TENON_THREADS)
  delete c->workers;
  c->workers = nullptr;
#endif
  if (c->owned)
    c->of->memory.release(c->of->memory.user, c->owned);
}

#else

/// Without a heap there is one model, which stands in the image.
template <class Options> int open_only_model(const Options *given, const model *only, model **out) {
  Options o = {};
  if (!out)
    return invalid_argument;
  *out = nullptr;
  if (!read_options(given, o) || o.device != 0 || o.threads < 0 || o.shared_count != 0)
    return invalid_argument;
  if (o.allocate || o.release)
    return unsupported;
  *out = const_cast<model *>(only); // nothing is ever written there
  return ok;
}

/// Memory of one context at a time, reserved when linking.
template <size_t Bytes> struct only_context {
  alignas(memory_alignment) unsigned char memory[Bytes];
  bool taken;

  /// `place` is the program's function for contexts in memory of the caller.
  template <class Model, class Context>
  int create(int (*place)(const Model *, void *, size_t, Context **), const Model *m,
             Context **out) {
    if (!out)
      return invalid_argument;
    *out = nullptr;
    if (taken)
      return out_of_memory;
    const int code = place(m, memory, Bytes, out);
    taken = code == ok;
    return code;
  }
  template <class Context> void destroy(const Context *c) {
    const auto at = reinterpret_cast<uintptr_t>(c), begin = reinterpret_cast<uintptr_t>(memory);
    if (at >= begin && at < begin + Bytes)
      taken = false;
  }
};

#endif // TENON_NO_HEAP

} // namespace cpu
} // namespace tenon

#endif
