/* Firmware that says which digit the sensor sees: no heap, no C++ runtime, no C library beyond
 * memcpy, memmove and memset, which every toolchain brings.
 *
 * An image is 64 bytes, 0 to 16, row by row, and one more that is not looked at (the label, in the
 * file that examples/digits keeps). One character is written for each. */
#include "board.h"
#include "digits.h"

enum { PIXELS = DIGITS_IMAGE_SIZE, CLASSES = DIGITS_PROBABILITIES_SIZE };

/* All the memory that the network works in, reserved when linking. */
static unsigned char memory[DIGITS_CONTEXT_BYTES];

static int classify(digits_context *context, const float *image) {
  float probabilities[CLASSES];
  const void *inputs[DIGITS_INPUT_COUNT];
  void *outputs[DIGITS_OUTPUT_COUNT];
  int best = 0, i;
  inputs[DIGITS_IMAGE_INDEX] = image;
  outputs[DIGITS_PROBABILITIES_INDEX] = probabilities;
  if (digits_run(context, inputs, outputs) != 0)
    return -1;
  for (i = 1; i < CLASSES; ++i)
    if (probabilities[i] > probabilities[best])
      best = i;
  return best;
}

int firmware_main(void) {
  static float image[PIXELS];
  unsigned char record[PIXELS + 1];
  digits_model *model;
  digits_context *context;
  if (digits_model_open(NULL, &model) != 0 ||
      digits_context_place(model, memory, sizeof memory, &context) != 0)
    return 1;
  while (board_read(record, sizeof record)) {
    char text;
    int i, digit;
    for (i = 0; i < PIXELS; ++i)
      image[i] = record[i];
    digit = classify(context, image);
    text = digit < 0 ? '?' : (char)('0' + digit);
    board_write(&text, 1);
  }
  return 0;
}
