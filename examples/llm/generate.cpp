// Generates with a decoder that Tenon compiled under the name llm: reads the numbers of a prompt's
// tokens, prints those of what follows as they are made, and how fast that was.
//
//   generate COUNT [TEMPERATURE [STOP...]] < prompt > text
//
// Where the program has its weights in a file, that is looked for in the current folder.
#include "llm.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

int failed(const char *what, int code) {
  std::fprintf(stderr, "generate: %s: %s\n", what, llm_error_message(code));
  return 1;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: generate COUNT [TEMPERATURE [STOP...]] < prompt > text\n");
    return 2;
  }
  const int wanted = std::atoi(argv[1]);
  std::vector<int> prompt, stop;
  for (int token; std::scanf("%d", &token) == 1;)
    prompt.push_back(token);
  for (int i = 3; i < argc; ++i)
    stop.push_back(std::atoi(argv[i]));

  llm_options options = LLM_OPTIONS_INIT;
  options.weights_path = LLM_WEIGHTS_FILE;
  llm_model *model = nullptr;
  llm_context *context = nullptr;
  if (const int code = llm_model_open(&options, &model))
    return failed("the model", code);
  if (const int code = llm_context_create(model, &context))
    return failed("the context", code);

  auto start = std::chrono::steady_clock::now();
  if (const int code =
          llm_run_tokens(context, prompt.data(), int(prompt.size()), nullptr, nullptr, 0))
    return failed("the prompt", code);
  const double prefill = seconds_since(start);

  llm_sampling how = {};
  how.temperature = argc > 2 ? float(std::atof(argv[2])) : 0.0f;
  how.top_p = 0.95f;
  how.seed = 1;
  how.stop = stop.data();
  how.stop_count = int(stop.size());
  start = std::chrono::steady_clock::now();
  int count = 0, code = LLM_OK;
  for (; count < wanted; ++count) {
    int token, made;
    code = llm_run_generate(context, &how, 1, nullptr, &token, &made);
    if (code != LLM_OK || made == 0)
      break;
    std::printf("%d\n", token);
    std::fflush(stdout);
  }
  const double generation = seconds_since(start);
  std::fprintf(stderr, "prompt: %zu tokens, %.1f tokens/s; text: %d tokens, %.1f tokens/s\n",
               prompt.size(), double(prompt.size()) / prefill, count, count / generation);
  llm_context_destroy(context);
  llm_model_close(model);
  return code == LLM_OK || code == LLM_STATE_FULL ? 0 : failed("the text", code);
}
