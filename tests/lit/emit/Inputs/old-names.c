/* The names of before interface version 1, as programs for processors have them. */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>

int main(void) {
  net_model *model;
  net_context *context;
  void *memory = malloc(net_context_bytes());
  if (net_model_create(&model, NULL) != 0 ||
      net_context_place(model, memory, net_context_bytes(), &context) != 0)
    return 1;
  net_model_destroy(model);
  free(memory);
  printf("old names work\n");
  return 0;
}
