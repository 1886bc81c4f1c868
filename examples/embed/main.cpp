// Compiles a model from memory to C++ or CUDA in memory, and prints it.
#include <tenon/tenon.h>

#include <fstream>
#include <iostream>
#include <iterator>

int main(int argc, char **argv) {
  if (argc < 2) {
    std::cerr << "usage: embed MODEL.onnx [TARGET] >PROGRAM\n";
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});

  tenon::Request request;
  request.model = tenon::Source::memory(bytes, argv[1]);
  request.target = argc > 2 ? argv[2] : "cpu:native";
  request.settings.weights = tenon::Settings::Weights::Inline;

  std::vector<tenon::Message> messages;
  const auto output = tenon::compile(request, messages);
  for (const tenon::Message &message : messages)
    std::cerr << toString(message) << '\n';
  if (!output)
    return 1;
  std::cout << output->files.front().bytes;
  std::cerr << output->kernelCount << " kernels, " << output->arenaBytes << " bytes of memory\n";
}
