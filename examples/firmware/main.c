/* Firmware that says which digit the sensor sees: no heap, no C++ runtime, no C library beyond
 * memcpy, memmove and memset, which every toolchain brings.
 *
 * An image is 64 bytes, 0 to 16, row by row, and one more, its right digit (as in the file that
 * examples/digits keeps). One character is written for each, and at the end how many were right. */
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

static void write_number(int number) {
  char text[12];
  size_t at = sizeof text;
  do
    text[--at] = (char)('0' + number % 10);
  while ((number /= 10) != 0);
  board_write(text + at, sizeof text - at);
}

int firmware_main(void) {
  static float image[PIXELS];
  unsigned char record[PIXELS + 1];
  digits_model *model;
  digits_context *context;
  int images = 0, right = 0;
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
    right += digit == record[PIXELS];
    ++images;
  }
  board_write("\n", 1);
  write_number(right);
  board_write(" of ", 4);
  write_number(images);
  board_write(" right\n", 7);
  return 0;
}
