// Defines the context: the memory of one inference and its graph. One context belongs to one stream
// or thread at a time; contexts of one model run side by side.
//
// prepare  captures launch_all once into a graph; for other run-time dimensions its nodes get new
//          arguments.
// finish   issues what follows the graph where sizes or conditions depend on data
//          (cuda/host/host_part.h); enqueue then waits for the data, not for the end.
// enqueue  one graph launch on the caller's stream. Where the caller's pointers are not those of
//          the last run, the nodes that touch inputs and outputs get new arguments first; launches
//          already under way keep theirs. On a stream that is being captured it issues plain
//          launches, which become part of the caller's graph.
#ifndef TENON_RUNTIME_CUDA_HOST_CONTEXT_H
#define TENON_RUNTIME_CUDA_HOST_CONTEXT_H

#include "common/decoder_state.h"
#include "cuda/host/context_graph.h"
#include "cuda/host/host_part.h"
#include "cuda/host/live_run.h"

namespace tenon {
namespace cuda {
namespace detail {

inline size_t memory_bytes(const variant_table &v) {
  return aligned(v.arena_bytes) + aligned(v.zeroed_bytes) + aligned(v.state_bytes);
}

inline host_part host_part_of(const context &c, cudaStream_t stream) {
  const model &m = *c.owner;
  const run_graph &g = *c.now;
  return host_part(*m.code, *g.variant, g.where, c.dims, c.landing, g.first_launch,
                   issue::launch_on(stream, c.trace.function ? nullptr : m.early(), c.stamps),
                   stream, c.trace);
}

/// Runs step by step outside any graph, with the trace called before and after each, and before
/// and after a run that carries states.
inline status launch_traced(const context &c, cudaStream_t stream) {
  const range named("run");
  const variant_table &v = *c.now->variant;
  host_part steps = host_part_of(c, stream);
  if (v.state_bytes)
    TENON_CHECK(steps.trace(whole_run, 0));
  for (int i = 0; i < v.graph_steps(); ++i)
    TENON_CHECK(steps.step(i));
  if (v.finish)
    TENON_CHECK(v.finish(steps));
  return v.state_bytes ? steps.trace(whole_run, 1) : ok;
}

inline status launch_run(const context &c, cudaStream_t stream) {
  if (c.trace.function || ranges_wanted)
    return launch_traced(c, stream);
  TENON_CHECK_CUDA(cudaGraphLaunch(c.now->executable, stream));
  if (!c.now->variant->finish)
    return ok;
  host_part rest = host_part_of(c, stream);
  return c.now->variant->finish(rest);
}

/// Brings the dimensions that grow up to the next run.
inline void advance_dims(context &c) {
  if (c.ran && c.owner->code->advance)
    c.owner->code->advance(c.dims);
  c.ran = false;
}

/// Dimensions that steps find at their bounds, for which the graph was captured.
inline void forget_found(context &c) {
  const program &code = *c.owner->code;
  for (int i = 0; i < code.dim_count; ++i)
    if (code.dims[i].kind == born)
      c.dims[i] = code.dims[i].high;
}

/// Lengths of carried values as after creation.
inline void reset_dims(context &c) {
  const program &code = *c.owner->code;
  for (int i = 0; i < code.dim_count; ++i)
    if (code.dims[i].kind == grows)
      c.dims[i] = code.dims[i].low;
  c.ran = false;
  if (c.decoder) // there are no logits
    decoder_state::forget(c.decoder);
}

/// Prepares the steps of `v` to be captured; the context has its memory.
inline status open_graph(context &c, run_graph &g, const variant_table &v) {
  const model &m = *c.owner;
  const program &code = *m.code;
  const variant_table &whole = *m.variant;
  g.variant = &v;
  g.first_launch = static_cast<int *>(calloc(size_t(v.step_count) + 1, sizeof(int)));
  g.inputs = static_cast<const void **>(calloc(size_t(code.input_count) + 1, sizeof(void *)));
  g.outputs = static_cast<void **>(calloc(size_t(code.output_count) + 1, sizeof(void *)));
  g.dims = static_cast<index_t *>(calloc(size_t(code.dim_count) + 1, sizeof(index_t)));
  if (!g.first_launch || !g.inputs || !g.outputs || !g.dims)
    return out_of_memory;
  TENON_CHECK(open_branches(g.branches, v));
  // Real addresses come with the first enqueue.
  for (int i = 0; i < code.input_count; ++i)
    g.inputs[i] = c.memory;
  for (int i = 0; i < code.output_count; ++i)
    g.outputs[i] = c.memory;
  g.where.memory = c.memory;
  g.where.cleared = c.memory + aligned(whole.arena_bytes);
  g.where.states = g.where.cleared + aligned(whole.zeroed_bytes);
  g.where.weights = m.weights.ranges;
  g.where.weight_ranges = m.weights.count;
  g.where.inputs = g.inputs;
  g.where.outputs = g.outputs;
  g.where.dims = c.dims;

  issue count = issue::configure(m.shared_limit, m.early());
  for (int i = 0; i < v.step_count; ++i) {
    g.first_launch[i] = count.ordinal();
    TENON_CHECK(v.steps[i].run(g.where, count));
  }
  g.launch_count = count.ordinal();
  g.nodes =
      static_cast<cudaGraphNode_t *>(calloc(size_t(g.launch_count) + 1, sizeof(cudaGraphNode_t)));
  return g.nodes ? ok : out_of_memory;
}

inline void close_graph(run_graph &g) {
  drop_graph(g);
  close_live(g);
  if (g.variant)
    close_branches(g.branches, *g.variant);
  free(g.nodes);
  free(g.first_launch);
  free(g.inputs);
  free(g.outputs);
  free(g.dims);
}

/// The largest run-time dimensions that a graph takes; where two together have a bound, what grows
/// is as large as the other leaves it.
inline void set_largest_dims(context &c, int graph) {
  const program &code = *c.owner->code;
  for (int i = 0; i < code.dim_count; ++i)
    c.dims[i] = code.dims[i].high;
  if (graph > 0) {
    const entry_table &entry = c.owner->variant->entries[graph - 1];
    c.dims[entry.dim] = entry.high;
  }
  for (int i = 0; i < code.sum_count; ++i) {
    const dim_sum s = code.sums[i];
    const bool second = code.dims[s.second].kind == grows;
    index_t &lower = c.dims[second ? s.second : s.first];
    const index_t most = s.high - c.dims[second ? s.first : s.second];
    lower = lower < most ? lower : most;
  }
}

inline status open_context(context &c, void *memory) {
  const model &m = *c.owner;
  const variant_table &v = *m.variant;
  const program &code = *m.code;
  c.dims = static_cast<index_t *>(calloc(size_t(code.dim_count) + 1, sizeof(index_t)));
  c.slot_dims = static_cast<index_t *>(
      calloc(size_t(code.dim_count) * host_queue::depth + 1, sizeof(index_t)));
  c.graphs = static_cast<run_graph *>(calloc(size_t(v.entry_count) + 1, sizeof(run_graph)));
  if (code.decoder_bytes)
    c.decoder = static_cast<unsigned char *>(calloc(code.decoder_bytes, 1));
  if (!c.dims || !c.slot_dims || !c.graphs || (code.decoder_bytes && !c.decoder))
    return out_of_memory;
  c.graph_count = v.entry_count + 1;

  TENON_CHECK_CUDA(cudaStreamCreateWithFlags(&c.stream, cudaStreamNonBlocking));
  if (v.finish)
    TENON_CHECK_CUDA(cudaHostAlloc(&c.landing, sizeof(int64_t), cudaHostAllocDefault));
  c.owns_memory = !memory;
  if (memory)
    c.memory = static_cast<unsigned char *>(memory);
  else if (memory_bytes(v) > 0) {
    c.memory = static_cast<unsigned char *>(
        m.memory.allocate(m.memory.user, memory_bytes(v), memory_alignment));
    if (!c.memory)
      return out_of_memory;
  }
  const size_t persistent = memory_bytes(v) - aligned(v.arena_bytes);
  if (persistent > 0)
    TENON_CHECK_CUDA(cudaMemsetAsync(c.memory + aligned(v.arena_bytes), 0, persistent, c.stream));

  for (int i = 0; i < c.graph_count; ++i) {
    set_largest_dims(c, i);
    TENON_CHECK(open_graph(c, c.graphs[i], i == 0 ? v : v.entries[i - 1].steps));
  }
#if defined(TENON_PROFILE)
  int most = 0;
  for (int i = 0; i < c.graph_count; ++i)
    most = c.graphs[i].launch_count > most ? c.graphs[i].launch_count : most;
  void *stamps = nullptr;
  TENON_CHECK_CUDA(cudaMalloc(&stamps, size_t(most + 1) * 2 * sizeof(unsigned long long)));
  c.stamps = static_cast<unsigned long long *>(stamps);
#endif
  return from_cuda(cudaStreamSynchronize(c.stream));
}

/// Gives the graph the run's addresses and dimensions where they differ.
inline status bind(context &c, const void *const *inputs, void *const *outputs) {
  const program &code = *c.owner->code;
  const run_graph &g = *c.now;
  bool changed = false;
  for (int i = 0; i < code.input_count; ++i) {
    changed |= g.inputs[i] != inputs[i];
    g.inputs[i] = inputs[i];
  }
  for (int i = 0; i < code.output_count; ++i) {
    changed |= g.outputs[i] != outputs[i];
    g.outputs[i] = outputs[i];
  }
  const bool resized = !keeps_dims(c);
  return changed || resized ? update_graph(c, !resized) : ok;
}

/// Whether the dimensions of a run are within their bounds: state_full where a length of what is
/// carried leaves no room for it.
inline status check_room(const context &c) {
  const program &code = *c.owner->code;
  for (int i = 0; i < code.dim_count; ++i)
    if (code.dims[i].kind == grows && c.dims[i] > code.dims[i].high)
      return state_full;
  for (int i = 0; i < code.sum_count; ++i) {
    const dim_sum s = code.sums[i];
    if (c.dims[s.first] + c.dims[s.second] > s.high)
      return code.dims[s.first].kind == grows || code.dims[s.second].kind == grows
                 ? state_full
                 : dimension_out_of_range;
  }
  return ok;
}

inline status check_pointers(const program &code, const void *const *inputs, void *const *outputs) {
  if ((code.input_count > 0 && !inputs) || (code.output_count > 0 && !outputs))
    return invalid_argument;
  for (int i = 0; i < code.input_count; ++i)
    if (!inputs[i] && code.inputs[i].bytes > 0)
      return invalid_argument;
  for (int i = 0; i < code.output_count; ++i)
    if (!outputs[i] && code.outputs[i].bytes > 0)
      return invalid_argument;
  return ok;
}
} // namespace detail

/// Bytes of device memory that a context needs: for create() with the caller's memory.
inline size_t context_bytes(const model *m) { return m ? detail::memory_bytes(*m->variant) : 0; }

/// The device computes: the host has the calling thread.
inline status set_threads(context *c, int threads) {
  return !c || threads < 1 ? invalid_argument : threads == 1 ? ok : unsupported;
}

/// Waits for the context's own stream only: the caller's work must be finished.
inline void destroy(context *c) {
  if (!c)
    return;
  const device_scope scope(c->owner->device);
  for (int i = 0; i < c->graph_count; ++i)
    detail::close_graph(c->graphs[i]);
  if (c->stream)
    (void)cudaStreamDestroy(c->stream);
  if (c->owns_memory && c->memory)
    c->owner->memory.release(c->owner->memory.user, c->memory);
  detail::close_queue(c->host);
  if (c->stamps)
    (void)cudaFree(c->stamps);
  if (c->apart)
    (void)cudaFree(c->apart);
  if (c->landing)
    (void)cudaFreeHost(c->landing);
  if (c->drawn)
    (void)cudaFreeHost(c->drawn);
  if (c->ended)
    (void)cudaFree(c->ended);
  if (c->live)
    (void)cudaFree(c->live);
  free(c->decoder);
  free(c->slot_dims);
  free(c->dims);
  free(c->graphs);
  free(c);
}

/// Sets a run-time dimension; prepare must come before the next run where the caller's to set.
inline status set_dim(context *c, int dim, index_t value) {
  if (!c || dim < 0 || dim >= c->owner->code->dim_count)
    return invalid_argument;
  const dim_range range = c->owner->code->dims[dim];
  if (range.kind == born)
    return invalid_argument;
  detail::forget_found(*c);
  detail::advance_dims(*c);
  if (value < range.low || value > range.high)
    return dimension_out_of_range;
  c->prepared = c->prepared && (range.kind == grows || c->dims[dim] == value);
  c->dims[dim] = value;
  if (range.kind != grows || !c->live)
    return ok;
  const device_scope scope(c->owner->device);
  TENON_CHECK(scope.entered());
  return detail::renew_length(*c);
}

/// Brings the graph up to the values that the run-time dimensions have.
inline status prepare(context *c) {
  if (!c)
    return invalid_argument;
  if (c->prepared)
    return ok;
  detail::forget_found(*c);
  const device_scope scope(c->owner->device);
  TENON_CHECK(scope.entered());
  c->now = detail::graph_for(*c);
  const status s = c->now->executable ? detail::update_graph(*c, false) : detail::capture(*c);
  if (s != ok)
    detail::drop_graph(*c->now);
  c->prepared = s == ok;
  return s;
}

/// State as after creation. The context's work must be finished.
inline status reset(context *c) {
  if (!c)
    return invalid_argument;
  const variant_table &v = *c->owner->variant;
  detail::reset_dims(*c);
  if (v.state_bytes == 0)
    return ok;
  const device_scope scope(c->owner->device);
  TENON_CHECK(scope.entered());
  TENON_CHECK(detail::renew_length(*c));
  TENON_CHECK_CUDA(cudaMemsetAsync(c->graphs->where.states, 0, v.state_bytes, c->stream));
  return from_cuda(cudaStreamSynchronize(c->stream));
}

namespace detail {
inline status enqueue_in_capture(context &c, const void *const *inputs, void *const *outputs,
                                 cudaStream_t stream) {
  frame where = c.now->where;
  where.inputs = inputs;
  where.outputs = outputs;
  if (c.now->variant->finish)
    return data_in_capture;
  if (c.owner->code->advance)
    return c.now->variant->begin ? launch_live(c, stream, where) : growth_in_capture;
  return launch_all(c, stream, where);
}

inline status enqueue_graph(context &c, const void *const *inputs, void *const *outputs,
                            cudaStream_t stream) {
  TENON_CHECK(read_length(c, stream, true));
  TENON_CHECK(check_room(c));
  forget_found(c);
  TENON_CHECK(bind(c, inputs, outputs));
  c.ran = true;
  TENON_CHECK(launch_run(c, stream));
  if (!c.live)
    return ok;
  advance_dims(c);
  return write_length(c, stream);
}

/// Whether steps take a tensor where it lies.
inline bool lies_well(const tensor_size &t, const void *p) {
  return !t.fixed || uintptr_t(p) % port_alignment == 0;
}
inline bool lie_well(const program &code, const void *const *inputs, void *const *outputs) {
  bool all = true;
  for (int i = 0; i < code.input_count; ++i)
    all &= lies_well(code.inputs[i], inputs[i]);
  for (int i = 0; i < code.output_count; ++i)
    all &= lies_well(code.outputs[i], outputs[i]);
  return all;
}

/// enqueue(), in a capture or outside, with copies of tensors that steps do not take where they
/// lie.
inline status enqueue_apart(context &c, const void *const *inputs, void *const *outputs,
                            cudaStream_t stream, bool capturing) {
  const program &code = *c.owner->code;
  port_layout ports(code);
  if (!ports.valid())
    return out_of_memory;
  if (!c.apart) {
    if (capturing)
      return unaligned_in_capture;
    void *apart = nullptr;
    TENON_CHECK_CUDA(cudaMalloc(&apart, ports.bytes() + memory_alignment));
    c.apart = static_cast<unsigned char *>(apart);
  }
  ports.place(code, c.apart);
  for (int i = 0; i < code.input_count; ++i)
    if (lies_well(code.inputs[i], inputs[i]))
      ports.inputs[i] = inputs[i];
    else
      TENON_CHECK_CUDA(cudaMemcpyAsync(const_cast<void *>(ports.inputs[i]), inputs[i],
                                       code.inputs[i].bytes, cudaMemcpyDeviceToDevice, stream));
  for (int i = 0; i < code.output_count; ++i)
    if (lies_well(code.outputs[i], outputs[i]))
      ports.outputs[i] = outputs[i];
  TENON_CHECK(capturing ? enqueue_in_capture(c, ports.inputs, ports.outputs, stream)
                        : enqueue_graph(c, ports.inputs, ports.outputs, stream));
  for (int i = 0; i < code.output_count; ++i)
    if (ports.outputs[i] != outputs[i])
      TENON_CHECK_CUDA(cudaMemcpyAsync(outputs[i], ports.outputs[i], code.outputs[i].bytes,
                                       cudaMemcpyDeviceToDevice, stream));
  return ok;
}
} // namespace detail

/// Starts one inference; inputs and outputs are device pointers. Returns before it has finished,
/// where steps depend on data once the last of them is issued.
inline status enqueue(context *c, const void *const *inputs, void *const *outputs,
                      cudaStream_t stream) {
  if (!c)
    return invalid_argument;
  if (!c->prepared)
    return not_prepared;
  TENON_CHECK(detail::check_pointers(*c->owner->code, inputs, outputs));
  const device_scope scope(c->owner->device);
  TENON_CHECK(scope.entered());
  cudaStreamCaptureStatus status_of = cudaStreamCaptureStatusNone;
  TENON_CHECK_CUDA(cudaStreamIsCapturing(stream, &status_of));
  const bool capturing = status_of != cudaStreamCaptureStatusNone;
  detail::advance_dims(*c);
  if (!detail::lie_well(*c->owner->code, inputs, outputs))
    return detail::enqueue_apart(*c, inputs, outputs, stream, capturing);
  return capturing ? detail::enqueue_in_capture(*c, inputs, outputs, stream)
                   : detail::enqueue_graph(*c, inputs, outputs, stream);
}

namespace detail {
inline status run_on_zeros(context &c, port_layout &ports, unsigned char *memory) {
  const size_t state_bytes = c.owner->variant->state_bytes;
  ports.place(*c.owner->code, memory);
  TENON_CHECK_CUDA(cudaMemsetAsync(memory, 0, ports.bytes(), c.stream));
  TENON_CHECK(enqueue(&c, ports.inputs, ports.outputs, c.stream));
  if (state_bytes > 0)
    TENON_CHECK_CUDA(cudaMemsetAsync(c.now->where.states, 0, state_bytes, c.stream));
  reset_dims(c);
  return from_cuda(cudaStreamSynchronize(c.stream));
}

/// Runs once on zeros, so that the first inference finds its kernels, its weights and its graph
/// where the thousandth does. Kernels clamp indices: no input makes them leave their tensors. Where
/// there is no memory for it, the first inference is slower and nothing else.
inline status warm_up(context &c) {
#if defined(TENON_NO_WARM_UP)
  (void)c;
  return ok;
#else
  port_layout ports(*c.owner->code);
  if (!ports.valid())
    return out_of_memory;
  void *memory = nullptr;
  if (cudaMalloc(&memory, ports.bytes() + memory_alignment) != cudaSuccess) {
    (void)cudaGetLastError();
    return ok;
  }
  const status s = run_on_zeros(c, ports, static_cast<unsigned char *>(memory));
  const status freed = from_cuda(cudaFree(memory));
  return s != ok ? s : freed;
#endif
}
} // namespace detail

/// `memory` is null, or context_bytes() bytes of device memory aligned to 256 that outlive the
/// context. Its graphs are prepared for the largest run-time dimensions, and each has run once on
/// zeros.
inline status create(context **out, const model *m, void *memory = nullptr) {
  if (!out || !m)
    return invalid_argument;
  *out = nullptr;
  const device_scope scope(m->device);
  TENON_CHECK(scope.entered());
  context *c = static_cast<context *>(calloc(1, sizeof(context)));
  if (!c)
    return out_of_memory;
  c->owner = m;
  status s = detail::open_context(*c, memory);
  for (int i = c->graph_count; s == ok && i-- > 0;) {
    detail::set_largest_dims(*c, i);
    c->prepared = false;
    s = prepare(c);
    detail::reset_dims(*c);
    if (s == ok)
      s = detail::warm_up(*c);
  }
  if (s != ok) {
    destroy(c);
    return s;
  }
  *out = c;
  return ok;
}

/// The same in `bytes` bytes of the caller's memory.
inline status place(context **out, const model *m, void *memory, size_t bytes) {
  if (!memory || uintptr_t(memory) % detail::memory_alignment != 0)
    return invalid_argument;
  if (bytes < context_bytes(m))
    return out_of_memory;
  return create(out, m, memory);
}

} // namespace cuda
} // namespace tenon

#endif
