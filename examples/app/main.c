/* Runs the digits network on one hand-drawn digit and prints the most probable class.
 *
 * All of the network comes from digits.h, which tenon_add_model() in CMakeLists.txt
 * makes from digits.onnx. Models and contexts are apart: one model (the weights) serves
 * any number of threads, each with a context of its own. */

#include "digits.h"

#include <stdio.h>

enum { SIDE = 8, CLASSES = 10 };

/* A three. Darkness goes from 0 (' ') over 8 ('+') to 16 ('#'). */
static const char *const drawing[SIDE] = {
    "  +##+  ", "  ++##  ", "    ##  ", "   ##+  ", "   +##  ", "     ## ", "  + +#+ ", "  ###+  ",
};

static int check(const char *what, int code) {
  if (code != 0)
    fprintf(stderr, "app: %s: %s\n", what, digits_error_message(code));
  return code;
}

int main(void) {
  digits_model *model = NULL;
  digits_context *context = NULL;
  float image[SIDE * SIDE];
  float probabilities[CLASSES];
  const void *inputs[1];
  void *outputs[1];
  int best = 0;
  int code;
  int i;

  for (i = 0; i < SIDE * SIDE; ++i) {
    char mark = drawing[i / SIDE][i % SIDE];
    image[i] = mark == '#' ? 16.0f : mark == '+' ? 8.0f : 0.0f;
  }
  inputs[0] = image;
  outputs[0] = probabilities;

  code = check("opening the model", digits_model_open(NULL, &model));
  if (code == 0)
    code = check("creating the context", digits_context_create(model, &context));
  if (code == 0)
    code = check("running the network", digits_run(context, inputs, outputs));
  if (code == 0) {
    for (i = 1; i < CLASSES; ++i)
      if (probabilities[i] > probabilities[best])
        best = i;
    printf("this is a %d (%.0f %%)\n", best, 100.0 * probabilities[best]);
  }

  digits_context_destroy(context);
  digits_model_close(model);
  return code == 0 ? 0 : 1;
}
