// Defines inference on host memory: run() for one, submit() and collect() for a sequence whose
// copies overlap with computing.
//
//   slot 0   in 0 | compute 0 | out 0    in 2 | compute 2 | ...
//   slot 1          in 1      | compute 1 | out 1   in 3  | ...
//
// Each of the three columns is a stream; events between them order one inference. Two inferences
// may be under way; on integrated devices kernels read and write the pinned memory and nothing is
// copied.
#ifndef TENON_RUNTIME_CUDA_HOST_HOST_RUN_H
#define TENON_RUNTIME_CUDA_HOST_HOST_RUN_H

#include "cuda/host/context.h"

namespace tenon {
namespace cuda {
namespace detail {

inline host_slot &slot_of(host_queue &q, unsigned inference) {
  return q.slots[inference % host_queue::depth];
}

/// Lets what is issued on `later` wait for what was issued on `earlier`.
inline status order(cudaStream_t earlier, cudaEvent_t e, cudaStream_t later) {
  if (earlier == later)
    return ok;
  TENON_CHECK_CUDA(cudaEventRecord(e, earlier));
  return from_cuda(cudaStreamWaitEvent(later, e, 0));
}

/// Bytes of the outputs, which lie one after another, that a copy takes to the host.
struct output_part {
  size_t begin, bytes;
};

/// Issues one inference whose inputs stand in the slot's pinned memory.
inline status issue_inference(context &c, const host_slot &s, port_layout &ports, cudaStream_t in,
                              cudaStream_t out, output_part part) {
  ports.place(*c.owner->code, s.device);
  if (ports.input_bytes > 0 && !s.mapped)
    TENON_CHECK_CUDA(
        cudaMemcpyAsync(s.device, s.host, ports.input_bytes, cudaMemcpyHostToDevice, in));
  TENON_CHECK(order(in, s.arrived, c.stream));
  TENON_CHECK(enqueue(&c, ports.inputs, ports.outputs, c.stream));
  TENON_CHECK(order(c.stream, s.computed, out));
  const size_t begin = ports.input_bytes + part.begin;
  if (part.bytes > 0 && !s.mapped)
    TENON_CHECK_CUDA(
        cudaMemcpyAsync(s.host + begin, s.device + begin, part.bytes, cudaMemcpyDeviceToHost, out));
  return from_cuda(cudaEventRecord(s.left, out));
}

inline status submit_on(context &c, const void *const *inputs, cudaStream_t in, cudaStream_t out,
                        const output_part *part = nullptr) {
  const program &code = *c.owner->code;
  host_queue &q = c.host;
  port_layout ports(code);
  if (!ports.valid())
    return out_of_memory;
  host_slot &s = slot_of(q, q.submitted);
  TENON_CHECK(open_slot(s, ports, c.owner->integrated, c.stream));
  size_t at = 0;
  for (int i = 0; i < code.input_count; at += aligned(code.inputs[i].bytes), ++i)
    if (inputs && inputs[i] && inputs[i] != s.host + at)
      memcpy(s.host + at, inputs[i], code.inputs[i].bytes);
  const status issued =
      issue_inference(c, s, ports, in, out, part ? *part : output_part{0, ports.output_bytes});
  if (issued != ok) { // the slot is free again when nothing touches it
    (void)cudaStreamSynchronize(in);
    (void)cudaStreamSynchronize(c.stream);
    return issued;
  }
  memcpy(c.slot_dims + q.submitted % host_queue::depth * unsigned(code.dim_count), c.dims,
         size_t(code.dim_count) * sizeof(index_t));
  ++q.submitted;
  return ok;
}

/// Waits for the oldest inference and hands its outputs out.
inline status collect_oldest(context &c, void *const *outputs) {
  const program &code = *c.owner->code;
  const host_slot &s = slot_of(c.host, c.host.collected);
  const index_t *dims =
      c.slot_dims + c.host.collected % host_queue::depth * unsigned(code.dim_count);
  for (int i = 0; i < code.dim_count; ++i)
    if (code.dims[i].kind == born)
      c.dims[i] = dims[i];
  ++c.host.collected; // whatever comes of it
  TENON_CHECK_CUDA(cudaEventSynchronize(s.left));
  size_t at = 0;
  for (int i = 0; i < code.input_count; ++i)
    at += aligned(code.inputs[i].bytes);
  for (int i = 0; i < code.output_count; at += aligned(code.outputs[i].bytes), ++i)
    if (outputs && outputs[i])
      memcpy(outputs[i], s.host + at, code.outputs[i].bytes);
  return ok;
}

/// Address of port k of `sizes` in memory where they lie one after another.
inline unsigned char *port_at(unsigned char *base, const tensor_size *sizes, int k) {
  for (int i = 0; i < k; ++i)
    base += aligned(sizes[i].bytes);
  return base;
}
} // namespace detail

/// Starts one inference on host memory and returns before it has finished. An input whose pointer
/// is null, as all are where `inputs` is, stands in host_input() already. At most two are under
/// way.
inline status submit(context *c, const void *const *inputs) {
  if (!c)
    return invalid_argument;
  if (c->host.submitted - c->host.collected == host_queue::depth)
    return inferences_pending;
  TENON_CHECK(prepare(c));
  const device_scope scope(c->owner->device);
  TENON_CHECK(scope.entered());
  TENON_CHECK(detail::open_copy_streams(c->host));
  return detail::submit_on(*c, inputs, c->host.in, c->host.out);
}

/// Waits for the oldest inference that was submitted. Outputs whose pointers are null, as all are
/// where `outputs` is, are left in host_output().
inline status collect(context *c, void *const *outputs) {
  if (!c)
    return invalid_argument;
  if (c->host.submitted == c->host.collected)
    return nothing_submitted;
  const device_scope scope(c->owner->device);
  TENON_CHECK(scope.entered());
  return detail::collect_oldest(*c, outputs);
}

/// Pinned memory of an input of the next submit(); null where two inferences are under way, and on
/// errors.
inline void *host_input(context *c, int input) {
  if (!c || input < 0 || input >= c->owner->code->input_count ||
      c->host.submitted - c->host.collected == host_queue::depth)
    return nullptr;
  const device_scope scope(c->owner->device);
  const detail::port_layout ports(*c->owner->code);
  host_slot &s = detail::slot_of(c->host, c->host.submitted);
  if (scope.entered() != ok || detail::open_slot(s, ports, c->owner->integrated, c->stream) != ok)
    return nullptr;
  return detail::port_at(s.host, c->owner->code->inputs, input);
}

/// Pinned memory of an output that the last collect() waited for; holds until the next submit().
inline const void *host_output(context *c, int output) {
  if (!c || output < 0 || output >= c->owner->code->output_count || c->host.collected == 0)
    return nullptr;
  const detail::port_layout ports(*c->owner->code);
  const host_slot &s = detail::slot_of(c->host, c->host.collected - 1);
  return detail::port_at(s.host + ports.input_bytes, c->owner->code->outputs, output);
}

namespace detail {
/// One whole inference on host pointers; with a part, only that is copied out, and handed out to
/// its place in the only output.
inline status run_whole(context *c, const void *const *inputs, void *const *outputs,
                        const output_part *part) {
  if (!c)
    return invalid_argument;
  if (c->host.submitted != c->host.collected)
    return inferences_pending;
  TENON_CHECK(prepare(c));
  TENON_CHECK(check_pointers(*c->owner->code, inputs, outputs));
  const device_scope scope(c->owner->device);
  TENON_CHECK(scope.entered());
  TENON_CHECK(submit_on(*c, inputs, c->stream, c->stream, part));
  TENON_CHECK(collect_oldest(*c, part ? nullptr : outputs));
  if (part)
    memcpy(static_cast<unsigned char *>(outputs[0]) + part->begin,
           static_cast<const unsigned char *>(host_output(c, 0)) + part->begin, part->bytes);
  return ok;
}
} // namespace detail

/// One whole inference on host pointers: copies in, runs, copies out, waits. Buffers have the sizes
/// of the largest dimensions.
inline status run(context *c, const void *const *inputs, void *const *outputs) {
  return detail::run_whole(c, inputs, outputs, nullptr);
}

/// The same of a program with one output, of which bytes [begin, end) are wanted.
inline status run_for(context *c, const void *const *inputs, void *output, size_t begin,
                      size_t end) {
  const detail::output_part part{begin, end - begin};
  return detail::run_whole(c, inputs, &output, &part);
}

} // namespace cuda
} // namespace tenon

#endif
