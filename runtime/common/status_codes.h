// Defines what functions of the interface return, the same numbers on every target: rows of name,
// number and message, which the generated header spells in capitals (NET_WEIGHTS_MISMATCH).
#ifndef TENON_RUNTIME_COMMON_STATUS_CODES_H
#define TENON_RUNTIME_COMMON_STATUS_CODES_H

#define TENON_STATUS_CODES(CODE)                                                                   \
  CODE(ok, 0, "success")                                                                           \
  CODE(invalid_argument, 1, "an argument is null or out of range")                                 \
  CODE(out_of_memory, 2, "out of memory, or the memory given is too small")                        \
  CODE(weights_unreadable, 3, "the weights file cannot be read, or none was given")                \
  CODE(weights_mismatch, 4, "the weights do not belong to this program")                           \
  CODE(dimension_out_of_range, 5, "a run-time dimension is outside its compiled range")            \
  CODE(state_full, 6, "a value carried from run to run has reached its largest extent")            \
  CODE(unsupported, 9, "this target or build cannot do that")

/// Of programs with text.
#define TENON_TEXT_STATUS_CODES(CODE)                                                              \
  CODE(text_full, 7, "a run spells more text than its context has room for (--text-bytes)")        \
  CODE(text_no_number, 8, "text that is cast to a number says none, or one that does not fit")

/// Of programs that decode.
#define TENON_DECODER_STATUS_CODES(CODE)                                                           \
  CODE(no_logits, 21, "there are no logits to draw from: append a token first")

/// Of programs for a device; CUDA's own errors are negative.
#define TENON_DEVICE_STATUS_CODES(CODE)                                                            \
  CODE(wrong_architecture, 10,                                                                     \
       "the device's compute capability is not among those the file was compiled for")             \
  CODE(wrong_build, 11, "the file was built for other architectures than its first comment says")  \
  CODE(not_prepared, 12, "the context was not prepared")                                           \
  CODE(too_little_shared_memory, 13, "a kernel needs more shared memory than the device has")      \
  CODE(no_driver_function, 14, "the driver lacks a function that this file needs")                 \
  CODE(unsuitable_tensor, 15, "a tensor lies where its kernel cannot read it")                     \
  CODE(inferences_pending, 16, "inferences are under way whose outputs must be collected first")   \
  CODE(nothing_submitted, 17, "there is no inference to collect")                                  \
  CODE(growth_in_capture, 18,                                                                      \
       "an inference whose carried values grow cannot be part of a captured graph")                \
  CODE(graph_outgrown, 19, "the graph does not fit the dimensions")                                \
  CODE(data_in_capture, 20,                                                                        \
       "an inference whose steps depend on data cannot be part of a captured graph")               \
  CODE(unaligned_in_capture, 22,                                                                   \
       "tensors at no multiple of 16 bytes can be captured once a run outside of captures had "    \
       "such")

#define TENON_STATUS_ENUMERATOR(name, number, message) name = number,
// clang-format off
#define TENON_STATUS_CASE(name, number, message) case name: return message;
// clang-format on

#endif
