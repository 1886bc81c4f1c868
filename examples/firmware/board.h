/* What the firmware asks of the board that it runs on. */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>

/* Reads `size` bytes from the sensor; 0 when there are no more. */
int board_read(void *to, size_t size);
/* Writes `size` bytes to the console. */
void board_write(const void *from, size_t size);

#endif
