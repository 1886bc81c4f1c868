// Generates with a decoder that Tenon compiled under the name llm: reads the numbers of a prompt's
// tokens, prints those of what follows as they are made, and how fast that was.
//
//   generate COUNT [TEMPERATURE [STOP...]] < prompt > text
//
// Where the program has its weights in a file, that is looked for in the current folder.
#include "llm.hpp"

#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

int failed(const char *what, llm::status status) {
  std::fprintf(stderr, "generate: %s: %s\n", what, status.message());
  return 1;
}

/// A whole number from 0 on that a word is, or -1.
long number_of(const char *word) {
  char *end = nullptr;
  const long number = std::strtol(word, &end, 10);
  return *word && !*end && number >= 0 && number <= INT_MAX ? number : -1;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

int main(int argc, char **argv) {
  std::vector<int> prompt, stop;
  bool understood = argc > 1 && number_of(argv[1]) >= 0;
  for (int i = 3; i < argc; ++i) {
    understood = understood && number_of(argv[i]) >= 0;
    stop.push_back(int(number_of(argv[i])));
  }
  if (!understood) {
    std::fprintf(stderr, "usage: generate COUNT [TEMPERATURE [STOP...]] < prompt > text\n");
    return 2;
  }
  const int wanted = int(number_of(argv[1]));
  for (char word[32]; std::scanf("%31s", word) == 1;) {
    const long token = number_of(word);
    if (token < 0 || token >= LLM_VOCABULARY) {
      std::fprintf(stderr, "generate: the prompt has '%s': expected numbers of tokens, 0 to %d\n",
                   word, LLM_VOCABULARY - 1);
      return 1;
    }
    prompt.push_back(int(token));
  }

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
  if (status.code() == LLM_STATE_FULL) {
    std::fprintf(stderr,
                 "generate: the caches are full, with %d tokens; --decoder=MAX makes them larger\n",
                 LLM_CAPACITY);
    return 0;
  }
  return status ? 0 : failed("the text", status);
}
