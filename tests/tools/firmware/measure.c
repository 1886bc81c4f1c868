/* The firmware that tests and benchmarks link a network into: runs it on each set of inputs that
 * the sensor gives, writes its outputs, and at the end how much stack a run took (a 32-bit number).
 *
 * INPUT_BYTES and OUTPUT_BYTES are initialisers: the size of each input and output, in order. */
#include "board.h"
#include "network.h"

#include <stdint.h>

static const size_t input_bytes[] = INPUT_BYTES, output_bytes[] = OUTPUT_BYTES;

/* One call of network_run between two places that an instruction counter knows: the first
 * instruction of network_run, and measured_end. The stack pointer before it is kept. */
int measured_run(network_context *context, const void *const *inputs, void *const *outputs);
char *stack_before;
#if defined(__riscv)
__asm__(".text\n.globl measured_run, measured_end\n"
        "measured_run:\n"
        "  addi sp, sp, -16\n"
        "  sw ra, 12(sp)\n"
        "  la t0, stack_before\n"
        "  sw sp, 0(t0)\n"
        "  call network_run\n"
        "measured_end:\n"
        "  lw ra, 12(sp)\n"
        "  addi sp, sp, 16\n"
        "  ret\n");
#else
__asm__(".syntax unified\n.text\n.align 2\n.globl measured_run, measured_end\n"
        ".thumb_func\n"
        "measured_run:\n"
        "  push {r3, lr}\n"
        "  ldr r3, =stack_before\n"
        "  mov r12, sp\n"
        "  str r12, [r3]\n"
        "  bl network_run\n"
        "measured_end:\n"
        "  pop {r3, pc}\n"
        "  .pool\n");
#endif

/* From the end of the data (sections.ld) to the stack: painted before, looked at afterwards. */
extern uint32_t bss_end[];
enum { PAINT = 0x5A17C0DE, MARGIN_WORDS = 64 };

static void paint(void) {
  uint32_t *word = bss_end, *end = (uint32_t *)__builtin_frame_address(0) - MARGIN_WORDS;
  while (word < end)
    *(volatile uint32_t *)word++ = PAINT;
}

static uint32_t stack_used(void) {
  const uint32_t *word = bss_end;
  while (*word == PAINT)
    ++word;
  return (uint32_t)(stack_before - (const char *)word);
}

static unsigned char memory[NETWORK_CONTEXT_BYTES];
static unsigned char input_memory[INPUT_ROOM], output_memory[OUTPUT_ROOM];

/* Addresses of tensors one after the other, each aligned to 16 bytes. */
static void place(void **out, unsigned char *at, const size_t *bytes, int count) {
  int i;
  at += -(uintptr_t)at & 15;
  for (i = 0; i < count; ++i) {
    out[i] = at;
    at += (bytes[i] + 15) & ~(size_t)15;
  }
}

int firmware_main(void) {
  void *inputs[NETWORK_INPUT_COUNT + 1], *outputs[NETWORK_OUTPUT_COUNT + 1];
  network_context *context;
  uint32_t stack;
  int i;
  place(inputs, input_memory, input_bytes, NETWORK_INPUT_COUNT);
  place(outputs, output_memory, output_bytes, NETWORK_OUTPUT_COUNT);
  if (network_context_place(network_model_get(), memory, sizeof memory, &context) != 0)
    return 10;
  paint();
  for (;;) {
    for (i = 0; i < NETWORK_INPUT_COUNT; ++i)
      if (!board_read(inputs[i], input_bytes[i])) {
        stack = stack_used();
        board_write(&stack, sizeof stack);
        return 0;
      }
    if (measured_run(context, (const void *const *)inputs, outputs) != 0)
      return 11;
    for (i = 0; i < NETWORK_OUTPUT_COUNT; ++i)
      board_write(outputs[i], output_bytes[i]);
  }
}
