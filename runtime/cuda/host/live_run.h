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

/// The arguments of the graph's live kernels at some lengths.
inline status note_arguments(context &c, const run_graph &g, const long long *lengths, int count,
                             live_arguments *samples) {
  index_t &length = c.dims[c.owner->code->length];
  const index_t before = length;
  status s = ok;
  for (int i = 0; s == ok && i < count; ++i) {
    length = index_t(lengths[i]);
    issue to = issue::note(samples + i);
    s = issue_steps(g, to, false);
  }
  length = before;
  return s;
}

/// On a stream of the context's own: others may be in a capture.
inline status upload_live(live_set &set, const live_arguments &at_zero, const live_word *words,
                          cudaStream_t stream) {
  void *block = nullptr;
  TENON_CHECK_CUDA(
      cudaMalloc(&block, live_alignment + set.bytes + size_t(set.words + 1) * sizeof(live_word)));
  set.device = static_cast<unsigned char *>(block);
  TENON_CHECK_CUDA(
      cudaMemcpyAsync(set.arguments(), at_zero.bytes(), set.bytes, cudaMemcpyHostToDevice, stream));
  TENON_CHECK_CUDA(cudaMemcpyAsync(set.changes(), words, size_t(set.words) * sizeof(live_word),
                                   cudaMemcpyHostToDevice, stream));
  return from_cuda(cudaStreamSynchronize(stream));
}

/// Finds or makes the arguments for the tokens that the next run takes.
inline status open_live(context &c, run_graph &g, live_set *&out) {
  const program &code = *c.owner->code;
  const index_t tokens = code.count < 0 ? 1 : c.dims[code.count];
  for (out = g.live; out; out = out->next)
    if (out->tokens == tokens)
      return ok;
  constexpr int samples = 5;
  const long long high = code.capacity - 1;
  const long long lengths[samples] = {0, 1, high > 2 ? 2 : high, high / 2, high};
  live_arguments noted[samples];
  TENON_CHECK(note_arguments(c, g, lengths, samples, noted));
  live_set *const set = static_cast<live_set *>(calloc(1, sizeof(live_set)));
  live_word *const words =
      static_cast<live_word *>(calloc(noted[0].size() / 8 + 1, sizeof(live_word)));
  status s = set && words ? ok : out_of_memory;
  if (s == ok) {
    set->tokens = tokens;
    set->bytes = noted[0].size();
    set->words = words_of_length(noted, lengths, samples, words);
    s = set->words < 0 ? growth_in_capture : upload_live(*set, noted[0], words, c.stream);
  }
  free(words);
  if (s != ok) {
    if (set && set->device)
      (void)cudaFree(set->device);
    free(set);
    return s;
  }
  set->next = g.live;
  g.live = out = set;
  return ok;
}

inline void close_live(run_graph &g) {
  while (live_set *const set = g.live) {
    g.live = set->next;
    (void)cudaFree(set->device);
    free(set);
  }
}

/// What a capture needs, all of it outside of the capture.
inline status open_capture(context &c, live_set *&set) {
  const relaxed_scope relaxed;
  TENON_CHECK(relaxed.entered());
  TENON_CHECK(open_live(c, *c.now, set));
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
  TENON_CHECK(open_capture(c, set));
  const run_graph &g = *c.now;
  issue to = issue::launch_on(stream, c.owner->early(), c.stamps);
  begin_call call{};
  call.state = c.live;
  call.arguments = set->arguments();
  call.words = set->changes();
  call.count = set->words;
  call.going = set->going();
  call.tokens = set->tokens;
  call.capacity = c.owner->code->capacity;
  to.set_ordinal(g.launch_count);
  TENON_CHECK(g.variant->begin(call, to));
  to.set_ordinal(0);
  to.take_arguments({set->arguments(), set->going()});
  return launch_branches(g.branches, *g.variant, to, stream, where);
}

} // namespace detail
} // namespace cuda
} // namespace tenon

#endif
