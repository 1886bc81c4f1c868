// Classifies the held-out digits with the code that Tenon generated from digits.onnx.
//
//   classify HELDOUT.bin
//
// Prints a few digits with what the network says, the accuracy and the latency. Everything of the
// network comes from digits.h; the rest is reading a file and drawing.

#include "digits.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int side = 8;
constexpr int pixels = side * side;
constexpr int classes = 10;
constexpr int digits_per_row = 4;

struct Example {
  float image[pixels]; // 0 to 16, as the data set has them
  int label;
};

struct Answer {
  int digit;
  float probability;
};

std::vector<Example> read_examples(const char *path) {
  std::vector<Example> examples;
  std::FILE *file = std::fopen(path, "rb");
  if (!file)
    return examples;
  unsigned char record[pixels + 1];
  while (std::fread(record, 1, sizeof record, file) == sizeof record) {
    Example example;
    std::copy(record, record + pixels, example.image);
    example.label = record[pixels];
    examples.push_back(example);
  }
  std::fclose(file);
  return examples;
}

void draw(const std::vector<Example> &examples, const std::vector<Answer> &answers,
          const std::vector<size_t> &chosen) {
  const std::string shades = " .:-=+*#%@";
  for (int row = 0; row < side; ++row) {
    for (size_t i : chosen) {
      std::printf("  ");
      for (int column = 0; column < side; ++column) {
        float value = examples[i].image[row * side + column];
        char shade = shades[static_cast<size_t>(value * 9 / 16)];
        std::printf("%c%c", shade, shade);
      }
    }
    std::printf("\n");
  }
  for (size_t i : chosen) {
    char text[32];
    std::snprintf(text, sizeof text, "%d (%.0f %%)%s", answers[i].digit,
                  100.0 * answers[i].probability,
                  answers[i].digit == examples[i].label ? "" : ", wrong");
    std::printf("  %-16s", text);
  }
  std::printf("\n\n");
}

int fail(const char *what, int code) {
  std::fprintf(stderr, "classify: %s: %s\n", what, digits_error_message(code));
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: classify HELDOUT.bin\n");
    return 2;
  }
  std::vector<Example> examples = read_examples(argv[1]);
  if (examples.empty()) {
    std::fprintf(stderr, "classify: %s: no images\n", argv[1]);
    return 1;
  }

  digits_model *model = nullptr;
  if (int code = digits_model_open(nullptr, &model))
    return fail("opening the model", code);
  digits_context *context = nullptr;
  if (int code = digits_context_create(model, &context))
    return fail("creating the context", code);

  using clock = std::chrono::steady_clock;
  std::vector<Answer> answers;
  std::vector<double> microseconds;
  size_t correct = 0;
  for (const Example &example : examples) {
    float probabilities[classes];
    const void *inputs[] = {example.image};
    void *outputs[] = {probabilities};
    auto start = clock::now();
    if (int code = digits_run(context, inputs, outputs))
      return fail("running the network", code);
    microseconds.push_back(std::chrono::duration<double, std::micro>(clock::now() - start).count());

    const float *best = std::max_element(probabilities, probabilities + classes);
    answers.push_back({static_cast<int>(best - probabilities), *best});
    correct += answers.back().digit == example.label;
  }
  digits_context_destroy(context);
  digits_model_close(model);

  // The first of each digit from 0 to 6, and a mistake to be honest.
  std::vector<size_t> chosen;
  for (int digit = 0; digit < 2 * digits_per_row - 1; ++digit)
    for (size_t i = 0; i < examples.size(); ++i)
      if (examples[i].label == digit && answers[i].digit == digit) {
        chosen.push_back(i);
        break;
      }
  for (size_t i = 0; i < examples.size(); ++i)
    if (answers[i].digit != examples[i].label) {
      chosen.push_back(i);
      break;
    }
  for (size_t i = 0; i < chosen.size(); i += digits_per_row)
    draw(examples, answers,
         {chosen.begin() + i, chosen.begin() + std::min(chosen.size(), i + digits_per_row)});

  std::nth_element(microseconds.begin(), microseconds.begin() + microseconds.size() / 2,
                   microseconds.end());
  std::printf("%zu of %zu held-out images right\n", correct, examples.size());
  std::printf("accuracy %.1f %%\n", 100.0 * correct / examples.size());
  std::printf("latency %.1f us an image (median, one thread)\n",
              microseconds[microseconds.size() / 2]);
  return 0;
}
