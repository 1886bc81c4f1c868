// Defines runs of a decoder that a caller captures: where their arguments stand, and how the length
// that the device counts and the context's dimensions keep up with each other.
//
// From the first capture on the length in device memory is the one that counts. Whoever asks for it
// or runs by the host reads it first, and such runs write it behind themselves.
#ifndef TENON_RUNTIME_CUDA_HOST_LIVE_RUN_H
#define TENON_RUNTIME_CUDA_HOST_LIVE_RUN_H

#include "cuda/host/context_graph.h"

namespace tenon {
namespace cuda {
namespace detail {

/// Allows what a capture of this thread's forbids for a scope: nothing of it is on that stream.
class relaxed_scope {
public:
  relaxed_scope() { status_ = from_cuda(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~relaxed_scope() {
    if (status_ == ok)
      (void)cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  relaxed_scope(const relaxed_scope &) = delete;
  relaxed_scope &operator=(const relaxed_scope &) = delete;
  status entered() const { return status_; }

private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  status status_;
};

/// Sets the length on the device, in the order of `stream`.
inline status write_length(context &c, cudaStream_t stream) {
  const program &code = *c.owner->code;
  const variant_table &v = *c.owner->variant;
  begin_call call{};
  call.state = c.live;
  call.value = c.dims[code.length];
  issue to = issue::launch_on(stream, nullptr, c.stamps);
  to.set_ordinal(c.graphs->launch_count);
  for (int i = 0; i < v.entry_count; ++i)
    if (v.entries[i].steps.begin)
      return v.entries[i].steps.begin(call, to);
  return v.begin(call, to);
}

/// The same where nothing of the context is under way.
inline status renew_length(context &c) {
  if (!c.live)
    return ok;
  TENON_CHECK(write_length(c, c.stream));
  return from_cuda(cudaStreamSynchronize(c.stream));
}

/// Takes over the length that the caller's replays have left. Where one found no room, state_full
/// is said once, if `report`.
inline status read_length(context &c, cudaStream_t stream, bool report) {
  if (!c.live || c.alone)
    return ok;
  live_length now{};
  TENON_CHECK_CUDA(cudaMemcpyAsync(&now, c.live, sizeof(now), cudaMemcpyDeviceToHost, stream));
  TENON_CHECK_CUDA(cudaStreamSynchronize(stream));
  c.dims[c.owner->code->length] = index_t(now.length);
  if (!now.refused || !report)
    return ok;
  TENON_CHECK(write_length(c, stream));
  return state_full;
}

/// Notes what the graph's live kernels are given at all lengths. `with_io`: whether that has
/// addresses of inputs or outputs.
inline status note_arguments(context &c, const run_graph &g, const frame &where,
                             live_record &record, bool &with_io) {
  const variant_table &v = *g.variant;
  bool *const live = static_cast<bool *>(calloc(size_t(v.step_count) + 1, sizeof(bool)));
  if (!live)
    return out_of_memory;
  index_t &length = c.dims[c.owner->code->length];
  const index_t before = length;
  issue to = issue::note(&record);
  status s = ok;
  with_io = false;
  for (length = 0; s == ok && length < record.lengths(); ++length) {
    record.begin(length);
    for (int i = 0; s == ok && i < v.graph_steps(); ++i) {
      if (length > 0 && !live[i])
        continue;
      const int slots = record.slot_count();
      s = v.steps[i].run(where, to);
      live[i] = live[i] || record.slot_count() > slots;
      with_io = with_io || (live[i] && v.steps[i].touches_io);
    }
  }
  length = before;
  free(live);
  return s;
}

/// On a stream of the context's own: others may be in a capture.
inline status upload_live(live_set &set, const live_record &record, cudaStream_t stream) {
  const size_t columns = size_t(record.lengths()) * sizeof(unsigned long long);
  const size_t head = live_alignment + set.bytes + size_t(set.words) * sizeof(live_word);
  unsigned char *const staged = static_cast<unsigned char *>(calloc(head, 1));
  if (!staged)
    return out_of_memory;
  for (size_t at = 0; at < set.bytes; at += sizeof(unsigned long long)) {
    const unsigned long long word = record.word_at_zero(at / sizeof(word));
    memcpy(staged + live_alignment + at, &word, sizeof(word));
  }
  (void)record.changes(reinterpret_cast<live_word *>(staged + live_alignment + set.bytes));
  status s = from_cuda(cudaMalloc(reinterpret_cast<void **>(&set.device),
                                  head + size_t(record.column_count()) * columns));
  if (s == ok)
    s = from_cuda(cudaMemcpyAsync(set.device, staged, head, cudaMemcpyHostToDevice, stream));
  for (int i = 0; s == ok && i < record.column_count(); ++i)
    s = from_cuda(cudaMemcpyAsync(set.columns() + size_t(i) * size_t(record.lengths()),
                                  record.column(i), columns, cudaMemcpyHostToDevice, stream));
  if (s == ok)
    s = from_cuda(cudaStreamSynchronize(stream));
  free(staged);
  return s;
}

inline void free_live(live_set *set) {
  if (set->device)
    (void)cudaFree(set->device);
  free(set->slots);
  free(set->io);
  free(set);
}

inline status fill_live(context &c, const run_graph &g, const frame &where, live_set &set) {
  const program &code = *c.owner->code;
  live_record record(code.capacity - set.tokens + 1);
  bool with_io = false;
  TENON_CHECK(note_arguments(c, g, where, record, with_io));
  set.bytes = record.bytes();
  set.words = record.changes(nullptr);
  set.slots = static_cast<live_slot *>(calloc(size_t(record.slot_count()) + 1, sizeof(live_slot)));
  if (!set.slots)
    return out_of_memory;
  for (int i = 0; i < record.slot_count(); ++i)
    set.slots[i] = record.slots()[i];
  if (with_io) {
    const size_t inputs = size_t(code.input_count), outputs = size_t(code.output_count);
    set.io = static_cast<const void **>(calloc(inputs + outputs + 1, sizeof(void *)));
    if (!set.io)
      return out_of_memory;
    memcpy(set.io, where.inputs, inputs * sizeof(void *));
    memcpy(set.io + inputs, where.outputs, outputs * sizeof(void *));
  }
  return upload_live(set, record, c.stream);
}

inline bool is_set_for(const live_set &set, const program &code, index_t tokens,
                       const frame &where) {
  const size_t inputs = size_t(code.input_count), outputs = size_t(code.output_count);
  return set.tokens == tokens &&
         (!set.io || (memcmp(set.io, where.inputs, inputs * sizeof(void *)) == 0 &&
                      memcmp(set.io + inputs, where.outputs, outputs * sizeof(void *)) == 0));
}

/// Finds or makes the arguments for the tokens that the next run takes.
inline status open_live(context &c, run_graph &g, const frame &where, live_set *&out) {
  const program &code = *c.owner->code;
  const index_t tokens = code.count < 0 ? 1 : c.dims[code.count];
  for (out = g.live; out; out = out->next)
    if (is_set_for(*out, code, tokens, where))
      return ok;
  live_set *const set = static_cast<live_set *>(calloc(1, sizeof(live_set)));
  if (!set)
    return out_of_memory;
  set->tokens = tokens;
  const status s = fill_live(c, g, where, *set);
  if (s != ok) {
    free_live(set);
    return s;
  }
  set->next = g.live;
  g.live = out = set;
  return ok;
}

inline void close_live(run_graph &g) {
  while (live_set *const set = g.live) {
    g.live = set->next;
    free_live(set);
  }
}

/// What a capture needs, all of it outside of the capture.
inline status open_capture(context &c, const frame &where, live_set *&set) {
  const relaxed_scope relaxed;
  TENON_CHECK(relaxed.entered());
  TENON_CHECK(open_live(c, *c.now, where, set));
  if (c.live)
    return ok;
  void *state = nullptr;
  TENON_CHECK_CUDA(cudaMalloc(&state, memory_alignment));
  c.live = static_cast<live_length *>(state);
  return renew_length(c);
}

/// Plain launches of a run whose length the device knows, on a stream that is being captured.
inline status launch_live(context &c, cudaStream_t stream, const frame &where) {
  live_set *set = nullptr;
  TENON_CHECK(open_capture(c, where, set));
  const run_graph &g = *c.now;
  issue to = issue::launch_on(stream, c.owner->early(), c.stamps);
  begin_call call{};
  call.state = c.live;
  call.arguments = set->arguments();
  call.words = set->changes();
  call.count = set->words;
  call.columns = set->columns();
  call.going = set->going();
  call.tokens = set->tokens;
  call.lengths = c.owner->code->capacity - set->tokens + 1;
  to.set_ordinal(g.launch_count);
  TENON_CHECK(g.variant->begin(call, to));
  to.set_ordinal(0);
  to.take_arguments({set->arguments(), set->going(), set->slots});
  return launch_branches(g.branches, *g.variant, to, stream, where);
}

} // namespace detail
} // namespace cuda
} // namespace tenon

#endif
