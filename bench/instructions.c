/* Defines a program that runs a network and calls run_done() after each run, so that the
 * instructions from run_once() to there can be counted (bench/instructions.py, which writes case.h:
 * the ports and what is called). With PEER the network is ONNX Runtime's, through its C interface,
 * of which wheels bring the library and no header: a table of functions in a fixed order.
 *
 *   program   reads inputs.bin, writes outputs.bin
 */
#include "case.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 2 }; /* what the first one sets up is not counted for the second */

struct port {
  const char *name;
  int type; /* as ONNX numbers element types */
  size_t bytes;
  int rank;
  int64_t shape[8];
};
static const struct port inputs[] = {INPUTS}, outputs[] = {OUTPUTS};
enum { IN = sizeof(inputs) / sizeof(*inputs), OUT = sizeof(outputs) / sizeof(*outputs) };
static void *in[IN], *out[OUT];

static void check(int good, const char *what) {
  if (!good) {
    fprintf(stderr, "%s failed\n", what);
    exit(1);
  }
}

#ifdef PEER
typedef void *status;
typedef const void *const *(*get_api)(uint32_t);
struct base {
  get_api get;
};
const struct base *OrtGetApiBase(void);
/* Places in the table of version 1 and every later one. */
enum {
  CREATE_ENV = 3,
  CREATE_SESSION = 7,
  RUN = 9,
  CREATE_OPTIONS = 10,
  SET_THREADS = 24,
  CREATE_TENSOR = 49,
  CREATE_MEMORY_INFO = 69
};
static void *session, *values[IN + OUT];
static const void *const *api;

static void *tensor(void *memory, const struct port *p, void *data) {
  void *value = NULL;
  status (*create)(void *, void *, size_t, const int64_t *, size_t, int, void **) =
      (status(*)(void *, void *, size_t, const int64_t *, size_t, int, void **))api[CREATE_TENSOR];
  check(!create(memory, data, p->bytes, p->shape, (size_t)p->rank, p->type, &value), "a tensor");
  return value;
}
static void set_up(void) {
  void *environment = NULL, *options = NULL, *memory = NULL;
  api = OrtGetApiBase()->get(1);
  check(api && !((status(*)(int, const char *, void **))api[CREATE_ENV])(3, "count", &environment),
        "the environment");
  check(!((status(*)(void **))api[CREATE_OPTIONS])(&options), "options");
  check(!((status(*)(void *, int))api[SET_THREADS])(options, 1), "one thread");
  check(!((status(*)(void *, const char *, void *, void **))api[CREATE_SESSION])(
            environment, "model.onnx", options, &session),
        "the session");
  check(!((status(*)(int, int, void **))api[CREATE_MEMORY_INFO])(1, 0, &memory), "memory");
  for (int i = 0; i < IN; ++i)
    values[i] = tensor(memory, &inputs[i], in[i]);
  for (int i = 0; i < OUT; ++i)
    values[IN + i] = tensor(memory, &outputs[i], out[i]);
}
__attribute__((noinline)) void run_once(void) {
  const char *names[IN + OUT];
  for (int i = 0; i < IN + OUT; ++i)
    names[i] = i < IN ? inputs[i].name : outputs[i - IN].name;
  status (*run)(void *, void *, const char *const *, void *const *, size_t, const char *const *,
                size_t, void **) =
      (status(*)(void *, void *, const char *const *, void *const *, size_t, const char *const *,
                 size_t, void **))api[RUN];
  check(!run(session, NULL, names, values, IN, names + IN, OUT, values + IN), "a run");
}
#else
static network_context *context;
static void set_up(void) {
  network_model *model = NULL;
  check(network_model_open(NULL, &model) == 0, "the model");
  check(network_context_create(model, &context) == 0, "the context");
}
__attribute__((noinline)) void run_once(void) {
  check(network_run(context, (const void *const *)in, out) == 0, "a run");
}
#endif
__attribute__((noinline)) void run_done(void) { __asm__ volatile(""); }

int main(void) {
  FILE *f = fopen("inputs.bin", "rb");
  check(f != NULL, "inputs.bin");
  for (int i = 0; i < IN; ++i) {
    in[i] = aligned_alloc(64, (inputs[i].bytes + 127) / 64 * 64);
    check(fread(in[i], 1, inputs[i].bytes, f) == inputs[i].bytes, "reading inputs.bin");
  }
  fclose(f);
  for (int i = 0; i < OUT; ++i)
    out[i] = aligned_alloc(64, (outputs[i].bytes + 127) / 64 * 64);
  set_up();
  for (int r = 0; r < RUNS; ++r) {
    run_once();
    run_done();
  }
  f = fopen("outputs.bin", "wb");
  check(f != NULL, "outputs.bin");
  for (int i = 0; i < OUT; ++i)
    check(fwrite(out[i], 1, outputs[i].bytes, f) == outputs[i].bytes, "writing outputs.bin");
  return fclose(f);
}
