// Fuzzes the parser of IR text: whatever the bytes, there is a module that verifies and whose text
// parses back to the same text, or there are errors.
#include "tests/fuzz/Mutate.h"

#include "ir/Text.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace tenon;

namespace {

[[noreturn]] void finding(const char *what, const Diagnostics &diagnostics,
                          const llvm::MemoryBuffer &buffer) {
  llvm::errs() << "finding: " << what << '\n';
  printWithCarets(diagnostics, buffer, llvm::errs());
  abort();
}

std::string printed(const Module &module, std::string &weights) {
  std::string text;
  llvm::raw_string_ostream os(text);
  PrintOptions options;
  options.data = &weights;
  print(module, os, options);
  return os.str();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // `data<…: offset>` reads from these.
  static const std::string side(4096, '\1');
  const auto buffer = llvm::MemoryBuffer::getMemBufferCopy(
      llvm::StringRef(reinterpret_cast<const char *>(data), size), "input");
  Context context;
  Diagnostics diagnostics;
  const auto module = parseModule(context, *buffer, side, diagnostics);
  if (bool(module) == diagnostics.hasErrors())
    finding("a module comes with errors, or none without", diagnostics, *buffer);
  std::string ignored;
  llvm::raw_string_ostream os(ignored);
  printWithCarets(diagnostics, *buffer, os);
  if (!module)
    return 0;
  std::string weights, weightsAgain;
  const std::string text = printed(*module, weights);
  Context other;
  const auto again = llvm::MemoryBuffer::getMemBufferCopy(text, "printed");
  const auto parsed = parseModule(other, *again, weights, diagnostics);
  if (!parsed)
    finding("a module's text does not parse", diagnostics, *again);
  if (printed(*parsed, weightsAgain) != text || weights != weightsAgain)
    finding("a module prints differently after parsing", diagnostics, *again);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  fuzz::Random random(seed);
  const std::string changed =
      fuzz::pick(random, 3)
          ? fuzz::mutatedText({reinterpret_cast<const char *>(data), size}, random)
          : "";
  if (changed.empty() || changed.size() > most)
    return LLVMFuzzerMutate(data, size, most);
  memcpy(data, changed.data(), changed.size());
  return changed.size();
}
