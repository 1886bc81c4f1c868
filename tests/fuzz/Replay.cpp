// Runs a fuzz target without libFuzzer: on each file below the given folders as it is, and on
// seeded mutations of them.
//
//     fuzz_importer [--mutations=N] [--seed=N] FOLDER…
#include "tests/fuzz/Mutate.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstdio>
#include <vector>

using namespace tenon::fuzz;

namespace {

Random &bytesRandom() {
  static Random random(1);
  return random;
}

std::vector<std::string> filesBelow(llvm::StringRef folder) {
  std::vector<std::string> paths, contents;
  std::error_code code;
  for (llvm::sys::fs::recursive_directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code))
    if (it->type() == llvm::sys::fs::file_type::regular_file)
      paths.push_back(it->path());
  llvm::sort(paths);
  for (const std::string &path : paths)
    if (auto buffer = llvm::MemoryBuffer::getFile(path, false, false))
      contents.push_back((*buffer)->getBuffer().str());
  return contents;
}

void run(const std::string &bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
}

} // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) {
  Random &random = bytesRandom();
  if (size < most && pick(random, 4) == 0)
    data[size++] = uint8_t(random());
  else if (size && pick(random, 8) == 0)
    size = pick(random, size);
  if (size)
    data[pick(random, size)] ^= uint8_t(1 << pick(random, 8));
  return size;
}

int main(int argc, char **argv) {
  size_t mutations = 0;
  unsigned seed = 1;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef word(argv[i]);
    if (word.consume_front("--mutations="))
      word.getAsInteger(10, mutations);
    else if (word.consume_front("--seed="))
      word.getAsInteger(10, seed);
    else
      llvm::append_range(files, filesBelow(word));
  }
  if (files.empty()) {
    std::fprintf(stderr, "no files to begin with\n");
    return 2;
  }
  for (const std::string &bytes : files)
    run(bytes);
  Random random(seed);
  constexpr size_t kMost = 1 << 16;
  for (size_t i = 0; i < mutations; ++i) {
    std::string bytes = files[pick(random, files.size())];
    const size_t most = std::max(kMost, bytes.size() + 64);
    size_t size = bytes.size();
    bytes.resize(most);
    for (size_t k = 1 + pick(random, 3); k > 0; --k)
      size = LLVMFuzzerCustomMutator(reinterpret_cast<uint8_t *>(bytes.data()), size, most,
                                     unsigned(random()));
    bytes.resize(size);
    run(bytes);
  }
  std::printf("%zu passed, 0 failed, 0 skipped\n", files.size() + mutations);
  return 0;
}
