/* Start-up of a Cortex-M core: the vector table, and what happens between reset and firmware_main.
 * The linker script beside it (sections.ld) defines the symbols. */
#include <stdint.h>

int firmware_main(void);
void board_exit(int code);

extern uint32_t data_start[], data_end[], data_source[], bss_start[], bss_end[];
extern char stack_end[];

enum { FAULT_EXIT = 99 };
#define COPROCESSORS_ACCESS (*(volatile uint32_t *)0xE000ED88u)

void reset(void) {
  uint32_t *to;
  const uint32_t *from = data_source;
  for (to = data_start; to < data_end; ++to, ++from)
    *to = *from;
  for (to = bss_start; to < bss_end; ++to)
    *to = 0;
  COPROCESSORS_ACCESS |= 0xFu << 20; /* FPU and vector unit, where the core has them */
  __asm__ volatile("dsb\n\tisb" ::: "memory");
  board_exit(firmware_main());
}

static void fault(void) { board_exit(FAULT_EXIT); }

struct vectors {
  void *stack;
  void (*handlers[15])(void);
};

__attribute__((section(".vectors"), used)) static const struct vectors vectors = {
    stack_end,
    {reset, fault, fault, fault, fault, fault, fault, 0, 0, 0, fault, fault, 0, fault, fault}};
