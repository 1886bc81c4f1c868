// Runs the module of no-inputs.tn without an array of inputs.
#include "net.h"
#include <cstdio>

int main() {
  net_model *model = nullptr;
  net_context *context = nullptr;
  if (net_model_open(nullptr, &model) || net_context_create(model, &context))
    return 1;
  float y[2] = {};
  void *outputs[] = {y};
  const int code = net_run(context, nullptr, outputs);
  std::printf("without inputs: %d, %g %g\n", code, y[0], y[1]);
  std::printf("without outputs: %d\n", net_run(context, nullptr, nullptr));
  net_context_destroy(context);
  net_model_close(model);
  return 0;
}
