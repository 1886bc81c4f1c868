// Defines what runs a decoder (common/decoder.h) on a GPU: tokens and logits in host memory, or a
// sequence of runs whose tokens the device draws (generate), enqueued ahead of it:
//
//   draw 0 | run | draw 1 | run | ... | draw 7 | run   E   draw 8 | run | ...
//
// A draw (cuda/sampling/kernel.cuh) leaves its token where the run that follows reads it, and where
// the host sees it. Behind every few draws stands an event; with stop tokens the host is at most
// two of them ahead.
#ifndef TENON_RUNTIME_CUDA_HOST_DECODER_H
#define TENON_RUNTIME_CUDA_HOST_DECODER_H

#include "common/decoder.h"
#include "cuda/host/host_run.h"
#include "cuda/sampling/kernel.cuh"

namespace tenon {
namespace cuda {
namespace detail {

/// Memory of what is drawn, `most` tokens and how many they are.
inline status open_drawing(context &c, long most) {
  if (!c.drawn) {
    void *host = nullptr;
    TENON_CHECK_CUDA(cudaHostAlloc(&host, size_t(most + 1) * sizeof(int), cudaHostAllocMapped));
    c.drawn = static_cast<int *>(host);
  }
  if (!c.ended) {
    void *device = nullptr;
    TENON_CHECK_CUDA(cudaMalloc(&device, memory_alignment));
    c.ended = static_cast<int *>(device);
  }
  return ok;
}

template <class Sampling> draw_rules rules_of(const Sampling &how) {
  draw_rules rules{how.temperature, how.top_k, how.top_p, uint32_t(how.seed), {}, how.stop_count};
  for (int i = 0; i < how.stop_count; ++i)
    rules.stops[i] = how.stop[i];
  return rules;
}

/// Enqueues draws and runs on the context's stream; how many draws.
template <class Sampling>
status enqueue_draws(context &c, const drawing<Sampling> &d, const port_layout &ports, int *record,
                     host_slot &slot, int &draws) {
  constexpr int window = 8;
  const variant_table &v = *c.owner->variant;
  const cudaEvent_t events[] = {slot.arrived, slot.computed};
  draw_call call{rules_of(*d.how),
                 ports.outputs[0],
                 d.vocabulary,
                 d.position,
                 const_cast<void *>(ports.inputs[d.token_input]),
                 c.ended,
                 record + 1,
                 record,
                 0};
  for (draws = 0; draws < d.count;) {
    call.index = draws;
    issue to = issue::launch_on(c.stream, nullptr, c.stamps);
    to.set_ordinal(c.now->launch_count);
    TENON_CHECK(v.draw(call, to));
    TENON_CHECK(enqueue(&c, ports.inputs, ports.outputs, c.stream));
    ++draws, ++call.position;
    if (d.how->stop_count == 0 || draws % window != 0)
      continue;
    const int turn = draws / window;
    TENON_CHECK_CUDA(cudaEventRecord(events[turn % 2], c.stream));
    if (turn < 2)
      continue;
    TENON_CHECK_CUDA(cudaEventSynchronize(events[(turn - 1) % 2]));
    if (*static_cast<volatile int *>(c.drawn) < draws - window)
      return ok; // it has ended
  }
  return ok;
}

} // namespace detail

struct decoder_machine {
  context *c;
  static constexpr bool draws = true;
  static constexpr int most_stops = draw_rules::most_stops;

  bool valid() const { return c; }
  /// A length that replays have left no room for is one, too: the next run says so.
  index_t get(int dim) const {
    detail::advance_dims(*c);
    const device_scope scope(c->owner->device);
    if (scope.entered() == ok)
      (void)detail::read_length(*c, c->stream, false);
    return c->dims[dim];
  }
  int set(int dim, index_t value) const { return set_dim(c, dim, value); }
  int reset() const { return cuda::reset(c); }
  int run(const void *const *inputs, void *logits, byte_range wanted) const {
    return run_for(c, inputs, logits, wanted.begin, wanted.end);
  }
  unsigned char *memory() const { return c->decoder; }

  template <class Form, class Sampling>
  int generate(const Form &form, const drawing<Sampling> &d) const {
    const program &code = *c->owner->code;
    if (c->host.submitted != c->host.collected)
      return inferences_pending;
    TENON_CHECK(prepare(c));
    const device_scope scope(c->owner->device);
    TENON_CHECK(scope.entered());
    detail::port_layout ports(code);
    if (!ports.valid())
      return out_of_memory;
    host_slot &slot = detail::slot_of(c->host, c->host.submitted);
    TENON_CHECK(detail::open_slot(slot, ports, c->owner->integrated, c->stream));
    TENON_CHECK(detail::open_drawing(*c, form.capacity));
    ports.place(code, slot.device);
    for (int i = 0; i < code.input_count; ++i)
      if (i != d.token_input)
        TENON_CHECK_CUDA(cudaMemcpyAsync(const_cast<void *>(ports.inputs[i]), d.inputs[i],
                                         code.inputs[i].bytes, cudaMemcpyHostToDevice, c->stream));
    TENON_CHECK_CUDA(
        cudaMemcpyAsync(ports.outputs[0], d.row, d.row_bytes, cudaMemcpyHostToDevice, c->stream));
    TENON_CHECK_CUDA(cudaMemsetAsync(c->ended, 0, sizeof(int), c->stream));
    void *record = nullptr; // where the device sees it
    TENON_CHECK_CUDA(cudaHostGetDevicePointer(&record, c->drawn, 0));
    c->drawn[0] = 0;
    int draws = 0;
    TENON_CHECK(detail::read_length(*c, c->stream, true));
    c->alone = true;
    const status issued =
        detail::enqueue_draws(*c, d, ports, static_cast<int *>(record), slot, draws);
    c->alone = false;
    const status finished = from_cuda(cudaStreamSynchronize(c->stream));
    TENON_CHECK(issued);
    TENON_CHECK(finished);
    *d.made = c->drawn[0];
    memcpy(d.tokens, c->drawn + 1, size_t(*d.made) * sizeof(int));
    *d.ended = *d.made < draws;
    if (*d.ended)
      return ok;
    return from_cuda(cudaMemcpy(d.row, ports.outputs[0], d.row_bytes, cudaMemcpyDeviceToHost));
  }
};

} // namespace cuda
} // namespace tenon

#endif
