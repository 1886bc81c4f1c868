// Runs the module of null-pointers.tn with each of its tensors missing.
#include "net.h"
#include <cstdio>

int main() {
  net_model *model = nullptr;
  net_context *context = nullptr;
  if (net_model_open(nullptr, &model) || net_context_create(model, &context) ||
      net_set_dim(context, 0, 0))
    return 1;
  const float x[4] = {1, 2, 3, 4};
  float y[12] = {};
  auto run = [&](const char *what, const void *first, const void *second, void *result) {
    const void *inputs[] = {first, second};
    void *outputs[] = {result};
    std::printf("%s is null: %d\n", what, net_run(context, inputs, outputs));
  };
  run("x", nullptr, x, y);
  run("more", x, nullptr, y);
  run("y", x, x, nullptr);
  net_context_destroy(context);
  net_model_close(model);
  return 0;
}
