/* Uses all of the interface of interface.tn that every target has, as C89. */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(void *user, size_t bytes, size_t alignment) {
  (void)alignment;
  ++*(int *)user;
  return malloc(bytes);
}
static void release(void *user, void *block) {
  --*(int *)user;
  free(block);
}

static int say(const char *what, int code) {
  printf("%s: %s\n", what, code == NET_OK ? "ok" : net_error_message(code));
  return code;
}

/* A caller of a later version, whose options have more. */
static void from_later_version(void) {
  struct {
    net_options known;
    int more;
  } later;
  net_model *model;
  memset(&later, 0, sizeof later);
  later.known.size = sizeof later;
  if (say("nothing unknown is asked", net_model_open(&later.known, &model)) == NET_OK)
    net_model_close(model);
  later.more = 1;
  say("something unknown is asked", net_model_open(&later.known, &model));
}

/* One of a version whose options ended with the device. */
static void from_earlier_version(void) {
  net_options earlier = NET_OPTIONS_INIT;
  net_model *model;
  earlier.size = offsetof(net_options, threads);
  earlier.threads = -1;
  if (say("what an earlier version lacks", net_model_open(&earlier, &model)) == NET_OK)
    net_model_close(model);
}

static void refusals(void) {
  net_options options = NET_OPTIONS_INIT;
  net_model *model;
  options.size = 0;
  say("a size of 0", net_model_open(&options, &model));
  options.size = sizeof options;
  options.device = 12345;
  say("no such device", net_model_open(&options, &model));
  options.device = 0;
  options.shared_count = 1;
  say("nothing to share", net_model_open(&options, &model));
  options.shared_count = 0;
  options.allocate = allocate;
  say("half an allocator", net_model_open(&options, &model));
  say("no place for the model", net_model_open(NULL, NULL));
}

static void run(net_model *model, net_context *context) {
  float x[NET_X_SIZE], y[NET_Y_SIZE];
  const void *inputs[NET_INPUT_COUNT];
  void *outputs[NET_OUTPUT_COUNT];
  net_stream none = NULL;
  int i;
  for (i = 0; i < NET_X_SIZE; ++i)
    x[i] = (float)i;
  inputs[NET_X_INDEX] = x;
  outputs[NET_Y_INDEX] = y;
  say("a dimension", net_set_dim(context, NET_DIM_N, 3));
  say("too large a one", net_set_dim(context, NET_DIM_N, NET_DIM_N_MAX + 1));
  say("preparing", net_prepare(context));
  say("running", net_run(context, inputs, outputs));
  say("on no stream", net_enqueue(context, inputs, outputs, none));
  printf("%ld rows, the last element is %g\n", net_output_dim(context, NET_Y_INDEX, 0), y[11]);
  say("carried values", net_reset(context));
  printf("%d thread\n", net_context_threads(context));
  say("one thread", net_context_set_threads(context, 1));
  say("two threads", net_context_set_threads(context, 2));
  printf("%s\n", net_model_context_bytes(model) > 0 ? "a context has a size" : "no size");
}

int main(void) {
  net_options options = NET_OPTIONS_INIT;
  net_model *model;
  net_context *context, *placed;
  void *memory;
  char *aligned;
  size_t bytes;
  int blocks = 0, code;
  printf("version %d, %d\n", NET_INTERFACE_VERSION, net_interface_version());
  options.weights_path = NET_WEIGHTS_FILE;
  options.threads = 2;
  options.allocate = allocate;
  options.release = release;
  options.user = &blocks;
  code = say("opening", net_model_open(&options, &model));
  if (code == NET_UNSUPPORTED) {
    options.allocate = NULL;
    options.release = NULL;
    code = net_model_open(&options, &model);
  }
  if (code != NET_OK || say("a context", net_context_create(model, &context)) != NET_OK)
    return 1;
  run(model, context);
  bytes = net_model_context_bytes(model);
  memory = malloc(bytes + NET_CONTEXT_ALIGNMENT);
  aligned = (char *)memory + NET_CONTEXT_ALIGNMENT - (size_t)memory % NET_CONTEXT_ALIGNMENT;
  say("too little memory", net_context_place(model, aligned, 16, &placed));
  say("a placed context", net_context_place(model, aligned, bytes, &placed));
  net_context_destroy(placed);
  net_context_destroy(context);
  say("a context after the first", net_context_create(model, &context));
  net_context_destroy(context);
  net_model_close(model);
  free(memory);
  printf("%d blocks are left\n", blocks);
  from_later_version();
  from_earlier_version();
  refusals();
  return 0;
}
