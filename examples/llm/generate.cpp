// Generates with a decoder that Tenon compiled under the name llm: reads the numbers of a prompt's
// tokens, prints those of what follows as they are made, and how fast that was.
//
//   generate COUNT [TEMPERATURE [STOP...]] < prompt > text
//
// Where the program has its weights in a file, that is looked for in the current folder.
#include "llm.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

int failed(const char *what, llm::status status) {
  std::fprintf(stderr, "generate: %s: %s\n", what, status.message());
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

  llm_options options = llm::options();
  options.weights_path = LLM_WEIGHTS_FILE;
  const auto model = llm::model::open(options);
  if (!model)
    return failed("the model", model.error());
  auto context = llm::context::create(*model);
  if (!context)
    return failed("the context", context.error());

  auto start = std::chrono::steady_clock::now();
  if (const auto status = context->run_tokens(prompt); !status)
    return failed("the prompt", status);
  const double prefill = seconds_since(start);

  llm::sampling how;
  how.temperature = argc > 2 ? float(std::atof(argv[2])) : 0.0f;
  how.top_p = 0.95f;
  how.seed = 1;
  how.stop = stop;
  start = std::chrono::steady_clock::now();
  int count = 0;
  llm::status status;
  for (; count < wanted; ++count) {
    int token = 0, made = 0;
    status = context->generate({&token, 1}, made, how);
    if (!status || made == 0)
      break;
    std::printf("%d\n", token);
    std::fflush(stdout);
  }
  const double generation = seconds_since(start);
  std::fprintf(stderr, "prompt: %zu tokens, %.1f tokens/s; text: %d tokens, %.1f tokens/s\n",
               prompt.size(), double(prompt.size()) / prefill, count, count / generation);
  return status || status.code() == LLM_STATE_FULL ? 0 : failed("the text", status);
}
