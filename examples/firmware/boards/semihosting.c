/* The board that a debugger or an emulator gives: files, console and exit over semihosting, which
 * Arm and RISC-V specify alike. The sensor is the file that the command line names first; the
 * console is the file that it names second, else the debugger's own. */
#include "board.h"

#include <stdint.h>

void board_exit(int code);

enum {
  SYS_OPEN = 0x01,
  SYS_WRITE = 0x05,
  SYS_READ = 0x06,
  SYS_GET_CMDLINE = 0x15,
  SYS_EXIT_EXTENDED = 0x20
};
enum { MODE_READ_BINARY = 1, MODE_WRITE_BINARY = 5 };
enum { STOPPED_APPLICATION_EXIT = 0x20026 };

static intptr_t call(int operation, const void *block) {
#if defined(__riscv)
  register intptr_t a0 __asm__("a0") = operation;
  register const void *a1 __asm__("a1") = block;
  /* The three instructions together are the call; none of them may be compressed, nor stand in
   * another page than the rest. */
  __asm__ volatile(".balign 16\n\t"
                   ".option push\n\t"
                   ".option norvc\n\t"
                   "slli x0, x0, 0x1f\n\t"
                   "ebreak\n\t"
                   "srai x0, x0, 7\n\t"
                   ".option pop"
                   : "+r"(a0)
                   : "r"(a1)
                   : "memory");
  return a0;
#else
  register intptr_t r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = block;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
#endif
}

void board_exit(int code) {
  uintptr_t block[2];
  block[0] = STOPPED_APPLICATION_EXIT;
  block[1] = (uintptr_t)code;
  for (;;)
    call(SYS_EXIT_EXTENDED, block);
}

/* Word `index` of the command line, ended by a zero; null when there are fewer. */
static char *argument(int index) {
  static char line[256];
  static int known;
  char *word = line;
  if (!known) {
    uintptr_t block[2];
    char *c;
    block[0] = (uintptr_t)line;
    block[1] = sizeof line - 1;
    if (call(SYS_GET_CMDLINE, block) != 0)
      line[0] = 0;
    for (c = line; *c; ++c)
      if (*c == ' ')
        *c = 0;
    known = 1;
  }
  while (index-- && *word)
    while (*word++) {
    }
  return *word ? word : 0;
}

static intptr_t open_file(const char *name, int mode) {
  uintptr_t block[3];
  size_t length = 0;
  while (name[length])
    ++length;
  block[0] = (uintptr_t)name;
  block[1] = (uintptr_t)mode;
  block[2] = length;
  return call(SYS_OPEN, block);
}

int board_read(void *to, size_t size) {
  static intptr_t file = -1;
  uintptr_t block[3];
  if (file < 0) {
    const char *name = argument(0);
    file = name ? open_file(name, MODE_READ_BINARY) : -1;
    if (file < 0)
      board_exit(2);
  }
  block[0] = (uintptr_t)file;
  block[1] = (uintptr_t)to;
  block[2] = size;
  return call(SYS_READ, block) == 0; /* the number of bytes not read */
}

void board_write(const void *from, size_t size) {
  static intptr_t file = -1;
  uintptr_t block[3];
  if (file < 0) {
    const char *name = argument(1);
    file = open_file(name ? name : ":tt", MODE_WRITE_BINARY);
    if (file < 0)
      board_exit(3);
  }
  block[0] = (uintptr_t)file;
  block[1] = (uintptr_t)from;
  block[2] = size;
  call(SYS_WRITE, block);
}
