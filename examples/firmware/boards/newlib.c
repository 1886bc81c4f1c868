/* What newlib's printf needs of the board, and the start of a program that has a main(), which the
 * build calls app_main. */
#include "board.h"

#include <stdio.h>

int app_main(void);
int _write(int file, const char *text, int size);

int _write(int file, const char *text, int size) {
  (void)file;
  board_write(text, (size_t)size);
  return size;
}

int firmware_main(void) {
  const int code = app_main();
  fflush(stdout);
  return code;
}
