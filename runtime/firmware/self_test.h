/* Defines the comparison of self-tests. It runs on the device: C89, no C library. */
#ifndef TENON_RUNTIME_FIRMWARE_SELF_TEST_H
#define TENON_RUNTIME_FIRMWARE_SELF_TEST_H

struct tenon_output {
  const void *expected, *found;
  unsigned long bytes;
  int is_float; /* f32; otherwise every byte has to be the same */
};

/* Floats may differ by a ten-thousandth of the largest one, for machines differ in the operations
 * that they fuse. */
static int tenon_close(const float *expected, const float *found, unsigned long count) {
  float largest = 0;
  unsigned long i;
  for (i = 0; i < count; ++i) {
    const float size = expected[i] < 0 ? -expected[i] : expected[i];
    largest = size > largest ? size : largest;
  }
  for (i = 0; i < count; ++i) {
    const float error = found[i] - expected[i];
    if (!((error < 0 ? -error : error) <= 1e-4f * largest))
      return 0;
  }
  return 1;
}

#if defined(__GNUC__)
__attribute__((unused)) /* by itself, this header has no reader */
#endif
static int
tenon_same(const struct tenon_output *output) {
  const unsigned char *expected = (const unsigned char *)output->expected;
  const unsigned char *found = (const unsigned char *)output->found;
  unsigned long i;
  if (output->is_float)
    return tenon_close((const float *)output->expected, (const float *)output->found,
                       output->bytes / sizeof(float));
  for (i = 0; i < output->bytes; ++i)
    if (expected[i] != found[i])
      return 0;
  return 1;
}

/* 0 when all outputs are as expected, 100 + i when output i is the first that differs. */
#if defined(__GNUC__)
__attribute__((unused)) /* by itself, this header has no reader */
#endif
static int
tenon_compare(const struct tenon_output *outputs, int count) {
  int i;
  for (i = 0; i < count; ++i)
    if (!tenon_same(&outputs[i]))
      return 100 + i;
  return 0;
}

#endif
