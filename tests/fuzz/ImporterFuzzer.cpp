// Fuzzes the import of ONNX models: whatever the bytes, there is a module that verifies and whose
// text parses back to the same text, or there are errors.
#include "tests/fuzz/Mutate.h"

#include "frontend/Import.h"
#include "ir/Text.h"
#include "ir/Verifier.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace tenon;

namespace {

[[noreturn]] void finding(const char *what, const Diagnostics &diagnostics) {
  llvm::errs() << "finding: " << what << '\n';
  diagnostics.print(llvm::errs());
  abort();
}

/// Open extents end most imports at once; half of the models keep theirs, within bounds.
ImportOptions boundShapes(const OnnxModel &model, bool keep) {
  ImportOptions options;
  for (const DeclaredTensor &in : model.inputs())
    for (size_t d = 0; d < in.shape.size(); ++d) {
      const std::string &extent = in.shape[d];
      if (!extent.empty() && isdigit(static_cast<unsigned char>(extent[0])))
        continue;
      const std::string symbol = extent.empty() ? in.name + ".d" + std::to_string(d) : extent;
      if (keep)
        options.ranges[symbol] = {1, 8};
      else
        options.bindDims[symbol] = 2;
    }
  return options;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef bytes(reinterpret_cast<const char *>(data), size);
  Context context;
  Diagnostics diagnostics;
  auto model = OnnxModel::parse(bytes, "", diagnostics);
  if (!model) {
    if (!diagnostics.hasErrors())
      finding("a model is refused without an error", diagnostics);
    return 0;
  }
  std::map<std::string, int64_t> counts;
  for (const DeclaredTensor &in : model->inputs())
    if (in.container != Container::None)
      counts[in.name] = 1;
  model->unfold(counts);
  const auto imported = model->toModule(context, boundShapes(*model, size % 2 != 0), diagnostics);
  if (imported.hasValue() == diagnostics.hasErrors())
    finding("a module comes with errors, or none without", diagnostics);
  if (!imported)
    return 0;
  Diagnostics problems;
  if (!verify(*imported->module, problems))
    finding("what was imported does not verify", problems);
  // Sides files are as long as the weights, so small models print quickly.
  std::string weights, text, again;
  PrintOptions options;
  options.data = &weights;
  llvm::raw_string_ostream os(text), osAgain(again);
  print(*imported->module, os, options);
  os.flush();
  Context other;
  const auto parsed =
      parseModule(other, *llvm::MemoryBuffer::getMemBuffer(text), weights, problems);
  if (!parsed)
    finding("what was imported does not parse back", problems);
  std::string weightsAgain;
  options.data = &weightsAgain;
  print(*parsed, osAgain, options);
  if (osAgain.str() != text || weightsAgain != weights)
    finding("what was imported prints differently after parsing", problems);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  fuzz::Random random(seed);
  const std::string changed =
      fuzz::pick(random, 4)
          ? fuzz::mutatedModel({reinterpret_cast<const char *>(data), size}, random)
          : "";
  if (changed.empty() || changed.size() > most)
    return LLVMFuzzerMutate(data, size, most);
  memcpy(data, changed.data(), changed.size());
  return changed.size();
}
